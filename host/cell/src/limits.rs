//! The memory limit: one sum over all memories and tables of a guest, for a limit on each would be
//! no limit on a guest with many.

use thiserror::Error;
use wasmtime::{ResourceLimiter, Result};

/// What a table's element costs, in bytes.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// The guest wanted more memory than it is granted.
#[derive(Debug, Error)]
#[error("the guest needs more than its memory limit of {limit_bytes} bytes")]
pub(crate) struct MemoryLimitExceeded {
    /// The limit.
    pub(crate) limit_bytes: u64,
}

/// Counts the memory of one guest.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    limit_bytes: u64,
    used_bytes: u64,
    peak_memory_bytes: u64,
}

impl MemoryLimit {
    pub(crate) const fn new(limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            used_bytes: 0,
            peak_memory_bytes: 0,
        }
    }

    /// Returns the most memory the guest had at once.
    pub(crate) const fn peak_memory_bytes(&self) -> u64 {
        self.peak_memory_bytes
    }

    fn grow(&mut self, by_bytes: u64) -> Result<bool> {
        let used_bytes = self.used_bytes.saturating_add(by_bytes);
        if used_bytes > self.limit_bytes {
            let limit_bytes = self.limit_bytes;
            return Err(MemoryLimitExceeded { limit_bytes }.into());
        }
        self.used_bytes = used_bytes;
        self.peak_memory_bytes = self.peak_memory_bytes.max(used_bytes);
        Ok(true)
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // Beyond the guest's own maximum the growth fails whatever we say: it costs nothing.
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow(desired.saturating_sub(current) as u64)
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let elements = desired.saturating_sub(current) as u64;
        self.grow(elements.saturating_mul(TABLE_ELEMENT_BYTES))
    }
}
