//! Bodies of requests: each bounded in size and time, all together bounded in memory. And those of
//! answers, which wait in memory for whoever asked.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::problem::{Code, Problem};

/// The largest body of jobs, in bytes.
pub const JOBS_BYTES_MAX: usize = 8 << 20;

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;

/// The largest manifest, in bytes.
pub const MANIFEST_BYTES_MAX: usize = 64 << 10;

/// The largest body that deploys, in bytes: component, manifest and what separates them.
pub(super) const DEPLOY_BYTES_MAX: usize = COMPONENT_BYTES_MAX + (1 << 20);

/// The largest body elsewhere, in bytes.
pub(super) const SMALL_BYTES_MAX: usize = 64 << 10;

/// How long a body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// What a body may have without asking for room, in bytes: connections are bounded too.
const FREE_BYTES: usize = 16 << 10;

/// All bodies together, beyond what each has free, in units of [`FREE_BYTES`]: 256 MiB.
const UNITS: usize = (256 << 20) / FREE_BYTES;

/// How much of a large answer its connection is given at once, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The room for all bodies. Cloning shares it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    units: Arc<Semaphore>,
}

/// A body and the room it takes.
#[derive(Debug)]
pub(super) struct Held {
    /// The bytes.
    pub(super) bytes: Bytes,
    room: Option<OwnedSemaphorePermit>,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            units: Arc::new(Semaphore::new(UNITS)),
        }
    }
}

impl Room {
    /// Reads a body of at most `bytes_max`. Cancel safe: what was read is dropped.
    pub(super) async fn read(
        &self,
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
    ) -> Result<Held, Problem> {
        let announced = headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        if announced.is_some_and(|length| length > bytes_max) {
            return Err(too_large(bytes_max));
        }
        let Ok(held) = tokio::time::timeout(BODY_TIMEOUT, self.collect(body, bytes_max)).await
        else {
            let detail = format!(
                "the body was not complete after {} seconds",
                BODY_TIMEOUT.as_secs()
            );
            return Err(Problem::new(Code::BodyTimeout, detail));
        };
        held
    }

    async fn collect(&self, mut body: Body, bytes_max: usize) -> Result<Held, Problem> {
        let mut held = Held {
            bytes: Bytes::new(),
            room: None,
        };
        let mut joined = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                let detail = "the connection broke or the body is not framed as its header says";
                return Err(Problem::new(Code::InvalidRequest, detail));
            };
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let bytes = joined.len() + data.len();
            if bytes > bytes_max {
                return Err(too_large(bytes_max));
            }
            self.grow(&mut held, bytes)?;
            if joined.is_empty() && body.is_end_stream() {
                held.bytes = data;
                return Ok(held);
            }
            joined.extend_from_slice(&data);
        }
        held.bytes = joined.freeze();
        Ok(held)
    }

    /// Takes room for `bytes` bytes in all, or says that there is none.
    fn grow(&self, held: &mut Held, bytes: usize) -> Result<(), Problem> {
        let taken = held
            .room
            .as_ref()
            .map_or(0, OwnedSemaphorePermit::num_permits);
        let more = (bytes / FREE_BYTES).saturating_sub(taken);
        if more == 0 {
            return Ok(());
        }
        let permit = self.take(more)?;
        match &mut held.room {
            Some(room) => room.merge(permit),
            None => held.room = Some(permit),
        }
        Ok(())
    }
}

impl Room {
    /// Lets an answer take its room until the connection has taken its last piece, or says that
    /// there is none.
    pub(super) async fn give_out(&self, response: Response) -> Result<Response, Problem> {
        let exact = response.body().size_hint().exact();
        let bytes = exact.and_then(|bytes| usize::try_from(bytes).ok());
        let Some(bytes) = bytes.filter(|bytes| *bytes > FREE_BYTES) else {
            return Ok(response);
        };
        let room = self.take(bytes / FREE_BYTES)?;
        let (mut parts, body) = response.into_parts();
        let Ok(whole) = body.collect().await else {
            return Err(Problem::new(Code::Busy, "the answer could not be read"));
        };
        let pieces = stream::unfold((whole.to_bytes(), room), |(mut rest, room)| async move {
            let piece = rest.split_to(rest.len().min(PIECE_BYTES));
            (!piece.is_empty()).then_some((Ok::<_, Infallible>(piece), (rest, room)))
        });
        parts.headers.insert(CONTENT_LENGTH, bytes.into());
        Ok(Response::from_parts(parts, Body::from_stream(pieces)))
    }

    fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, Problem> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Arc::clone(&self.units)
            .try_acquire_many_owned(units)
            .map_err(|_| {
                let detail = "the host holds as many bytes of requests and answers as it may";
                Problem::new(Code::Busy, detail)
            })
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than the {bytes_max} bytes that this path takes");
    Problem::new(Code::BodyTooLarge, detail)
}

#[cfg(test)]
mod tests;
