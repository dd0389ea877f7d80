//! How many jobs could run now: upper bounds, by lane. Pure.

use std::collections::BTreeMap;

use host_core::job::{Lifecycle, State};
use host_core::name::Name;
use host_core::query::Change;
use host_engine::queue::SetPaused;
use host_engine::{Command, queue};

use super::batch::{End, Finished};

/// What a claim may find.
#[derive(Debug)]
pub(super) struct Demand {
    /// An upper bound of the jobs that shared cells may claim.
    shared: u64,
    /// Whether a suspect may be claimable.
    has_suspects: bool,
    /// The same of each executor that a job has named; `u64::MAX` if unknown.
    by_executor: BTreeMap<Name, u64>,
}

impl Demand {
    /// Makes the demand of a store with this many available jobs for cells.
    pub(super) fn new(available: u64) -> Self {
        Self {
            shared: available,
            has_suspects: true,
            by_executor: BTreeMap::new(),
        }
    }

    /// Adds an executor. Returns false if it is there already.
    pub(super) fn add_executor(&mut self, executor: &Name) -> bool {
        let is_new = !self.by_executor.contains_key(executor);
        if is_new {
            self.by_executor.insert(executor.clone(), u64::MAX);
        }
        is_new
    }

    /// Counts on work in all lanes.
    pub(super) fn reset(&mut self) {
        self.shared = u64::MAX;
        self.has_suspects = true;
        self.reset_executors();
    }

    fn reset_executors(&mut self) {
        self.by_executor
            .values_mut()
            .for_each(|jobs| *jobs = u64::MAX);
    }

    pub(super) const fn has_shared(&self) -> bool {
        self.shared > 0
    }

    pub(super) const fn has_suspects(&self) -> bool {
        self.has_suspects
    }

    /// Returns how many slots of shared cells could be filled if `coming` more jobs become available.
    pub(super) fn shared_slots(&self, coming: u64) -> usize {
        usize::try_from(self.shared.saturating_add(coming)).unwrap_or(usize::MAX)
    }

    /// Returns how many jobs of an executor could run.
    pub(super) fn of(&self, executor: &Name) -> u64 {
        self.by_executor.get(executor).copied().unwrap_or_default()
    }

    /// Records a request that may release jobs without a change that shows it.
    pub(super) fn record_request(&mut self, command: &Command) {
        if let Command::Queue(queue::Command::SetPaused(SetPaused { paused: false, .. })) =
            command.bare()
        {
            self.has_suspects = true;
            self.reset_executors();
        }
    }

    /// Records attempts that have ended: the job of a lost one may be a suspect.
    pub(super) fn record_finished(&mut self, finished: &[Finished]) {
        let mut ends = finished.iter().map(|finished| &finished.end);
        self.has_suspects |= ends.any(|end| matches!(end, End::Lost { .. }));
    }

    /// Records a job after its attempt.
    pub(super) fn record_job(&mut self, job: &Lifecycle) {
        self.has_suspects |= job.suspicion.is_apart() && job.state == State::Available;
    }

    /// Records a commit that leaves `available` jobs for cells and has made `newly_available_max`
    /// available at most.
    pub(super) fn record_commit(&mut self, available: u64, newly_available_max: u64) {
        let may_be_more = self.shared > 0 || newly_available_max > 0;
        self.shared = if may_be_more { available } else { 0 };
    }

    /// Records a committed change of a job for an executor.
    pub(super) fn record_change(&mut self, change: &Change) {
        let executor = change.executor.as_ref();
        let Some(jobs) = executor.and_then(|executor| self.by_executor.get_mut(executor)) else {
            return;
        };
        if change.to == Some(State::Available) {
            *jobs = jobs.saturating_add(1);
        } else if change.from == Some(State::Available) && change.to != Some(State::Running) {
            // A claim may have stopped at this job, so the number of jobs behind it is unknown.
            *jobs = u64::MAX;
        }
    }

    /// Records that a claim found fewer jobs than shared cells had slots.
    pub(super) const fn exhaust_shared(&mut self) {
        self.shared = 0;
    }

    /// Records jobs that these changes leave available in lanes where nothing is known to be. Returns whether there are
    /// some.
    pub(super) fn record_behind(&mut self, changes: &[Change]) -> bool {
        let may_be_behind = |change: &Change| {
            change.to == Some(State::Available) && self.is_empty(change.executor.as_ref())
        };
        if !changes.iter().any(may_be_behind) {
            return false;
        }
        let mut has_some = false;
        for change in left_available(changes) {
            let executor = change.executor.as_ref();
            if !self.is_empty(executor) {
                continue;
            }
            has_some = true;
            match executor {
                None => self.shared = u64::MAX,
                Some(executor) => drop(self.by_executor.insert(executor.clone(), u64::MAX)),
            }
        }
        has_some
    }

    /// Returns whether nothing is known to be in the lane of shared cells, or of an executor.
    fn is_empty(&self, executor: Option<&Name>) -> bool {
        match executor {
            None => self.shared == 0,
            Some(executor) => self.by_executor.get(executor) == Some(&0),
        }
    }

    /// Records that a claim with room for suspects found none.
    pub(super) const fn exhaust_suspects(&mut self) {
        self.has_suspects = false;
    }

    /// Records what a claim found for an executor.
    pub(super) fn record_claim(&mut self, executor: &Name, offered: usize, claimed: usize) {
        let Some(jobs) = self.by_executor.get_mut(executor) else {
            return;
        };
        if claimed < offered {
            *jobs = 0;
        } else if *jobs != u64::MAX {
            *jobs = jobs.saturating_sub(claimed as u64);
        }
    }

    /// Records changes that other nodes have made.
    pub(super) fn record_remote_changes(&mut self, changes: &[Change]) {
        self.has_suspects |= changes.iter().any(|change| {
            change.executor.is_none()
                && change.from == Some(State::Running)
                && change.to == Some(State::Available)
        });
        let left = left_available(changes);
        let for_cells = left.iter().filter(|it| it.executor.is_none()).count();
        self.shared = self.shared.saturating_add(for_cells as u64);
    }
}

/// Returns the changes that leave jobs available. Too many make a claim that finds nothing; too few leave a job waiting.
fn left_available(changes: &[Change]) -> Vec<&Change> {
    let mut available = BTreeMap::new();
    for change in changes {
        if change.to == Some(State::Available) {
            available.insert(change.job, change);
        } else {
            available.remove(&change.job);
        }
    }
    available.into_values().collect()
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
            executor: None,
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
        let for_an_executor = Change {
            executor: Some("python".parse().unwrap()),
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
            (vec![for_an_executor], 1),
            (vec![enqueued(1), change(1, Some(Available), None)], 0),
        ] {
            assert_eq!(left_available(&changes).len(), left, "{changes:?}");
        }
    }

    #[test]
    fn jobs_behind_a_claim_of_their_batch_are_claimed_by_another() {
        let enqueued = |job, executor: Option<&str>| Change {
            executor: executor.map(|name| name.parse().unwrap()),
            ..change(job, None, Some(Available))
        };
        let mut demand = Demand::new(0);
        let python: Name = "python".parse().unwrap();
        demand.add_executor(&python);
        demand.record_claim(&python, 1, 0);
        assert!(!demand.record_behind(&[]));
        assert!(!demand.record_behind(&[change(1, Some(Available), Some(Running))]));
        assert!(!demand.record_behind(&[enqueued(1, Some("missing"))]));
        assert!(demand.record_behind(&[enqueued(1, None)]));
        assert!(demand.has_shared());
        assert!(!demand.record_behind(&[enqueued(2, None)]), "it is known");
        assert!(demand.record_behind(&[enqueued(3, Some("python"))]));
        assert_eq!(demand.of(&python), u64::MAX);
    }
}
