//! Decides when a cell is killed because a run in it has not ended in time. Before that, the cell
//! itself tries to end the run: by a flag, an interrupt, and dropping the future.

use host_core::time::Time;

/// How long after the grace period a cell may take to end a run, in milliseconds.
pub const STOP_MARGIN_MS: u64 = 250;

/// How long after a run's time limit its cell may take to end it, in milliseconds. This covers
/// mapping the component and waiting for a turn to run, which do not count towards the limit.
pub const TIMEOUT_MARGIN_MS: u64 = 2_000;

/// Why a cell is killed because of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// The run ignored a stop.
    IgnoredStop,
    /// The run exceeded its time limit.
    ExceededTimeLimit,
}

impl Overrun {
    /// Describes it, for the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::IgnoredStop => "it ignored a stop",
            Self::ExceededTimeLimit => "it exceeded its time limit",
        }
    }
}

/// The time by which one run must have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillDeadline {
    limit_at: Time,
    stop_at: Option<Time>,
}

impl KillDeadline {
    /// Starts for a run that is sent to its cell at `now`.
    pub fn begin(now: Time, timeout_ms: u64) -> Self {
        Self {
            limit_at: now.plus_ms(timeout_ms).plus_ms(TIMEOUT_MARGIN_MS),
            stop_at: None,
        }
    }

    /// Records that the run was asked to stop at `now`. A second stop can only shorten the grace
    /// period.
    pub fn stop(&mut self, now: Time, grace_ms: u64) {
        let at = now.plus_ms(grace_ms).plus_ms(STOP_MARGIN_MS);
        self.stop_at = Some(self.stop_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Returns whether the run was asked to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    /// Returns when the cell is killed if the run has not ended.
    pub fn kill_at(&self) -> Time {
        self.stop_at
            .map_or(self.limit_at, |stop_at| stop_at.min(self.limit_at))
    }

    /// Returns why the cell must be killed at `now`, if it must.
    pub fn overrun(&self, now: Time) -> Option<Overrun> {
        if self.stop_at.is_some_and(|at| now >= at) {
            Some(Overrun::IgnoredStop)
        } else if now >= self.limit_at {
            Some(Overrun::ExceededTimeLimit)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
