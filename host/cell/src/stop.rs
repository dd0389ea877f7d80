//! When a run must end: at its time limit, or when the grace of a stop request has passed. The end can
//! only move to an earlier time.

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep_until};

/// Why a run is stopped by force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    /// The time limit passed.
    TimedOut,
    /// The run was asked to stop and did not stop within the grace.
    Stopped,
}

/// The time limit and the stop request of one run.
#[derive(Debug)]
pub(crate) struct Stop {
    times_out_at: Instant,
    request: Mutex<Option<StopRequest>>,
    changed: Notify,
}

#[derive(Clone, Debug)]
struct StopRequest {
    forced_at: Instant,
    reason: String,
}

impl Stop {
    pub(crate) fn new(timeout_ms: u64) -> Self {
        Self {
            times_out_at: Instant::now() + Duration::from_millis(timeout_ms),
            request: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Asks the run to stop. A later request can only shorten the grace.
    pub(crate) fn request(&self, grace_ms: u64, reason: String) {
        let forced_at = Instant::now() + Duration::from_millis(grace_ms);
        let mut request = self.request.lock();
        match &mut *request {
            Some(request) => request.forced_at = request.forced_at.min(forced_at),
            None => *request = Some(StopRequest { forced_at, reason }),
        }
        self.changed.notify_one();
    }

    /// Returns the reason of the stop request, if there is one.
    pub(crate) fn reason(&self) -> Option<String> {
        let request = self.request.lock();
        request.as_ref().map(|request| request.reason.clone())
    }

    /// Returns how much of the time limit is left, in milliseconds.
    pub(crate) fn remaining_ms(&self) -> u32 {
        let left = self.times_out_at.saturating_duration_since(Instant::now());
        u32::try_from(left.as_millis()).unwrap_or(u32::MAX)
    }

    /// Returns why the run must be stopped by force, if it must be now.
    pub(crate) fn forced_now(&self) -> Option<Forced> {
        let (at, forced) = self.end();
        (at <= Instant::now()).then_some(forced)
    }

    /// Waits until the run must be stopped by force. Cancel safe.
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

    /// Returns when the run must be stopped by force, as known now, and why.
    fn end(&self) -> (Instant, Forced) {
        let request = self.request.lock();
        match request.as_ref().map(|request| request.forced_at) {
            Some(at) if at <= self.times_out_at => (at, Forced::Stopped),
            _ => (self.times_out_at, Forced::TimedOut),
        }
    }
}
