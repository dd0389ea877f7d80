//! The params that are under way: claimed and, as far as is known, in the memory of this process and
//! of whoever executes them. Pure.

use std::collections::HashMap;

use host_core::id::LeaseId;

/// Smaller params are not counted: those of all slots together are few bytes.
const COUNTED_BYTES: usize = 16 << 10;

/// How many bytes of params are under way, and whose.
#[derive(Debug)]
pub(super) struct Carried {
    by_lease: HashMap<LeaseId, usize>,
    bytes: usize,
    bytes_max: usize,
}

impl Carried {
    /// Nothing is under way yet, and then about `bytes_max` at most: the last job may exceed it.
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            by_lease: HashMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    /// Returns how many bytes more may be claimed.
    pub(super) fn room(&self) -> usize {
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
