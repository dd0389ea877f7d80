//! How many jobs cells could run now: upper bounds, by lane. Pure.

use std::collections::BTreeSet;

use host_core::command::{Change, Command};
use host_core::job::{Lifecycle, State};

use super::batch::{End, Finished};

/// What a claim for cells may find. Executors have their own, see [`crate::executors`].
#[derive(Debug)]
pub(super) struct CellDemand {
    /// An upper bound of the jobs that shared cells may claim.
    claimable: u64,
    /// Whether a suspect may be claimable.
    has_suspects: bool,
}

impl CellDemand {
    /// Makes the demand of a store with this many available jobs.
    pub(super) fn new(available: u64) -> Self {
        Self {
            claimable: available,
            has_suspects: true,
        }
    }

    /// Counts on work in all lanes.
    pub(super) fn reset(&mut self) {
        *self = Self::new(u64::MAX);
    }

    pub(super) fn is_claimable(&self) -> bool {
        self.claimable > 0
    }

    pub(super) fn has_suspects(&self) -> bool {
        self.has_suspects
    }

    /// Returns how many slots of shared cells could be filled if `coming` more jobs become available.
    pub(super) fn slots_wanted(&self, coming: u64) -> usize {
        usize::try_from(self.claimable.saturating_add(coming)).unwrap_or(usize::MAX)
    }

    /// Records a request that may release suspects.
    pub(super) fn record_request(&mut self, command: &Command) {
        self.has_suspects |= matches!(command, Command::SetPaused { paused: false, .. });
    }

    /// Records attempts that have ended: the job of a lost one may be a suspect.
    pub(super) fn record_finished(&mut self, finished: &[Finished]) {
        let mut ends = finished.iter().map(|finished| &finished.end);
        self.has_suspects |= ends.any(|end| matches!(end, End::Lost { .. }));
    }

    /// Records a job after its attempt.
    pub(super) fn record_job(&mut self, job: &Lifecycle) {
        self.has_suspects |= job.suspect && job.state == State::Available;
    }

    /// Records a commit that leaves `available` jobs and has made `newly_available_max` available at most.
    pub(super) fn record_commit(&mut self, available: u64, newly_available_max: u64) {
        let may_be_more = self.claimable > 0 || newly_available_max > 0;
        self.claimable = if may_be_more { available } else { 0 };
    }

    /// Records that a claim found fewer jobs than shared cells had slots.
    pub(super) fn exhaust_shared(&mut self) {
        self.claimable = 0;
    }

    /// Records that a claim found fewer suspects than there was room for.
    pub(super) fn exhaust_suspects(&mut self) {
        self.has_suspects = false;
    }

    /// Records changes that other nodes have made.
    pub(super) fn record_remote_changes(&mut self, changes: &[Change]) {
        self.has_suspects |= changes.iter().any(|change| {
            change.runner.is_none()
                && change.from == Some(State::Running)
                && change.to == Some(State::Available)
        });
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
