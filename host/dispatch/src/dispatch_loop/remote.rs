//! What other nodes of the store have done, in the loop: who waits for it here, and what may be claimed.

use std::collections::BTreeSet;

use host_cells::port::CellPort;
use host_cells::run::build::StartFailure;
use host_core::failure::FailureKind;
use host_core::job::State;
use host_core::lease::Revocation;
use host_core::name::Name;
use host_core::query::Change;
use host_core::time::Time;

use super::DispatchLoop;
use crate::nodes::RemoteChange;

impl<P: CellPort> DispatchLoop<P> {
    pub(super) fn handle_remote_change(&mut self, now: Time, change: RemoteChange) {
        match change {
            RemoteChange::Changes(changes) => self.handle_changes_elsewhere(&changes),
            RemoteChange::Effects(effects) => {
                for (job, effect) in effects {
                    // What is known of it in memory is no longer current.
                    self.workers.table.forget_stored(job);
                    self.carry_out(now, job, effect);
                }
            }
            RemoteChange::Queues => self.demand.reset(),
            RemoteChange::Beat { has_others } => {
                let is_left = self.demand.has_shared();
                self.share.record_beat(has_others, is_left);
            }
        }
    }

    /// Claims no jobs of these handlers, if other nodes may run them.
    pub(super) fn set_unrunnable(&mut self, unrunnable: &BTreeSet<Name>) {
        if self.signals.is_shared() && self.unrunnable != *unrunnable {
            self.unrunnable.clone_from(unrunnable);
            self.demand.reset();
        }
    }

    /// Returns whether a job must not fail because this node cannot run its handler.
    pub(super) fn may_run_elsewhere(&self, refused: &StartFailure, enqueued_at: Time) -> bool {
        let is_known = refused.revision.is_some();
        let is_shared = self.signals.is_shared();
        is_shared
            && refused.failure.kind == FailureKind::HandlerNotFound
            && self
                .signals
                .shared
                .deploy_sync
                .may_run_elsewhere(is_known, enqueued_at)
    }

    fn handle_changes_elsewhere(&mut self, changes: &[Change]) {
        for change in changes {
            self.record_demand(change);
            if let Some(lease) = self.workers.table.ended_elsewhere(change) {
                self.attempts.forget_params(lease);
                let why = Revocation::EndedElsewhere;
                self.workers.table.revoke(change.job, lease, why);
            }
            if change.from == Some(State::Running) {
                self.signals.shared.live.forget(change.job);
            }
            if change.to.is_none_or(State::is_terminal) {
                self.signals.shared.waiters.ended(change.job);
            }
        }
        let is_claim =
            |change: &Change| change.executor.is_none() && change.to == Some(State::Running);
        if changes.iter().any(is_claim) {
            self.share.record_chance();
        }
        self.demand.record_remote_changes(changes);
    }
}
