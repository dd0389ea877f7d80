//! The last rungs of the ladder that ends a run: when a cell that should have ended it long ago is
//! killed. The cell has the rungs before: the flag, the interrupt, dropping the future.

use host_core::time::Time;

/// How long after the grace a cell may take to end a run, in milliseconds.
pub const STOP_MARGIN_MS: u64 = 250;

/// How long after a run's time limit its cell may take to end it, in milliseconds: it covers
/// mapping the component and waiting for a turn, which the limit does not.
pub const TIMEOUT_MARGIN_MS: u64 = 2_000;

/// Why a cell is killed for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrun {
    /// The run was to stop and did not.
    Unstopped,
    /// The run is over its time limit.
    Untimed,
}

/// When the patience with one run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    limit_at: Time,
    stop_at: Option<Time>,
}

impl Ladder {
    /// Begins with a run that is sent to its cell at `now`.
    pub fn begin(now: Time, timeout_ms: u64) -> Self {
        Self {
            limit_at: now.plus_ms(timeout_ms).plus_ms(TIMEOUT_MARGIN_MS),
            stop_at: None,
        }
    }

    /// Notes that the run was told to stop at `now`; a repeated stop can only shorten the grace.
    pub fn stop(&mut self, now: Time, grace_ms: u64) {
        let at = now.plus_ms(grace_ms).plus_ms(STOP_MARGIN_MS);
        self.stop_at = Some(self.stop_at.map_or(at, |earlier| earlier.min(at)));
    }

    /// Tells whether the run was told to stop.
    pub fn is_stopping(&self) -> bool {
        self.stop_at.is_some()
    }

    /// Returns when the cell is killed if the run has not ended by then.
    pub fn kill_at(&self) -> Time {
        self.stop_at
            .map_or(self.limit_at, |stop_at| stop_at.min(self.limit_at))
    }

    /// Tells whether the cell has to be killed at `now`, and why.
    pub fn overrun(&self, now: Time) -> Option<Overrun> {
        if self.stop_at.is_some_and(|at| now >= at) {
            Some(Overrun::Unstopped)
        } else if now >= self.limit_at {
            Some(Overrun::Untimed)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests;
