//! What tests ask of a worker beside its actions.

use super::Worker;
use super::task::{Stage, Task};

impl Worker {
    /// Returns whether the session waits only for guests and time.
    pub(in crate::arco::worker) fn is_quiet(&self) -> bool {
        let is_quiet = |task: &Task| {
            let is_storing = matches!(&task.stage, Stage::Reporting(report) if report.is_storing);
            task.request.is_none() && !is_storing
        };
        self.tasks.values().all(is_quiet)
    }
}
