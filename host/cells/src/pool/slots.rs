//! How many runs a cell takes at a time: as many as it can compute within a time and hold in its memory, judged by what
//! its last runs have used. Pure.

use host_core::outcome::Meter;

/// How much CPU time the runs of a cell may need together, in microseconds: a third of the default time limit, because
/// they share a core while their limits run.
const CPU_US: u64 = 10_000_000;

/// How many runs a cell takes before the first has ended.
const AT_FIRST: u64 = 64;

/// The part of a mean that each run replaces.
const WEIGHT: u64 = 16;

/// The means of what the last runs of a cell have used.
#[derive(Debug)]
pub(super) struct Used {
    cpu_us: u64,
    memory_bytes: u64,
}

impl Default for Used {
    fn default() -> Self {
        Self {
            cpu_us: CPU_US / AT_FIRST,
            memory_bytes: 0,
        }
    }
}

impl Used {
    /// Records what a run has used.
    pub(super) fn record(&mut self, meter: &Meter) {
        let mean = |before: u64, last: u64| {
            let rest = before.saturating_mul(WEIGHT - 1);
            rest.saturating_add(last) / WEIGHT
        };
        self.cpu_us = mean(self.cpu_us, meter.cpu_us);
        self.memory_bytes = mean(self.memory_bytes, meter.peak_memory_bytes);
    }

    /// Returns how many such runs a cell takes that has so many slots, and so much memory for its guests.
    pub(super) fn slots(&self, slots: u32, memory_bytes: u64) -> u32 {
        let by_cpu = CPU_US / self.cpu_us.max(1);
        let by_memory = memory_bytes / 2 / self.memory_bytes.max(1);
        let most = u64::from(slots.max(1));
        u32::try_from(by_cpu.min(by_memory).clamp(1, most)).unwrap_or(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Returns the slots of a cell with 3 GiB after so many runs.
    fn after(runs: usize, cpu_ms: u64, memory_mib: u64) -> u32 {
        let mut used = Used::default();
        let meter = Meter {
            cpu_us: cpu_ms * 1_000,
            peak_memory_bytes: memory_mib * MIB,
            ..Meter::default()
        };
        (0..runs).for_each(|_| used.record(&meter));
        used.slots(256, 3_072 * MIB)
    }

    #[test]
    fn a_cell_takes_what_it_computes_in_ten_seconds_and_half_its_memory_holds() {
        for (runs, cpu_ms, memory_mib, slots) in [
            (0, 0, 0, 64),
            (10, 1, 2, 121),
            (100, 1, 2, 256),
            (100, 100, 2, 99),
            (100, 500, 2, 20),
            (100, 20_000, 2, 1),
            (100, 1, 64, 24),
            (100, 1, 4_000, 1),
            (1, u64::MAX / 1_000, u64::MAX / MIB, 1),
        ] {
            let given = after(runs, cpu_ms, memory_mib);
            assert_eq!(given, slots, "{runs} of {cpu_ms} ms, {memory_mib} MiB");
        }
    }

    #[test]
    fn a_setting_bounds_it() {
        assert_eq!(Used::default().slots(1, MIB), 1);
        assert_eq!(Used::default().slots(16, MIB), 16);
    }
}
