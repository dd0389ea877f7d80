//! `POST /api/v1/jobs` with a body of lines: any number of jobs, each accepted or refused alone. The answers follow the
//! lines in their order. What has arrived is committed together; no more is read before it is answered.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use host_api::new_job::AcceptedView;
use host_core::command::{Command, Reply};
use host_http::gate::Caller;
use host_http::refusal::Refusal;
use host_http::share::STREAMS_MAX;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::{Shared, checking, continue_trace, let_read, origin_of, trace_headers};
use crate::api::error::ApiError;
use crate::api::problem::kinds;

/// The media type of lines of JSON.
pub(super) const MEDIA_TYPE: &str = "application/x-ndjson";

/// How many requests with lines may be open at once.
pub(in crate::api) const REQUESTS_MAX: usize = 64;

/// The longest line, in bytes. As much is read of the next lines meanwhile.
const LINE_BYTES_MAX: usize = 1 << 20;

/// How many lines are answered together.
const LINES_AT_ONCE: usize = 256;

/// How long the next line may take.
const LINE_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns whether a request's body has lines.
pub(super) fn has_lines(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.is_some_and(|essence| essence.trim().eq_ignore_ascii_case(MEDIA_TYPE))
}

/// Enqueues the jobs of a body line by line.
pub(super) async fn enqueue(
    shared: Shared,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let Ok(permit) = Arc::clone(&shared.line_requests).try_acquire_owned() else {
        let detail =
            format!("{REQUESTS_MAX} requests with lines of jobs are open, the most there may be");
        return Err(ApiError::new(&kinds::BUSY, detail));
    };
    let own = caller.share.as_ref().map(|share| {
        let detail = format!("this token has {STREAMS_MAX} streams open, the most it may have");
        let used = || ApiError::new(&kinds::SHARE_USED, detail);
        share.stream().ok_or_else(used)
    });
    let (parts, body) = request.into_parts();
    let mut lines = Lines {
        over: caller.over.clone().unwrap_or_default(),
        enqueuer: Enqueuer {
            shared,
            caller,
            trace: trace_headers(&parts.headers),
        },
        body: body.into_data_stream(),
        read: BytesMut::new(),
        is_over: false,
        _permits: (permit, own.transpose()?),
    };
    // A client that waits for `100 Continue` gets it before the head of the answer.
    let first = lines.next().await;
    let rest = stream::unfold(lines, |mut lines| async {
        Some((lines.next().await?, lines))
    });
    let answers = stream::iter(first).chain(rest).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(answers));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// A body whose lines are answered.
struct Lines {
    enqueuer: Enqueuer,
    /// Cancelled when the caller may do nothing more.
    over: CancellationToken,
    body: BodyDataStream,
    /// What has arrived and is not answered.
    read: BytesMut,
    /// Whether no more is read.
    is_over: bool,
    _permits: (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>),
}

impl Lines {
    /// Returns the next answers, `None` after the last. What ends the body early is answered as the last line.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let lines = self.take_lines();
            let ended = if self.over.is_cancelled() {
                Err(Refusal::Unauthenticated.into())
            } else if !lines.is_empty() {
                let answers =
                    join_all(lines.into_iter().map(|line| self.enqueuer.answer(line))).await;
                return Some(answers.concat().into());
            } else if self.line_len() > LINE_BYTES_MAX {
                let limit_bytes = LINE_BYTES_MAX;
                Err(ApiError::from(Refusal::BodyTooLarge { limit_bytes }).at("line"))
            } else if self.is_over {
                return None;
            } else {
                self.read_more().await
            };
            if let Err(error) = ended {
                self.read.clear();
                (self.is_over, self.over) = (true, CancellationToken::new());
                return Some(refused(&error).into());
            }
        }
    }

    /// Takes the whole lines that have arrived; also what follows them, at the end. Lines without text are left out.
    fn take_lines(&mut self) -> Vec<Bytes> {
        let mut lines = Vec::new();
        while lines.len() < LINES_AT_ONCE && self.line_len() <= LINE_BYTES_MAX {
            let line = match self.line_end() {
                Some(end) => self.read.split_to(end + 1),
                None if self.is_over && !self.read.is_empty() => self.read.split(),
                None => break,
            };
            if !line.trim_ascii().is_empty() {
                lines.push(line.freeze());
            }
        }
        lines
    }

    fn line_end(&self) -> Option<usize> {
        self.read.iter().position(|byte| *byte == b'\n')
    }

    /// Returns how long the next line is, as far as it has arrived.
    fn line_len(&self) -> usize {
        self.line_end().unwrap_or(self.read.len())
    }

    async fn read_more(&mut self) -> Result<(), ApiError> {
        let data = tokio::select! {
            data = tokio::time::timeout(LINE_TIMEOUT, self.body.next()) => data,
            () = self.enqueuer.shared.api.stopping.cancelled() => {
                return Err(ApiError::new(&kinds::BUSY, "the host stops; send the rest again"));
            }
            () = self.over.cancelled() => return Ok(()),
        };
        match data {
            Err(_) => {
                return Err(Refusal::BodyTimeout {
                    limit: LINE_TIMEOUT,
                }
                .into());
            }
            Ok(Some(Err(_))) => return Err(Refusal::BodyBroken.into()),
            Ok(Some(Ok(data))) => self.read.extend_from_slice(&data),
            Ok(None) => self.is_over = true,
        }
        Ok(())
    }
}

/// Enqueues jobs on behalf of the caller of a request.
struct Enqueuer {
    shared: Shared,
    caller: Caller,
    trace: Vec<(String, String)>,
}

impl Enqueuer {
    /// Enqueues the job of a line. Returns the line that answers it.
    async fn answer(&self, line: Bytes) -> Vec<u8> {
        match self.accept(line).await {
            Ok(accepted) => {
                let mut text = serde_json::to_vec(&accepted).unwrap_or_default();
                text.push(b'\n');
                text
            }
            Err(error) => refused(&error),
        }
    }

    async fn accept(&self, line: Bytes) -> Result<AcceptedView, ApiError> {
        let (shared, origin) = (&self.shared, origin_of(&self.caller.principal));
        shared.api.executors.forget_old(shared.api.clock.now());
        let mut jobs = checking::jobs(shared, origin, line, false, |_| Ok(())).await?;
        let_read(&self.caller, &mut jobs);
        for job in &mut jobs {
            continue_trace(&mut job.payload.trace_context, &self.trace);
        }
        let reply = shared.api.dispatch.submit(Command::Enqueue(jobs)).await?;
        let Reply::Enqueued(replies) = reply else {
            return Err(ApiError::unexpected_reply("an enqueue"));
        };
        let accepted = replies.into_iter().next().map(AcceptedView::from);
        accepted.ok_or_else(|| ApiError::unexpected_reply("an enqueue"))
    }
}

fn refused(error: &ApiError) -> Vec<u8> {
    let mut text = error.document();
    text.push(b'\n');
    text
}
