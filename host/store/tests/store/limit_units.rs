//! Limits that count units: each start takes as many tokens as its job says, on each engine.

use host_core::job::{NewJob, State};
use host_core::json::JsonText;
use host_core::time::Time;
use host_engine::job::{Cancel, Enqueue, SetPriority, Tick};
use host_engine::limit::{Limit, LimitRefusal, WhenFull};
use host_engine::{Command, Rejection, Reply, Store};
use proptest::prelude::*;

use crate::cases::{check, state};
use crate::jobs::{NOW, ask, claim, commit, complete, enqueue, failed, id, job, read, returned};
use crate::limit_keys::{by_customer, fullest, ids_of, set_limit, tick};

/// Returns a limit with the key `/customer` and the units `/units`; a rate is a count, its seconds and a burst.
pub(crate) fn of_units(concurrency: Option<u32>, rate: (u32, u32, u32)) -> Limit {
    let mut limit = by_customer(concurrency, Some(rate));
    if let Some(rate) = &mut limit.rate {
        rate.units = Some("/units".to_owned().try_into().unwrap());
    }
    limit
}

pub(crate) fn params_with(customer: u128, units: u32) -> JsonText {
    JsonText(format!("{{\"customer\":{customer},\"units\":{units}}}"))
}

/// A job of customer 7.
fn with(units: u32, n: u128) -> NewJob {
    let mut new = job(n);
    new.payload.params = params_with(7, units);
    new
}

fn cancel(n: u128) -> Command {
    Command::from(Cancel {
        job: id(n),
        reason: None,
        grace_ms: None,
    })
}

#[test]
fn a_start_takes_as_many_tokens_as_its_job_has_units() {
    check(|store| {
        ask(store, NOW, set_limit(of_units(None, (4, 1, 4)))).unwrap();
        enqueue(store, vec![with(3, 1), with(2, 2), with(1, 3)]);
        assert_eq!(state(store, 3), State::Pending, "it does not pass another");
        assert_eq!(fullest(store)[0].1.reserved_units, 3);
        assert_eq!(ids_of(store, NOW, 1..9), [1]);
        assert_eq!(tick(store, NOW), Some(NOW.plus_ms(250)));
        tick(store, NOW.plus_ms(250));
        assert_eq!(ids_of(store, NOW.plus_ms(250), 10..19), [2]);
        assert_eq!(tick(store, NOW.plus_ms(250)), Some(NOW.plus_ms(500)));
        tick(store, NOW.plus_ms(500));
        assert_eq!(ids_of(store, NOW.plus_ms(500), 20..29), [3]);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_retry_takes_its_units_again() {
    check(|store| {
        ask(store, NOW, set_limit(of_units(None, (1, 60, 2)))).unwrap();
        enqueue(store, vec![with(2, 1)]);
        assert_eq!(ids_of(store, NOW, 1..9), [1]);
        ask(store, NOW, complete(1, 1, failed(true))).unwrap();
        let later = NOW.plus_ms(119_999);
        tick(store, later);
        assert_eq!(state(store, 1), State::Pending);
        tick(store, later.plus_ms(1));
        assert_eq!(ids_of(store, later.plus_ms(1), 10..19), [1]);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn what_waits_behind_a_large_job_starts_when_that_is_gone_or_comes_later() {
    check(|store| {
        ask(store, NOW, set_limit(of_units(None, (1, 1, 4)))).unwrap();
        enqueue(store, vec![with(3, 1), with(4, 2), with(1, 3)]);
        assert_eq!(ids_of(store, NOW, 1..9), [1]);
        ask(store, NOW, cancel(2)).unwrap();
        tick(store, NOW);
        assert_eq!(ids_of(store, NOW, 10..19), [3]);
        enqueue(store, vec![with(4, 4), with(0, 5)]);
        assert_eq!(state(store, 5), State::Pending);
        let urgent = Command::from(SetPriority {
            job: id(5),
            priority: 0,
        });
        ask(store, NOW, urgent).unwrap();
        tick(store, NOW);
        assert_eq!(ids_of(store, NOW, 20..29), [5], "it takes nothing");
        assert_eq!(tick(store, NOW), Some(NOW.plus_ms(4_000)));
        read(&*store.reader().unwrap());
    });
}

#[test]
fn more_than_the_bucket_holds_is_refused_and_so_is_what_is_no_number() {
    check(|store| {
        ask(store, NOW, set_limit(of_units(None, (9, 1, 4)))).unwrap();
        let limit = "by-customer".parse().unwrap();
        let refused = Err(Rejection::Limit(LimitRefusal::Units { limit, burst: 4 }));
        let mut many = job(2);
        many.payload.params = JsonText("{\"units\":[1,2]}".to_owned());
        for wrong in [with(5, 1), many] {
            let enqueue = Command::from(Enqueue(vec![wrong]));
            assert_eq!(ask(store, NOW, enqueue), refused);
        }
        // One that was there before takes the whole bucket of a lowered limit.
        enqueue(store, vec![with(4, 3), with(4, 4)]);
        ask(store, NOW, set_limit(of_units(None, (1, 1, 2)))).unwrap();
        tick(store, NOW);
        assert_eq!(ids_of(store, NOW, 1..9), [3]);
        let at = tick(store, NOW).unwrap();
        assert_eq!(at, NOW.plus_ms(2_000));
        tick(store, at);
        assert_eq!(ids_of(store, at, 10..19), [4]);
    });
}

#[test]
fn a_full_limit_refuses_jobs_by_their_units() {
    check(|store| {
        let refusing = Limit {
            when_full: WhenFull::Refuse,
            ..of_units(None, (1, 1, 4))
        };
        ask(store, NOW, set_limit(refusing)).unwrap();
        let (limit, key) = ("by-customer".parse().unwrap(), "7".to_owned());
        let full = Err(Rejection::Limit(LimitRefusal::Full { limit, key }));
        let two = Command::from(Enqueue(vec![with(3, 1), with(2, 2)]));
        assert_eq!(ask(store, NOW, two), full);
        enqueue(store, vec![with(3, 1), with(1, 2)]);
        assert_eq!(
            ask(store, NOW, Command::from(Enqueue(vec![with(1, 3)]))),
            full
        );
        enqueue(store, vec![with(0, 4)]);
    });
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enqueue(u32),
    Claim(u128),
    End,
    CancelLast,
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u32..5).prop_map(Step::Enqueue),
        3 => (1_u128..4).prop_map(Step::Claim),
        2 => Just(Step::End),
        1 => Just(Step::CancelLast),
        2 => (0_u16..2_000).prop_map(Step::Wait),
    ]
}

/// Takes the steps. Returns when jobs started, with their units.
fn starts(store: &mut dyn Store, limit: &Limit, steps: &[Step]) -> Vec<(Time, u32)> {
    ask(store, NOW, set_limit(limit.clone())).unwrap();
    let (mut now, mut jobs, mut leases) = (NOW, 0, 0);
    let (mut starts, mut running) = (Vec::new(), Vec::new());
    for step in steps {
        let command = match step {
            Step::Enqueue(units) => {
                jobs += 1;
                Command::from(Enqueue(vec![with(*units, jobs)]))
            }
            Step::Claim(slots) => {
                leases += slots;
                claim(leases - slots..leases, false)
            }
            Step::End => match running.pop() {
                Some((n, lease)) => complete(n, lease, returned()),
                None => continue,
            },
            Step::CancelLast => cancel(jobs),
            Step::Wait(ms) => {
                now = now.plus_ms((*ms).into());
                Command::from(Tick { limit: 10 })
            }
        };
        let committed = commit(store, now, vec![command, Command::from(Tick { limit: 10 })]);
        for reply in committed.replies {
            let Ok(Reply::Claimed(claimed)) = reply else {
                continue;
            };
            for one in claimed {
                starts.push((now, one.lifecycle.limits.keys[0].units));
                let number = one.lifecycle.id.0.as_u128() - id(0).0.as_u128();
                running.push((number, one.lifecycle.lease.unwrap().id.0.as_u128()));
            }
        }
    }
    read(&*store.reader().unwrap());
    starts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn no_window_has_more_units_than_the_bucket_and_what_was_added(
        concurrency in proptest::option::of(1_u32..4),
        (count, per_seconds) in (1_u32..5, 1_u32..4),
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let limit = of_units(concurrency, (count, per_seconds, 4));
        check(|store| {
            let starts = starts(store, &limit, &steps);
            for (n, (first, _)) in starts.iter().enumerate() {
                let mut taken = 0;
                for (last, units) in &starts[n..] {
                    taken += u64::from(*units);
                    let added = u64::from(count) * last.since_ms(*first);
                    let most = 4 + added / (u64::from(per_seconds) * 1_000);
                    assert!(taken <= most, "from {n} to {last:?}: {starts:?}");
                }
            }
        });
    }
}
