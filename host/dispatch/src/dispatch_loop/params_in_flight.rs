//! Counts the params in flight: of jobs that are claimed and may still be in the memory of this
//! process and of their workers. Pure.

use std::collections::HashMap;

use host_core::id::LeaseId;

/// Smaller params are not counted, because all slots together hold few bytes of them.
const COUNTED_BYTES: usize = 16 << 10;

/// The bytes of params in flight, by attempt.
#[derive(Debug)]
pub(super) struct ParamsInFlight {
    by_lease: HashMap<LeaseId, usize>,
    bytes: usize,
    bytes_max: usize,
}

impl ParamsInFlight {
    /// Starts with nothing in flight. The limit is about `bytes_max`: the last job may exceed it.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            by_lease: HashMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Returns how many more bytes may be claimed.
    pub(super) fn bytes_left(&self) -> usize {
        self.bytes_max.saturating_sub(self.bytes)
    }

    pub(super) fn begin(&mut self, lease: LeaseId, bytes: usize) {
        if bytes >= COUNTED_BYTES {
            self.by_lease.insert(lease, bytes);
            self.bytes += bytes;
        }
    }

    pub(super) fn end(&mut self, lease: LeaseId) {
        if !self.by_lease.is_empty()
            && let Some(bytes) = self.by_lease.remove(&lease)
        {
            self.bytes -= bytes;
        }
    }
}
