//! The clocks a guest sees. The monotonic one moves in steps of a millisecond: a finer one helps to
//! watch neighbours through shared hardware.

use tokio::time::Instant;
use wasmtime_wasi::HostMonotonicClock;

/// A step of the guest's monotonic clock, in nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// Time since the start of the run.
pub(crate) struct SteppedClock {
    started: Instant,
}

impl SteppedClock {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
        }
    }
}

impl HostMonotonicClock for SteppedClock {
    fn resolution(&self) -> u64 {
        STEP_NS
    }

    fn now(&self) -> u64 {
        let ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        ns - ns % STEP_NS
    }
}
