//! Looking at jobs, waiting for them, and an operator's changes of one.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use host_api::attempt::AttemptView;
use host_api::job::JobView;
use host_api::node::NamedNode;
use host_core::command::{Command, Reply};
use host_core::id::{JobId, NodeId};
use host_core::job::{Lifecycle, State as JobState};
use host_core::lease::Hold;
use host_core::node::Reported;
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_http::extract::{InQuery, small_body, small_body_or_default};
use host_http::query::{PageView, WaitQuery, page_limit};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::enqueue::checked_priority;
use super::error::ApiError;
use super::filter::FilterQuery;
use super::job_id::IdInPath;
use super::problem::kinds;
use super::waiting;

/// The longest reason of a cancel, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

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
    pub(super) force: bool,
}

/// Another priority.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PriorityBody {
    /// 0 (first) to 9.
    #[schema(value_type = u8)]
    priority: i64,
}

/// Another start. One of both is given.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RescheduleBody {
    /// At this instant (RFC 3339), or at once if it has passed.
    run_at: Option<String>,
    /// This many seconds from now.
    #[schema(value_type = Option<f64>)]
    delay_seconds: Option<Seconds>,
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

impl CancelBody {
    /// Checks what the types do not.
    pub(super) fn check(&self) -> Result<(), ApiError> {
        let reason = self.reason.as_ref();
        if reason.is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
            let detail = format!("reason: must have at most {REASON_BYTES_MAX} bytes");
            return Err(ApiError::new(&kinds::INVALID_REQUEST, detail));
        }
        Ok(())
    }

    pub(super) fn command(&self, job: JobId) -> Command {
        Command::Cancel {
            job,
            reason: self.reason.clone(),
            grace_ms: self.grace_seconds.map(|grace| grace.ms),
        }
    }
}

/// Lists jobs that match, the newest first if `sort` does not say otherwise.
#[utoipa::path(
    get, path = "/api/v1/jobs", tag = "jobs", params(FilterQuery),
    responses((status = 200, body = PageView<JobView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    InQuery(query): InQuery<FilterQuery>,
) -> Result<Json<PageView<JobView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let (filter, after) = (query.filter()?, query.after());
    let dispatch = &shared.api.dispatch;
    let page = dispatch
        .read(move |reader| reader.jobs(&filter, after, limit))
        .await?;
    let (live, now) = (&dispatch.shared().live, shared.api.clock.now());
    let told = told(dispatch, page.items.iter().map(|job| &job.lifecycle)).await?;
    let items = page.items.into_iter().map(|job| {
        let id = job.lifecycle.id;
        let elsewhere = told.iter().find(|it| it.job == id);
        JobView::summary(job, live.latest_of(id, elsewhere), now)
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
    let told = told(dispatch, [&job.lifecycle]).await?;
    let progress = dispatch.shared().live.latest_of(id, told.first());
    let waits_because = waiting::reason(shared, &job.lifecycle).await?;
    let node = runs_at(shared, &job.lifecycle).await;
    let mut view = JobView::detail(job, progress, shared.api.clock.now());
    view.waits_because = waits_because;
    view.node = node;
    Ok(view)
}

/// Returns the node that runs a job, if others may share the store. Workers that hold jobs by heartbeats may
/// go on at any node.
async fn runs_at(shared: &Shared, job: &Lifecycle) -> Option<NamedNode> {
    let lease = job.lease.as_ref()?;
    let is_among_nodes = shared.api.dispatch.shared().live.is_among_nodes();
    if !is_among_nodes || lease.hold != Hold::Connection || lease.node == NodeId::NIL {
        return None;
    }
    // Without the list, its id is still known.
    let nodes = shared.api.nodes.list().await.unwrap_or_default();
    Some(NamedNode::of(&nodes, lease.node))
}

/// Reads how far those of these jobs are that run, as their nodes have told the others.
async fn told(
    dispatch: &Dispatch,
    jobs: impl IntoIterator<Item = &Lifecycle>,
) -> Result<Vec<Reported>, ApiError> {
    let jobs = jobs.into_iter();
    let running: BTreeMap<JobId, u32> = jobs
        .filter(|job| job.state == JobState::Running)
        .map(|job| (job.id, job.attempt))
        .collect();
    if running.is_empty() || !dispatch.shared().live.is_among_nodes() {
        return Ok(Vec::new());
    }
    let ids: Vec<JobId> = running.keys().copied().collect();
    let mut told = dispatch.read(move |reader| reader.reported(&ids)).await?;
    // What is left of an earlier attempt is not how far this one is.
    told.retain(|it| running.get(&it.job) == Some(&it.attempt));
    Ok(told)
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
    body.check()?;
    let command = body.command(id.find(&shared).await?);
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
/// completed. With `force` it waits for none of them, and neither does a job that is pending already.
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

/// Gives a job that has not ended another priority, which holds from its next attempt.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/priority", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = PriorityBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn set_priority(
    State(shared): State<Shared>,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let PriorityBody { priority } = small_body(&shared.api.bodies, request).await?;
    let priority = checked_priority(priority)?;
    let job = id.find(&shared).await?;
    let command = Command::SetPriority { job, priority };
    shared.api.dispatch.submit(command).await?;
    Ok(Json(read(&shared, job).await?))
}

/// Moves the start of a job that waits.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/reschedule", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = RescheduleBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn reschedule(
    State(shared): State<Shared>,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let body: RescheduleBody = small_body(&shared.api.bodies, request).await?;
    let now = shared.api.clock.now();
    let wrong = |detail: &str| ApiError::new(&kinds::INVALID_REQUEST, detail);
    let run_at = match (body.run_at.as_deref(), body.delay_seconds) {
        (Some(at), None) => Time::parse_rfc3339(at)
            .ok_or_else(|| wrong("run_at: expected an RFC 3339 time, such as 2026-05-17T18:30:00Z"))
            .map(|at| shared.api.clock.when_wall(at))?,
        (None, Some(delay)) => now.plus_ms(delay.ms),
        _ => return Err(wrong("specify exactly one of run_at and delay_seconds")),
    };
    let job = id.find(&shared).await?;
    let command = Command::Reschedule { job, run_at };
    shared.api.dispatch.submit(command).await?;
    Ok(Json(read(&shared, job).await?))
}

/// Forgets a job that has ended, with its result and attempts, and shows what it was.
#[utoipa::path(
    post, path = "/api/v1/jobs/{id}/purge", tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    responses((status = 200, body = JobView))
)]
pub(super) async fn purge(
    State(shared): State<Shared>,
    id: IdInPath,
) -> Result<Json<JobView>, ApiError> {
    let job = id.find(&shared).await?;
    let last = read(&shared, job).await?;
    shared.api.dispatch.submit(Command::Purge { job }).await?;
    Ok(Json(last))
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
    let node = runs_at(&shared, &job).await;
    let running = AttemptView::running(&job, latest.meter, node).filter(|_| !recorded);
    let items = attempts.into_iter().map(AttemptView::from).chain(running);
    Ok(Json(PageView::all(items.collect())))
}
