//! `GET /api/v1/events`: what happens, as server-sent events. A listener that is slow or comes back
//! reads the changes it missed from the store. It never makes the host wait.

mod listener;

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use host_api::event::{ChangeView, EventsQuery, ProgressEventView};
use host_api::path;
use host_core::access::{Object, Scope};
use host_core::name::{Name, address};
use host_dispatch::events::{Event, EventKind};
use host_http::extract::InQuery;
use host_http::gate::Caller;
use host_http::share::STREAMS_MAX;
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;

use self::listener::Listener;
use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// Streams what happens from now on, or after the change with the id in the header `Last-Event-ID`, as
/// server-sent events `change`, `progress` and `gap`.
///
/// Only changes have an id. The last 100,000 are kept, through restarts too. The stream of one job
/// ends when the job has ended.
#[utoipa::path(
    get, path = path::EVENTS, tag = "events",
    params(EventsQuery, ("Last-Event-ID" = Option<u64>, Header, description = "The id of the last change that was received")),
    responses((status = 200, body = ChangeView<'static>, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<EventsQuery>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let own = own_stream(&caller)?;
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        let detail = "too many event streams are open";
        return Err(ApiError::new(&kinds::BUSY, detail));
    };
    let permits = (permit, own);
    let received = headers
        .get("last-event-id")
        .map(last_event_id)
        .transpose()?;
    let listener = Listener::open(&shared, (caller, query), received, permits).await?;
    let chunks = stream::unfold(listener, |mut listener| async move {
        let chunk = listener.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(chunk)), listener))
    });
    let mut response = Response::new(Body::from_stream(chunks));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Takes one of the streams that a caller may have open, if there is a limit.
fn own_stream(caller: &Caller) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
    let Some(share) = &caller.share else {
        return Ok(None);
    };
    let used = || {
        let detail =
            format!("this token or address has {STREAMS_MAX} streams open, the most it may have");
        ApiError::new(&kinds::SHARE_USED, detail)
    };
    share.stream().ok_or_else(used).map(Some)
}

fn last_event_id(value: &HeaderValue) -> Result<u64, ApiError> {
    let number = value.to_str().ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        let detail = "Last-Event-ID: expected the number of a change";
        ApiError::new(&kinds::INVALID_QUERY, detail)
    })
}

/// Returns whether a listener may see an event. The progress of jobs does not show their queues and handlers:
/// a caller that may not see all of them gets it only from the job that it listens to.
fn is_visible(scope: &Scope, query: &EventsQuery, happened: &EventKind) -> bool {
    match happened {
        _ if scope.is_all() => true,
        EventKind::Changed(change) => {
            let runner = change.executor.as_ref().map(Name::as_str);
            let (queue, handler) = (change.queue.as_str(), change.handler.as_str());
            scope.has(Object::Job(queue, runner, handler))
        }
        EventKind::Progressed { job, .. } => query.job == Some(*job),
    }
}

fn is_wanted(query: &EventsQuery, happened: &EventKind) -> bool {
    let (job, queue) = match happened {
        EventKind::Changed(change) => (change.job, Some(&change.queue)),
        EventKind::Progressed { job, .. } => (*job, None),
    };
    query.job.is_none_or(|wanted| wanted == job)
        && query
            .queue
            .as_ref()
            .is_none_or(|wanted| Some(wanted) == queue)
}

fn write(out: &mut String, event: &Event, at: &str) {
    match &event.happened {
        EventKind::Changed(change) => {
            let data = ChangeView {
                job: change.job,
                handler: address(change.executor.as_ref(), &change.handler),
                queue: change.queue.as_str().into(),
                from: change.from,
                to: change.to,
                attempt: change.attempt,
                at: at.into(),
            };
            put(out, event.number, "change", &data);
        }
        EventKind::Progressed {
            job,
            attempt,
            progress,
        } => {
            let data = ProgressEventView {
                job: *job,
                attempt: *attempt,
                percent: progress.percent,
                message: progress.message.as_str().into(),
                at: at.into(),
            };
            put(out, event.number, "progress", &data);
        }
    }
}

/// Adds one event. JSON has no bare line breaks, so its data is one line.
fn put(out: &mut String, number: Option<u64>, kind: &str, data: &impl Serialize) {
    if let Some(number) = number {
        let _ = writeln!(out, "id: {number}");
    }
    let data = serde_json::to_string(data).unwrap_or_default();
    let _ = write!(out, "event: {kind}\ndata: {data}\n\n");
}
