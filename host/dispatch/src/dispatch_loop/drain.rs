//! A host that an operator drains: it starts no more jobs.

use host_cells::port::CellPort;

use super::DispatchLoop;

impl<P: CellPort> DispatchLoop<P> {
    /// Stops starting jobs if `asked`, or starts them again.
    pub(super) fn drain(&mut self, asked: bool) {
        if !self.stops.drain(asked) {
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
}
