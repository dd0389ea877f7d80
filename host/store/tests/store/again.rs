//! The conformance suite, continued: jobs that are enqueued or run again, and the numbers of changes.

use host_core::job::{State, UniqueScope};
use host_core::json::JsonText;
use host_core::policy::Retention;
use host_core::query::JobFilter;
use host_engine::job::{Cancel, Enqueue, JobRefusal, Purge, Retry, Tick};
use host_engine::queue::{QueueRefusal, RemoveQueue};
use host_engine::{Command, Rejection, Reply};

use crate::cases::{check, state};
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, failed, id, job, returned, unique,
};

#[test]
fn changes_are_numbered_and_kept() {
    check(|store| {
        let first = commit(
            store,
            NOW,
            vec![Command::from(Enqueue(vec![job(1), job(2)]))],
        );
        let is = |number: Option<u64>, expected| number.is_none_or(|number| number == expected);
        assert!(is(first.first_change, 1) && first.changes.len() == 2);
        let second = commit(store, NOW.plus_ms(5), vec![claim([1], false)]);
        assert!(is(second.first_change, 3) && second.changes.len() == 1);
        assert!(is(commit(store, NOW, Vec::new()).first_change, 4));
        let reader = store.reader().unwrap();
        let read = |after, limit| reader.changes(after, limit).unwrap();
        let all = read(0, 10);
        assert_eq!((all.oldest, all.next), (1, 4));
        let shown: Vec<_> = all
            .items
            .iter()
            .map(|it| (it.number, it.at, it.change.job, it.change.to))
            .collect();
        let (available, running) = (Some(State::Available), Some(State::Running));
        let expected = [
            (1, NOW, id(1), available),
            (2, NOW, id(2), available),
            (3, NOW.plus_ms(5), id(1), running),
        ];
        assert_eq!(shown, expected);
        assert_eq!(read(1, 1).items, all.items[1..2]);
        assert_eq!(read(3, 10).items, []);
        assert_eq!(read(u64::MAX, 10).next, 4);
    });
}

/// A listener that catches up with a large batch reads it in pieces.
#[test]
fn changes_of_a_large_batch_are_read_page_by_page() {
    check(|store| {
        enqueue(store, (1..=2_500).map(job).collect());
        enqueue(store, vec![job(2_501)]);
        let reader = store.reader().unwrap();
        let mut seen = Vec::new();
        loop {
            let after = seen.last().map_or(0, |(number, _)| *number);
            let page = reader.changes(after, 700).unwrap();
            assert_eq!((page.oldest, page.next), (1, 2_502));
            let items = page.items.into_iter();
            seen.extend(items.map(|it| (it.number, it.change.job)));
            if (seen.len() as u64) < after + 700 {
                break;
            }
        }
        let expected = (1_u64..).zip((1..=2_501).map(id));
        assert!(seen.into_iter().eq(expected));
    });
}

#[test]
fn a_unique_key_stands_for_one_job_of_its_queue() {
    check(|store| {
        let keyed = |n| {
            let mut keyed = job(n);
            keyed.unique_key = Some(unique("k", UniqueScope::Active));
            keyed
        };
        let mut elsewhere = keyed(4);
        elsewhere.queue = "other".parse().unwrap();
        let same_batch = enqueue(store, vec![keyed(1), keyed(2)]);
        assert_eq!((same_batch[1].id, same_batch[1].existing), (id(1), true));
        let later = enqueue(store, vec![keyed(3), elsewhere]);
        assert_eq!((later[0].id, later[0].existing), (id(1), true));
        assert_eq!((later[1].id, later[1].existing), (id(4), false));
    });
}

#[test]
fn a_unique_key_holds_as_long_as_its_scope_says() {
    check(|store| {
        let keyed = |n, scope, params: &str| {
            let mut keyed = job(n);
            keyed.unique_key = Some(unique("k", scope));
            keyed.payload.params = JsonText(params.to_owned());
            keyed
        };
        let within = UniqueScope::Within { ms: 1_000 };
        enqueue(store, vec![keyed(1, UniqueScope::Active, "[1, 2]")]);
        let differs = enqueue(store, vec![keyed(2, UniqueScope::Active, "[2,1]")]);
        assert!(differs[0].existing && differs[0].params_differ);
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(1, 1, failed(false))).unwrap();
        for scope in [UniqueScope::Retained, within] {
            let stands = enqueue(store, vec![keyed(3, scope, "[1,2]")]);
            assert_eq!((stands[0].id, stands[0].existing), (id(1), true));
            assert!(!stands[0].params_differ);
        }
        let new = enqueue(store, vec![keyed(4, UniqueScope::Active, "[]")]);
        assert_eq!((new[0].id, new[0].existing), (id(4), false));

        let retry = |n| {
            Command::from(Retry {
                job: id(n),
                force: false,
            })
        };
        assert_eq!(
            ask(store, NOW, retry(1)),
            Err(Rejection::Job(JobRefusal::UniqueKeyTaken(id(4))))
        );
        claimed(store, NOW, claim([2], false));
        ask(store, NOW, complete(4, 2, returned())).unwrap();
        ask(store, NOW, retry(1)).unwrap();
        let stands = enqueue(store, vec![keyed(5, UniqueScope::Active, "[]")]);
        assert_eq!(stands[0].id, id(1), "the retried job has its key back");
        claimed(store, NOW, claim([3], false));
        ask(store, NOW, complete(1, 3, returned())).unwrap();
        let late = Command::from(Enqueue(vec![keyed(6, within, "[]")]));
        let reply = ask(store, NOW.plus_ms(1_000), late);
        let Ok(Reply::Enqueued(late)) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((late[0].id, late[0].existing), (id(6), false));
    });
}

#[test]
fn a_dependent_that_is_run_again_waits_for_its_prerequisites() {
    check(|store| {
        let mut dependent = job(3);
        dependent.depends_on = vec![id(1), id(2)];
        enqueue(store, vec![job(1), job(2), dependent.clone()]);
        claimed(store, NOW, claim([1, 2], false));
        ask(store, NOW, complete(1, 1, failed(false))).unwrap();
        ask(store, NOW, complete(2, 2, returned())).unwrap();
        assert_eq!(state(store, 3), State::Discarded);
        let retry = |n, force| Command::from(Retry { job: id(n), force });
        ask(store, NOW, retry(3, false)).unwrap();
        assert_eq!(state(store, 3), State::Pending, "one is still discarded");
        ask(store, NOW, retry(1, false)).unwrap();
        claimed(store, NOW, claim([3], false));
        ask(store, NOW, complete(1, 3, returned())).unwrap();
        assert_eq!(state(store, 3), State::Available);

        let mut forced = job(5);
        forced.depends_on = vec![id(4)];
        enqueue(store, vec![job(4), forced]);
        let cancel = Command::from(Cancel {
            job: id(4),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        ask(store, NOW, retry(5, true)).unwrap();
        assert_eq!(state(store, 5), State::Available);
    });
}

#[test]
fn a_dependent_does_not_wait_for_a_job_that_is_gone() {
    check(|store| {
        let mut short = job(1);
        short.policy.retention = Retention::equal(1_000);
        let mut waits = job(2);
        waits.depends_on = vec![id(1)];
        let mut later = job(3);
        later.depends_on = vec![id(1)];
        enqueue(store, vec![short, waits, later]);
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(1, 1, failed(false))).unwrap();
        let retry = |n, force| Command::from(Retry { job: id(n), force });
        ask(store, NOW, retry(2, false)).unwrap();
        let gone = NOW.plus_ms(1_000);
        ask(store, gone, Command::from(Tick { limit: 10 })).unwrap();
        assert_eq!(store.reader().unwrap().job(id(1)).unwrap(), None);
        assert_eq!(state(store, 2), State::Discarded);
        assert_eq!(
            ask(store, gone, retry(3, false)),
            Err(Rejection::Job(JobRefusal::PrerequisiteGone(id(1))))
        );
        ask(store, gone, retry(3, true)).unwrap();
        assert_eq!(state(store, 3), State::Available);
    });
}

/// More jobs than one page of a list examines.
const MANY: u128 = 21_000;

#[test]
fn a_filter_finds_a_job_behind_many_others() {
    check(|store| {
        let mut rare = job(1);
        rare.queue = "rare".parse().unwrap();
        rare.handler = "rare".parse().unwrap();
        enqueue(store, vec![rare]);
        claimed(store, NOW, claim([1], false));
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        let many: Vec<u128> = (2..2 + MANY).collect();
        for ids in many.chunks(1_000) {
            enqueue(store, ids.iter().map(|n| job(*n)).collect());
        }
        let reader = store.reader().unwrap();
        let none = JobFilter::default;
        for filter in [
            JobFilter {
                state: Some(State::Completed),
                ..none()
            },
            JobFilter {
                queue: Some("rare".parse().unwrap()),
                ..none()
            },
            JobFilter {
                handler: Some((None, "rare".parse().unwrap())),
                ..none()
            },
            JobFilter {
                queue: Some("rare".parse().unwrap()),
                handler: Some((None, "rare".parse().unwrap())),
                state: Some(State::Completed),
                ..none()
            },
        ] {
            let page = reader.jobs(&filter, None, 10).unwrap();
            let found: Vec<_> = page.items.iter().map(|item| item.lifecycle.id).collect();
            assert_eq!((found, page.next), (vec![id(1)], None), "{filter:?}");
        }
        for filter in [
            JobFilter {
                queue: Some("unknown".parse().unwrap()),
                ..none()
            },
            JobFilter {
                state: Some(State::Running),
                ..none()
            },
            JobFilter {
                queue: Some("rare".parse().unwrap()),
                state: Some(State::Available),
                ..none()
            },
        ] {
            let page = reader.jobs(&filter, None, 10).unwrap();
            assert!(page.items.is_empty() && page.next.is_none(), "{filter:?}");
        }
    });
}

#[test]
fn a_queue_is_removed_once_it_has_no_jobs() {
    check(|store| {
        let queue = job(1).queue;
        let remove = || {
            Command::from(RemoveQueue {
                queue: queue.clone(),
            })
        };
        let unknown = Rejection::from(QueueRefusal::Unknown(queue.clone()));
        assert_eq!(ask(store, NOW, remove()), Err(unknown.clone()));
        enqueue(store, vec![job(1)]);
        let has_jobs = Rejection::from(QueueRefusal::HasJobs(queue.clone()));
        assert_eq!(ask(store, NOW, remove()), Err(has_jobs.clone()));
        let cancel = Cancel {
            job: id(1),
            reason: None,
            grace_ms: None,
        };
        ask(store, NOW, cancel.into()).unwrap();
        assert_eq!(ask(store, NOW, remove()), Err(has_jobs));
        ask(store, NOW, Purge { job: id(1) }.into()).unwrap();
        ask(store, NOW, remove()).unwrap();
        assert_eq!(ask(store, NOW, remove()), Err(unknown));
        enqueue(store, vec![job(2)]);
        assert_eq!(claimed(store, NOW, claim([1], false)).len(), 1);
    });
}

#[test]
fn a_queue_stays_known_without_its_last_job() {
    check(|store| {
        enqueue(store, vec![job(1)]);
        let cancel = Command::from(Cancel {
            job: id(1),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        ask(store, NOW, Command::from(Purge { job: id(1) })).unwrap();
        let queues = store.reader().unwrap().queues().unwrap();
        let shown: Vec<_> = queues
            .iter()
            .map(|it| (it.name.as_str(), it.counts))
            .collect();
        assert_eq!(shown, [("default", [0; 8])]);
    });
}
