//! The memory limit of a guest. It applies to the sum of all its memories and tables, because a guest
//! could get around a limit on each by having many.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use thiserror::Error;
use wasmtime::{ResourceLimiter, Result};

/// The size of a table element, in bytes.
const TABLE_ELEMENT_BYTES: u64 = 8;

/// A guest asked for more memory than it may have.
#[derive(Debug, Error)]
pub(crate) enum MemoryLimitExceeded {
    #[error(
        "the handler needs more memory than its limit of {limit_bytes} bytes; use less, or raise \
         memory_mib in the manifest"
    )]
    Guest { limit_bytes: u64 },
    #[error(
        "the guests of this cell together need more memory than its limit of {limit_bytes} bytes; raise \
         cells.memory_mib in the configuration, or lower cells.slots"
    )]
    Cell { limit_bytes: u64 },
}

/// Counts the memory of all guests of a cell together, and of their unsent log lines.
#[derive(Debug)]
pub(crate) struct CellMemory {
    limit: u64,
    used: AtomicU64,
}

impl CellMemory {
    pub(crate) const fn new(limit_bytes: u64) -> Self {
        Self {
            limit: limit_bytes,
            used: AtomicU64::new(0),
        }
    }

    pub(crate) fn take(&self, bytes: u64) -> Result<(), MemoryLimitExceeded> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) > self.limit {
            self.give_back(bytes);
            let limit_bytes = self.limit;
            return Err(MemoryLimitExceeded::Cell { limit_bytes });
        }
        Ok(())
    }

    /// Takes memory, even beyond the limit.
    pub(crate) fn charge(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Counts the memory of one guest, in bytes.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    limit: u64,
    used: u64,
    peak: u64,
    cell: Arc<CellMemory>,
}

impl MemoryLimit {
    pub(crate) const fn new(limit_bytes: u64, cell: Arc<CellMemory>) -> Self {
        Self {
            limit: limit_bytes,
            used: 0,
            peak: 0,
            cell,
        }
    }

    /// Returns the most memory that the guest had at once, in bytes.
    pub(crate) const fn peak_memory_bytes(&self) -> u64 {
        self.peak
    }

    fn grow(&mut self, by_bytes: u64) -> Result<bool> {
        let used = self.used.saturating_add(by_bytes);
        if used > self.limit {
            let limit_bytes = self.limit;
            return Err(MemoryLimitExceeded::Guest { limit_bytes }.into());
        }
        self.cell.take(by_bytes)?;
        self.used = used;
        self.peak = self.peak.max(used);
        Ok(true)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        self.cell.give_back(self.used);
    }
}

impl ResourceLimiter for MemoryLimit {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> Result<bool> {
        // The growth exceeds the maximum that the guest itself declares, so it fails anyway and costs
        // nothing.
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
