//! What tests ask of a worker beside its actions.

use super::Worker;
use super::task::{Stage, Task};

impl Worker {
    /// Returns whether the session waits only for guests and time.
    pub(in crate::worker) fn is_quiet(&self) -> bool {
        let is_quiet = |task: &Task| {
            let is_waiting = match &task.stage {
                Stage::Reporting(report) => {
                    let beat = report.beats.and_then(|beats| beats.request);
                    report.is_storing || beat.is_some()
                }
                _ => false,
            };
            task.request.is_none() && !is_waiting
        };
        self.tasks.values().all(is_quiet)
    }
}
