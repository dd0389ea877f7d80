//! The clock that a test moves, and the refusals that it counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use host_core::port::{Clock, Counters};
use host_core::time::Time;
use tokio::sync::watch;

/// When every test begins.
const START: Time = Time(1_800_000_000_000);

/// Host time, and a wall clock beside it.
#[derive(Debug, Default)]
pub(crate) struct TestClock {
    passed_ms: AtomicI64,
    wall_ahead_ms: AtomicI64,
}

impl TestClock {
    pub(crate) fn pass(&self, ms: i64) {
        self.passed_ms.fetch_add(ms, Ordering::SeqCst);
    }

    pub(crate) fn set_wall_ahead(&self, ms: i64) {
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

/// Keeps the codes of refusals. All are of one wire.
#[derive(Debug)]
pub(crate) struct Refusals {
    wire: &'static str,
    pub(crate) codes: watch::Sender<Vec<&'static str>>,
}

impl Refusals {
    pub(crate) fn of(wire: &'static str) -> Arc<Self> {
        let codes = watch::Sender::default();
        Arc::new(Self { wire, codes })
    }
}

impl Counters for Refusals {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(wire, self.wire);
        self.codes.send_modify(|codes| codes.push(code));
    }
}
