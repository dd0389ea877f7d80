//! Changes of many jobs, page by page: retries, cancels, purges or reprioritizes them as far as their states allow. A
//! request changes a bounded number of jobs and says where the next one continues.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::{Request, State};
use futures_util::future::join_all;
use host_api::change::{CancelBody, CountView, ManyView, PriorityBody, RefusalView, RetryBody};
use host_api::filter::FilterQuery;
use host_api::filter_text::{self, Filter};
use host_api::path;
use host_core::id::JobId;
use host_core::job::{Lifecycle, State as JobState};
use host_core::query::JobCount;
use host_core::time::Time;
use host_dispatch::SubmitError;
use host_engine::job::{JobRefusal, Purge, Retry, SetPriority};
use host_engine::{Ask, Command, Reader, Rejection, StoreError, job};
use host_http::extract::{InQuery, small_body, small_body_or_default};
use host_http::gate::Caller;
use host_http::query::page_limit;

use super::actor::Actor;
use super::enqueue::checked_priority;
use super::error::ApiError;
use super::filter::{after, checked, read};
use super::problem::kinds;
use super::{Shared, jobs};

/// How many jobs a count examines at most: a tenth of a second, also on a database that is busy.
const COUNT_JOBS_MAX: u64 = 20_000;

/// How many jobs are changed at a time. The next ones wait for them, so a turn of the dispatch loop has few
/// of them and spends most of its time on what else has arrived.
const AT_ONCE: usize = 32;

/// How many refusals an answer shows.
const REFUSALS_MAX: usize = 10;

/// Counts the jobs that match. A request examines a bounded number of jobs: if `complete` is false, there are at
/// least as many, and a request with `next_cursor` as `cursor` counts on. `limit` is not for counts.
#[utoipa::path(
    get, path = path::JOBS_COUNT, tag = "jobs", params(FilterQuery),
    responses((status = 200, body = CountView))
)]
pub(super) async fn count(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<FilterQuery>,
) -> Result<Json<CountView>, ApiError> {
    if query.limit.is_some() {
        let detail = "limit: not supported with a count";
        return Err(ApiError::new(&kinds::INVALID_QUERY, detail));
    }
    let filter = checked(&read(&shared, &query)?, &caller)?;
    let after = after(&query)?;
    let dispatch = &shared.api.dispatch;
    let count = dispatch
        .scan(move |reader| reader.count(&filter, after, COUNT_JOBS_MAX))
        .await?;
    Ok(Json(view(&count)))
}

fn view(count: &JobCount) -> CountView {
    CountView {
        jobs: count.jobs,
        complete: count.complete,
        oldest: count.oldest.map(Time::to_rfc3339),
        newest: count.newest.map(Time::to_rfc3339),
        next_cursor: count.next.map(|cursor| cursor.0.to_string()),
    }
}

/// Runs discarded or cancelled jobs again: one page of those that match. `state` is required.
#[utoipa::path(
    post, path = path::JOBS_RETRY, tag = "jobs", operation_id = "retry_all", params(FilterQuery),
    request_body = Option<RetryBody>,
    responses((status = 200, body = ManyView))
)]
pub(super) async fn retry(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InQuery(query): InQuery<FilterQuery>,
    request: Request,
) -> Result<Json<ManyView>, ApiError> {
    let RetryBody { force } = small_body_or_default(&shared.api.bodies, request).await?;
    change(&shared, (&caller, &actor), query, |job| Retry {
        job,
        force,
    })
    .await
}

/// Asks for jobs to be stopped: one page of those that match. `state` is required.
#[utoipa::path(
    post, path = path::JOBS_CANCEL, tag = "jobs", operation_id = "cancel_all", params(FilterQuery),
    request_body = Option<CancelBody>,
    responses((status = 200, body = ManyView))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InQuery(query): InQuery<FilterQuery>,
    request: Request,
) -> Result<Json<ManyView>, ApiError> {
    let body: CancelBody = small_body_or_default(&shared.api.bodies, request).await?;
    jobs::check(&body)?;
    change(&shared, (&caller, &actor), query, |job| {
        jobs::cancel_command(job, &body)
    })
    .await
}

/// Forgets jobs that have ended: one page of those that match. `state` is required.
#[utoipa::path(
    post, path = path::JOBS_PURGE, tag = "jobs", operation_id = "purge_all", params(FilterQuery),
    responses((status = 200, body = ManyView))
)]
pub(super) async fn purge(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InQuery(query): InQuery<FilterQuery>,
) -> Result<Json<ManyView>, ApiError> {
    change(&shared, (&caller, &actor), query, |job| Purge { job }).await
}

/// Gives jobs that have not ended another priority, which holds from their next attempt: one page of those that match.
/// `state` is required.
#[utoipa::path(
    post, path = path::JOBS_PRIORITY, tag = "jobs", operation_id = "set_priority_of_all",
    params(FilterQuery), request_body = PriorityBody,
    responses((status = 200, body = ManyView))
)]
pub(super) async fn set_priority(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InQuery(query): InQuery<FilterQuery>,
    request: Request,
) -> Result<Json<ManyView>, ApiError> {
    let PriorityBody { priority } = small_body(&shared.api.bodies, request).await?;
    let priority = checked_priority(priority)?;
    change(&shared, (&caller, &actor), query, |job| SetPriority {
        job,
        priority,
    })
    .await
}

/// Submits a command for each job of one page. They share commits with each other and with other requests.
async fn change<A: Ask<Reply = Box<Lifecycle>>>(
    shared: &Shared,
    (caller, actor): (&Caller, &Actor),
    query: FilterQuery,
    command: impl Fn(JobId) -> A,
) -> Result<Json<ManyView>, ApiError> {
    let asked = read(shared, &query)?;
    if asked.state.is_none() {
        let detail = "state: missing; specify which jobs to change";
        return Err(ApiError::new(&kinds::INVALID_QUERY, detail));
    }
    let (filter, limit, after) = (
        checked(&asked, caller)?,
        page_limit(query.limit)?,
        after(&query)?,
    );
    let dispatch = &shared.api.dispatch;
    let page = dispatch
        .scan(move |reader| reader.matching(&filter, after, limit))
        .await?;
    if !page.items.is_empty() {
        // One entry of the audit covers the page, whatever becomes of each job. No change is without it.
        let detail = format!("all that match {}", write_without_values(asked));
        let jobs = format!("{} jobs", page.items.len());
        actor.record(shared, jobs, &detail).await?;
    }
    let is_cancel = |id: &JobId| {
        let command: Command = command(*id).into();
        matches!(command, Command::Job(job::Command::Cancel(_)))
    };
    let ids: Vec<JobId> = page.items.iter().copied().filter(is_cancel).collect();
    let asked_before = dispatch
        .scan(move |reader| asked_to_stop(reader, &ids))
        .await?;
    let mut view = ManyView {
        next_cursor: page.next.map(|cursor| cursor.0.to_string()),
        ..ManyView::default()
    };
    for ids in page.items.chunks(AT_ONCE) {
        let commands = ids.iter().map(|id| dispatch.submit(command(*id)));
        for (id, answer) in ids.iter().zip(join_all(commands).await) {
            let is_new = !asked_before.contains(id);
            count_answer(&mut view, *id, answer, is_cancel(id).then_some(is_new))?;
        }
    }
    Ok(Json(view))
}

/// Returns which of these jobs are running and were asked to stop.
fn asked_to_stop(reader: &dyn Reader, ids: &[JobId]) -> Result<BTreeSet<JobId>, StoreError> {
    let running = reader.running(ids)?.into_iter();
    let jobs = running.map(|claimed| claimed.lifecycle);
    let asked = jobs.filter(|job| job.cancel.is_some());
    Ok(asked.map(|job| job.id).collect())
}

/// Counts what became of one job of a page. `is_first_cancel` is `None` for another change than a cancel.
fn count_answer(
    view: &mut ManyView,
    id: JobId,
    answer: Result<Box<Lifecycle>, SubmitError>,
    is_first_cancel: Option<bool>,
) -> Result<(), SubmitError> {
    view.matched += 1;
    match (answer, is_first_cancel) {
        (Ok(job), Some(is_first)) if job.state == JobState::Running => {
            view.changed += u64::from(is_first);
            view.stopping += u64::from(is_first);
            view.unchanged += u64::from(!is_first);
        }
        (Ok(_), _) => view.changed += 1,
        (Err(SubmitError::Rejected(rejection)), _) => {
            view.refused += 1;
            let is_state = matches!(
                rejection,
                Rejection::Job(JobRefusal::Terminal(_) | JobRefusal::WrongState(_))
            );
            view.in_other_state += u64::from(is_state);
            if view.refusals.len() < REFUSALS_MAX {
                let detail = rejection.to_string();
                let code = ApiError::from(rejection).kind().code.to_owned();
                let id = id.to_string();
                view.refusals.push(RefusalView { id, code, detail });
            }
        }
        // The request can be repeated: jobs that were changed no longer match.
        (Err(error), _) => return Err(error),
    }
    Ok(())
}

/// Shows which jobs were meant, without what jobs carry: of an attribute and a param the name, and of a key and a word that
/// it was named.
fn write_without_values(mut asked: Filter) -> String {
    const HIDDEN: &str = "…";
    asked.sort = None;
    let pairs = asked.attributes.iter_mut().chain(&mut asked.params);
    let values = pairs.map(|(_, value)| value);
    for text in values.chain(&mut asked.words).chain(&mut asked.unique_key) {
        HIDDEN.clone_into(text);
    }
    filter_text::write(&asked)
}

#[cfg(test)]
mod tests {
    use host_core::query::Cursor;
    use host_runtime::ids;
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_that_changed_their_state_first_are_counted_apart() {
        let mut view = ManyView::default();
        for rejection in [
            Rejection::Job(JobRefusal::Terminal(JobState::Completed)),
            Rejection::Job(JobRefusal::UniqueKeyTaken(ids::job(Time(0)))),
        ] {
            let answer = Err(SubmitError::Rejected(rejection));
            count_answer(&mut view, ids::job(Time(0)), answer, Some(true)).unwrap();
        }
        let counts = (
            view.matched,
            view.changed,
            view.refused,
            view.in_other_state,
        );
        assert_eq!(counts, (2, 0, 2, 1));
        assert_eq!(view.refusals.len(), 2);
    }

    #[test]
    fn a_count_that_is_not_complete_says_where_it_goes_on() {
        let count = JobCount {
            jobs: 7,
            complete: false,
            next: Some(Cursor(9)),
            oldest: Some(Time(0)),
            newest: Some(Time(1)),
        };
        let expected = json!({
            "jobs": 7, "complete": false, "next_cursor": "9",
            "oldest": "1970-01-01T00:00:00.000Z", "newest": "1970-01-01T00:00:00.001Z",
        });
        assert_eq!(serde_json::to_value(view(&count)).unwrap(), expected);
    }
}
