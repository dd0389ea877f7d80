//! Bodies of requests: each bounded in size and time, all together bounded in memory.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_LENGTH;
use bytes::{Bytes, BytesMut};
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
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.units)
            .try_acquire_many_owned(more)
            .map_err(|_| {
                let detail = "the host holds as many bytes of requests as it may";
                Problem::new(Code::Busy, detail)
            })?;
        match &mut held.room {
            Some(room) => room.merge(permit),
            None => held.room = Some(permit),
        }
        Ok(())
    }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("the body has more than the {bytes_max} bytes that this path takes");
    Problem::new(Code::BodyTooLarge, detail)
}
