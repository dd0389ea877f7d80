//! What one caller may use of the memory for bodies, the streams of events and the requests that wait, so that others
//! have some left. A caller is a token, or without one, an address.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The part of each body that is free, in bytes, because the limit on connections already bounds it. The rest
/// is charged in units of this size.
pub(crate) const FREE_BYTES: usize = 16 << 10;

/// The memory for the bodies of all callers, in units of [`FREE_BYTES`]: 256 MiB.
pub(crate) const UNITS: usize = (256 << 20) / FREE_BYTES;

/// How much memory the bodies of one caller may use together, and its answers as much again: half of what there is.
pub const BODY_BYTES_MAX: usize = UNITS / 2 * FREE_BYTES;

/// How many streams of events one caller may have open: half of what there is.
pub const STREAMS_MAX: usize = 128;

/// How many requests with lines one caller may have open: half of what there is.
pub const LINE_REQUESTS_MAX: usize = 32;

/// How many requests of one caller may wait: half of the connections of a listener.
const WAITS_MAX: usize = 4_096;

/// The share of one caller. Clones are the same share.
#[derive(Clone, Debug)]
pub struct Share {
    pub(crate) bodies: Arc<Semaphore>,
    pub(crate) answers: Arc<Semaphore>,
    streams: Arc<Semaphore>,
    line_requests: Arc<Semaphore>,
    waits: Arc<Semaphore>,
}

impl Default for Share {
    fn default() -> Self {
        let half = || Arc::new(Semaphore::new(UNITS / 2));
        Self {
            bodies: half(),
            answers: half(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            line_requests: Arc::new(Semaphore::new(LINE_REQUESTS_MAX)),
            waits: Arc::new(Semaphore::new(WAITS_MAX)),
        }
    }
}

impl Share {
    /// Takes a stream, as long as the permit lives.
    pub fn stream(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.streams).try_acquire_owned().ok()
    }

    /// Takes a request with lines, as long as the permit lives.
    pub fn line_request(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.line_requests).try_acquire_owned().ok()
    }

    /// Takes a request that waits, as long as the permit lives.
    pub(crate) fn wait(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.waits).try_acquire_owned().ok()
    }

    /// Returns how many bytes its bodies use beyond what is free for each.
    pub fn body_bytes(&self) -> usize {
        BODY_BYTES_MAX.saturating_sub(self.bodies.available_permits() * FREE_BYTES)
    }

    /// Returns how many streams are open.
    pub fn streams(&self) -> usize {
        STREAMS_MAX.saturating_sub(self.streams.available_permits())
    }
}
