//! Limits by key: who sets them, how many there may be, and which jobs each concerns, on each engine.

use host_core::access::Scope;
use host_core::job::{NewJob, State};
use host_core::json::JsonText;
use host_engine::job::Enqueue;
use host_engine::limit::{Limit, LimitRefusal};
use host_engine::schedule::Source;
use host_engine::{Command, Rejection};

use crate::cases::{check, state};
use crate::jobs::{NOW, ask, commit, enqueue, id, job};
use crate::limit_keys::{by_customer, of, remove_limit, set_limit};

#[test]
fn a_limit_is_changed_by_whom_it_belongs_to_and_there_are_not_too_many() {
    check(|store| {
        let mine = by_customer(Some(1), None);
        ask(store, NOW, set_limit(mine.clone())).unwrap();
        let theirs = Limit {
            source: Source::Configuration,
            ..mine.clone()
        };
        let (limit, owner) = (mine.name.clone(), Source::Api);
        let refused = Err(Rejection::Limit(LimitRefusal::Owned { limit, owner }));
        assert_eq!(ask(store, NOW, set_limit(theirs)), refused);
        let unknown = Err(Rejection::Limit(LimitRefusal::Unknown(
            "other".parse().unwrap(),
        )));
        assert_eq!(ask(store, NOW, remove_limit("other")), unknown);
        let named = |n: usize| Limit {
            name: format!("limit-{n}").parse().unwrap(),
            ..mine.clone()
        };
        let four = (1..=4).map(|n| set_limit(named(n)));
        commit(store, NOW, four.collect());
        let refused = Err(Rejection::Limit(LimitRefusal::TooManyOfJob { limit: 4 }));
        assert_eq!(
            ask(store, NOW, Command::from(Enqueue(vec![of(7, 1)]))),
            refused
        );
        let rest = (5..=1_000).map(|n| set_limit(named(n)));
        let committed = commit(store, NOW, rest.collect());
        let refused = Err(Rejection::Limit(LimitRefusal::TooMany { limit: 1_000 }));
        assert_eq!(committed.replies.last(), Some(&refused));
        assert!(committed.replies[994].is_ok());
    });
}

#[test]
fn a_limit_concerns_the_jobs_that_follow_it_in_its_batch() {
    check(|store| {
        let new = |n| Command::from(Enqueue(vec![of(7, n)]));
        let limited = set_limit(by_customer(Some(1), None));
        let removed = remove_limit("by-customer");
        let commands = vec![new(1), limited, new(2), new(3), removed, new(4)];
        let committed = commit(store, NOW, commands);
        assert!(committed.replies.iter().all(Result::is_ok));
        let reader = store.reader().unwrap();
        let keys = |n| {
            let job = reader.job(id(n)).unwrap().unwrap();
            job.lifecycle.limits.keys.len()
        };
        assert_eq!([1, 2, 3, 4].map(keys), [0, 1, 1, 0]);
    });
}

#[test]
fn a_key_that_is_too_long_is_refused() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut long = job(1);
        long.payload.params = JsonText(format!("{{\"customer\":\"{}\"}}", "x".repeat(257)));
        let refused = Err(Rejection::Limit(LimitRefusal::KeyTooLong {
            limit: "by-customer".parse().unwrap(),
            bytes: 257,
            bytes_max: 256,
        }));
        assert_eq!(ask(store, NOW, Command::from(Enqueue(vec![long]))), refused);
    });
}

#[test]
fn jobs_of_other_queues_and_handlers_are_not_limited() {
    check(|store| {
        let limit = Limit {
            matches: Scope {
                queues: vec!["mail*".to_owned().try_into().unwrap()],
                handlers: vec!["noop".to_owned().try_into().unwrap()],
            },
            ..by_customer(Some(1), None)
        };
        ask(store, NOW, set_limit(limit)).unwrap();
        let in_queue = |queue: &str, n| NewJob {
            queue: queue.parse().unwrap(),
            ..of(7, n)
        };
        let mut other = in_queue("mail", 3);
        other.handler = "other".parse().unwrap();
        let jobs = vec![
            in_queue("mail", 1),
            in_queue("mails", 2),
            other,
            of(7, 4),
            of(7, 5),
        ];
        enqueue(store, jobs);
        let states: Vec<State> = (1..=5).map(|n| state(store, n)).collect();
        let available = State::Available;
        assert_eq!(
            states,
            [available, State::Pending, available, available, available]
        );
    });
}
