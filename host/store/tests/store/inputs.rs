//! The conformance suite, continued: jobs that get the results of those that they depend on.

use host_core::failure::FailureKind;
use host_core::job::{NewJob, OnConflict, State, UniqueScope};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::prerequisite::{Conditions, When};
use host_core::time::Time;
use host_engine::job::inputs::{INPUTS_MAX, PARAMS_BYTES_MAX};
use host_engine::job::{Cancel, Enqueue, JobRefusal, Purge, Retry, Tick};
use host_engine::{Command, Rejection, Store};

use crate::cases::{check, state};
use crate::jobs::{
    NOW, after, ask, claim, claimed, commit, complete, enqueue, failed, id, job, returned, unique,
};

const COMPLETED: When = When::Completed;

/// A job that gets the results of others, each below `j` and its number.
fn with_inputs(n: u128, prerequisites: &[(u128, When)]) -> NewJob {
    let mut new = after(n, prerequisites);
    let input = |(of, _): &(u128, When)| (format!("j{of}").into(), id(*of));
    new.conditions = Conditions {
        inputs: prerequisites.iter().map(input).collect(),
        reads_others: true,
        ..new.conditions.map(|it| *it).unwrap_or_default()
    }
    .some();
    new
}

fn params(store: &dyn Store, n: u128) -> String {
    let job = store.reader().unwrap().job(id(n)).unwrap().unwrap();
    job.payload.params.0
}

/// Claims a job, which is the first, and ends it.
fn end(store: &mut dyn Store, n: u128, outcome: Outcome) {
    assert_eq!(
        claimed(store, NOW, claim([n], false))[0].lifecycle.id,
        id(n)
    );
    ask(store, NOW, complete(n, n, outcome)).unwrap();
}

fn result(text: String) -> Outcome {
    let result = Some(JsonText(text));
    Outcome::Completed { result }
}

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

#[test]
fn results_are_in_the_params_when_a_job_starts() {
    check(|store| {
        let both = with_inputs(4, &[(1, COMPLETED), (2, When::Ended), (3, When::Ended)]);
        enqueue(store, vec![job(1), job(2), job(3), both]);
        end(store, 1, returned());
        assert_eq!(params(store, 4), r#"{"inputs":{"j1":[1,2]},"n":4}"#);
        // A result that is forgotten in the meantime was given before.
        ask(store, NOW, Command::from(Purge { job: id(1) })).unwrap();
        ask(store, NOW, cancel(2)).unwrap();
        end(store, 3, Outcome::Completed { result: None });
        let expected = r#"{"inputs":{"j1":[1,2],"j2":null,"j3":null},"n":4}"#;
        assert_eq!(params(store, 4), expected);
        let taken = claimed(store, NOW, claim([4], false));
        assert_eq!(taken[0].payload.params.as_str(), expected);
        // They stay for other attempts.
        ask(store, NOW, complete(4, 4, failed(false))).unwrap();
        ask(store, NOW, retry(4, false)).unwrap();
        let again = claimed(store, NOW, claim([5], false));
        assert_eq!(again[0].payload.params.as_str(), expected);
    });
}

#[test]
fn a_job_gets_the_results_of_those_that_have_ended_at_once() {
    check(|store| {
        enqueue(store, vec![job(1), job(2)]);
        end(store, 1, returned());
        ask(store, NOW, cancel(2)).unwrap();
        let all = with_inputs(3, &[(1, COMPLETED), (2, When::Ended)]);
        enqueue(store, vec![all, with_inputs(4, &[(1, COMPLETED)])]);
        assert_eq!(
            params(store, 3),
            r#"{"inputs":{"j1":[1,2],"j2":null},"n":3}"#
        );
        assert_eq!(params(store, 4), r#"{"inputs":{"j1":[1,2]},"n":4}"#);
        assert_eq!([3, 4].map(|n| state(store, n)), [State::Available; 2]);
    });
}

/// A handler, or a principal without the verb, gets only results of jobs that it enqueues in the same command, and no
/// unique key makes another job count as one of them.
#[test]
fn results_of_other_jobs_are_only_for_those_who_may_read_them() {
    check(|store| {
        let hidden = |n, of| {
            let mut new = with_inputs(n, &[(of, COMPLETED)]);
            if let Some(conditions) = &mut new.conditions {
                conditions.reads_others = false;
            }
            new
        };
        let keyed = |n| NewJob {
            unique_key: Some(unique("k", UniqueScope::Retained)),
            ..job(n)
        };
        enqueue(store, vec![keyed(1)]);
        let refused = Err(Rejection::Job(JobRefusal::InputHidden(id(1))));
        let ask_for = |store: &mut dyn Store, jobs| ask(store, NOW, Command::from(Enqueue(jobs)));
        assert_eq!(ask_for(store, vec![hidden(2, 1)]), refused);
        assert_eq!(ask_for(store, vec![keyed(3), hidden(4, 3)]), refused);
        assert_eq!(store.reader().unwrap().job(id(4)).unwrap(), None);
        end(store, 1, returned());
        assert_eq!(ask_for(store, vec![hidden(2, 1)]), refused);
        ask_for(store, vec![job(5), hidden(6, 5)]).unwrap();
        end(store, 5, returned());
        assert_eq!(params(store, 6), r#"{"inputs":{"j5":[1,2]},"n":6}"#);
    });
}

#[test]
fn a_result_that_does_not_fit_fails_the_job_and_no_other() {
    check(|store| {
        let leaf = after(4, &[(2, COMPLETED)]);
        let jobs = vec![
            job(1),
            with_inputs(2, &[(1, COMPLETED)]),
            after(3, &[(1, COMPLETED)]),
        ];
        enqueue(store, [jobs, vec![leaf]].concat());
        end(
            store,
            1,
            result(format!("{:?}", "x".repeat(PARAMS_BYTES_MAX))),
        );
        let expected = [State::Discarded, State::Available, State::Discarded];
        assert_eq!([2, 3, 4].map(|n| state(store, n)), expected);
        let failure = store
            .reader()
            .unwrap()
            .job(id(2))
            .unwrap()
            .unwrap()
            .failure
            .unwrap();
        assert_eq!(failure.kind, FailureKind::InputFailed);
        let start = format!(
            "input_failed: the input \"j1\" is the result of job {}: with it",
            id(1)
        );
        assert!(failure.message.starts_with(&start), "{}", failure.message);
        // A new job is refused, and to run one again does not help.
        let late = Command::from(Enqueue(vec![job(6), with_inputs(5, &[(1, COMPLETED)])]));
        let refused = ask(store, NOW, late);
        assert!(
            matches!(
                refused,
                Err(Rejection::Job(JobRefusal::TooManyInputs { .. }))
            ),
            "{refused:?}"
        );
        assert_eq!(store.reader().unwrap().job(id(6)).unwrap(), None);
        let refused = ask(store, NOW, retry(2, false));
        assert!(
            matches!(&refused, Err(Rejection::Job(JobRefusal::InputFailed(_)))),
            "{refused:?}"
        );
        ask(store, NOW, retry(2, true)).unwrap();
        assert_eq!(
            (state(store, 2), params(store, 2)),
            (State::Available, r#"{"n":2}"#.to_owned())
        );
    });
}

#[test]
fn a_job_that_runs_again_gets_what_it_lacks() {
    check(|store| {
        let both = with_inputs(3, &[(1, COMPLETED), (2, COMPLETED)]);
        let leaf = with_inputs(4, &[(3, COMPLETED)]);
        enqueue(store, vec![job(1), job(2), both, leaf]);
        end(store, 1, failed(false));
        end(store, 2, returned());
        assert_eq!([3, 4].map(|n| state(store, n)), [State::Discarded; 2]);
        ask(store, NOW, retry(1, false)).unwrap();
        ask(store, NOW, retry(3, false)).unwrap();
        assert_eq!(params(store, 3), r#"{"inputs":{"j2":[1,2]},"n":3}"#);
        claimed(store, NOW, claim([11], false));
        ask(store, NOW, complete(1, 11, returned())).unwrap();
        assert_eq!(
            params(store, 3),
            r#"{"inputs":{"j1":[1,2],"j2":[1,2]},"n":3}"#
        );
        end(store, 3, returned());
        // All that it waits for has ended in the meantime.
        ask(store, NOW, retry(4, false)).unwrap();
        let given = (
            State::Available,
            r#"{"inputs":{"j3":[1,2]},"n":4}"#.to_owned(),
        );
        assert_eq!((state(store, 4), params(store, 4)), given);
    });
}

/// Results are copied in slices of bytes, however few jobs wait.
#[test]
fn large_results_are_given_in_slices() {
    const WAITING: u128 = 30;
    check(|store| {
        let wait = (2..2 + WAITING).map(|n| with_inputs(n, &[(1, COMPLETED)]));
        enqueue(store, std::iter::once(job(1)).chain(wait).collect());
        end(store, 1, result(format!("{:?}", "x".repeat(1 << 20))));
        let waiting = |store: &dyn Store| {
            let all = 2..2 + WAITING;
            all.filter(|n| state(store, *n) == State::Pending).count()
        };
        let mut left = vec![waiting(store)];
        while commit(store, NOW, vec![Command::from(Tick { limit: 1_000 })]).next_wakeup
            == Some(Time(0))
        {
            left.push(waiting(store));
        }
        assert_eq!(left, [22, 14, 6]);
        assert_eq!(waiting(store), 0);
        assert!(params(store, 1 + WAITING).len() > 1 << 20);
    });
}

#[test]
fn a_request_reads_a_limited_number_of_results() {
    check(|store| {
        let last = INPUTS_MAX as u128 + 1;
        enqueue(store, (1..=last).map(job).collect());
        for n in 1..=last {
            end(store, n, returned());
        }
        let all: Vec<(u128, When)> = (1..=last).map(|n| (n, COMPLETED)).collect();
        let (first, rest) = all.split_at(INPUTS_MAX);
        let too_many = vec![with_inputs(201, first), with_inputs(202, rest)];
        let refused = ask(store, NOW, Command::from(Enqueue(too_many)));
        assert!(
            matches!(
                refused,
                Err(Rejection::Job(JobRefusal::TooManyInputs { .. }))
            ),
            "{refused:?}"
        );
        enqueue(
            store,
            vec![with_inputs(201, first), with_inputs(202, &first[..1])],
        );
        assert_eq!([201, 202].map(|n| state(store, n)), [State::Available; 2]);
    });
}

#[test]
fn a_job_with_inputs_keeps_its_params() {
    check(|store| {
        let keyed = |new: NewJob, on_conflict| {
            let mut key = unique("k", UniqueScope::Active);
            key.on_conflict = on_conflict;
            NewJob {
                unique_key: Some(key),
                ..new
            }
        };
        let first = keyed(with_inputs(2, &[(1, COMPLETED)]), OnConflict::Keep);
        enqueue(store, vec![job(1), first]);
        end(store, 1, returned());
        let given = r#"{"inputs":{"j1":[1,2]},"n":2}"#;
        assert_eq!(params(store, 2), given);
        let mut same = keyed(job(3), OnConflict::Keep);
        same.payload.params = JsonText(r#"{"n":2}"#.to_owned());
        let replies = enqueue(store, vec![same]);
        assert!(replies[0].existing && !replies[0].params_differ);
        let replies = enqueue(store, vec![keyed(job(4), OnConflict::Replace)]);
        assert!(replies[0].existing && replies[0].params_differ);
        assert_eq!(params(store, 2), given);
    });
}
