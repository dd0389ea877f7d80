//! Looking at jobs, waiting for them, cancelling and running them again.

use axum::Json;
use axum::extract::{Request, State};
use host_core::command::{Command, Reply};
use host_core::id::JobId;
use host_core::job;
use host_core::name::{Name, NameError, RUNNER_SEPARATOR};
use host_core::query::{Cursor, JobFilter};
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_http::extract::{InQuery, small_body_or_default};
use host_http::query::{PageView, WaitQuery, page_limit};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::error::ApiError;
use super::job_id::IdInPath;
use super::problem::kinds;
use super::view::{AttemptView, JobView};

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

/// How to stop a job.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CancelBody {
    /// Why; it is shown with the job.
    reason: Option<String>,
    /// How long a running handler may take to stop by itself.
    #[schema(value_type = Option<f64>)]
    grace_seconds: Option<Seconds>,
}

/// How to run a job again.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RetryBody {
    /// Whether it starts although jobs that it depends on have not completed.
    force: bool,
}

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

/// Reads a handler's name with that of its runner, if it has one.
fn handler(text: &str) -> Result<(Option<Name>, Name), ApiError> {
    let name = |text: &str| {
        text.parse().map_err(|error: NameError| {
            let detail = format!("handler: {error}");
            ApiError::new(&kinds::INVALID_QUERY, detail)
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
) -> Result<Json<PageView<JobView>>, ApiError> {
    let limit = page_limit(query.limit)?;
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
    let (live, now) = (&dispatch.shared().live, shared.api.clock.now());
    let items = page.items.into_iter().map(|job| {
        let progress = live.progress(job.lifecycle.id);
        JobView::summary(job, progress, now)
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
) -> Result<Json<JobView>, ApiError> {
    let id = id.find(&shared).await?;
    Ok(Json(read(&shared, id).await?))
}

async fn read(shared: &Shared, id: JobId) -> Result<JobView, ApiError> {
    let dispatch = &shared.api.dispatch;
    let job = dispatch.read(move |reader| reader.job(id)).await?;
    let job = job.ok_or_else(|| unknown(id))?;
    let progress = dispatch.shared().live.progress(id);
    Ok(JobView::detail(job, progress, shared.api.clock.now()))
}

fn unknown(id: JobId) -> ApiError {
    ApiError::new(&kinds::JOB_NOT_FOUND, format!("no job has the id {id}"))
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
) -> Result<Json<CancelView>, ApiError> {
    let body: CancelBody = small_body_or_default(&shared.api.bodies, request).await?;
    if body
        .reason
        .as_ref()
        .is_some_and(|reason| reason.len() > REASON_BYTES_MAX)
    {
        let detail = format!("reason: it has at most {REASON_BYTES_MAX} bytes");
        return Err(ApiError::new(&kinds::INVALID_REQUEST, detail));
    }
    let command = Command::Cancel {
        job: id.find(&shared).await?,
        reason: body.reason,
        grace_ms: body.grace_seconds.map(|grace| grace.ms),
    };
    let Reply::Moved(job) = shared.api.dispatch.submit(command).await? else {
        return Err(ApiError::unexpected_reply("a cancel"));
    };
    let requested_at = job.cancel.map(|cancel| cancel.requested_at);
    Ok(Json(CancelView {
        id: job.id,
        state: job.state.as_str(),
        cancel_requested_at: requested_at.map(Time::to_rfc3339),
    }))
}

/// Runs a discarded or cancelled job again. It is pending while jobs that it depends on have not
/// completed.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/retry", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = RetryBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn retry(
    State(shared): State<Shared>,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let RetryBody { force } = small_body_or_default(&shared.api.bodies, request).await?;
    let job = id.find(&shared).await?;
    let command = Command::Retry { job, force };
    shared.api.dispatch.submit(command).await?;
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
) -> Result<Json<JobView>, ApiError> {
    let timeout = tokio::time::sleep(query.timeout()?);
    let id = id.find(&shared).await?;
    let (dispatch, stopping) = (&shared.api.dispatch, &shared.api.stopping);
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
) -> Result<Json<PageView<AttemptView>>, ApiError> {
    let id = id.find(&shared).await?;
    let dispatch = &shared.api.dispatch;
    let (job, attempts) = dispatch
        .read(move |reader| Ok((reader.job(id)?, reader.attempts(id)?)))
        .await?;
    let job = job.ok_or_else(|| unknown(id))?.lifecycle;
    let recorded = attempts.iter().any(|attempt| attempt.number == job.attempt);
    let latest = dispatch.shared().live.latest(id).unwrap_or_default();
    let running = AttemptView::running(&job, latest.meter).filter(|_| !recorded);
    let items = attempts.into_iter().map(AttemptView::from).chain(running);
    Ok(Json(PageView::all(items.collect())))
}
