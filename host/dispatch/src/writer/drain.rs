//! A host that an operator drains: it starts no more jobs, and says how many are left.

use host_cells::port::CellPort;
use host_core::node::Running;

use super::{Phase, Writer};

impl<P: CellPort> Writer<P> {
    /// Starts no more jobs if `asked`, else some again.
    pub(super) fn drain(&mut self, asked: bool) {
        if std::mem::replace(&mut self.drains, asked) == asked {
            return;
        }
        if asked {
            let [cells, pushed, pulled] = self.counted();
            let runs = cells + pushed + pulled;
            tracing::warn!(
                runs,
                "asked to drain: no more jobs are started here until `host node resume`"
            );
            // What no worker has begun goes back.
            self.executors.drain();
        } else {
            tracing::info!("asked to go on: jobs are started here again");
            self.look_anew();
        }
    }

    /// Looks for jobs of all lanes with the next claim.
    pub(super) fn look_anew(&mut self) {
        self.claimable = u64::MAX;
        self.suspects = true;
        self.executors.look_anew();
    }

    /// Says what runs here, if that has changed.
    pub(super) fn say(&mut self) {
        let drains = self.drains || self.phase > Phase::Running;
        let now = Some((self.counted(), drains));
        if self.said == now {
            return;
        }
        self.said = now;
        let mut runners = self.executors.in_flight();
        for (name, held) in self.pulls.connected() {
            *runners.entry(name).or_default() += held;
        }
        let cells = self.cells.pool.runs() as u64;
        self.shared
            .presence
            .runs(Running { cells, runners }, drains);
    }

    /// Counts the attempts in cells, those that were pushed to executors, and those of connected workers.
    fn counted(&self) -> [usize; 3] {
        let pulled = self.pulls.held_by_connection();
        [self.cells.pool.runs(), self.executors.runs(), pulled]
    }
}
