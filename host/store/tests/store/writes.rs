//! The conformance suite, continued: what an attempt writes with its end.

use host_core::failure::FailureKind;
use host_core::job::{State, UniqueScope};
use host_core::lease::Fence;
use host_core::outcome::Outcome;
use host_core::state::{SpaceUsage, StateWrite, StateWrites, Usage};
use host_core::writes::Writes;
use host_engine::lease::{Complete, LeaseRefusal};
use host_engine::state::tables::StateEntry;
use host_engine::table::Range;
use host_engine::{Command, Rejection, Store, lease};

use crate::cases::check;
use crate::jobs::{
    NOW, ask, claim, commit, complete, enqueue, failed, id, job, lease, read, returned, set_state,
    unique,
};

/// The end of the attempt of job `n`, which was claimed with the lease `n`.
pub(crate) fn end(n: u128, outcome: Outcome, writes: Writes) -> Command {
    let mut command = complete(n, n, outcome);
    if let Command::Lease(lease::Command::Complete(Complete { writes: of_end, .. })) = &mut command
    {
        *of_end = Some(Box::new(writes));
    }
    command
}

fn jobs(numbers: impl IntoIterator<Item = u128>) -> Writes {
    Writes {
        jobs: numbers.into_iter().map(job).collect(),
        ..Writes::default()
    }
}

pub(crate) fn start(store: &mut dyn Store, n: u128) {
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
        if let Command::Lease(lease::Command::Complete(Complete { fence, .. })) = &mut stale {
            *fence = Fence::Lease(lease(9));
        }
        let committed = commit(store, NOW, vec![stale]);
        assert_eq!(
            committed.replies,
            [Err(Rejection::Lease(LeaseRefusal::Stale))]
        );
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
        let writes = Writes {
            jobs: vec![first],
            ..Writes::default()
        };
        commit(store, NOW, vec![end(1, returned(), writes)]);
        assert_eq!(state(store, 1), Some(State::Completed));
        assert_eq!(state(store, 3), None);
    });
}

const OWN: &str = "handler:noop";

/// Changes of the own state with an attempt's end.
fn writes(quota_bytes: u64, writes: Vec<StateWrite>) -> Writes {
    Writes {
        state: vec![StateWrites {
            space: OWN.parse().unwrap(),
            quota_bytes,
            writes,
        }],
        ..Writes::default()
    }
}

fn set(key: &str, value: &[u8]) -> StateWrite {
    StateWrite {
        key: key.to_owned(),
        value: Some(value.to_vec()),
        expected: None,
    }
}

fn value(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    let reader = store.reader().unwrap();
    let found = reader
        .get::<StateEntry>((&OWN.parse().unwrap(), key))
        .unwrap();
    found.map(|found| found.value.value)
}

#[test]
fn state_is_committed_with_the_end_of_an_attempt_that_completes() {
    check(|store| {
        start(store, 1);
        commit(
            store,
            NOW,
            vec![end(1, failed(true), writes(1_000, vec![set("a", b"1")]))],
        );
        assert_eq!(value(store, "a"), None);
        start(store, 2);
        let mut both = writes(1_000, vec![set("a", b"2"), set("b", b"")]);
        both.jobs = vec![job(3)];
        commit(store, NOW.plus_ms(1), vec![end(2, returned(), both)]);
        assert_eq!(value(store, "a"), Some(b"2".to_vec()));
        assert_eq!(value(store, "b"), Some(Vec::new()));
        assert_eq!(state(store, 3), Some(State::Available));
        let all = read(&*store.reader().unwrap()).state;
        assert_eq!(
            all[0].0.usage,
            Usage {
                keys: 2,
                bytes: 131
            }
        );
        assert_eq!(all[0].1[0].1.at, NOW.plus_ms(1));
        ask(store, NOW, set_state(OWN, "a", None)).unwrap();
        ask(store, NOW, set_state(OWN, "a", None)).unwrap();
        ask(store, NOW, set_state(OWN, "b", None)).unwrap();
        assert_eq!(read(&*store.reader().unwrap()).state, []);
    });
}

#[test]
fn a_key_that_was_changed_meanwhile_fails_the_attempt_and_nothing_is_written() {
    check(|store| {
        ask(store, NOW, set_state(OWN, "a", Some(b"1"))).unwrap();
        let compared = |expected: Option<&[u8]>| {
            let mut change = set("a", b"2");
            change.expected = Some(expected.map(<[u8]>::to_vec));
            let mut all = writes(1_000, vec![set("b", b"2"), change]);
            all.jobs = vec![job(50)];
            all
        };
        for (n, expected) in [(1, None), (2, Some(&b"0"[..])), (3, Some(b"10"))] {
            start(store, n);
            commit(store, NOW, vec![end(n, returned(), compared(expected))]);
            let detail = store.reader().unwrap().job(id(n)).unwrap().unwrap();
            assert_eq!(detail.lifecycle.state, State::Retryable);
            let failure = detail.failure.unwrap();
            assert_eq!(failure.kind, FailureKind::WritesRefused);
            assert!(
                failure
                    .message
                    .contains("the key \"a\" of the state handler:noop has changed")
            );
            assert_eq!((value(store, "b"), state(store, 50)), (None, None));
        }
        start(store, 4);
        commit(store, NOW, vec![end(4, returned(), compared(Some(b"1")))]);
        assert_eq!(value(store, "a"), Some(b"2".to_vec()));
        assert_eq!(state(store, 50), Some(State::Available));
    });
}

/// Of two attempts that saw the same value, one wins, also if they end in the same batch.
#[test]
fn attempts_that_end_in_one_batch_see_what_those_before_have_written() {
    check(|store| {
        enqueue(store, vec![job(1), job(2), job(3)]);
        commit(store, NOW, vec![claim([1, 2, 3], false)]);
        let first = |expected: Option<&[u8]>, new: &[u8]| {
            let mut change = set("a", new);
            change.expected = Some(expected.map(<[u8]>::to_vec));
            writes(1_000, vec![change])
        };
        let batch = vec![
            end(1, returned(), first(None, b"1")),
            end(2, returned(), first(None, b"2")),
            end(3, returned(), first(Some(b"1"), b"3")),
        ];
        commit(store, NOW, batch);
        assert_eq!(value(store, "a"), Some(b"3".to_vec()));
        let states = [1, 2, 3].map(|n| state(store, n).unwrap());
        let completed = State::Completed;
        assert_eq!(states, [completed, State::Retryable, completed]);
    });
}

#[test]
fn a_space_above_its_quota_may_only_shrink() {
    check(|store| {
        start(store, 1);
        commit(
            store,
            NOW,
            vec![end(1, returned(), writes(300, vec![set("a", &[7; 200])]))],
        );
        start(store, 2);
        commit(
            store,
            NOW,
            vec![end(2, returned(), writes(300, vec![set("b", &[7; 200])]))],
        );
        let detail = store.reader().unwrap().job(id(2)).unwrap().unwrap();
        let message = detail.failure.unwrap().message;
        assert!(
            message.contains("530 bytes, more than the 300"),
            "{message}"
        );
        start(store, 3);
        commit(
            store,
            NOW,
            vec![end(3, returned(), writes(100, vec![set("a", &[7; 100])]))],
        );
        assert_eq!(state(store, 3), Some(State::Completed), "it shrinks");
        assert_eq!(value(store, "a"), Some(vec![7; 100]));
    });
}

#[test]
fn keys_are_listed_in_pages_and_by_prefix() {
    check(|store| {
        for key in ["b/2", "a", "b/1", "b", "b/10", "c", "ü"] {
            ask(store, NOW, set_state(OWN, key, Some(b"1"))).unwrap();
        }
        ask(store, NOW, set_state("shared:b", "b/3", Some(b"1"))).unwrap();
        let reader = store.reader().unwrap();
        let keys = |prefix: &str, after: &str, limit| -> Vec<String> {
            let found = reader.state_keys(&OWN.parse().unwrap(), prefix, after, limit);
            found.unwrap().into_iter().map(|it| it.key).collect()
        };
        assert_eq!(keys("", "", 99), ["a", "b", "b/1", "b/10", "b/2", "c", "ü"]);
        assert_eq!(keys("b/", "", 99), ["b/1", "b/10", "b/2"]);
        assert_eq!(keys("b/", "b/1", 1), ["b/10"]);
        assert_eq!(keys("b", "b", 2), ["b/1", "b/10"]);
        assert_eq!(keys("b/", "c", 99), Vec::<String>::new());
        let spaces = |after: &str, limit| -> Vec<String> {
            let found = reader
                .list::<SpaceUsage>(Range::all().marked().after(after).first(limit))
                .unwrap()
                .into_iter();
            found.map(|it| it.space.to_string()).collect()
        };
        assert_eq!(spaces("", 1), [OWN]);
        assert_eq!(spaces(OWN, 9), ["shared:b"]);
    });
}
