//! How much memory the processes of cells have, as the kernel counts it.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use parking_lot::Mutex;

/// The processes of cells that have not ended, by their ids. Clones share them.
#[derive(Clone, Default)]
pub struct CellMemory(Arc<Mutex<BTreeSet<u32>>>);

/// A process that is counted until this is dropped.
pub(super) struct Counted {
    memory: CellMemory,
    pid: Option<u32>,
}

impl CellMemory {
    /// Counts a process, unless it has ended already.
    pub(super) fn count(&self, pid: Option<u32>) -> Counted {
        self.0.lock().extend(pid);
        Counted {
            memory: self.clone(),
            pid,
        }
    }

    /// Returns the memory that they have, in bytes. Pages that some of them share count for each.
    pub fn bytes(&self) -> u64 {
        let pids = self.0.lock().clone();
        let status = |pid| fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        pids.into_iter()
            .map(|pid| resident_bytes(&status(pid)))
            .sum()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.memory.0.lock().remove(&pid);
        }
    }
}

/// Reads the memory from the status of a process; 0 of one that has ended.
fn resident_bytes(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    kib.unwrap_or(0_u64).saturating_mul(1 << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_that_of_processes_that_are_counted() {
        assert_eq!(
            resident_bytes("Name:\thost\nVmRSS:\t    2048 kB\n"),
            2 << 20
        );
        assert_eq!(resident_bytes("State:\tZ (zombie)\n"), 0);
        let memory = CellMemory::default();
        let counted = memory.count(Some(std::process::id()));
        assert!(memory.bytes() > 1 << 20);
        drop(counted);
        assert_eq!(memory.bytes(), 0);
    }
}
