//! `GET /api/v1/events`: what happens, as server-sent events. A slow listener loses the oldest
//! events and is told how many; it never makes the host wait.

use std::borrow::Cow;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use host_core::id::JobId;
use host_core::job;
use host_core::name::{Name, address};
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Duration;
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

use super::Shared;
use super::extract::InQuery;
use super::problem::{Code, Problem};
use host_dispatch::events::{Event, Happened};

/// How long a stream is silent before a comment shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Which events to hear. All that is given must hold.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// Only about this job.
    #[param(value_type = Option<String>)]
    job: Option<JobId>,
    /// Only changes of jobs of this queue; leaves out progress.
    #[param(value_type = Option<String>)]
    queue: Option<Name>,
}

/// The data of an event `change`: a job entered, changed or left its state.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangeView<'a> {
    #[schema(value_type = String)]
    job: JobId,
    #[schema(value_type = String)]
    handler: Cow<'a, str>,
    queue: &'a str,
    /// `null` for a new job.
    from: Option<&'static str>,
    /// `null` for one that was purged.
    to: Option<&'static str>,
    attempt: u32,
    at: &'a str,
}

/// The data of an event `progress`: a running job told how far it is.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ProgressEventView<'a> {
    #[schema(value_type = String)]
    job: JobId,
    attempt: u32,
    percent: Option<f32>,
    message: &'a str,
    at: &'a str,
}

/// The data of an event `gap`: the listener was too slow and lost events of any job.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct GapView {
    lost: u64,
}

/// Tells what happens from now on, as server-sent events `change`, `progress` and `gap`.
#[utoipa::path(
    get, path = "/api/v1/events", tag = "events", params(EventsQuery),
    responses((status = 200, body = ChangeView<'static>, content_type = "text/event-stream"))
)]
pub(super) async fn events(
    State(shared): State<Shared>,
    InQuery(query): InQuery<EventsQuery>,
) -> Result<Response, Problem> {
    let Ok(permit) = Arc::clone(&shared.streams).try_acquire_owned() else {
        let detail = "as many streams of events are open as may be";
        return Err(Problem::new(Code::Busy, detail));
    };
    let listener = Listener {
        receiver: shared.api.dispatch.shared().events.listen(),
        stopping: shared.api.stopping.clone(),
        query,
        expected: None,
        first: true,
        _permit: permit,
    };
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

struct Listener {
    receiver: Receiver<Arc<Vec<Event>>>,
    stopping: CancellationToken,
    query: EventsQuery,
    /// The number of the next event, once one was heard.
    expected: Option<u64>,
    first: bool,
    _permit: OwnedSemaphorePermit,
}

impl Listener {
    /// Returns the next piece of the stream, `None` at its end.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.first) {
            // Tells the listener that it hears everything from here on.
            return Some(": listening\n\n".to_owned());
        }
        let mut lagged = 0;
        loop {
            let heard = tokio::select! {
                heard = self.receiver.recv() => heard,
                () = tokio::time::sleep(KEEP_ALIVE) => return Some(": \n\n".to_owned()),
                () = self.stopping.cancelled() => return None,
            };
            match heard {
                Ok(batch) => {
                    let text = self.write(&batch, lagged);
                    lagged = 0;
                    if !text.is_empty() {
                        return Some(text);
                    }
                }
                Err(RecvError::Lagged(batches)) => lagged += batches,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    fn write(&mut self, batch: &[Event], lagged: u64) -> String {
        let mut out = String::new();
        let first = batch.first().map_or(0, |event| event.number);
        if lagged > 0 {
            let lost = self
                .expected
                .map_or(lagged, |expected| first.saturating_sub(expected));
            put(&mut out, first.saturating_sub(1), "gap", &GapView { lost });
        }
        self.expected = batch.last().map(|event| event.number + 1).or(self.expected);
        let mut at = (Time::default(), String::new());
        for event in batch {
            if !self.query.wants(&event.happened) {
                continue;
            }
            if at.1.is_empty() || at.0 != event.at {
                at = (event.at, event.at.to_rfc3339());
            }
            write(&mut out, event, &at.1);
        }
        out
    }
}

impl EventsQuery {
    fn wants(&self, happened: &Happened) -> bool {
        let (job, queue) = match happened {
            Happened::Changed(change) => (change.job, Some(&change.queue)),
            Happened::Progressed { job, .. } => (*job, None),
        };
        self.job.is_none_or(|wanted| wanted == job)
            && self
                .queue
                .as_ref()
                .is_none_or(|wanted| Some(wanted) == queue)
    }
}

fn write(out: &mut String, event: &Event, at: &str) {
    match &event.happened {
        Happened::Changed(change) => {
            let data = ChangeView {
                job: change.job,
                handler: address(change.runner.as_ref(), &change.handler),
                queue: change.queue.as_str(),
                from: change.from.map(job::State::as_str),
                to: change.to.map(job::State::as_str),
                attempt: change.attempt,
                at,
            };
            put(out, event.number, "change", &data);
        }
        Happened::Progressed {
            job,
            attempt,
            progress,
        } => {
            let data = ProgressEventView {
                job: *job,
                attempt: *attempt,
                percent: progress.percent,
                message: &progress.message,
                at,
            };
            put(out, event.number, "progress", &data);
        }
    }
}

/// Adds one event. JSON has no bare line breaks, so its data is one line.
fn put(out: &mut String, number: u64, kind: &str, data: &impl Serialize) {
    let data = serde_json::to_string(data).unwrap_or_default();
    let _infallible = write!(out, "id: {number}\nevent: {kind}\ndata: {data}\n\n");
}
