//! Keys of limits that handlers hold, on each engine.

use host_core::job::State;
use host_core::lease::Fence;
use host_core::outcome::Outcome;
use host_engine::job::Enqueue;
use host_engine::lease::LeaseRefusal;
use host_engine::limit::{HOLD_MS_MAX, KeyHold, Limit, LimitRefusal, WhenFull};
use host_engine::{Command, Rejection};

use crate::cases::{check, state};
use crate::jobs::{NOW, ask, claim, commit, complete, enqueue, failed, id, lease, read, returned};
use crate::limit_keys::{by_customer, fullest, ids_of, of, of_all, set_limit, tick};

/// Holds the key that a running job has of a limit.
pub(crate) fn hold(n: u128, lease_id: u128, limit: &str, ms: u64) -> Command {
    Command::from(KeyHold {
        job: id(n),
        fence: Fence::Lease(lease(lease_id)),
        limit: limit.parse().unwrap(),
        ms,
    })
}

fn again(after_ms: u64) -> Outcome {
    Outcome::Retry {
        reason: "429".to_owned(),
        after_ms: Some(after_ms),
    }
}

#[test]
fn no_job_of_a_held_key_starts() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3), None))).unwrap();
        enqueue(store, vec![of(7, 1), of(7, 2), of(8, 3)]);
        assert_eq!(ids_of(store, NOW, 1..2), [1]);
        ask(store, NOW, hold(1, 1, "by-customer", 500)).unwrap();
        // A shorter one does not end it.
        ask(store, NOW, hold(1, 1, "by-customer", 100)).unwrap();
        assert_eq!(
            state(store, 2),
            State::Available,
            "until a claim comes to it"
        );
        enqueue(store, vec![of(7, 4)]);
        assert_eq!(state(store, 4), State::Pending);
        let almost = NOW.plus_ms(499);
        tick(store, almost);
        assert_eq!(ids_of(store, almost, 2..3), [3], "another takes its slot");
        assert_eq!(state(store, 2), State::Pending);
        assert_eq!(fullest(store)[0].1.waiting, 2);
        assert_eq!(tick(store, almost), Some(NOW.plus_ms(500)));
        ask(store, almost, complete(1, 1, returned())).unwrap();
        assert!(ids_of(store, almost, 10..19).is_empty());
        let over = NOW.plus_ms(500);
        tick(store, over);
        assert_eq!(ids_of(store, over, 20..29), [2, 4]);
        for (n, lease) in [(2, 20), (4, 21), (3, 2)] {
            ask(store, over, complete(n, lease, returned())).unwrap();
        }
        assert_eq!(fullest(store), []);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_retry_after_a_hold_does_not_count() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3), None))).unwrap();
        let mut once = of(7, 1);
        once.policy.max_attempts = 1;
        enqueue(store, vec![once]);
        ids_of(store, NOW, 1..2);
        ask(store, NOW, hold(1, 1, "by-customer", 1_000)).unwrap();
        ask(store, NOW, complete(1, 1, again(200))).unwrap();
        assert_eq!(state(store, 1), State::Retryable);
        tick(store, NOW.plus_ms(200));
        assert_eq!(
            state(store, 1),
            State::Pending,
            "its key is held for longer"
        );
        let over = NOW.plus_ms(1_000);
        tick(store, over);
        ids_of(store, over, 2..3);
        ask(store, over, complete(1, 2, again(0))).unwrap();
        assert_eq!(state(store, 1), State::Discarded, "this one counts");
        let mut fails = of(7, 2);
        fails.policy.max_attempts = 1;
        enqueue(store, vec![fails]);
        ids_of(store, over, 3..4);
        ask(store, over, hold(2, 3, "by-customer", 5)).unwrap();
        ask(store, over, complete(2, 3, failed(true))).unwrap();
        assert_eq!(state(store, 2), State::Discarded, "it asked for none");
    });
}

#[test]
fn only_a_running_attempt_holds_keys_of_its_own_job() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3), None))).unwrap();
        enqueue(store, vec![of(7, 1)]);
        ids_of(store, NOW, 1..2);
        ask(store, NOW, set_limit(of_all(3))).unwrap();
        for limit in ["all", "nothing"] {
            let refused = Err(Rejection::Limit(LimitRefusal::NotOfJob(
                limit.parse().unwrap(),
            )));
            assert_eq!(ask(store, NOW, hold(1, 1, limit, 5)), refused);
        }
        let stale = ask(store, NOW, hold(1, 2, "by-customer", 5));
        assert_eq!(stale, Err(Rejection::Lease(LeaseRefusal::Stale)));
        assert_eq!(fullest(store)[0].1.held_until.0, 0);
        // It is cut to the longest.
        ask(store, NOW, hold(1, 1, "by-customer", u64::MAX)).unwrap();
        let held_until = fullest(store)[0].1.held_until;
        assert_eq!(held_until, NOW.plus_ms(HOLD_MS_MAX));
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        let stale = ask(store, NOW, hold(1, 1, "by-customer", 5));
        assert_eq!(stale, Err(Rejection::Lease(LeaseRefusal::Stale)));
        tick(store, NOW);
        assert_eq!(fullest(store)[0].1.held_until, held_until, "it is kept");
        tick(store, held_until);
        assert_eq!(fullest(store), []);
    });
}

#[test]
fn a_held_key_is_full() {
    check(|store| {
        let refusing = Limit {
            when_full: WhenFull::Refuse,
            ..by_customer(Some(3), None)
        };
        ask(store, NOW, set_limit(refusing)).unwrap();
        enqueue(store, vec![of(7, 1)]);
        ids_of(store, NOW, 1..2);
        ask(store, NOW, hold(1, 1, "by-customer", 500)).unwrap();
        let (limit, key) = ("by-customer".parse().unwrap(), "7".to_owned());
        let full = Err(Rejection::Limit(LimitRefusal::Full { limit, key }));
        assert_eq!(
            ask(store, NOW, Command::from(Enqueue(vec![of(7, 2)]))),
            full
        );
        enqueue(store, vec![of(8, 3)]);
    });
}

#[test]
fn a_claim_passes_many_jobs_of_a_held_key_in_slices() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3_000), None))).unwrap();
        enqueue(store, (1..=1_500).map(|n| of(7, n)).collect());
        enqueue(store, vec![of(8, 2_000)]);
        assert_eq!(ids_of(store, NOW, 1..2), [1]);
        ask(store, NOW, hold(1, 1, "by-customer", 500)).unwrap();
        let committed = commit(store, NOW, vec![claim(10..12, false)]);
        assert!(committed.claim_goes_on, "it has passed as many as it may");
        assert_eq!(ids_of(store, NOW, 20..22), [2_000]);
    });
}
