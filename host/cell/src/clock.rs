//! The clocks that a guest sees. They advance in steps of one millisecond, because finer clocks help a
//! guest to observe other guests through shared hardware.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// The resolution of the guest's clocks, in nanoseconds.
const STEP_NS: u64 = 1_000_000;

/// The wall clock.
pub(crate) struct SteppedWall;

impl HostWallClock for SteppedWall {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(STEP_NS)
    }

    #[expect(clippy::disallowed_methods, reason = "guests read the time of day")]
    fn now(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = now.unwrap_or_default().as_millis();
        Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
    }
}

/// The monotonic clock; it starts with the run.
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
