//! The conformance suite, continued: what an attempt writes with its end.

use host_core::command::Command;
use host_core::failure::FailureKind;
use host_core::job::{State, UniqueScope};
use host_core::lease::Fence;
use host_core::outcome::Outcome;
use host_core::rejection::Rejection;
use host_core::writes::Writes;
use host_store::store::Store;

use crate::cases::check;
use crate::jobs::{
    NOW, claim, commit, complete, enqueue, failed, id, job, lease, returned, unique,
};

/// The end of the attempt of job `n`, which was claimed with the lease `n`.
fn end(n: u128, outcome: Outcome, writes: Writes) -> Command {
    let mut command = complete(n, n, outcome);
    if let Command::Complete { writes: of_end, .. } = &mut command {
        *of_end = Some(Box::new(writes));
    }
    command
}

fn jobs(numbers: impl IntoIterator<Item = u128>) -> Writes {
    Writes {
        jobs: numbers.into_iter().map(job).collect(),
    }
}

fn start(store: &mut dyn Store, n: u128) {
    enqueue(store, vec![job(n)]);
    commit(store, NOW, vec![claim([n], false)]);
}

fn state(store: &dyn Store, n: u128) -> Option<State> {
    store.reader().unwrap().state(id(n)).unwrap()
}

#[test]
fn jobs_of_a_completed_attempt_are_committed_with_its_end() {
    check(|store| {
        start(store, 1);
        let mut writes = jobs([2, 3, 4]);
        writes.jobs[1].depends_on = vec![id(2)];
        writes.jobs[2].depends_on = vec![id(1)];
        let committed = commit(store, NOW, vec![end(1, returned(), writes)]);
        assert_eq!(
            committed.available, 2,
            "2 and 4, which waited for the attempt itself"
        );
        assert_eq!(state(store, 1), Some(State::Completed));
        assert_eq!(state(store, 2), Some(State::Available));
        assert_eq!(state(store, 3), Some(State::Pending));
        assert_eq!(state(store, 4), Some(State::Available));
    });
}

#[test]
fn an_attempt_that_does_not_complete_writes_nothing() {
    check(|store| {
        start(store, 1);
        commit(store, NOW, vec![end(1, failed(true), jobs([2]))]);
        assert_eq!(state(store, 2), None);
    });
}

#[test]
fn a_worker_without_the_lease_writes_nothing() {
    check(|store| {
        start(store, 1);
        let mut stale = end(1, returned(), jobs([2]));
        if let Command::Complete { fence, .. } = &mut stale {
            *fence = Fence::Lease(lease(9));
        }
        let committed = commit(store, NOW, vec![stale]);
        assert_eq!(committed.replies, [Err(Rejection::Stale)]);
        assert_eq!(state(store, 2), None);
        // The same end twice: the second is too late.
        let both = vec![end(1, returned(), jobs([3])), end(1, returned(), jobs([4]))];
        let committed = commit(store, NOW, both);
        assert!(committed.replies[0].is_ok() && committed.replies[1].is_err());
        assert_eq!(
            (state(store, 3), state(store, 4)),
            (Some(State::Available), None)
        );
    });
}

#[test]
fn an_attempt_whose_writes_are_refused_fails_and_is_retried() {
    check(|store| {
        start(store, 1);
        let mut writes = jobs([2, 3]);
        writes.jobs[1].depends_on = vec![id(99)];
        let committed = commit(store, NOW, vec![end(1, returned(), writes)]);
        assert!(committed.replies[0].is_ok());
        assert_eq!(state(store, 1), Some(State::Retryable));
        assert_eq!(state(store, 2), None);
        let detail = store.reader().unwrap().job(id(1)).unwrap().unwrap();
        let failure = detail.failure.unwrap();
        assert_eq!(failure.kind, FailureKind::WritesRefused);
        assert!(failure.message.contains(&id(99).to_string()), "{failure:?}");
    });
}

#[test]
fn a_unique_key_that_is_taken_by_the_end_adds_no_job() {
    check(|store| {
        let mut first = job(2);
        first.unique_key = Some(unique("row", UniqueScope::Active));
        start(store, 1);
        enqueue(store, vec![first.clone()]);
        first.id = id(3);
        let writes = Writes { jobs: vec![first] };
        commit(store, NOW, vec![end(1, returned(), writes)]);
        assert_eq!(state(store, 1), Some(State::Completed));
        assert_eq!(state(store, 3), None);
    });
}
