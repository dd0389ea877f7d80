//! When the loop starts no more jobs: while an operator drains the node, and once the process stops.

use host_core::time::Time;
use tokio_util::sync::DropGuard;

/// The time that killed cells and wires have to end, in milliseconds.
const CLOSE_TIMEOUT_MS: u64 = 5_000;

/// The phase of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Running,
    /// No more jobs are claimed. Running jobs may finish.
    Stopping,
    /// Jobs that still run are given up.
    Killing,
}

pub(super) struct Stops {
    phase: Phase,
    /// How long running jobs may continue while the process stops, in milliseconds.
    stopping_ms: u64,
    /// When the phase ends, if the process stops.
    stop_by: Time,
    /// Whether an operator wants no more jobs to start here.
    is_draining: bool,
    /// `None` once wires that send attempts to their workers must end.
    workers_end: Option<DropGuard>,
}

impl Stops {
    pub(super) const fn new(stopping_ms: u64, workers_end: DropGuard) -> Self {
        Self {
            phase: Phase::Running,
            stopping_ms,
            stop_by: Time(i64::MAX),
            is_draining: false,
            workers_end: Some(workers_end),
        }
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether jobs may start.
    pub(super) fn may_start(&self) -> bool {
        self.phase == Phase::Running && !self.is_draining
    }

    /// Returns when the loop must enter the next phase.
    pub(super) fn due(&self) -> Option<Time> {
        (self.phase > Phase::Running).then_some(self.stop_by)
    }

    /// Stops starting jobs if `asked`, or starts them again. Returns whether that is a change.
    pub(super) const fn drain(&mut self, asked: bool) -> bool {
        let before = self.is_draining;
        self.is_draining = asked;
        before != asked
    }

    /// Lets running jobs finish, for a time.
    pub(super) fn stop(&mut self, now: Time) {
        self.phase = Phase::Stopping;
        self.stop_by = now.plus_ms(self.stopping_ms);
    }

    /// Gives up what still runs.
    pub(super) fn kill(&mut self, now: Time) {
        self.phase = Phase::Killing;
        self.stop_by = now.plus_ms(CLOSE_TIMEOUT_MS);
        self.workers_end = None;
    }
}
