//! `GET /api/v1/audit`: who changed what, or was not allowed to.

use axum::Json;
use axum::extract::State;
use host_api::audit::{AuditQuery, EntryView, RecordView};
use host_api::page::PageView;
use host_api::{path, time};
use host_engine::audit::Entry;
use host_engine::table::Range;
use host_http::extract::InQuery;
use host_http::query::{cursor, page_limit};

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// How many entries a page examines, at most, if few of them match.
const EXAMINED_MAX: u32 = 20_000;

/// How many entries are read at a time.
const READ: u32 = 1_000;

/// Lists entries of the audit, oldest first. A page may be empty although more follow.
#[utoipa::path(
    get, path = path::AUDIT, tag = "host", operation_id = "list_audit", params(AuditQuery),
    responses((status = 200, body = PageView<EntryView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    InQuery(query): InQuery<AuditQuery>,
) -> Result<Json<PageView<EntryView>>, ApiError> {
    let limit = page_limit(query.limit)? as usize;
    let mut after = cursor(query.cursor.as_deref())?.unwrap_or_default();
    let since = query
        .since
        .as_deref()
        .map(|text| {
            let read = time::instant("since", text);
            read.map_err(|detail| ApiError::new(&kinds::INVALID_QUERY, detail))
        })
        .transpose()?
        .unwrap_or_default();
    let (mut items, mut examined) = (Vec::new(), 0);
    loop {
        let reading = move |reader: &dyn host_engine::Reader| {
            reader.list::<Entry>(Range::all().after(after).since(since).first(READ))
        };
        let page = shared.api.dispatch.scan(reading).await?;
        let is_last = page.len() < READ as usize;
        for entry in page {
            if items.len() == limit || examined == EXAMINED_MAX {
                let next_cursor = Some(after.to_string());
                return Ok(Json(PageView { items, next_cursor }));
            }
            examined += 1;
            after = entry.number;
            if is_wanted(&query, &entry) {
                items.push(entry.into());
            }
        }
        if is_last {
            return Ok(Json(PageView::whole(items)));
        }
    }
}

fn is_wanted(query: &AuditQuery, entry: &Entry) -> bool {
    if query.principal.is_none() && query.verb.is_none() {
        return true;
    }
    let record: RecordView = serde_json::from_str(&entry.record).unwrap_or_default();
    let is_by =
        |name: &String| *name == record.principal || Some(name) == record.token_name.as_ref();
    let is_verb = |verb: &String| *verb == record.verb;
    query.principal.as_ref().is_none_or(is_by) && query.verb.as_ref().is_none_or(is_verb)
}
