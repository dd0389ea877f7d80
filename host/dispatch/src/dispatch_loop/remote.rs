//! What other nodes of the store have done, in the loop: who waits for it here, and what may be claimed.

use std::collections::BTreeSet;

use host_cells::build::Refused;
use host_cells::port::CellPort;
use host_core::command::Change;
use host_core::failure::FailureKind;
use host_core::job::State;
use host_core::name::Name;
use host_core::time::Time;

use super::DispatchLoop;
use crate::nodes::RemoteChange;

impl<P: CellPort> DispatchLoop<P> {
    pub(super) fn handle_remote_change(&mut self, now: Time, change: RemoteChange) {
        match change {
            RemoteChange::Changes(changes) => self.handle_changes_elsewhere(&changes),
            RemoteChange::Effects(effects) => {
                for (job, effect) in effects {
                    // What is known of it in memory is not current any more.
                    self.leases.renewals().forget(job);
                    self.carry_out(now, job, effect);
                }
            }
            RemoteChange::Queues => self.reset_demand(),
        }
    }

    /// Claims no jobs of these handlers, if other nodes may run them.
    pub(super) fn set_unrunnable(&mut self, unrunnable: &BTreeSet<Name>) {
        if self.is_shared() && self.unrunnable != *unrunnable {
            self.unrunnable.clone_from(unrunnable);
            self.reset_demand();
        }
    }

    /// Returns whether a job must not fail because this node cannot run its handler.
    pub(super) fn may_run_elsewhere(&self, refused: &Refused, enqueued_at: Time) -> bool {
        let is_known = refused.revision.is_some();
        let is_shared = self.is_shared();
        is_shared
            && refused.failure.kind == FailureKind::HandlerNotFound
            && self
                .shared
                .deploy_sync
                .may_run_elsewhere(is_known, enqueued_at)
    }

    fn handle_changes_elsewhere(&mut self, changes: &[Change]) {
        for change in changes {
            self.executors.record_change(change);
            if let Some(lease) = self.pulls.record_remote_change(change) {
                self.params_in_flight.end(lease);
            }
            if change.from == Some(State::Running) {
                self.shared.live.forget(change.job);
            }
            if change.to.is_none_or(State::is_terminal) {
                self.shared.waiters.ended(change.job);
            }
            self.suspects |= change.runner.is_none()
                && change.from == Some(State::Running)
                && change.to == Some(State::Available);
        }
        self.claimable = self.claimable.saturating_add(left_available(changes));
    }
}

/// Returns how many jobs for cells these changes leave available. Too many make a claim that finds nothing;
/// too few leave a job waiting. Changes of this node are among them: that it has claimed one job says
/// nothing of another.
fn left_available(changes: &[Change]) -> u64 {
    let mut available = BTreeSet::new();
    for change in changes.iter().filter(|change| change.runner.is_none()) {
        if change.to == Some(State::Available) {
            available.insert(change.job);
        } else {
            available.remove(&change.job);
        }
    }
    available.len() as u64
}

#[cfg(test)]
mod tests {
    use State::{Available, Completed, Running};
    use host_core::id::JobId;

    use super::*;

    fn change(job: u128, from: Option<State>, to: Option<State>) -> Change {
        Change {
            job: JobId(uuid::Uuid::from_u128(job)),
            handler: "echo".parse().unwrap(),
            runner: None,
            queue: "default".parse().unwrap(),
            from,
            to,
            attempt: 1,
        }
    }

    #[test]
    fn no_claim_of_this_node_hides_a_job_of_another() {
        let enqueued = |job| change(job, None, Some(Available));
        let claimed = |job| change(job, Some(Available), Some(Running));
        let given_back = |job| change(job, Some(Running), Some(Available));
        let ended = |job| change(job, Some(Running), Some(Completed));
        let for_a_runner = Change {
            runner: Some("python".parse().unwrap()),
            ..enqueued(9)
        };
        for (changes, left) in [
            (vec![], 0),
            (vec![enqueued(1), enqueued(2)], 2),
            // This node had claimed 1 before, in the order of commits.
            (vec![claimed(1), enqueued(2)], 1),
            (vec![enqueued(2), claimed(1), claimed(3)], 1),
            (vec![enqueued(1), claimed(1), enqueued(2)], 1),
            (vec![enqueued(1), claimed(1), given_back(1)], 1),
            (
                vec![enqueued(1), claimed(1), given_back(1), claimed(1), ended(1)],
                0,
            ),
            (vec![for_a_runner], 0),
            (vec![enqueued(1), change(1, Some(Available), None)], 0),
        ] {
            assert_eq!(left_available(&changes), left, "{changes:?}");
        }
    }
}
