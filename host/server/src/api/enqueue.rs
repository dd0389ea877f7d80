//! `POST /api/v1/jobs`: one job or an array, all or none. This path must be cheap: one reading of the body
//! (`entries`) finds the fields, and one of each entry's params (`params`) checks them. Neither is repeated if
//! checking takes long, or if another node may have the handler (`checking`).

mod batch;
mod checking;
mod entries;
mod entry;
mod lines;
mod offers;
mod params;
mod prerequisites;
mod route;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use host_api::new_job::{
    AcceptedJobsView, AcceptedView, LINES_MEDIA_TYPE, NewJobBody, NewJobsBody,
};
use host_api::path;
use host_core::access::Principal;
use host_core::encoding;
use host_core::id::BatchId;
use host_core::job::{Membership, NewJob, Origin};
use host_core::trace::{Parent, TRACEPARENT, TRACESTATE};
use host_engine::job::{Enqueue, Enqueued};
use host_http::gate::Caller;
use serde::Serialize;

pub(super) use self::batch::{callback_bodies, plan as batch_plan};
pub(super) use self::checking::LongChecks;
pub(super) use self::entry::priority as checked_priority;
pub(super) use self::lines::REQUESTS_MAX as LINE_REQUESTS_MAX;
pub(super) use self::offers::Offers;
pub(super) use self::prerequisites::let_read;
use super::Shared;
use super::error::ApiError;
use super::scoped::{sees_payload_of_job, sees_payloads};

/// The largest body of jobs, in bytes.
pub(super) const JOBS_BYTES_MAX: usize = 8 << 20;

/// The media types of bodies.
pub(super) const MEDIA_TYPES: &[&str] = &["application/json", LINES_MEDIA_TYPE];

/// The longest `tracestate` that is kept, in bytes.
const TRACE_STATE_BYTES_MAX: usize = 512;

/// Enqueues one job or an array of jobs, all or none; or lines of jobs, each alone.
#[utoipa::path(
    post,
    path = path::JOBS,
    tag = "jobs",
    request_body(
        content = NewJobsBody,
        description = "One job, or an array of at most 1,000 jobs and 8 MiB. \
                       `\"#n\"` in `depends_on` is entry n (from 0) of the same array. \
                       The request's `traceparent` and `tracestate` are those of jobs without a \
                       `traceparent` in their `trace_context`. \
                       A body of the type `application/x-ndjson` has one job in each line and any number of lines. \
                       Each line is answered with a line, in their order: what was accepted, or a problem."
    ),
    responses(
        (status = 201, body = AcceptedJobsView, description = "Accepted; an array of these for an array"),
        (status = 200, body = AcceptedView, description = "A job with this unique key already existed"),
    )
)]
pub(super) async fn enqueue(
    State(shared): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    if lines::has_lines(request.headers()) {
        return lines::enqueue(shared, caller, request).await;
    }
    let (parts, body) = request.into_parts();
    let bodies = &shared.api.bodies;
    let received = bodies.read(&parts, body, JOBS_BYTES_MAX).await?;
    let is_array = is_array(&received.bytes);
    let trace = trace_headers(&parts.headers);
    let text = received.bytes.clone();
    let accepted = accept(&shared, &caller, &trace, text, is_array).await?;
    Ok(match accepted.as_slice() {
        [one] if !is_array => respond(!one.existing, one),
        all => respond(true, all),
    })
}

/// Enqueues the jobs of a text on behalf of a caller, with the trace of its request.
async fn accept(
    shared: &Shared,
    caller: &Caller,
    trace: &[(String, String)],
    text: Bytes,
    is_array: bool,
) -> Result<Vec<AcceptedView>, ApiError> {
    shared.api.executors.forget_old(shared.api.clock.now());
    let origin = origin_of(&caller.principal);
    let mut jobs = checking::jobs(shared, origin, text, is_array, |_| Ok(())).await?;
    let_read(caller, &mut jobs);
    for job in &mut jobs {
        continue_traces(job, trace);
    }
    let enqueued = shared.api.dispatch.submit(Enqueue(jobs)).await?;
    Ok(accepted_views(shared, caller, enqueued).await)
}

/// Shows what was accepted. Whether an earlier job has other params tells of its params: only those who may see them
/// learn it.
pub(super) async fn accepted_views(
    shared: &Shared,
    caller: &Caller,
    enqueued: Vec<Enqueued>,
) -> Vec<AcceptedView> {
    let mut views = Vec::with_capacity(enqueued.len());
    for job in enqueued {
        let id = job.id;
        let mut view = AcceptedView::from(job);
        if view.existing && !sees_payloads(caller) {
            // The jobs are accepted already, so a failure to look them up fails nothing.
            let sees = sees_payload_of_job(shared, caller, id)
                .await
                .unwrap_or_default();
            view.existing_params_differ &= sees;
        }
        views.push(view);
    }
    views
}

/// Returns the jobs of a text that something in the host wrote, each of which `may` be refused, with the trace of what
/// enqueues it and on behalf of `origin`. `wire` names what that is.
pub(super) async fn jobs_inside(
    shared: &Shared,
    text: Bytes,
    wire: &str,
    trace: &[(String, String)],
    origin: Option<Box<Origin>>,
    may: impl Fn(&NewJobBody) -> Result<(), ApiError> + Send + 'static,
) -> Result<Vec<NewJob>, ApiError> {
    shared.api.executors.forget_old(shared.api.clock.now());
    let is_array = is_array(&text);
    let mut jobs = checking::jobs(shared, origin, text, is_array, may).await?;
    for job in &mut jobs {
        wire.clone_into(&mut job.payload.wire);
        continue_traces(job, trace);
    }
    Ok(jobs)
}

/// Returns what jobs keep of the principal that enqueues them.
pub(super) fn origin_of(principal: &Principal) -> Option<Box<Origin>> {
    (!principal.name.is_empty()).then(|| {
        Box::new(Origin {
            principal: principal.name.clone(),
            scope: principal.scope.clone(),
            max_waiting: principal.max_waiting,
        })
    })
}

/// Lets a batch count a job.
pub(super) fn join(job: &mut NewJob, batch: BatchId) {
    job.batch = Some(Membership::Joins(batch));
}

fn is_array(text: &[u8]) -> bool {
    let text = encoding::unmarked(text).unwrap_or_default();
    text.trim_ascii_start().starts_with(b"[")
}

/// Returns the trace context of a request, if its headers have a whole one.
pub(super) fn trace_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let Some(parent) = text(TRACEPARENT).filter(|text| Parent::read(text).is_some()) else {
        return Vec::new();
    };
    let state = text(TRACESTATE).filter(|text| text.len() <= TRACE_STATE_BYTES_MAX);
    let pairs = [(TRACEPARENT, Some(parent)), (TRACESTATE, state)];
    pairs
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())))
        .collect()
}

/// Gives a job, and the callbacks of the batch that it makes, the trace of the request unless they have one.
fn continue_traces(job: &mut NewJob, of_request: &[(String, String)]) {
    for (_, callback) in job.callbacks_mut() {
        continue_trace(&mut callback.payload.trace_context, of_request);
    }
    continue_trace(&mut job.payload.trace_context, of_request);
}

/// Gives a job without a trace the trace of the request.
fn continue_trace(of_job: &mut Vec<(String, String)>, of_request: &[(String, String)]) {
    if of_job.iter().all(|(name, _)| name != TRACEPARENT) {
        of_job.retain(|(name, _)| name != TRACESTATE || of_request.is_empty());
        of_job.splice(0..0, of_request.iter().cloned());
    }
}

fn respond<T: Serialize + ?Sized>(is_new: bool, body: &T) -> Response {
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    (status, Json(body)).into_response()
}
