//! What other nodes of the store have done, in the loop: who waits for it here, and what may be claimed.

use std::collections::BTreeSet;

use host_cells::build::Refused;
use host_cells::port::CellPort;
use host_core::command::Change;
use host_core::failure::FailureKind;
use host_core::job::State;
use host_core::name::Name;
use host_core::time::Time;

use super::Writer;
use crate::nodes::Elsewhere;

impl<P: CellPort> Writer<P> {
    pub(super) fn hear_elsewhere(&mut self, now: Time, elsewhere: Elsewhere) {
        match elsewhere {
            Elsewhere::Changes(changes) => self.changed_elsewhere(&changes),
            Elsewhere::Effects(effects) => {
                for (job, effect) in effects {
                    // What is known of it in memory is not current any more.
                    self.leases.renewals().forget(job);
                    self.carry_out(now, job, effect);
                }
            }
            Elsewhere::Queues => self.look_anew(),
        }
    }

    /// Claims no jobs of these handlers, if other nodes may run them.
    pub(super) fn leave_to_others(&mut self, lacking: &BTreeSet<Name>) {
        if self.told.is_some() && self.lacking != *lacking {
            self.lacking.clone_from(lacking);
            self.look_anew();
        }
    }

    /// Returns whether a job must not fail because this node cannot run its handler.
    pub(super) fn may_run_elsewhere(&self, refused: &Refused, enqueued_at: Time) -> bool {
        let is_known = refused.revision.is_some();
        let is_shared = self.told.is_some();
        is_shared
            && refused.failure.kind == FailureKind::HandlerNotFound
            && self.shared.looks.may_run_elsewhere(is_known, enqueued_at)
    }

    fn changed_elsewhere(&mut self, changes: &[Change]) {
        // Changes of this node may be among them: that it claims one job says nothing of another.
        let mut available = BTreeSet::new();
        for change in changes {
            self.executors.changed(change);
            if let Some(lease) = self.pulls.changed_elsewhere(change) {
                self.carried.end(lease);
            }
            if change.from == Some(State::Running) {
                self.shared.live.forget(change.job);
            }
            if change.to.is_none_or(State::is_terminal) {
                self.shared.waiters.ended(change.job);
            }
            if change.runner.is_none() {
                if change.to == Some(State::Available) {
                    available.insert(change.job);
                } else {
                    available.remove(&change.job);
                }
                self.suspects |=
                    change.from == Some(State::Running) && change.to == Some(State::Available);
            }
        }
        // Too many make a claim that finds nothing.
        let available = available.len() as u64;
        self.claimable = self.claimable.saturating_add(available);
    }
}
