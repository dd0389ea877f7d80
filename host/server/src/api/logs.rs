//! The log of a job, in pages from which a follower can continue.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use host_api::filter::PageQuery;
use host_api::log::LineView;
use host_api::page::PageView;
use host_api::path;
use host_core::time::Time;
use host_http::extract::InQuery;
use host_http::query::{cursor, page_limit};
use host_store::logs::LogEntry;

use super::Shared;
use super::error::ApiError;
use super::job_id::IdInPath;
use super::problem::kinds;

/// Shows what a job has logged, oldest first.
#[utoipa::path(
    get, path = path::JOB_LOGS, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it"), PageQuery),
    responses((status = 200, body = PageView<LineView>))
)]
pub(super) async fn logs(
    State(shared): State<Shared>,
    id: IdInPath,
    InQuery(query): InQuery<PageQuery>,
) -> Result<Json<PageView<LineView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let after = cursor(query.cursor.as_deref())?;
    let id = id.find(&shared).await?;
    let page = shared.api.logs.page(id, after, limit).await?;
    let read = shared.read(move |reader| {
        let Some(job) = reader.job(id)? else {
            return Ok(None);
        };
        let attempts = reader.attempts(id, 0, u32::MAX)?;
        let ended = attempts
            .iter()
            .map(|attempt| (attempt.number, attempt.started_at));
        let mut started: BTreeMap<u32, Time> = ended.collect();
        if let Some(lease) = &job.lifecycle.lease {
            started.insert(job.lifecycle.attempt, lease.granted_at);
        }
        Ok(Some(started))
    });
    let Some(started) = read.await? else {
        let detail = format!("no job has the id {id}");
        return Err(ApiError::new(&kinds::JOB_NOT_FOUND, detail));
    };
    let items = page.items.into_iter();
    Ok(Json(PageView {
        items: items
            .map(|(seq, entry)| line(seq, entry, &started))
            .collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

fn line(seq: u64, entry: LogEntry, started: &BTreeMap<u32, Time>) -> LineView {
    let began = started.get(&entry.attempt).copied().unwrap_or(entry.at);
    LineView {
        seq,
        attempt: entry.attempt,
        at: entry.at.to_rfc3339(),
        at_ms: entry.at.since_ms(began),
        level: entry.level.as_str().to_owned(),
        source: entry.source.as_str().to_owned(),
        message: entry.message,
        fields: entry
            .fields
            .into_iter()
            .map(|(name, value)| (name, value.to_value()))
            .collect(),
    }
}
