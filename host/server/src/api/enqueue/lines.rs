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
use host_api::new_job::{LINE_BYTES_MAX, LINES_AT_ONCE, LINES_MEDIA_TYPE};
use host_http::gate::Caller;
use host_http::guard::media_type;
use host_http::refusal::Refusal;
use host_http::share::LINE_REQUESTS_MAX;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::codec::{AnyDelimiterCodec, Decoder as _};
use tokio_util::sync::CancellationToken;

use super::{Shared, accept, trace_headers};
use crate::api::error::ApiError;
use crate::api::problem::kinds;

/// How many requests with lines may be open at a time.
pub(in crate::api) const REQUESTS_MAX: usize = 64;

/// How long the next line may take.
const LINE_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns whether a request's body has lines.
pub(super) fn has_lines(headers: &HeaderMap) -> bool {
    media_type(headers).is_some_and(|found| found.eq_ignore_ascii_case(LINES_MEDIA_TYPE))
}

/// Enqueues the jobs of a body line by line.
pub(super) async fn enqueue(
    shared: Shared,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    let own = own_request(&caller)?;
    let Ok(permit) = Arc::clone(&shared.line_requests).try_acquire_owned() else {
        let detail =
            format!("{REQUESTS_MAX} requests with lines of jobs are open, the most there may be");
        return Err(ApiError::new(&kinds::BUSY, detail));
    };
    let permits = (permit, own);
    let (parts, body) = request.into_parts();
    let enqueuer = Enqueuer {
        shared,
        caller,
        trace: trace_headers(&parts.headers),
    };
    let mut lines = Lines::new(enqueuer, body.into_data_stream(), permits);
    // A client that waits for `100 Continue` gets it before the head of the answer.
    let first = lines.answer_next().await;
    let rest = stream::unfold(lines, |mut lines| async {
        Some((lines.answer_next().await?, lines))
    });
    let answers = stream::iter(first).chain(rest).map(Ok::<_, Infallible>);
    let mut response = Response::new(Body::from_stream(answers));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(LINES_MEDIA_TYPE));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Takes one of the requests that a caller may have open, if there is a limit.
fn own_request(caller: &Caller) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
    let Some(share) = &caller.share else {
        return Ok(None);
    };
    let used = || {
        let detail = format!(
            "this token or address has {LINE_REQUESTS_MAX} requests with lines of jobs open, the most it may have"
        );
        ApiError::new(&kinds::SHARE_USED, detail)
    };
    share.line_request().ok_or_else(used).map(Some)
}

/// The right to be open: among all such requests, and among those of the caller if it has a share.
type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

/// A body whose lines are answered.
struct Lines {
    enqueuer: Enqueuer,
    /// Cancelled when the caller may do nothing more.
    over: CancellationToken,
    body: BodyDataStream,
    /// What has arrived and is not answered.
    read: BytesMut,
    codec: AnyDelimiterCodec,
    /// Whether the body has ended.
    is_whole: bool,
    /// Why the body is not read to its end, until that is answered.
    flaw: Option<ApiError>,
    is_answered: bool,
    _permits: Permits,
}

impl Lines {
    fn new(enqueuer: Enqueuer, body: BodyDataStream, permits: Permits) -> Self {
        let (ends, none) = (b"\n".to_vec(), Vec::new());
        Self {
            over: enqueuer.caller.over.clone().unwrap_or_default(),
            enqueuer,
            body,
            read: BytesMut::new(),
            codec: AnyDelimiterCodec::new_with_max_length(ends, none, LINE_BYTES_MAX),
            is_whole: false,
            flaw: None,
            is_answered: false,
            _permits: permits,
        }
    }

    /// Returns the next answers, `None` after the last. What ends the body early is answered as the last line.
    async fn answer_next(&mut self) -> Option<Bytes> {
        if self.is_answered {
            return None;
        }
        match self.next().await {
            Ok(lines) if lines.is_empty() => None,
            Ok(lines) => {
                let answers = lines.into_iter().map(|line| self.enqueuer.answer(line));
                Some(join_all(answers).await.concat().into())
            }
            Err(error) => {
                self.is_answered = true;
                Some(refusal_line(&error).into())
            }
        }
    }

    /// Returns the next lines that have arrived, none at the end. Those without text are left out.
    async fn next(&mut self) -> Result<Vec<Bytes>, ApiError> {
        let mut lines = Vec::new();
        while lines.is_empty() {
            if self.over.is_cancelled() {
                return Err(Refusal::Unauthenticated.into());
            }
            if let Some(flaw) = self.flaw.take() {
                return Err(flaw);
            }
            while lines.len() < LINES_AT_ONCE
                && let Some(line) = self.take_line()
            {
                if !line.trim_ascii().is_empty() {
                    lines.push(line);
                }
            }
            if self.flaw.is_none() && lines.is_empty() {
                if self.is_whole {
                    break;
                }
                self.read_more().await?;
            }
        }
        Ok(lines)
    }

    /// Takes a line that has arrived whole; at the end of the body, also what follows the last.
    fn take_line(&mut self) -> Option<Bytes> {
        let line = if self.is_whole {
            self.codec.decode_eof(&mut self.read)
        } else {
            self.codec.decode(&mut self.read)
        };
        line.unwrap_or_else(|_too_long| {
            let limit_bytes = LINE_BYTES_MAX;
            let flaw = ApiError::from(Refusal::BodyTooLarge { limit_bytes });
            self.flaw = Some(flaw.at("line"));
            None
        })
    }

    async fn read_more(&mut self) -> Result<(), ApiError> {
        let data = tokio::select! {
            data = tokio::time::timeout(LINE_TIMEOUT, self.body.next()) => data,
            () = self.enqueuer.shared.api.stopping.cancelled() => {
                return Err(ApiError::new(&kinds::BUSY, "the host is stopping; send the rest again"));
            }
            () = self.over.cancelled() => return Ok(()),
        };
        let limit = LINE_TIMEOUT;
        match data.map_err(|_| Refusal::BodyTimeout { limit })? {
            Some(data) => {
                let data = data.map_err(|_| Refusal::BodyBroken)?;
                self.read.extend_from_slice(&data);
            }
            None => self.is_whole = true,
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
        match accept(&self.shared, &self.caller, &self.trace, line, false).await {
            Ok(accepted) => {
                let one = accepted.first().map(serde_json::to_vec);
                with_end(one.and_then(Result::ok).unwrap_or_default())
            }
            Err(error) => refusal_line(&error),
        }
    }
}

fn refusal_line(error: &ApiError) -> Vec<u8> {
    with_end(error.document())
}

fn with_end(mut line: Vec<u8>) -> Vec<u8> {
    line.push(b'\n');
    line
}
