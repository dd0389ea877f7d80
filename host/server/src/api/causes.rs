//! Why jobs were discarded: the newest dead letters, those with the same cause together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use host_api::cause::{CauseView, CausesQuery, CausesView};
use host_api::filter_text::Filter;
use host_api::path;
use host_core::job::State as JobState;
use host_core::name::address;
use host_core::query::{JobSummary, PAGE_ITEMS_MAX};
use host_core::time::Time;
use host_http::extract::InQuery;
use host_http::gate::Caller;

use super::Shared;
use super::error::ApiError;
use super::filter::checked;

/// How many jobs are examined at most.
const EXAMINED_MAX: u64 = 5_000;

/// How many causes are shown at most.
const CAUSES_MAX: usize = 100;

/// Jobs with the same cause.
struct CauseGroup {
    view: CauseView,
    first: Time,
    last: Time,
}

/// Shows why the newest dead letters were discarded: failures of a handler with the same kind and the same message, but
/// for numbers, ids and quotations, count as one cause.
#[utoipa::path(
    get, path = path::FAILURES, tag = "jobs", operation_id = "list_causes", params(CausesQuery),
    responses((status = 200, body = CausesView))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<CausesQuery>,
) -> Result<Json<CausesView>, ApiError> {
    let asked = Filter {
        state: Some(JobState::Discarded),
        queue: query.queue,
        handler: query.handler,
        since: query.since,
        fingerprint: query.fingerprint,
        ..Filter::default()
    };
    let filter = checked(&asked, &caller)?;
    let (mut found, mut examined, mut after) = (BTreeMap::new(), 0, None);
    loop {
        let filter = filter.clone();
        let page = shared
            .api
            .dispatch
            .scan(move |reader| reader.jobs(&filter, after, PAGE_ITEMS_MAX))
            .await?;
        examined += page.items.len() as u64;
        page.items
            .into_iter()
            .for_each(|job| count(&mut found, job));
        after = page.next;
        if after.is_none() || examined >= EXAMINED_MAX {
            break;
        }
    }
    let mut items: Vec<CauseView> = found.into_values().map(CauseGroup::into_view).collect();
    items.sort_by_key(|cause| Reverse(cause.jobs));
    items.truncate(CAUSES_MAX);
    Ok(Json(CausesView {
        items,
        examined,
        complete: after.is_none(),
    }))
}

/// Counts a job. The newest come first.
fn count(found: &mut BTreeMap<String, CauseGroup>, job: JobSummary) {
    let (Some(cause), Some(kind)) = (job.cause, job.lifecycle.failure) else {
        return;
    };
    let ended = job
        .lifecycle
        .finished_at
        .unwrap_or(job.lifecycle.enqueued_at);
    let one = found
        .entry(cause.fingerprint)
        .or_insert_with_key(|fingerprint| CauseGroup {
            first: ended,
            last: ended,
            view: CauseView {
                fingerprint: fingerprint.clone(),
                handler: address(job.lifecycle.executor.as_ref(), &job.lifecycle.handler)
                    .into_owned(),
                kind: kind.as_str().to_owned(),
                user_kind: job.failure.and_then(|failure| failure.user_kind),
                pattern: cause.pattern,
                jobs: 0,
                first_at: String::new(),
                last_at: String::new(),
                example: job.lifecycle.id.to_string(),
            },
        });
    one.view.jobs += 1;
    one.first = one.first.min(ended);
    one.last = one.last.max(ended);
}

impl CauseGroup {
    fn into_view(mut self) -> CauseView {
        self.view.first_at = self.first.to_rfc3339();
        self.view.last_at = self.last.to_rfc3339();
        self.view
    }
}
