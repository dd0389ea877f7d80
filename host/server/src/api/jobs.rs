//! Looking at jobs, waiting for them, and an operator's changes of one.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use host_api::artifact::{ArtifactView, write_source};
use host_api::attempt::AttemptView;
use host_api::change::{CancelBody, CancelView, PriorityBody, RescheduleBody, RetryBody};
use host_api::filter::{FilterQuery, PageQuery};
use host_api::job::JobView;
use host_api::node::NamedNode;
use host_api::page::{PageView, WaitQuery};
use host_api::{path, time};
use host_core::id::{JobId, NodeId};
use host_core::job::{Lifecycle, State as JobState};
use host_core::lease::Hold;
use host_core::outcome::Attempt;
use host_core::query::JobDetail;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_engine::job::{Cancel, Purge, Reschedule, Retry, SetPriority};
use host_engine::node::{NodeRecord, Reported};
use host_http::extract::{InQuery, small_body, small_body_or_default};
use host_http::gate::Caller;
use host_http::query::{cursor, page_limit, wait_timeout};

use super::actor::Actor;
use super::enqueue::checked_priority;
use super::error::ApiError;
use super::filter::{after, checked, read as read_filter};
use super::job_id::{IdInPath, unknown};
use super::scoped::{hide_failure, hide_payload, sees_payload_of, sees_payloads, shown_to};
use super::{Shared, waiting};

/// The longest reason of a cancel, in bytes.
const REASON_BYTES_MAX: usize = 1_024;

/// How many of the jobs that wait for a job are shown.
const DEPENDENTS_MAX: u32 = 100;

/// Checks what the types do not.
pub(super) fn check(body: &CancelBody) -> Result<(), ApiError> {
    check_reason(body.reason.as_deref())
}

/// Checks the reason of a cancel.
pub(super) fn check_reason(reason: Option<&str>) -> Result<(), ApiError> {
    if reason.is_some_and(|reason| reason.len() > REASON_BYTES_MAX) {
        let detail = format!("reason: must have at most {REASON_BYTES_MAX} bytes");
        return Err(ApiError::invalid(detail));
    }
    Ok(())
}

/// Makes the command that stops a job.
pub(super) fn cancel_command(job: JobId, body: &CancelBody) -> Cancel {
    Cancel {
        job,
        reason: body.reason.clone(),
        grace_ms: body.grace_seconds.map(|grace| grace.ms),
    }
}

/// Lists jobs that match, the newest first if `sort` does not say otherwise.
#[utoipa::path(
    get, path = path::JOBS, tag = "jobs", params(FilterQuery),
    responses((status = 200, body = PageView<JobView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<FilterQuery>,
) -> Result<Json<PageView<JobView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let filter = checked(&read_filter(&shared, &query)?, &caller)?;
    let after = after(&query)?;
    let dispatch = &shared.api.dispatch;
    let page = dispatch
        .scan(move |reader| reader.jobs(&filter, after, limit))
        .await?;
    let (live, now) = (&dispatch.shared().live, shared.api.clock.now());
    let lifecycles = || page.items.iter().map(|job| &job.lifecycle);
    let reported = reported(dispatch, lifecycles()).await?;
    let places = NodesOfJobs::find(&shared, lifecycles()).await;
    let items = page.items.into_iter().map(|job| {
        let (id, node) = (job.lifecycle.id, places.of_job(&job.lifecycle));
        let elsewhere = reported.iter().find(|it| it.job == id);
        let mut view = JobView::summary(job, live.latest_of(id, elsewhere), now);
        view.node = node;
        if !sees_payloads(&caller) {
            hide_payload(&mut view);
        }
        view
    });
    Ok(Json(PageView {
        items: items.collect(),
        next_cursor: page.next.map(|cursor| cursor.0.to_string()),
    }))
}

/// Shows all of a job.
#[utoipa::path(
    get, path = path::JOB, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    responses((status = 200, body = JobView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    id: IdInPath,
) -> Result<Json<JobView>, ApiError> {
    let id = id.find(&shared).await?;
    Ok(Json(read(&shared, &caller, id).await?))
}

async fn read(shared: &Shared, caller: &Caller, id: JobId) -> Result<JobView, ApiError> {
    let read = shared.read(move |reader| {
        let dependents = reader.dependents(id, DEPENDENTS_MAX)?;
        let artifacts = reader.artifacts(id)?;
        let files = reader.input_files(id)?;
        let job = reader.job(id)?;
        Ok(job.map(|job| (job, dependents, artifacts, files)))
    });
    let (job, dependents, artifacts, files) = read.await?.ok_or_else(|| unknown(id))?;
    let dispatch = &shared.api.dispatch;
    let reported = reported(dispatch, [&job.lifecycle]).await?;
    let progress = dispatch.shared().live.latest_of(id, reported.first());
    let created_by = job.payload.origin.as_ref().map(|origin| &*origin.principal);
    let sees_payload = sees_payload_of(caller, &job.payload.wire, created_by);
    let waits = waiting::reason(shared, &job.lifecycle, &job.depends_on, sees_payload).await?;
    let node = NodesOfJobs::find(shared, [&job.lifecycle])
        .await
        .of_job(&job.lifecycle);
    let mut view = JobView::detail(job, progress, shared.api.clock.now());
    if let Some(reason) = waits {
        view.waits_because = Some(reason.text);
        let withheld = reason.withholds_key.then(|| "waits_because".to_owned());
        view.withheld.extend(withheld);
    }
    let files = files
        .into_iter()
        .map(|it| (it.name, write_source(&it.source)));
    view.files = Some(files.collect()).filter(|files: &BTreeMap<_, _>| !files.is_empty());
    view.artifacts = artifacts.into_iter().map(ArtifactView::from).collect();
    let dependents = dependents.iter().map(ToString::to_string);
    view.dependents = Some(dependents.collect()).filter(|ids: &Vec<_>| !ids.is_empty());
    view.node = node;
    shown_to(shared, caller, view).await
}

/// The nodes that run jobs; `None` if no other node shares the store.
struct NodesOfJobs(Option<Vec<NodeRecord>>);

impl NodesOfJobs {
    /// Finds the nodes of these jobs.
    async fn find(shared: &Shared, jobs: impl IntoIterator<Item = &Lifecycle>) -> Self {
        let is_among_nodes = shared.api.dispatch.shared().live.is_among_nodes();
        if !is_among_nodes || jobs.into_iter().all(|job| runs_at(job).is_none()) {
            return Self(None);
        }
        // Without the list, their ids are still known.
        Self(Some(shared.api.nodes.list().await.unwrap_or_default()))
    }

    /// Returns the node that runs a job.
    fn of_job(&self, job: &Lifecycle) -> Option<NamedNode> {
        Some(NamedNode::find_in(self.0.as_ref()?, runs_at(job)?))
    }
}

/// Returns the node that runs a job. Workers that hold jobs by heartbeats may continue at any node.
fn runs_at(job: &Lifecycle) -> Option<NodeId> {
    let lease = job.lease.as_ref()?;
    let is_held = lease.hold == Hold::Connection && lease.node != NodeId::NIL;
    is_held.then_some(lease.node)
}

/// Reads the progress of the running ones of these jobs that their nodes have published.
async fn reported(
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
    let mut reported = dispatch.read(move |reader| reader.reported(&ids)).await?;
    // What is left of an earlier attempt is not how far this one is.
    reported.retain(|it| running.get(&it.job) == Some(&it.attempt));
    Ok(reported)
}

/// Asks for a job to be stopped.
#[utoipa::path(
    post, path = path::JOB_CANCEL, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = Option<CancelBody>,
    responses((status = 200, body = CancelView))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    actor: Actor,
    id: IdInPath,
    request: Request,
) -> Result<Json<CancelView>, ApiError> {
    let body: CancelBody = small_body_or_default(&shared.api.bodies, request).await?;
    check(&body)?;
    let id = id.find(&shared).await?;
    let command = cancel_command(id, &body);
    let note = actor.note(format!("job {id}"));
    let job = shared.submit(command, note).await?;
    let requested_at = job.cancel.map(|cancel| cancel.requested_at);
    Ok(Json(CancelView {
        id: job.id.to_string(),
        state: job.state.as_str().to_owned(),
        cancel_requested_at: requested_at.map(Time::to_rfc3339),
    }))
}

/// Runs a discarded or cancelled job again. A deadline that has passed is removed, and `removed_deadline` shows
/// it. The job is pending while jobs that it depends on have not ended as it needs. With `force` it waits for none of them, and neither does a job that is pending already.
#[utoipa::path(
    post, path = path::JOB_RETRY, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = Option<RetryBody>,
    responses((status = 200, body = JobView))
)]
pub(super) async fn retry(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let RetryBody { force } = small_body_or_default(&shared.api.bodies, request).await?;
    let job = id.find(&shared).await?;
    let before = shared.read(move |reader| reader.job(job)).await?;
    let deadline = before.and_then(|before| before.lifecycle.deadline);
    let command = Retry { job, force };
    let note = actor.note(format!("job {job}"));
    shared.submit(command, note).await?;
    let mut view = read(&shared, &caller, job).await?;
    let is_removed = view.deadline.is_none();
    view.removed_deadline = deadline.filter(|_| is_removed).map(Time::to_rfc3339);
    Ok(Json(view))
}

/// Gives a job that has not ended another priority, which holds from its next attempt.
#[utoipa::path(
    post, path = path::JOB_PRIORITY, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = PriorityBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn set_priority(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let PriorityBody { priority } = small_body(&shared.api.bodies, request).await?;
    let priority = checked_priority(priority)?;
    let job = id.find(&shared).await?;
    let command = SetPriority { job, priority };
    let note = actor
        .note(format!("job {job}"))
        .detail(format!("priority {priority}"));
    shared.submit(command, note).await?;
    Ok(Json(read(&shared, &caller, job).await?))
}

/// Moves the start of a job that waits.
#[utoipa::path(
    post, path = path::JOB_RESCHEDULE, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    request_body = RescheduleBody,
    responses((status = 200, body = JobView))
)]
pub(super) async fn reschedule(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    id: IdInPath,
    request: Request,
) -> Result<Json<JobView>, ApiError> {
    let body: RescheduleBody = small_body(&shared.api.bodies, request).await?;
    let now = shared.api.clock.now();
    let run_at = match (body.run_at.as_deref(), body.delay_seconds) {
        (Some(at), None) => {
            let at = time::instant("run_at", at).map_err(ApiError::invalid)?;
            shared.api.clock.when_wall(at)
        }
        (None, Some(delay)) => now.plus_ms(delay.ms),
        _ => {
            let detail = "specify exactly one of run_at and delay_seconds";
            return Err(ApiError::invalid(detail));
        }
    };
    let job = id.find(&shared).await?;
    let command = Reschedule { job, run_at };
    let note = actor
        .note(format!("job {job}"))
        .detail(format!("to {}", run_at.to_rfc3339()));
    shared.submit(command, note).await?;
    Ok(Json(read(&shared, &caller, job).await?))
}

/// Forgets a job that has ended, with its result and attempts, and shows what it was.
#[utoipa::path(
    post, path = path::JOB_PURGE, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it")),
    responses((status = 200, body = JobView))
)]
pub(super) async fn purge(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    id: IdInPath,
) -> Result<Json<JobView>, ApiError> {
    let job = id.find(&shared).await?;
    let last = read(&shared, &caller, job).await?;
    let purge = Purge { job };
    let note = actor.note(format!("job {job}")).detail("purged");
    shared.submit(purge, note).await?;
    Ok(Json(last))
}

/// Waits until a job ends, at most as long as asked for, and shows it.
#[utoipa::path(
    get, path = path::JOB_WAIT, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it"), WaitQuery),
    responses((status = 200, body = JobView, description = "The job as it is then, ended or not"))
)]
pub(super) async fn wait(
    State(shared): State<Shared>,
    caller: Caller,
    id: IdInPath,
    InQuery(query): InQuery<WaitQuery>,
) -> Result<Json<JobView>, ApiError> {
    let timeout = tokio::time::sleep(wait_timeout(query.timeout_seconds)?);
    let id = id.find(&shared).await?;
    let (dispatch, stopping) = (&shared.api.dispatch, &shared.api.stopping);
    tokio::pin!(timeout);
    loop {
        let waiter = dispatch.wait(id);
        let state = dispatch
            .read(move |reader| reader.state(id))
            .await?
            .ok_or_else(|| unknown(id))?;
        if state.is_terminal() {
            break;
        }
        tokio::select! {
            () = waiter.ended() => {}
            () = &mut timeout => break,
            () = stopping.cancelled() => break,
        }
    }
    Ok(Json(read(&shared, &caller, id).await?))
}

/// Shows the attempts of a job, first to last, and the one that runs. Of many, the latest 100 are kept at least.
#[utoipa::path(
    get, path = path::JOB_ATTEMPTS, tag = "jobs",
    params(("id" = String, Path, description = "The job's id or the start of it"), PageQuery),
    responses((status = 200, body = PageView<AttemptView>))
)]
pub(super) async fn attempts(
    State(shared): State<Shared>,
    caller: Caller,
    id: IdInPath,
    InQuery(query): InQuery<PageQuery>,
) -> Result<Json<PageView<AttemptView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let after = cursor(query.cursor.as_deref())?.unwrap_or_default();
    let after = u32::try_from(after).unwrap_or(u32::MAX);
    let id = id.find(&shared).await?;
    let (job, mut attempts) = shared
        .read(move |reader| Ok((reader.job(id)?, reader.attempts(id, after, limit + 1)?)))
        .await?;
    let JobDetail {
        lifecycle: job,
        payload,
        ..
    } = job.ok_or_else(|| unknown(id))?;
    let created_by = payload.origin.map(|origin| origin.principal);
    let is_shown = sees_payload_of(&caller, &payload.wire, created_by.as_deref());
    let view = |attempt: Attempt| {
        let mut view = AttemptView::from(attempt);
        if !is_shown {
            hide_failure(&mut view);
        }
        view
    };
    if attempts.len() > limit as usize {
        attempts.truncate(limit as usize);
        return Ok(Json(PageView {
            next_cursor: attempts.last().map(|last| last.number.to_string()),
            items: attempts.into_iter().map(view).collect(),
        }));
    }
    let recorded = attempts.iter().any(|attempt| attempt.number == job.attempt);
    let live = &shared.api.dispatch.shared().live;
    let latest = live.latest(id).unwrap_or_default();
    let node = NodesOfJobs::find(&shared, [&job]).await.of_job(&job);
    let running = AttemptView::running(&job, latest.meter, node).filter(|_| !recorded);
    let items = attempts.into_iter().map(view).chain(running);
    Ok(Json(PageView::whole(items.collect())))
}
