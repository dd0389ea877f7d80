//! `POST /api/v1/jobs`: one job or an array, all or none. This path must be cheap: the body is parsed once.
//! Params stay text: they are checked, and parsed only if the handler states a schema. All of this is done
//! again if checking them takes long, or if another node may have the handler.

mod checking;
mod entry;
mod route;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use host_api::new_job::{AcceptedJobsView, AcceptedView, NewJobBody, NewJobsBody};
use host_api::path;
use host_cells::compile::schema::Budget;
use host_core::command::{Command, NewJob, Reply};
use host_core::graph::find_cycle;
use host_core::id::JobId;
use host_core::rejection::Rejection;
use host_core::trace::{Parent, TRACEPARENT, TRACESTATE};
use host_http::json::{AtMost, Object};
use host_runtime::ids;
use serde::Serialize;

pub(super) use self::checking::LongChecks;
pub(super) use self::entry::priority as checked_priority;
use self::route::Asked;
use super::error::ApiError;
use super::problem::kinds;
use super::{Api, Shared};

/// The largest body of jobs, in bytes.
const JOBS_BYTES_MAX: usize = 8 << 20;

/// The most jobs of one array.
const JOBS_MAX: usize = 1_000;

/// The longest `tracestate` that is kept, in bytes.
const TRACE_STATE_BYTES_MAX: usize = 512;

/// Enqueues one job or an array of jobs, all or none.
#[utoipa::path(
    post,
    path = path::JOBS,
    tag = "jobs",
    request_body(
        content = NewJobsBody<'static>,
        description = "One job, or an array of at most 1,000 jobs and 8 MiB. \
                       `\"#n\"` in `depends_on` is entry n (from 0) of the same array. \
                       The request's `traceparent` and `tracestate` are those of jobs without a \
                       `traceparent` in their `trace_context`."
    ),
    responses(
        (status = 201, body = AcceptedJobsView, description = "Accepted; an array of these for an array"),
        (status = 200, body = AcceptedView, description = "A job with this unique key was there already"),
    )
)]
pub(super) async fn enqueue(
    State(shared): State<Shared>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bodies = &shared.api.bodies;
    let received = bodies.read(&parts.headers, body, JOBS_BYTES_MAX).await?;
    let is_array = received
        .bytes
        .iter()
        .find(|byte| !byte.is_ascii_whitespace())
        == Some(&b'[');
    shared.api.executors.forget_old(shared.api.clock.now());
    let mut checked = checking::jobs(&shared, &received.bytes, is_array).await;
    if let Err(error) = &checked
        && error.kind() == &kinds::HANDLER_NOT_FOUND
        && look(&shared).await?
    {
        checked = checking::jobs(&shared, &received.bytes, is_array).await;
    }
    let mut jobs = checked?;
    let trace = trace_headers(&parts.headers);
    for job in &mut jobs {
        continue_trace(&mut job.payload.trace_context, &trace);
    }
    let Reply::Enqueued(replies) = shared.api.dispatch.submit(Command::Enqueue(jobs)).await? else {
        return Err(ApiError::unexpected_reply("an enqueue"));
    };
    let accepted: Vec<AcceptedView> = replies.into_iter().map(AcceptedView::from).collect();
    Ok(match accepted.as_slice() {
        [one] if !is_array => respond(!one.existing, one),
        all => respond(true, all),
    })
}

/// Looks up the handlers and runners of other nodes. Returns false if there are no other nodes.
async fn look(shared: &Shared) -> Result<bool, ApiError> {
    if !shared.api.deployer.look().await {
        return Ok(false);
    }
    let nodes = shared.api.nodes.list().await?;
    shared.api.executors.see(shared.api.clock.now(), &nodes);
    Ok(true)
}

/// Returns the trace context of a request, if its headers have a whole one.
fn trace_headers(headers: &HeaderMap) -> Vec<(String, String)> {
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

/// Gives a job without a trace the trace of the request.
fn continue_trace(of_job: &mut Vec<(String, String)>, of_request: &[(String, String)]) {
    if of_job.iter().all(|(name, _)| name != TRACEPARENT) {
        of_job.retain(|(name, _)| name != TRACESTATE || of_request.is_empty());
        of_job.splice(0..0, of_request.iter().cloned());
    }
}

fn respond<T: Serialize + ?Sized>(is_new: bool, body: &T) -> Response {
    let text = serde_json::to_vec(body).unwrap_or_default();
    let mut response = Response::new(Body::from(text));
    if is_new {
        *response.status_mut() = StatusCode::CREATED;
    }
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn one(api: &Api, body: NewJobBody<'_>, budget: &mut Budget) -> Result<Vec<NewJob>, ApiError> {
    let now = api.clock.now();
    let id = ids::job(now);
    if let Some(reference) = entry::references(&body).next() {
        let n = reference?;
        let detail = if n == 0 {
            "#0 → #0: the job depends on itself".to_owned()
        } else {
            return Err(no_entry(n, 1));
        };
        return Err(ApiError::new(&kinds::DEPENDENCY_CYCLE, detail));
    }
    Ok(vec![accept(api, body, (id, &[]), budget)?])
}

fn several(
    api: &Api,
    array: AtMost<JOBS_MAX, Object<NewJobBody<'_>>>,
    budget: &mut Budget,
) -> Result<Vec<NewJob>, ApiError> {
    let now = api.clock.now();
    let bodies = array.elements;
    if array.more {
        let detail = format!("the array has more than {JOBS_MAX} jobs");
        return Err(ApiError::new(&kinds::TOO_MANY_JOBS, detail));
    }
    if bodies.is_empty() {
        let detail = "the array has no jobs";
        return Err(ApiError::new(&kinds::INVALID_REQUEST, detail));
    }
    let mut graph = Vec::new();
    for (n, Object(body)) in bodies.iter().enumerate() {
        let place = |error: ApiError| error.at(&format!("#{n}"));
        let references = entry::references(body).collect::<Result<Vec<_>, _>>();
        let references = references.map_err(place)?;
        if let Some(outside) = references.iter().find(|index| **index >= bodies.len()) {
            return Err(place(no_entry(*outside, bodies.len())));
        }
        graph.push(references);
    }
    if let Some(cycle) = find_cycle(&graph) {
        return Err(Rejection::DependencyCycle(cycle).into());
    }
    let ids: Vec<JobId> = bodies.iter().map(|_| ids::job(now)).collect();
    let accepted = bodies.into_iter().zip(&ids).enumerate();
    accepted
        .map(|(n, (Object(body), id))| {
            accept(api, body, (*id, &ids), budget).map_err(|error| error.at(&format!("#{n}")))
        })
        .collect()
}

fn no_entry(n: usize, entries: usize) -> ApiError {
    let detail = format!("depends_on names #{n}, but there are {entries} entries, from #0");
    ApiError::new(&kinds::UNKNOWN_PREREQUISITE, detail)
}

/// Routes one entry and makes the job that is asked for.
fn accept(
    api: &Api,
    body: NewJobBody<'_>,
    (id, siblings): (JobId, &[JobId]),
    budget: &mut Budget,
) -> Result<NewJob, ApiError> {
    let asked = Asked {
        handler: body.handler.as_ref(),
        queue: entry::queue(&body)?,
        params: entry::params_text(&body),
        has_params: body.params.is_some(),
    };
    let route = route::find(api, asked, budget)?;
    let mut job = entry::into_job(body, id, route, siblings, api.clock)?;
    if let Some(runner) = &job.runner {
        let placed = api.executors.place(runner, &job.payload.attributes);
        let invalid =
            |detail| ApiError::new(&kinds::INVALID_REQUEST, format!("attributes: {detail}"));
        job.runner = Some(placed.map_err(invalid)?);
    }
    Ok(job)
}
