//! Looking at jobs, waiting for them, cancelling and running them again.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use host_core::command::{Command, Reply};
use host_core::id::JobId;
use host_core::job;
use host_core::name::{Name, NameError, RUNNER_SEPARATOR};
use host_core::query::{Cursor, JobFilter, PAGE_ITEMS_MAX};
use host_core::seconds::Seconds;
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::body::SMALL_BYTES_MAX;
use super::extract::{IdInPath, InQuery};
use super::json;
use super::problem::{Code, Problem};
use super::view::{self, AttemptView, JobView, PageView};
use super::{Shared, guard};

/// How many items a page has that asks for no number.
const PAGE_ITEMS: u32 = 100;

/// How long a request waits that names no time, and the longest it may, in milliseconds.
const WAIT_MS: u64 = 30_000;
const WAIT_MS_MAX: u64 = 300_000;

/// The longest reason of a cancel, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// Which jobs to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    /// Only jobs in this state.
    #[param(value_type = Option<String>)]
    state: Option<job::State>,
    /// Only jobs in this queue.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
    /// Only jobs for this handler; `python#send_email` is one of a foreign runner.
    handler: Option<String>,
    /// At most this many, 1 to 1,000; 100 if absent.
    limit: Option<u32>,
    /// The `next_cursor` of the page before.
    cursor: Option<u64>,
}

/// How long to wait.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitQuery {
    /// At most 300; 30 if absent.
    #[param(value_type = Option<f64>)]
    timeout_seconds: Option<Seconds>,
}

impl WaitQuery {
    /// Returns how long, in milliseconds.
    pub(super) fn ms(&self) -> Result<u64, Problem> {
        let ms = self.timeout_seconds.map_or(WAIT_MS, |timeout| timeout.ms);
        if ms > WAIT_MS_MAX {
            let detail = format!("timeout_seconds: it is at most {}", WAIT_MS_MAX / 1000);
            return Err(Problem::new(Code::InvalidQuery, detail));
        }
        Ok(ms)
    }
}

/// How to stop a job.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CancelBody {
    /// Why, for whoever looks at the job later.
    reason: Option<String>,
    /// How long a running handler may take to stop by itself.
    #[schema(value_type = Option<f64>)]
    grace_seconds: Option<Seconds>,
}

/// A body without fields.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct EmptyBody {}

/// What became of a cancel.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct CancelView {
    /// The job.
    #[schema(value_type = String)]
    id: JobId,
    /// `running` until it has stopped, else `cancelled`.
    state: &'static str,
    /// When the first cancel of the job was accepted.
    cancel_requested_at: Option<String>,
}

/// Checks the `limit` of a list.
pub(super) fn limit(asked: Option<u32>) -> Result<u32, Problem> {
    let limit = asked.unwrap_or(PAGE_ITEMS);
    if limit == 0 || limit > PAGE_ITEMS_MAX {
        let detail = format!("limit: it is 1 to {PAGE_ITEMS_MAX}, this one is {limit}");
        return Err(Problem::new(Code::InvalidQuery, detail));
    }
    Ok(limit)
}

/// Reads a handler's name with that of its runner, if it has one.
fn handler(text: &str) -> Result<(Option<Name>, Name), Problem> {
    let name = |text: &str| {
        text.parse().map_err(|error: NameError| {
            let detail = format!("handler: {error}");
            Problem::new(Code::InvalidQuery, detail)
        })
    };
    match text.split_once(RUNNER_SEPARATOR) {
        None => Ok((None, name(text)?)),
        Some((runner, handler)) => Ok((Some(name(runner)?), name(handler)?)),
    }
}

/// Lists jobs, the newest first.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs", params(ListQuery),
    responses((status = 200, body = PageView<JobView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    InQuery(query): InQuery<ListQuery>,
) -> Result<Json<PageView<JobView>>, Problem> {
    let limit = limit(query.limit)?;
    let filter = JobFilter {
        state: query.state,
        queue: query.queue,
        handler: query.handler.as_deref().map(handler).transpose()?,
    };
    let after = query.cursor.map(Cursor);
    let dispatch = &shared.api.dispatch;
    let page = dispatch
        .read(move |reader| reader.jobs(&filter, after, limit))
        .await?;
    let live = &dispatch.shared().live;
    let items = page.items.into_iter().map(|job| {
        let progress = live.progress(job.lifecycle.id);
        JobView::summary(job, progress)
    });
    Ok(Json(PageView {
        items: items.collect(),
        next_cursor: page.next.map(|cursor| cursor.0.to_string()),
    }))
}

/// Shows all of a job.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    responses((status = 200, body = JobView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    id: IdInPath,
) -> Result<Json<JobView>, Problem> {
    let id = id.find(&shared).await?;
    Ok(Json(read(&shared, id).await?))
}

async fn read(shared: &Shared, id: JobId) -> Result<JobView, Problem> {
    let dispatch = &shared.api.dispatch;
    let job = dispatch.read(move |reader| reader.job(id)).await?;
    let job = job.ok_or_else(|| unknown(id))?;
    Ok(JobView::detail(job, dispatch.shared().live.progress(id)))
}

fn unknown(id: JobId) -> Problem {
    Problem::new(Code::JobNotFound, format!("no job has the id {id}"))
}

/// Asks for a job to be stopped.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/cancel", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = CancelBody,
    responses((status = 200, body = CancelView))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    id: IdInPath,
    request: Request,
) -> Result<Json<CancelView>, Problem> {
    let body: CancelBody = small(&shared, request).await?;
    if body
        .reason
        .as_ref()
        .is_some_and(|reason| reason.len() > REASON_BYTES_MAX)
    {
        let detail = format!("reason: it has at most {REASON_BYTES_MAX} bytes");
        return Err(Problem::new(Code::InvalidRequest, detail));
    }
    let command = Command::Cancel {
        job: id.find(&shared).await?,
        reason: body.reason,
        grace_ms: body.grace_seconds.map(|grace| grace.ms),
    };
    let Reply::Moved(job) = shared.api.dispatch.submit(command).await? else {
        return Err(view::unexpected("a cancel"));
    };
    let requested_at = job.cancel.map(|cancel| cancel.requested_at);
    Ok(Json(CancelView {
        id: job.id,
        state: job.state.as_str(),
        cancel_requested_at: requested_at.map(Time::to_rfc3339),
    }))
}

/// Makes a discarded or cancelled job available again.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = EmptyBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn retry(
    State(shared): State<Shared>,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, Problem> {
    let EmptyBody {} = small(&shared, request).await?;
    let job = id.find(&shared).await?;
    shared.api.dispatch.submit(Command::Retry { job }).await?;
    Ok(Json(read(&shared, job).await?))
}

/// Waits until a job ends, at most as long as asked for, and shows it.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/wait", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it"), WaitQuery),
    responses((status = 200, body = JobView, description = "The job as it is then, ended or not"))
)]
pub(super) async fn wait(
    State(shared): State<Shared>,
    id: IdInPath,
    InQuery(query): InQuery<WaitQuery>,
) -> Result<Json<JobView>, Problem> {
    let ms = query.ms()?;
    let id = id.find(&shared).await?;
    let (dispatch, stopping) = (&shared.api.dispatch, &shared.api.stopping);
    let timeout = tokio::time::sleep(Duration::from_millis(ms));
    tokio::pin!(timeout);
    loop {
        let waiter = dispatch.wait(id);
        let state = dispatch.read(move |reader| reader.state(id)).await?;
        let state = state.ok_or_else(|| unknown(id))?;
        if state.is_terminal() {
            break;
        }
        tokio::select! {
            () = waiter.ended() => {}
            () = &mut timeout => break,
            () = stopping.cancelled() => break,
        }
    }
    Ok(Json(read(&shared, id).await?))
}

/// Shows the attempts of a job, first to last, and the one that runs.
#[utoipa::path(
    get, path = "/api/v1/jobs/{id}/attempts", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    responses((status = 200, body = PageView<AttemptView>))
)]
pub(super) async fn attempts(
    State(shared): State<Shared>,
    id: IdInPath,
) -> Result<Json<PageView<AttemptView>>, Problem> {
    let id = id.find(&shared).await?;
    let dispatch = &shared.api.dispatch;
    let (job, attempts) = dispatch
        .read(move |reader| Ok((reader.job(id)?, reader.attempts(id)?)))
        .await?;
    let job = job.ok_or_else(|| unknown(id))?.lifecycle;
    let recorded = attempts.iter().any(|attempt| attempt.number == job.attempt);
    let running = AttemptView::running(&job).filter(|_| !recorded);
    let items = attempts.into_iter().map(AttemptView::from).chain(running);
    Ok(Json(PageView {
        items: items.collect(),
        next_cursor: None,
    }))
}

/// Reads a small body of JSON, which may be empty.
pub(super) async fn small<T>(shared: &Shared, request: Request) -> Result<T, Problem>
where
    T: for<'de> Deserialize<'de> + Default,
{
    let (parts, body) = request.into_parts();
    guard::check_json(&parts.headers)?;
    let held = shared
        .room
        .read(&parts.headers, body, SMALL_BYTES_MAX)
        .await?;
    json::read_or_default(&held.bytes)
}
