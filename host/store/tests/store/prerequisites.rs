//! The conformance suite, continued: jobs that wait for others to end in one way or another.

use host_core::failure::FailureKind;
use host_core::job::State;
use host_core::prerequisite::When;
use host_core::time::Time;
use host_engine::job::{Cancel, JobRefusal, Purge, Retry, Tick};
use host_engine::{Command, Rejection, Store};

use crate::cases::{check, state};
use crate::jobs::{
    NOW, after, ask, claim, claimed, commit, complete, enqueue, failed, id, job, returned,
};

const COMPLETED: When = When::Completed;
const ENDED: When = When::Ended;
const FAILED: When = When::Failed;

fn cancel(n: u128) -> Command {
    Command::from(Cancel {
        job: id(n),
        reason: None,
        grace_ms: None,
    })
}

fn retry(n: u128, force: bool) -> Command {
    Command::from(Retry { job: id(n), force })
}

/// Ends job 1, which waits, in one of three ways. Leases begin behind `from`.
fn end(store: &mut dyn Store, state: State, from: u128) {
    if state == State::Cancelled {
        ask(store, NOW, cancel(1)).unwrap();
        return;
    }
    let taken = claimed(store, NOW, claim([from + 1], false));
    assert_eq!(taken[0].lifecycle.id, id(1));
    let outcome = match state {
        State::Completed => returned(),
        _ => failed(false),
    };
    ask(store, NOW, complete(1, from + 1, outcome)).unwrap();
}

fn reason(store: &dyn Store, n: u128) -> Option<String> {
    let job = store.reader().unwrap().job(id(n)).unwrap().unwrap();
    job.lifecycle.cancel.and_then(|cancel| cancel.reason)
}

#[test]
fn the_end_of_a_prerequisite_decides_by_the_condition() {
    let states = [State::Completed, State::Discarded, State::Cancelled];
    for ended in states {
        let expected = match ended {
            State::Completed => [State::Available, State::Available, State::Cancelled],
            State::Discarded => [State::Discarded, State::Available, State::Available],
            _ => [State::Discarded, State::Available, State::Cancelled],
        };
        check(|store| {
            let three = |from| {
                let conditions = [(from, COMPLETED), (from + 1, ENDED), (from + 2, FAILED)];
                conditions.map(|(n, when)| after(n, &[(1, when)])).to_vec()
            };
            // What follows from the end of job 4, which waits for job 1 to fail.
            let leaves = vec![after(5, &[(4, COMPLETED)]), after(6, &[(4, ENDED)])];
            enqueue(store, [vec![job(1)], three(2), leaves].concat());
            end(store, ended, 0);
            assert_eq!([2, 3, 4].map(|n| state(store, n)), expected, "{ended:?}");
            let of_leaves = match expected[2] {
                State::Cancelled => [State::Discarded, State::Available],
                _ => [State::Pending, State::Pending],
            };
            assert_eq!([5, 6].map(|n| state(store, n)), of_leaves, "{ended:?}");
            // Those that are enqueued later are settled immediately.
            enqueue(store, three(12));
            assert_eq!([12, 13, 14].map(|n| state(store, n)), expected, "{ended:?}");
            for n in [4, 14]
                .into_iter()
                .filter(|_| expected[2] == State::Cancelled)
            {
                let end = if ended == State::Completed {
                    "completed"
                } else {
                    "was cancelled"
                };
                let expected = format!("not needed: job {} {end}, and did not fail", id(1));
                assert_eq!(reason(store, n), Some(expected));
            }
        });
    }
}

#[test]
fn all_conditions_of_a_job_must_hold() {
    check(|store| {
        let both = after(3, &[(1, ENDED), (2, FAILED)]);
        enqueue(store, vec![job(1), job(2), both]);
        ask(store, NOW, cancel(1)).unwrap();
        assert_eq!(state(store, 3), State::Pending);
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(2, 1, failed(false))).unwrap();
        assert_eq!(state(store, 3), State::Available);
    });
}

#[test]
fn a_prerequisite_that_runs_again_does_not_call_back_those_that_it_has_started() {
    check(|store| {
        let both = after(4, &[(1, FAILED), (3, COMPLETED)]);
        let started = after(2, &[(1, FAILED)]);
        let discarded = after(3, &[(1, COMPLETED)]);
        enqueue(store, vec![job(1), started, discarded, both]);
        end(store, State::Discarded, 0);
        assert_eq!([3, 4].map(|n| state(store, n)), [State::Discarded; 2]);
        ask(store, NOW, retry(1, false)).unwrap();
        assert_eq!(state(store, 2), State::Available);
        ask(store, NOW, cancel(2)).unwrap();
        ask(store, NOW, retry(2, false)).unwrap();
        assert_eq!(state(store, 2), State::Available, "it waits for nothing");
        // Those that waited look at their prerequisites as they are now.
        ask(store, NOW, retry(3, false)).unwrap();
        ask(store, NOW, retry(4, false)).unwrap();
        assert_eq!([3, 4].map(|n| state(store, n)), [State::Pending; 2]);
        end(store, State::Completed, 1);
        let expected = [State::Available, State::Cancelled];
        assert_eq!([3, 4].map(|n| state(store, n)), expected);
        // A completed job never fails.
        let refused = Err(Rejection::Job(JobRefusal::PrerequisiteCompleted(id(1))));
        assert_eq!(ask(store, NOW, retry(4, false)), refused);
        ask(store, NOW, retry(4, true)).unwrap();
        assert_eq!(state(store, 4), State::Available);
    });
}

#[test]
fn a_job_that_waits_for_a_failure_waits_for_a_cancelled_one_to_run_again() {
    check(|store| {
        enqueue(
            store,
            vec![job(1), after(2, &[(1, FAILED)]), after(3, &[(1, ENDED)])],
        );
        end(store, State::Cancelled, 0);
        ask(store, NOW, retry(2, false)).unwrap();
        assert_eq!(state(store, 2), State::Pending);
        ask(store, NOW, retry(1, false)).unwrap();
        ask(store, NOW, cancel(3)).unwrap();
        end(store, State::Discarded, 0);
        assert_eq!(state(store, 2), State::Available);
        // One that has ended lets a job start that is run again after it.
        ask(store, NOW, retry(3, false)).unwrap();
        assert_eq!(state(store, 3), State::Available);
    });
}

#[test]
fn a_job_that_waits_for_the_failure_of_one_that_is_purged_is_not_needed() {
    check(|store| {
        enqueue(store, vec![job(1), after(2, &[(1, FAILED)])]);
        end(store, State::Cancelled, 0);
        ask(store, NOW, retry(2, false)).unwrap();
        ask(store, NOW, Command::from(Purge { job: id(1) })).unwrap();
        assert_eq!(state(store, 2), State::Cancelled);
    });
}

#[test]
fn a_unique_key_joins_the_conditions_of_those_that_it_stands_for() {
    check(|store| {
        let keyed = |n| {
            let mut keyed = job(n);
            keyed.unique_key = Some(crate::jobs::unique(
                "k",
                host_core::job::UniqueScope::Active,
            ));
            keyed
        };
        let both = after(3, &[(1, COMPLETED), (2, FAILED)]);
        enqueue(store, vec![keyed(1), keyed(2), both]);
        end(store, State::Discarded, 0);
        assert_eq!(state(store, 3), State::Discarded, "it had to complete, too");
        let detail = store.reader().unwrap().job(id(3)).unwrap().unwrap();
        assert_eq!(
            detail.failure.unwrap().kind,
            FailureKind::PrerequisiteFailed
        );
        assert_eq!(detail.depends_on, [id(1)]);
    });
}

/// More than a batch settles.
const MANY: u128 = 600;

#[test]
fn many_that_wait_for_a_failure_are_cancelled_in_slices() {
    check(|store| {
        let wait = (2..2 + MANY).map(|n| after(n, &[(1, FAILED)]));
        enqueue(store, std::iter::once(job(1)).chain(wait).collect());
        end(store, State::Completed, 0);
        assert_eq!(state(store, 1 + MANY), State::Pending);
        let tick =
            |store: &mut dyn Store| commit(store, NOW, vec![Command::from(Tick { limit: 50 })]);
        let mut ticks = 0;
        while tick(store).next_wakeup == Some(Time(0)) {
            ticks += 1;
        }
        assert!(ticks > 5, "{ticks}");
        for n in [2, MANY, 1 + MANY] {
            assert_eq!(state(store, n), State::Cancelled);
        }
    });
}
