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
            let runs = self.runs();
            tracing::warn!(
                runs,
                "draining: no more jobs start here until `host node resume`"
            );
            self.workers.table.recall();
        } else {
            tracing::info!("resumed: jobs start here again");
            self.demand.reset();
        }
    }

    /// Counts the attempts in cells and those whose leases connections hold.
    pub(super) fn runs(&self) -> usize {
        self.cells.pool.runs() + self.workers.table.connected()
    }

    /// Publishes what runs here, if that has changed.
    pub(super) fn report_running(&mut self) {
        let is_draining = self.is_draining || self.phase > Phase::Running;
        let counted = [self.cells.pool.runs(), self.workers.table.connected()];
        let now = Some((counted, is_draining));
        if self.last_reported != now {
            self.last_reported = now;
            let cells = self.cells.pool.runs() as u64;
            let runners = self.workers.table.connected_by_executor();
            let running = Running { cells, runners };
            self.shared.presence.set_running(running, is_draining);
        }
    }
}
