//! A host that an operator drains: it starts no more jobs, and reports how many still run.

use host_cells::port::CellPort;
use host_core::node::Running;

use super::{DispatchLoop, Phase};

impl<P: CellPort> DispatchLoop<P> {
    /// Starts no more jobs if `asked`, else some again.
    pub(super) fn drain(&mut self, asked: bool) {
        if std::mem::replace(&mut self.is_draining, asked) == asked {
            return;
        }
        if asked {
            let [cells, pushed, pulled] = self.counted();
            let runs = cells + pushed + pulled;
            tracing::warn!(
                runs,
                "draining: no more jobs start here until `host node resume`"
            );
            // What no worker has begun goes back.
            self.executors.drain();
        } else {
            tracing::info!("resumed: jobs start here again");
            self.reset_demand();
        }
    }

    /// Looks for jobs of all lanes with the next claim.
    pub(super) fn reset_demand(&mut self) {
        self.demand.reset();
        self.executors.reset_demand();
    }

    /// Publishes what runs here, if that has changed.
    pub(super) fn report_running(&mut self) {
        let is_draining = self.is_draining || self.phase > Phase::Running;
        let now = Some((self.counted(), is_draining));
        if self.last_reported == now {
            return;
        }
        self.last_reported = now;
        let mut runners = self.executors.in_flight();
        for (name, held) in self.pulls.connected() {
            *runners.entry(name).or_default() += held;
        }
        let cells = self.cells.pool.runs() as u64;
        self.shared
            .presence
            .set_running(Running { cells, runners }, is_draining);
    }

    /// Counts the attempts in cells, those that were pushed to executors, and those of connected workers.
    fn counted(&self) -> [usize; 3] {
        let pulled = self.pulls.held_by_connection();
        [self.cells.pool.runs(), self.executors.runs(), pulled]
    }
}
