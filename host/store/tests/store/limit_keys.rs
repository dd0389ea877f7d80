//! Limits by key: which jobs pass, which wait and in which order, on each engine.

use std::collections::BTreeMap;

use host_core::access::Scope;
use host_core::job::{NewJob, State};
use host_core::json::JsonText;
use host_core::lease::Fence;
use host_core::time::Time;
use host_core::transition::Loss;
use host_engine::job::{Cancel, Enqueue, JobRefusal, Reschedule, Retry, SetPriority, Tick, Ticked};
use host_engine::lease::Lose;
use host_engine::limit::tables::read_limits;
use host_engine::limit::{KeyUse, Limit, LimitRefusal, Rate, RemoveLimit, SetLimit, WhenFull};
use host_engine::schedule::Source;
use host_engine::{Command, Reader, Rejection, Reply, Store, limit};

use crate::cases::{check, state};
use crate::jobs::{
    NOW, ask, claim, claimed, commit, complete, enqueue, failed, id, job, job_for, lease, number,
    read, returned,
};

/// Returns a limit with the key `/customer`; a rate is a count, its seconds and a burst.
pub(crate) fn by_customer(concurrency: Option<u32>, rate: Option<(u32, u32, u32)>) -> Limit {
    Limit {
        name: "by-customer".parse().unwrap(),
        matches: Scope::ALL,
        key: vec!["/customer".to_owned().try_into().unwrap()],
        concurrency,
        rate: rate.map(|(count, per_seconds, burst)| Rate {
            count,
            per_seconds,
            burst,
            units: None,
        }),
        when_full: WhenFull::Wait,
        source: Source::Api,
    }
}

/// A limit of all jobs together.
pub(crate) fn of_all(concurrency: u32) -> Limit {
    Limit {
        name: "all".parse().unwrap(),
        key: Vec::new(),
        ..by_customer(Some(concurrency), None)
    }
}

pub(crate) fn set_limit(limit: Limit) -> Command {
    let limit = Box::new(limit);
    Command::from(SetLimit { limit })
}

pub(crate) fn remove_limit(name: &str) -> Command {
    Command::from(RemoveLimit {
        limit: name.parse().unwrap(),
    })
}

pub(crate) fn params_of(customer: u128) -> JsonText {
    JsonText(format!("{{\"customer\":{customer}}}"))
}

/// A job of a customer.
pub(crate) fn of(customer: u128, n: u128) -> NewJob {
    let mut new = job(n);
    new.payload.params = params_of(customer);
    new
}

/// Sets a limit and enqueues two jobs of an executor, of which the second waits for it.
pub(crate) fn one_waits(first: u128) -> [Command; 2] {
    let limit = Limit {
        matches: Scope {
            queues: vec!["limited".to_owned().try_into().unwrap()],
            handlers: Vec::new(),
        },
        ..of_all(1)
    };
    let jobs = [first, first + 1].map(|n| NewJob {
        queue: "limited".parse().unwrap(),
        ..job_for(n, "limited")
    });
    [set_limit(limit), Command::from(Enqueue(jobs.to_vec()))]
}

/// Checks that no key has more jobs than its limit allows unless it had as many before, and that something wakes jobs that wait.
/// In a batch that changes limits, more may have passed before. `seen` has how many jobs of each key there were.
pub(crate) fn check_room(
    reader: &dyn Reader,
    now: Time,
    commands: &[Command],
    seen: &mut BTreeMap<(u64, String), u32>,
) {
    let changes = |command: &Command| {
        matches!(
            command,
            Command::Limit(limit::Command::SetLimit(_) | limit::Command::RemoveLimit(_))
        )
    };
    let has_changed = commands.iter().any(changes);
    let mut places = BTreeMap::new();
    let limits = read_limits(reader).unwrap();
    for kept in limits.0.values().filter(|kept| !kept.is_removed) {
        for (key, used) in reader.fullest_keys(kept.number, 1_000).unwrap() {
            let context = format!("{key} of {}: {used:?}", kept.limit.name);
            let (taken, key) = (used.reserved + used.running, (kept.number, key));
            let before = seen.get(&key).copied().unwrap_or_default();
            let most = kept.limit.concurrency.unwrap_or(u32::MAX);
            assert!(has_changed || taken <= most.max(before), "{context}");
            let is_woken = kept.cursor.is_some() || kept.limit.wake_at(&used, now).is_some();
            assert!(used.waiting == 0 || taken > 0 || is_woken, "{context}");
            places.insert(key, taken);
        }
    }
    *seen = places;
}

pub(crate) fn ids_of(store: &mut dyn Store, now: Time, leases: std::ops::Range<u128>) -> Vec<u128> {
    let claimed = claimed(store, now, claim(leases, false));
    claimed
        .iter()
        .map(|claimed| number(claimed.lifecycle.id))
        .collect()
}

pub(crate) fn fullest(store: &dyn Store) -> Vec<(String, KeyUse)> {
    let reader = store.reader().unwrap();
    let limits = read_limits(&*reader).unwrap();
    let number = limits.0.values().next().unwrap().number;
    reader.fullest_keys(number, 10).unwrap()
}

/// Ticks until nothing is due.
pub(crate) fn tick(store: &mut dyn Store, now: Time) -> Option<Time> {
    loop {
        let committed = commit(store, now, vec![Command::from(Tick { limit: 100 })]);
        match committed.replies[..] {
            [Ok(Reply::Ticked(Ticked { jobs: 0 }))] => return committed.next_wakeup,
            [Ok(Reply::Ticked(_))] => {}
            _ => panic!("{committed:?}"),
        }
    }
}

pub(crate) fn lose(n: u128, lease_id: u128, loss: Loss) -> Command {
    Command::from(Lose {
        job: id(n),
        fence: Fence::Lease(lease(lease_id)),
        loss,
        executor: "cell-1".to_owned(),
        requests: None,
    })
}

#[test]
fn as_many_jobs_of_a_key_as_it_may_have_are_available() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(2), None))).unwrap();
        let enqueued = enqueue(store, (1..=4).map(|n| of(7, n)).chain([of(8, 5)]).collect());
        let states: Vec<State> = enqueued.iter().map(|it| it.state).collect();
        let (available, pending) = (State::Available, State::Pending);
        assert_eq!(states, [available, available, pending, pending, available]);
        assert_eq!(ids_of(store, NOW, 1..9), [1, 2, 5]);
        let seven = KeyUse {
            running: 2,
            waiting: 2,
            next_units: 1,
            ..KeyUse::default()
        };
        assert_eq!(fullest(store)[0], ("7".to_owned(), seven));
        let waiting = store.reader().unwrap().waiting_for_limits().unwrap();
        assert_eq!(waiting.into_values().collect::<Vec<_>>(), [2]);
        let committed = commit(store, NOW, vec![complete(2, 2, returned())]);
        assert_eq!(committed.available, 1, "immediately");
        assert_eq!(state(store, 3), State::Available);
        assert_eq!(state(store, 4), State::Pending);
        for (n, lease) in [(1, 1), (5, 3)] {
            ask(store, NOW, complete(n, lease, returned())).unwrap();
        }
        assert_eq!(ids_of(store, NOW, 10..19), [3, 4]);
        for (n, lease) in [(3, 10), (4, 11)] {
            ask(store, NOW, complete(n, lease, returned())).unwrap();
        }
        assert_eq!(fullest(store), [], "unused keys are forgotten");
        read(&*store.reader().unwrap());
    });
}

#[test]
fn customers_take_turns_however_many_jobs_one_has() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        enqueue(store, (1..=20).map(|n| of(7, n)).collect());
        enqueue(store, (21..=23).map(|n| of(8, n)).collect());
        let mut order: Vec<u128> = Vec::new();
        for lease in 1..=7 {
            let ran = ids_of(store, NOW, lease..lease + 1);
            order.extend(&ran);
            ask(store, NOW, complete(ran[0], lease, returned())).unwrap();
        }
        assert_eq!(order, [1, 21, 2, 22, 3, 23, 4]);
    });
}

#[test]
fn the_most_urgent_and_then_the_oldest_waits_least() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut urgent = of(7, 4);
        urgent.priority = 0;
        enqueue(store, vec![of(7, 1), of(7, 2), of(7, 3), urgent]);
        let priority = |n, priority| {
            Command::from(SetPriority {
                job: id(n),
                priority,
            })
        };
        ask(store, NOW, priority(3, 1)).unwrap();
        let mut order: Vec<u128> = Vec::new();
        for lease in 1..=4 {
            let ran = ids_of(store, NOW, lease..lease + 1);
            order.extend(&ran);
            ask(store, NOW, complete(ran[0], lease, returned())).unwrap();
        }
        assert_eq!(order, [1, 4, 3, 2]);
    });
}

#[test]
fn tokens_are_taken_by_starts_and_come_with_time() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(None, Some((2, 1, 2))))).unwrap();
        enqueue(store, (1..=5).map(|n| of(7, n)).collect());
        // The jobs that are available put tokens aside, however long they wait.
        let later = NOW.plus_ms(60_000);
        assert_eq!(tick(store, later), None);
        assert_eq!(ids_of(store, later, 1..9), [1, 2]);
        for n in [1, 2] {
            ask(store, later, complete(n, n, returned())).unwrap();
        }
        assert_eq!(tick(store, later.plus_ms(499)), Some(later.plus_ms(500)));
        assert!(ids_of(store, later.plus_ms(499), 10..19).is_empty());
        tick(store, later.plus_ms(500));
        assert_eq!(ids_of(store, later.plus_ms(500), 10..19), [3]);
        tick(store, later.plus_ms(1_600));
        assert_eq!(ids_of(store, later.plus_ms(1_600), 20..29), [4, 5]);
        for (n, lease) in [(3, 10), (4, 20), (5, 21)] {
            ask(store, later.plus_ms(1_600), complete(n, lease, returned())).unwrap();
        }
        let full_at = tick(store, later.plus_ms(1_600)).unwrap();
        assert_eq!(full_at, later.plus_ms(2_600));
        tick(store, full_at);
        assert_eq!(fullest(store), [], "its bucket is full");
    });
}

#[test]
fn a_full_limit_may_refuse_jobs_all_of_a_request_or_none() {
    check(|store| {
        let refusing = Limit {
            when_full: WhenFull::Refuse,
            ..by_customer(Some(2), None)
        };
        ask(store, NOW, set_limit(refusing)).unwrap();
        let three = Command::from(Enqueue((1..=3).map(|n| of(7, n)).collect()));
        let (limit, key) = ("by-customer".parse().unwrap(), "7".to_owned());
        let full = Err(Rejection::Limit(LimitRefusal::Full { limit, key }));
        assert_eq!(ask(store, NOW, three), full);
        assert_eq!(store.reader().unwrap().job(id(1)).unwrap(), None);
        enqueue(store, vec![of(7, 1), of(7, 2), of(8, 3)]);
        assert_eq!(
            ask(store, NOW, Command::from(Enqueue(vec![of(7, 4)]))),
            full
        );
        let mut later = of(7, 5);
        later.run_at = Some(NOW.plus_ms(1_000));
        enqueue(store, vec![later]);
        tick(store, NOW.plus_ms(1_000));
        assert_eq!(state(store, 5), State::Pending, "an accepted job waits");
    });
}

#[test]
fn a_limit_may_let_a_new_job_replace_those_that_wait() {
    check(|store| {
        let replacing = Limit {
            when_full: WhenFull::ReplaceWaiting,
            ..by_customer(Some(1), None)
        };
        ask(store, NOW, set_limit(replacing)).unwrap();
        enqueue(store, vec![of(7, 1), of(7, 2), of(7, 3), of(8, 4)]);
        ids_of(store, NOW, 1..3);
        let states = |store: &mut dyn Store| [1, 2, 3, 4].map(|n| state(store, n));
        let (running, waits) = (State::Running, State::Pending);
        assert_eq!(states(store), [running, State::Cancelled, waits, running]);
        let mut after = of(9, 6);
        after.depends_on = vec![id(3)];
        enqueue(store, vec![after]);
        enqueue(store, vec![of(7, 5)]);
        assert_eq!(state(store, 3), State::Cancelled);
        assert_eq!(state(store, 6), State::Discarded, "it waited for that");
        let replaced = store.reader().unwrap().job(id(3)).unwrap().unwrap();
        let reason = replaced.lifecycle.cancel.unwrap().reason.unwrap();
        let expected = format!("replaced by job {} under the limit by-customer", id(5));
        assert_eq!(reason, expected);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 5), State::Available);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn keys_survive_retries_losses_and_dead_letters() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut first = of(7, 1);
        first.policy.max_attempts = 2;
        enqueue(store, vec![first, of(7, 2)]);
        ids_of(store, NOW, 1..2);
        // A lost job keeps its place.
        ask(store, NOW, lose(1, 1, Loss::Innocent)).unwrap();
        assert_eq!(
            (state(store, 1), state(store, 2)),
            (State::Available, State::Pending)
        );
        ids_of(store, NOW, 2..3);
        // One that rests before its next attempt gives it away, and waits for it again.
        ask(store, NOW, complete(1, 2, failed(true))).unwrap();
        assert_eq!(
            (state(store, 1), state(store, 2)),
            (State::Retryable, State::Available)
        );
        let later = NOW.plus_ms(3_600_000);
        tick(store, later);
        assert_eq!(state(store, 1), State::Pending);
        ids_of(store, later, 3..4);
        ask(store, later, complete(2, 3, returned())).unwrap();
        ids_of(store, later, 4..5);
        ask(store, later, complete(1, 4, failed(false))).unwrap();
        assert_eq!(state(store, 1), State::Discarded);
        enqueue(store, vec![of(7, 3)]);
        let retry = Command::from(Retry {
            job: id(1),
            force: false,
        });
        ask(store, later, retry.clone()).unwrap();
        assert_eq!(state(store, 1), State::Pending, "it has its key");
        let pending = Rejection::Job(JobRefusal::WrongState(State::Pending));
        assert_eq!(ask(store, later, retry), Err(pending));
        let cancel = Command::from(Cancel {
            job: id(3),
            reason: None,
            grace_ms: None,
        });
        ask(store, later, cancel).unwrap();
        assert_eq!(state(store, 1), State::Available);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_job_that_waits_may_be_cancelled_moved_or_overdue() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut overdue = of(7, 2);
        overdue.deadline = Some(NOW.plus_ms(5));
        enqueue(store, vec![of(7, 1), overdue, of(7, 3), of(7, 4), of(7, 5)]);
        let cancel = Command::from(Cancel {
            job: id(3),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel).unwrap();
        let reschedule = |n, run_at| Command::from(Reschedule { job: id(n), run_at });
        ask(store, NOW, reschedule(4, NOW.plus_ms(10))).unwrap();
        ask(store, NOW, reschedule(5, NOW)).unwrap();
        assert_eq!(
            (state(store, 4), state(store, 5)),
            (State::Scheduled, State::Pending)
        );
        tick(store, NOW.plus_ms(5));
        assert_eq!(state(store, 2), State::Discarded);
        assert_eq!(fullest(store)[0].1.waiting, 1);
        ask(store, NOW.plus_ms(5), reschedule(1, NOW.plus_ms(50))).unwrap();
        assert_eq!(
            state(store, 5),
            State::Available,
            "it has the place of the first"
        );
        tick(store, NOW.plus_ms(50));
        assert_eq!(
            (state(store, 1), state(store, 4)),
            (State::Pending, State::Pending)
        );
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_job_with_prerequisites_waits_for_them_first() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut dependent = of(7, 2);
        dependent.depends_on = vec![id(1)];
        enqueue(store, vec![of(8, 1), dependent, of(7, 3)]);
        assert_eq!(state(store, 3), State::Available);
        ids_of(store, NOW, 1..9);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 2), State::Pending, "now for its limit");
        ask(store, NOW, complete(3, 2, returned())).unwrap();
        assert_eq!(state(store, 2), State::Available);
    });
}

#[test]
fn a_forced_job_that_waits_for_a_limit_is_not_discarded_with_its_prerequisite() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let mut dependent = of(7, 3);
        dependent.depends_on = vec![id(2)];
        enqueue(store, vec![of(7, 1), of(8, 2), dependent]);
        let force = Command::from(Retry {
            job: id(3),
            force: true,
        });
        ask(store, NOW, force).unwrap();
        assert_eq!(state(store, 3), State::Pending);
        ids_of(store, NOW, 1..9);
        ask(store, NOW, complete(2, 2, failed(false))).unwrap();
        assert_eq!(state(store, 3), State::Pending);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 3), State::Available);
    });
}

#[test]
fn a_job_needs_a_place_of_each_of_its_limits() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        ask(store, NOW, set_limit(of_all(2))).unwrap();
        enqueue(
            store,
            vec![of(7, 1), of(7, 2), of(8, 3), of(9, 4), of(9, 5)],
        );
        assert_eq!(ids_of(store, NOW, 1..9), [1, 3]);
        // The second job of 7 has its turn at its customer's limit, and then waits for the other, as the oldest.
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(ids_of(store, NOW, 10..19), [2]);
        ask(store, NOW, complete(3, 2, returned())).unwrap();
        assert_eq!(ids_of(store, NOW, 20..29), [4]);
        // The last job waits for its customer's limit now.
        ask(store, NOW, complete(2, 10, returned())).unwrap();
        assert!(ids_of(store, NOW, 30..39).is_empty());
        ask(store, NOW, complete(4, 20, returned())).unwrap();
        assert_eq!(ids_of(store, NOW, 40..49), [5]);
        ask(store, NOW, complete(5, 40, returned())).unwrap();
        read(&*store.reader().unwrap());
        assert_eq!(fullest(store), []);
    });
}

#[test]
fn a_limit_that_is_raised_or_removed_lets_jobs_pass_in_slices() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        let jobs = |first: u128| (first..first + 900).map(move |n| of(n % 300, n));
        enqueue(store, jobs(1).collect());
        let count = |store: &dyn Store, state: State| {
            let queues = store.reader().unwrap().queues().unwrap();
            queues[0].counts[state as usize]
        };
        assert_eq!(count(store, State::Available), 300);
        let committed = commit(store, NOW, vec![set_limit(by_customer(Some(2), None))]);
        assert_eq!(count(store, State::Available), 300, "not in one turn");
        assert!(
            committed.next_wakeup < Some(NOW),
            "ticks continue immediately"
        );
        let ticked = ask(store, NOW, Command::from(Tick { limit: 100 })).unwrap();
        assert!(
            matches!(ticked, Reply::Ticked(Ticked { jobs: 1..=300 })),
            "{ticked:?}"
        );
        let next_wakeup = tick(store, NOW);
        assert_eq!((count(store, State::Available), next_wakeup), (600, None));
        ask(store, NOW, remove_limit("by-customer")).unwrap();
        tick(store, NOW);
        assert_eq!(count(store, State::Available), 900);
        assert_eq!(read_limits(&*store.reader().unwrap()).unwrap().0.len(), 0);
        read(&*store.reader().unwrap());
        // A new limit with the same name has nothing to do with them.
        ask(store, NOW.plus_ms(1), set_limit(by_customer(Some(1), None))).unwrap();
        enqueue(store, vec![of(1, 2_001), of(1, 2_002)]);
        assert_eq!(
            (state(store, 2_001), state(store, 2_002)),
            (State::Available, State::Pending)
        );
        ids_of(store, NOW, 1..1_000);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 2_002), State::Pending);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_lowered_limit_lets_those_that_run_end() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3), None))).unwrap();
        enqueue(store, (1..=5).map(|n| of(7, n)).collect());
        assert_eq!(ids_of(store, NOW, 1..9), [1, 2, 3]);
        ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
        tick(store, NOW);
        for n in [1, 2] {
            ask(store, NOW, complete(n, n, returned())).unwrap();
            assert!(ids_of(store, NOW, 10..19).is_empty());
        }
        ask(store, NOW, complete(3, 3, returned())).unwrap();
        assert_eq!(ids_of(store, NOW, 20..29), [4]);
    });
}
