//! When a run must end: its time limit, and a request to stop with a grace. Only ever earlier.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// What ended a run by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// The time limit passed.
    TimedOut,
    /// It was asked to stop and did not within the grace.
    Stopped,
}

/// The two ends of one run.
#[derive(Debug)]
pub(crate) struct Stop {
    times_out_at: Instant,
    asked: Mutex<Option<Asked>>,
    changed: Notify,
}

#[derive(Clone, Debug)]
struct Asked {
    forced_at: Instant,
    reason: String,
}

impl Stop {
    pub(crate) fn new(timeout_ms: u64) -> Self {
        Self {
            times_out_at: Instant::now() + Duration::from_millis(timeout_ms),
            asked: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Asks the run to stop; a later request can only shorten the grace.
    pub(crate) fn ask(&self, grace_ms: u64, reason: String) {
        let forced_at = Instant::now() + Duration::from_millis(grace_ms);
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *asked {
            Some(asked) => asked.forced_at = asked.forced_at.min(forced_at),
            None => *asked = Some(Asked { forced_at, reason }),
        }
        self.changed.notify_one();
    }

    /// Returns why the run is to stop.
    pub(crate) fn reason(&self) -> Option<String> {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.as_ref().map(|asked| asked.reason.clone())
    }

    /// Returns how much of the time limit is left, in milliseconds.
    pub(crate) fn remaining_ms(&self) -> u32 {
        let left = self.times_out_at.saturating_duration_since(Instant::now());
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
    }

    /// Returns why the run must not go on, if it must not.
    pub(crate) fn forced_now(&self) -> Option<Forced> {
        let (at, forced) = self.end();
        (at <= Instant::now()).then_some(forced)
    }

    /// Returns once the run must not go on. Cancel safe.
    pub(crate) async fn forced(&self) -> Forced {
        loop {
            let (at, forced) = self.end();
            if at <= Instant::now() {
                return forced;
            }
            tokio::select! {
                () = sleep_until(at) => return forced,
                () = self.changed.notified() => {}
            }
        }
    }

    /// Returns when the run is ended by force, as far as is known now, and why.
    fn end(&self) -> (Instant, Forced) {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        match asked.as_ref().map(|asked| asked.forced_at) {
            Some(at) if at <= self.times_out_at => (at, Forced::Stopped),
            _ => (self.times_out_at, Forced::TimedOut),
        }
    }
}
