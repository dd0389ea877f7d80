//! Clocks for tests.

use std::sync::atomic::{AtomicI64, Ordering};

use host_core::port::Clock;
use host_core::time::Time;
use tokio::time::Instant;

/// When a test begins.
const START: Time = Time(1_800_000_000_000);

/// A clock that the test moves: host time, and a wall clock beside it.
#[derive(Debug, Default)]
pub struct TestClock {
    passed_ms: AtomicI64,
    wall_ahead_ms: AtomicI64,
}

impl TestClock {
    /// Lets time pass.
    pub fn pass(&self, ms: i64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Sets by how much the wall clock is ahead of host time.
    pub fn set_wall_ahead(&self, ms: i64) {
        self.wall_ahead_ms.store(ms, Ordering::SeqCst);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(START.0 + self.passed_ms.load(Ordering::SeqCst))
    }

    fn wall(&self) -> Time {
        Time(self.now().0 + self.wall_ahead_ms.load(Ordering::SeqCst))
    }
}

/// A clock that follows that of tokio, which a test may pause.
#[derive(Debug)]
pub struct TokioClock(Instant);

impl TokioClock {
    /// Starts the clock.
    pub fn start() -> Self {
        Self(Instant::now())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Time {
        let ms = u64::try_from(self.0.elapsed().as_millis()).unwrap();
        START.plus_ms(ms)
    }

    fn wall(&self) -> Time {
        self.now()
    }
}
