//! Nodes that share the keys of limits: whatever they do concurrently, no key has more than its limit, and no job is forgotten.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, Ordering};

use host_core::id::{JobId, NodeId};
use host_core::job::{NewJob, Payload, State};
use host_core::lease::Fence;
use host_core::time::Time;
use host_core::transition::Loss;
use host_engine::job::{Enqueue, Tick};
use host_engine::lease::{Claim, Complete, Lose};
use host_engine::limit::KeyHold;
use host_engine::{Command, Reader, Reply, Store as _, lease};
use host_store::postgres::PostgresStore;
use parking_lot::Mutex;
use proptest::prelude::*;
use uuid::Uuid;

use crate::database_check::found;
use crate::jobs::{NOW, ask, claim, commit, complete, lease, number, read, returned};
use crate::limit_cancels::cancelling;
use crate::limit_keys::{by_customer, of, of_all, set_limit};
use crate::limit_units::{of_units, params_with};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// Until when handlers hold the keys of customers, as far as their commits are known to be over.
type KeyHolds = Mutex<BTreeMap<u128, Time>>;

/// A node of a shared store that runs whatever jobs it may.
struct Runner<'a> {
    store: PostgresStore,
    node: NodeId,
    now: Time,
    leases: u128,
    running: Vec<(JobId, u128)>,
    /// The jobs that it has still to enqueue.
    to_enqueue: Vec<NewJob>,
    /// Where its handlers note the keys that they hold, if they do.
    held: Option<&'a KeyHolds>,
}

impl Runner<'_> {
    fn new(store: PostgresStore, node: NodeId, now: Time) -> Self {
        Self {
            store,
            node,
            now,
            leases: node.0.as_u128() << 64,
            running: Vec::new(),
            to_enqueue: Vec::new(),
            held: None,
        }
    }

    /// Makes a handler hold the key of its job, and returns for which customer and how long.
    fn hold(&self, choice: u8, batch: &mut Vec<Command>) -> Option<(u128, Time)> {
        let (job, lease_id) = *self.running.first()?;
        self.held.filter(|_| choice.is_multiple_of(5))?;
        let ms = 20 * u64::from(choice);
        batch.push(Command::from(KeyHold {
            job,
            fence: Fence::Lease(lease(lease_id)),
            limit: "by-customer".parse().unwrap(),
            ms,
        }));
        Some((number(job) % CUSTOMERS, self.now.plus_ms(ms)))
    }

    /// Ends some of what runs, by a number that the test draws, enqueues and claims as many.
    fn step(&mut self, choice: u8) {
        let mut batch: Vec<Command> = Vec::new();
        let some = self.to_enqueue.len().min(usize::from(choice % 8));
        if some > 0 {
            batch.push(Command::from(Enqueue(
                self.to_enqueue.drain(..some).collect(),
            )));
        }
        let new = self.hold(choice, &mut batch);
        let before = self.held.map(|held| held.lock().clone());
        let mut held = before.unwrap_or_default();
        let note = |held: &mut BTreeMap<u128, Time>| {
            if let Some((customer, until)) = new {
                let before = held.entry(customer).or_default();
                *before = until.max(*before);
            }
        };
        note(&mut held);
        let ending = usize::from(choice % 3).min(self.running.len());
        for (job, lease_id) in self.running.drain(..ending) {
            let fence = Fence::Lease(lease(lease_id));
            if choice >= 200 {
                batch.push(Command::from(Lose {
                    job,
                    fence,
                    loss: Loss::Innocent,
                    executor: "cell-1".to_owned(),
                    requests: None,
                }));
            } else {
                let mut end = complete(0, lease_id, returned());
                if let Command::Lease(lease::Command::Complete(Complete { job: of, .. })) = &mut end
                {
                    *of = job;
                }
                batch.push(end);
            }
        }
        let mut claim = claim(self.leases..self.leases + 1 + u128::from(choice % 4), false);
        self.leases += 4;
        if let Command::Lease(lease::Command::Claim(Claim { node, .. })) = &mut claim {
            *node = self.node;
        }
        batch.push(claim);
        batch.push(Command::from(Tick { limit: 10 }));
        let committed = commit(&mut self.store, self.now, batch);
        if let Some(held) = self.held {
            note(&mut held.lock());
        }
        for reply in committed.replies {
            if let Ok(Reply::Claimed(jobs)) = reply {
                let leases = jobs.into_iter().filter_map(|claimed| {
                    let customer = number(claimed.lifecycle.id) % CUSTOMERS;
                    let until = held.get(&customer).copied().unwrap_or_default();
                    assert!(self.now >= until, "the key of {customer} is held");
                    let lease = claimed.lifecycle.lease?;
                    Some((claimed.lifecycle.id, lease.id.0.as_u128()))
                });
                self.running.extend(leases);
            }
        }
    }
}

/// Replays all changes. Calls `see` with each job that begins or ends to run.
fn replay(reader: &dyn Reader, mut see: impl FnMut(u128, bool)) {
    let changes = reader.changes(0, 100_000).unwrap();
    for numbered in changes.items {
        let change = numbered.change;
        let number = number(change.job);
        if change.from == Some(State::Running) {
            see(number, false);
        }
        if change.to == Some(State::Running) {
            see(number, true);
        }
    }
}

/// A rate in tests: a count, its seconds and a burst.
const RATE: (u32, u32, u32) = (4, 1, 6);

/// Checks that the starts of each customer, in any window, take no more units than its bucket has had. Clocks are apart: a
/// window is over when the latest clock says so that has let a job pass.
fn check_rate(reader: &dyn Reader, units: impl Fn(u128) -> u32) {
    let (count, ms, burst) = (
        i64::from(RATE.0),
        1_000 * i64::from(RATE.1),
        i64::from(RATE.2),
    );
    let mut starts: BTreeMap<u128, Vec<(Time, i64)>> = BTreeMap::new();
    let mut latest: BTreeMap<u128, Time> = BTreeMap::new();
    for numbered in reader.changes(0, 100_000).unwrap().items {
        let job = number(numbered.change.job);
        let customer = job % CUSTOMERS;
        let latest = latest.entry(customer).or_default();
        let to = numbered.change.to;
        if matches!(to, Some(State::Available | State::Running)) {
            *latest = numbered.at.max(*latest);
        }
        if to == Some(State::Running) {
            let starts = starts.entry(customer).or_default();
            starts.push((numbered.at, units(job).into()));
            let mut taken = 0;
            for (from, units) in starts.iter().rev() {
                taken += units;
                let most = (latest.0 - from.0) * count + burst * ms;
                assert!(taken * ms <= most, "{starts:?} until {latest:?}");
            }
        }
    }
}

/// Checks after each change how many jobs of each customer run.
fn check_history(reader: &dyn Reader, customers: u128, most: usize, most_of_all: usize) {
    let mut running: BTreeMap<u128, usize> = BTreeMap::new();
    replay(reader, |job, begins| {
        let of_customer = running.entry(job % customers).or_default();
        *of_customer = if begins {
            *of_customer + 1
        } else {
            *of_customer - 1
        };
        assert!(running.values().all(|jobs| *jobs <= most), "{running:?}");
        assert!(
            running.values().sum::<usize>() <= most_of_all,
            "{running:?}"
        );
    });
}

const CUSTOMERS: u128 = 3;
const JOBS: u128 = 60;

fn open(schema: &Schema, n: u128) -> (PostgresStore, NodeId) {
    let node = NodeId(Uuid::from_u128(n));
    let store = PostgresStore::open(&target(schema), node, TESTED).unwrap();
    (store, node)
}

/// A clock that stands still.
fn stopped(_node: u128, _choice: u8) -> Time {
    NOW
}

/// Lets nodes run their plans concurrently, each with its share of the jobs, until none of them runs any. `now` reads a node's
/// clock.
fn race(
    schema: &Schema,
    plans: &[Vec<u8>],
    held: Option<&KeyHolds>,
    now: impl Fn(u128, u8) -> Time + Sync,
    job: impl Fn(u128) -> NewJob + Sync,
) {
    std::thread::scope(|scope| {
        for (n, plan) in (1..).zip(plans) {
            let (job, now) = (&job, &now);
            scope.spawn(move || {
                let (store, node) = open(schema, n);
                let mut runner = Runner::new(store, node, NOW);
                let share = (1..=JOBS).filter(|job| job % 3 == n % 3);
                runner.to_enqueue = share.map(job).collect();
                runner.held = held;
                for choice in plan {
                    runner.now = now(n, *choice);
                    runner.step(*choice);
                }
                while !runner.running.is_empty() || !runner.to_enqueue.is_empty() {
                    runner.now = now(n, 2);
                    runner.step(2);
                }
            });
        }
    });
}

/// Runs what is left to its end at one node, with a pause before each step. Checks that no job and no key is forgotten.
fn run_rest(schema: &Schema, from: Time, pause_ms: u64) {
    let (store, node) = open(schema, 98);
    // It looks again for jobs that others had locked.
    let mut last = Runner::new(store, node, from.plus_ms(1_000));
    for _ in 0..2 * JOBS {
        last.now = last.now.plus_ms(pause_ms);
        last.step(2);
    }
    let all = read(&*last.store.reader().unwrap());
    let mut jobs = all.jobs.iter().map(|(detail, _)| detail.lifecycle.state);
    assert!(jobs.all(State::is_terminal), "{:?}", all.keys);
    assert!(
        all.keys.iter().all(|(_, keys)| keys.is_empty()),
        "{:?}",
        all.keys
    );
}

fn plans() -> impl Strategy<Value = Vec<Vec<u8>>> {
    proptest::collection::vec(proptest::collection::vec(any::<u8>(), 10..25), 2..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_that_race_for_keys_exceed_none_and_forget_no_job(plans in plans(), cancels: bool) {
        let schema = Schema::new();
        let (mut first, _) = open(&schema, 99);
        let limit = if cancels { cancelling(2) } else { by_customer(Some(2), None) };
        ask(&mut first, NOW, set_limit(limit)).unwrap();
        ask(&mut first, NOW, set_limit(of_all(5))).unwrap();
        race(&schema, &plans, None, stopped, |job| of(job % CUSTOMERS, job));
        let reader = first.reader().unwrap();
        check_history(&*reader, CUSTOMERS, 2, 5);
        read(&*reader);
        run_rest(&schema, NOW, 0);
        check_history(&*reader, CUSTOMERS, 2, 5);
        prop_assert_eq!(found(&target(&schema)), []);
    }

    #[test]
    fn nodes_that_race_for_units_start_no_more_than_the_bucket_has(plans in plans()) {
        let schema = Schema::new();
        let (mut first, _) = open(&schema, 99);
        ask(&mut first, NOW, set_limit(of_units(None, RATE))).unwrap();
        let units = |job: u128| u32::try_from(job % 5).unwrap();
        race(&schema, &plans, None, stopped, |job| NewJob {
            payload: Payload {
                params: params_with(job % CUSTOMERS, units(job)),
                ..of(0, job).payload
            },
            ..of(0, job)
        });
        let reader = first.reader().unwrap();
        let mut taken: BTreeMap<u128, u32> = BTreeMap::new();
        replay(&*reader, |job, begins| if begins {
            *taken.entry(job % CUSTOMERS).or_default() += units(job);
        });
        prop_assert!(taken.values().all(|units| *units <= 6), "{:?}", taken);
        read(&*reader);
        run_rest(&schema, NOW, 1_000);
    }

    #[test]
    fn nodes_that_race_exceed_no_rate_in_any_window_and_start_nothing_that_is_held(
        plans in plans(), has_units: bool, holds: bool
    ) {
        let schema = Schema::new();
        let (mut first, _) = open(&schema, 99);
        let limit = if has_units { of_units(Some(4), RATE) } else { by_customer(Some(4), Some(RATE)) };
        ask(&mut first, NOW, set_limit(limit)).unwrap();
        let units = |job: u128| if has_units { u32::try_from(job % 5).unwrap() } else { 1 };
        let (time, held) = (AtomicI64::new(NOW.0), KeyHolds::default());
        // The clocks of the nodes are up to 200 ms apart.
        let now = |node: u128, choice: u8| {
            let now = time.fetch_add(i64::from(choice), Ordering::Relaxed);
            Time(now + 100 * i64::try_from(node).unwrap())
        };
        race(&schema, &plans, Some(&held).filter(|_| holds), now, |job| NewJob {
            payload: Payload {
                params: params_with(job % CUSTOMERS, units(job)),
                ..of(0, job).payload
            },
            ..of(0, job)
        });
        // After the longest hold.
        run_rest(&schema, Time(time.into_inner() + 6_000), 250);
        check_rate(&*first.reader().unwrap(), units);
    }
}
