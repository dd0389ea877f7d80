//! Each filter of lists, in both orders, in pages, as a list of ids and as a count.

use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::{NewJob, State, UniqueScope};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::query::{JobFilter, Order};
use host_engine::job::{Cancel, Enqueue, Purge, Reschedule, SetPriority};
use host_engine::{Command, Store};
use host_store::sqlite::SqliteStore;
use tempfile::TempDir;

use crate::cases::check;
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, foreign, id, job, returned, unique,
};

/// How many jobs `fill` makes.
const JOBS: u128 = 8;

/// Makes jobs 1 to 8, each a second after the one before.
fn fill(store: &mut dyn Store) {
    for n in 1..JOBS {
        let mut job = job(n);
        let seconds = u64::try_from(n).unwrap();
        if n % 2 == 0 {
            job.payload.attributes = vec![
                ("other".to_owned(), "b".to_owned()),
                ("team".to_owned(), "a".to_owned()),
            ];
            job.queue = "even".parse().unwrap();
        }
        if n == 3 {
            job.unique_key = Some(unique("key", UniqueScope::Active));
        }
        commit(
            store,
            NOW.plus_ms(1_000 * seconds),
            vec![Command::from(Enqueue(vec![job]))],
        );
    }
    let last = NOW.plus_ms(8_000);
    commit(store, last, vec![foreign(JOBS, returned())]);
    claimed(store, last, claim([1, 2, 3], false));
    let failures = [
        (1, FailureKind::UserError, "NoCustomer"),
        (2, FailureKind::TimedOut, "Slow"),
    ];
    for (n, kind, name) in failures {
        let failure = Failure {
            retryable: Some(false),
            user_kind: Some(name.to_owned()),
            ..Failure::new(kind, "no luck")
        };
        ask(store, last, complete(n, n, Outcome::Failed(failure))).unwrap();
    }
}

fn found(store: &dyn Store, filter: &JobFilter) -> Vec<u128> {
    let number = |id: JobId| id.0.as_u128() & 0xff;
    let reader = store.reader().unwrap();
    let (mut listed, mut matching, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = reader.jobs(filter, after, 2).unwrap();
        let ids = reader.matching(filter, after, 2).unwrap();
        assert_eq!(page.next, ids.next);
        listed.extend(page.items.iter().map(|job| number(job.lifecycle.id)));
        matching.extend(ids.items.into_iter().map(number));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, matching);
    let count = reader.count(filter, None, 1_000).unwrap();
    assert!(count.complete);
    assert_eq!(count.jobs, listed.len() as u64, "{filter:?}");
    let jobs = listed.iter().map(|n| reader.job(id(*n)).unwrap().unwrap());
    let times: Vec<_> = jobs.map(|job| job.lifecycle.enqueued_at).collect();
    assert_eq!(count.oldest, times.iter().min().copied(), "{filter:?}");
    assert_eq!(count.newest, times.iter().max().copied(), "{filter:?}");
    listed
}

#[test]
fn each_filter_finds_its_jobs_in_both_orders() {
    check(|store| {
        fill(store);
        let text = |text: &str| Some(text.to_owned());
        let even = || Some("even".parse().unwrap());
        let pair = |key: &str, value: &str| vec![(key.to_owned(), value.to_owned())];
        let both = |team: &str, other: &str| [pair("team", team), pair("other", other)].concat();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let cases: [(&dyn Fn(&mut JobFilter), &[u128]); 25] = [
            (
                &|it| {
                    it.since = Some(NOW.plus_ms(6_000));
                    it.wire = text("http");
                },
                &[6, 7],
            ),
            (
                &|it| {
                    it.until = Some(NOW.plus_ms(3_000));
                    it.wire = text("http");
                },
                &[1, 2],
            ),
            (&|it| it.failure = Some(FailureKind::TimedOut), &[2]),
            (&|it| it.failure = Some(FailureKind::UserError), &[1]),
            (&|it| it.user_kind = text("NoCustomer"), &[1]),
            (&|it| it.user_kind = text("NoCust"), &[]),
            (
                &|it| {
                    it.user_kind = text("Slow");
                    it.state = Some(State::Discarded);
                    it.queue = even();
                },
                &[2],
            ),
            (&|it| it.wire = text("rrq"), &[8]),
            (&|it| it.wire = text("hero"), &[]),
            (&|it| it.unique_key = text("key"), &[3]),
            (&|it| it.unique_key = text("ke"), &[]),
            (&|it| it.attributes = pair("team", "a"), &[2, 4, 6]),
            (&|it| it.attributes = pair("team", "b"), &[]),
            (&|it| it.attributes = both("a", "b"), &[2, 4, 6]),
            (&|it| it.attributes = both("a", "a"), &[]),
            (&|it| it.words = words(&["eve", "team"]), &[2, 4, 6]),
            (&|it| it.words = words(&["luck"]), &[1, 2]),
            (&|it| it.words = words(&["nocustomer", "no lu"]), &[1]),
            (&|it| it.words = words(&["even", "key"]), &[]),
            (&|it| it.id = text(&id(5).to_string()), &[5]),
            (
                &|it| it.id = text(&id(5).to_string()[..35]),
                &[1, 2, 3, 4, 5, 6, 7, 8],
            ),
            (&|it| it.id = text("0198"), &[]),
            (
                &|it| {
                    it.id = text("0199");
                    it.queue = even();
                },
                &[2, 4, 6],
            ),
            (
                &|it| {
                    it.state = Some(State::Discarded);
                    it.queue = even();
                    it.failure = Some(FailureKind::TimedOut);
                    it.attributes = pair("other", "b");
                },
                &[2],
            ),
            (
                &|it| {
                    it.state = Some(State::Running);
                    it.id = text("0199");
                },
                &[3],
            ),
        ];
        for (set, expected) in cases {
            let mut filter = JobFilter::default();
            set(&mut filter);
            let oldest = JobFilter {
                order: Order::Oldest,
                ..filter.clone()
            };
            assert_eq!(found(store, &oldest), expected, "{filter:?}");
            let mut newest = found(store, &filter);
            newest.reverse();
            assert_eq!(newest, expected, "{filter:?}");
        }
        let page = store.reader().unwrap().jobs(&JobFilter::default(), None, 9);
        let names: Vec<_> = page
            .unwrap()
            .items
            .into_iter()
            .rev()
            .map(|job| job.failure.and_then(|failure| failure.user_kind))
            .collect();
        assert_eq!(names[..3], [text("NoCustomer"), text("Slow"), None]);
    });
}

#[test]
fn jobs_are_found_by_their_params_their_cause_and_what_they_wait_for() {
    check(|store| {
        let params = |text: &str| JsonText(text.to_owned());
        let mut first = job(1);
        first.payload.params = params(r#"{"order": {"id": 77}, "note": "\u00c4 b"}"#);
        let mut second = job(2);
        second.payload.params = params(r#"{"order": {"id": 78}}"#);
        let mut third = job(3);
        third.depends_on = vec![id(1)];
        commit(
            store,
            NOW,
            vec![Command::from(Enqueue(vec![first, second, third]))],
        );
        for (params, words, expected) in [
            (vec![("order.id", "77")], vec![], vec![1]),
            (vec![("note", "Ä b")], vec![], vec![1]),
            (vec![("order.id", "7")], vec![], vec![]),
            (vec![("order.id", "77"), ("note", "Ä b")], vec![], vec![1]),
            (vec![("order.id", "78"), ("note", "Ä b")], vec![], vec![]),
            (vec![], vec!["order", "ä b"], vec![1]),
            (vec![], vec!["order", "7"], vec![2, 1]),
            (vec![("order.id", "78")], vec!["77"], vec![]),
        ] {
            let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
            let filter = JobFilter {
                params: params.into_iter().map(owned).collect(),
                words: words.into_iter().map(str::to_owned).collect(),
                ..JobFilter::default()
            };
            assert_eq!(found(store, &filter), expected, "{filter:?}");
        }
        let reader = store.reader().unwrap();
        assert_eq!(reader.dependents(id(1), 9).unwrap(), [id(3)]);
        assert_eq!(reader.dependents(id(1), 0).unwrap(), []);
        drop(reader);

        claimed(store, NOW, claim([1], false));
        let failure = Failure::new(FailureKind::InvalidParams, "order 77 is unknown");
        ask(store, NOW, complete(1, 1, Outcome::Failed(failure))).unwrap();
        let all = store
            .reader()
            .unwrap()
            .jobs(&JobFilter::default(), None, 9)
            .unwrap();
        let first = all.items.iter().find(|job| job.lifecycle.id == id(1));
        let cause = first.unwrap().cause.clone().unwrap();
        assert_eq!(cause.pattern, "order # is unknown");
        for (fingerprint, expected) in [(cause.fingerprint, vec![1]), ("0".repeat(12), vec![])] {
            let filter = JobFilter {
                fingerprint: Some(fingerprint),
                ..JobFilter::default()
            };
            assert_eq!(found(store, &filter), expected, "{filter:?}");
        }
    });
}

#[test]
fn the_oldest_available_job_of_each_queue_is_found() {
    check(|store| {
        let name = |text: &str| text.parse().unwrap();
        let at = |n: u64| NOW.plus_ms(1_000 * n);
        // The queue, the priority, and the executor if there is one; the first has been claimed below.
        let jobs = [
            ("a", 0, None),
            ("a", 9, None),
            ("a", 0, None),
            ("b", 5, Some("python")),
            ("b", 3, None),
            ("c", 5, Some("ruby")),
        ];
        for (n, (queue, priority, executor)) in (1..).zip(jobs) {
            let job = NewJob {
                queue: name(queue),
                priority,
                executor: executor.map(name),
                ..job(n.into())
            };
            commit(store, at(n), vec![Command::from(Enqueue(vec![job]))]);
        }
        claimed(store, at(9), claim([1], false));
        let reader = store.reader().unwrap();
        let oldest = |queues: &[&str], executors: &[&str]| {
            let names = |names: &[&str]| names.iter().map(|it| name(it)).collect::<Vec<_>>();
            let mut found = reader
                .oldest_available(&names(queues), &names(executors))
                .unwrap();
            found.sort();
            found
        };
        let all = ["a", "b", "c", "none"];
        let expected = [(name("a"), at(2)), (name("b"), at(5))];
        assert_eq!(oldest(&all, &[]), expected);
        let expected = [(name("a"), at(2)), (name("b"), at(4))];
        assert_eq!(oldest(&all, &["python", "perl"]), expected);
        assert_eq!(oldest(&["c"], &["ruby"]), [(name("c"), at(6))]);
        assert_eq!(oldest(&[], &["ruby"]), []);
    });
}

/// Runs a case on each engine, without the model.
fn check_engines(case: impl Fn(&mut dyn Store)) {
    let folder = TempDir::new().unwrap();
    case(&mut SqliteStore::open(&folder.path().join("host.db")).unwrap());
    crate::postgres::check(case);
}

#[test]
fn a_search_for_what_few_jobs_have_takes_several_pages_and_finds_all() {
    check_engines(|store| {
        let rare = JsonText(r#"{"note": "rare"}"#.to_owned());
        let new = (1..=6_000).map(|n| {
            let mut new = job(n);
            if n % 5_990 == 1 {
                new.payload.params.clone_from(&rare);
            }
            new
        });
        enqueue(store, new.collect());
        let reader = store.reader().unwrap();
        let filter = JobFilter {
            words: vec!["rare".to_owned()],
            ..JobFilter::default()
        };
        // 5,000 jobs are as many as one page examines with their params.
        let first = reader.matching(&filter, None, 50).unwrap();
        assert_eq!(first.items, [id(5_991)]);
        let second = reader.matching(&filter, first.next, 50).unwrap();
        assert_eq!((second.items, second.next), (vec![id(1)], None));
        let count = reader.count(&filter, None, 4_000).unwrap();
        assert_eq!((count.jobs, count.complete), (1, false));
        let rest = reader.count(&filter, count.next, 100_000).unwrap();
        assert_eq!((rest.jobs, rest.complete), (1, true));
    });
}

#[test]
fn a_search_for_few_jobs_examines_others_up_to_a_bound() {
    check_engines(|store| {
        let new = (1..=1_200).map(|n| {
            let mut new = job(n);
            if n % 1_190 == 1 {
                new.handler = "rare".parse().unwrap();
            }
            new
        });
        enqueue(store, new.collect());
        let reader = store.reader().unwrap();
        let filter = JobFilter {
            handler: Some((None, "rare".parse().unwrap())),
            queue: Some(job(1).queue),
            ..JobFilter::default()
        };
        let count = reader.count(&filter, None, 1_100).unwrap();
        assert_eq!((count.jobs, count.complete), (1, false));
        let rest = reader.count(&filter, count.next, 1_100).unwrap();
        assert_eq!((rest.jobs, rest.complete), (1, true));
        let page = reader.matching(&filter, None, 50).unwrap();
        assert_eq!((page.items, page.next), (vec![id(1_191), id(1)], None));
    });
}

#[test]
fn an_interrupted_reader_fails_once_and_then_works() {
    check_engines(|store| {
        enqueue(store, (1..=200).map(job).collect());
        let reader = store.reader().unwrap();
        let interrupt = reader.interrupt();
        // Nothing runs yet.
        interrupt();
        let all = JobFilter::default();
        assert!(reader.count(&all, None, 1_000).unwrap().complete);
        let counting = std::thread::spawn(move || {
            let all = JobFilter::default();
            while reader.count(&all, None, 1_000).is_ok() {}
            reader
        });
        while !counting.is_finished() {
            interrupt();
            std::thread::yield_now();
        }
        let reader = counting.join().unwrap();
        assert_eq!(reader.count(&all, None, 1_000).unwrap().jobs, 200);
    });
}

#[test]
fn a_count_has_a_limit() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut store = host_store::sqlite::SqliteStore::open(&path).unwrap();
    enqueue(&mut store, (1..=9).map(job).collect());
    let reader = store.reader().unwrap();
    for (examined_max, jobs, complete) in [(5, 5, false), (9, 9, true), (10, 9, true)] {
        let all = JobFilter::default();
        let count = reader.count(&all, None, examined_max).unwrap();
        assert_eq!((count.jobs, count.complete), (jobs, complete));
    }
}

#[test]
fn a_count_goes_on_where_it_stopped() {
    check_engines(|store| {
        enqueue(store, (1..=9).map(job).collect());
        let reader = store.reader().unwrap();
        for order in [Order::Newest, Order::Oldest] {
            let filter = JobFilter {
                order,
                ..JobFilter::default()
            };
            let (mut jobs, mut after) = (Vec::new(), None);
            loop {
                let count = reader.count(&filter, after, 4).unwrap();
                assert_eq!(count.complete, count.next.is_none());
                jobs.push(count.jobs);
                after = count.next;
                if after.is_none() {
                    break;
                }
            }
            assert_eq!(jobs, [4, 4, 1]);
        }
    });
}

#[test]
fn an_operator_moves_and_purges_jobs() {
    check(|store| {
        enqueue(store, vec![job(1), job(2), job(3)]);
        let priority = |n: u128, priority| {
            Command::from(SetPriority {
                job: id(n),
                priority,
            })
        };
        ask(store, NOW, priority(3, 0)).unwrap();
        ask(store, NOW, priority(1, 9)).unwrap();
        let later = NOW.plus_ms(60_000);
        let reschedule = |run_at| Command::from(Reschedule { job: id(2), run_at });
        ask(store, NOW, reschedule(later)).unwrap();
        let order: Vec<_> = claimed(store, NOW, claim([1, 2, 3], false))
            .iter()
            .map(|claimed| claimed.lifecycle.id)
            .collect();
        assert_eq!(
            order,
            [id(3), id(1)],
            "the most urgent first, and not the later one"
        );
        ask(store, NOW, reschedule(NOW)).unwrap();
        assert_eq!(claimed(store, NOW, claim([3], false)).len(), 1);
        let purge = |n: u128| Command::from(Purge { job: id(n) });
        ask(store, NOW, purge(1)).unwrap_err();
        ask(store, NOW, complete(1, 2, returned())).unwrap();
        ask(store, NOW, purge(1)).unwrap();
        let reader = store.reader().unwrap();
        assert_eq!(reader.state(id(1)).unwrap(), None);
        ask(store, NOW, purge(1)).unwrap_err();
    });
}

#[test]
fn lists_are_filtered_and_paged_newest_first() {
    check(|store| {
        let mut jobs: Vec<_> = (1..=9).map(job).collect();
        for job in jobs.iter_mut().step_by(2) {
            job.handler = "odd".parse().unwrap();
        }
        enqueue(store, jobs);
        let reader = store.reader().unwrap();
        let filter = JobFilter {
            handler: Some((None, "odd".parse().unwrap())),
            ..JobFilter::default()
        };
        let first = reader.jobs(&filter, None, 3).unwrap();
        let ids: Vec<_> = first.items.iter().map(|item| item.lifecycle.id).collect();
        assert_eq!(ids, [id(9), id(7), id(5)]);
        let second = reader.jobs(&filter, first.next, 3).unwrap();
        let ids: Vec<_> = second.items.iter().map(|item| item.lifecycle.id).collect();
        assert_eq!((ids, second.next), (vec![id(3), id(1)], None));
        let prefix = &id(4).to_string()[..36];
        assert_eq!(reader.job_ids(prefix, 2).unwrap(), [id(4)]);
        assert_eq!(reader.job_ids(&prefix[..20], 20).unwrap().len(), 9);
        assert!(reader.job_ids("no hex", 2).unwrap().is_empty());
    });
}

/// A reader lists jobs while others remove them.
#[test]
fn a_list_is_of_one_moment() {
    let folder = TempDir::new().unwrap();
    let mut store = SqliteStore::open(&folder.path().join("host.db")).unwrap();
    let all = 1_000;
    for n in 1..=all {
        let mut new = job(n);
        new.depends_on = Vec::new();
        enqueue(&mut store, vec![new]);
        let cancel = Command::from(Cancel {
            job: id(n),
            reason: None,
            grace_ms: None,
        });
        ask(&mut store, NOW, cancel).unwrap();
    }
    let reader = store.reader().unwrap();
    let (listed, begins) = std::sync::mpsc::sync_channel(1);
    let listing = std::thread::spawn(move || {
        loop {
            let page = reader.jobs(&JobFilter::default(), None, 1_000).unwrap();
            let _ = listed.try_send(page.items.len());
            if page.items.is_empty() {
                break;
            }
        }
    });
    assert_eq!(begins.recv(), Ok(1_000));
    for n in 1..=all {
        ask(&mut store, NOW, Command::from(Purge { job: id(n) })).unwrap();
    }
    listing.join().unwrap();
}
