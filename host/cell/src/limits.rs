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
        "the handler needs more memory than its limit of {}; use less, or raise memory_mib in the manifest",
        size(*.limit_bytes)
    )]
    Guest { limit_bytes: u64 },
    #[error(
        "the guests of this cell together need more memory than its limit of {}; raise \
         cells.memory_mib in the configuration, or lower cells.slots",
        size(*.limit_bytes)
    )]
    Cell { limit_bytes: u64 },
}

/// Formats a limit in the unit in which it was set: `64 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        1.. if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        1.. if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} bytes"),
    }
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

/// Counts the memory of one guest, and what the cell keeps for it, in bytes.
#[derive(Debug)]
pub(crate) struct GuestMemory {
    limit: u64,
    used: AtomicU64,
    peak: AtomicU64,
    cell: Arc<CellMemory>,
}

impl GuestMemory {
    fn take(&self, bytes: u64) -> Result<(), MemoryLimitExceeded> {
        // Only the thread of the cell takes memory.
        let used = self.used.load(Ordering::Relaxed).saturating_add(bytes);
        if used > self.limit {
            let limit_bytes = self.limit;
            return Err(MemoryLimitExceeded::Guest { limit_bytes });
        }
        self.cell.take(bytes)?;
        self.used.store(used, Ordering::Relaxed);
        self.peak.fetch_max(used, Ordering::Relaxed);
        Ok(())
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.cell.give_back(bytes);
    }
}

/// Memory that the cell uses for a guest, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct MemoryCharge {
    memory: Arc<GuestMemory>,
    bytes: u64,
}

impl MemoryCharge {
    /// Takes no memory yet.
    pub(crate) const fn nothing(memory: Arc<GuestMemory>) -> Self {
        Self { memory, bytes: 0 }
    }

    /// Takes `bytes` more.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), MemoryLimitExceeded> {
        self.memory.take(bytes as u64)?;
        self.bytes += bytes as u64;
        Ok(())
    }

    /// Gives some of it back.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        self.memory.give_back(bytes as u64);
        self.bytes -= bytes as u64;
    }
}

impl Drop for MemoryCharge {
    fn drop(&mut self) {
        self.memory.give_back(self.bytes);
    }
}

/// The limit of a guest's own memory.
#[derive(Debug)]
pub(crate) struct MemoryLimit {
    memory: Arc<GuestMemory>,
    own: u64,
}

impl MemoryLimit {
    pub(crate) fn new(limit_bytes: u64, cell: Arc<CellMemory>) -> Self {
        let memory = GuestMemory {
            limit: limit_bytes,
            used: AtomicU64::new(0),
            peak: AtomicU64::new(0),
            cell,
        };
        Self {
            memory: Arc::new(memory),
            own: 0,
        }
    }

    /// Returns what the guest uses, to add to.
    pub(crate) fn memory(&self) -> Arc<GuestMemory> {
        Arc::clone(&self.memory)
    }

    /// Returns the peak memory of the guest, in bytes.
    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        self.memory.peak.load(Ordering::Relaxed)
    }

    fn grow(&mut self, by_bytes: u64) -> Result<bool> {
        self.memory.take(by_bytes)?;
        self.own += by_bytes;
        Ok(true)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        self.memory.give_back(self.own);
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
