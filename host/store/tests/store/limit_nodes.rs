//! Nodes that share the keys of limits: whatever they do at once, no key has more than its limit, and no job is forgotten.

use std::collections::BTreeMap;

use host_core::command::{Command, NewJob, Reply};
use host_core::id::{JobId, NodeId};
use host_core::job::{Payload, State};
use host_core::lease::Fence;
use host_core::time::Time;
use host_core::transition::Loss;
use host_store::postgres::PostgresStore;
use host_store::store::{Reader, Store as _};
use proptest::prelude::*;
use uuid::Uuid;

use crate::database_check::found;
use crate::jobs::{NOW, ask, claim, commit, complete, id, lease, read, returned};
use crate::limit_cancels::cancelling;
use crate::limit_keys::{by_customer, of, of_all, set_limit};
use crate::limit_units::{of_units, params_with};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// A node of a shared store that runs whatever jobs it may.
struct Runner {
    store: PostgresStore,
    node: NodeId,
    now: Time,
    leases: u128,
    running: Vec<(JobId, u128)>,
    /// The jobs that it has still to enqueue.
    to_enqueue: Vec<NewJob>,
}

impl Runner {
    fn new(store: PostgresStore, node: NodeId, now: Time) -> Self {
        Self {
            store,
            node,
            now,
            leases: node.0.as_u128() << 64,
            running: Vec::new(),
            to_enqueue: Vec::new(),
        }
    }

    /// Ends some of what runs, by a number that the test draws, enqueues and claims as many.
    fn step(&mut self, choice: u8) {
        let mut batch: Vec<Command> = Vec::new();
        let some = self.to_enqueue.len().min(usize::from(choice % 8));
        if some > 0 {
            batch.push(Command::Enqueue(self.to_enqueue.drain(..some).collect()));
        }
        let ending = usize::from(choice % 3).min(self.running.len());
        for (job, lease_id) in self.running.drain(..ending) {
            let fence = Fence::Lease(lease(lease_id));
            if choice >= 200 {
                batch.push(Command::Lose {
                    job,
                    fence,
                    loss: Loss::Innocent,
                    executor: "cell-1".to_owned(),
                    requests: None,
                });
            } else {
                let mut end = complete(0, lease_id, returned());
                if let Command::Complete { job: of, .. } = &mut end {
                    *of = job;
                }
                batch.push(end);
            }
        }
        let mut claim = claim(self.leases..self.leases + 1 + u128::from(choice % 4), false);
        self.leases += 4;
        if let Command::Claim { node, .. } = &mut claim {
            *node = self.node;
        }
        batch.push(claim);
        batch.push(Command::Tick { limit: 10 });
        let committed = commit(&mut self.store, self.now, batch);
        for reply in committed.replies {
            if let Ok(Reply::Claimed(jobs)) = reply {
                let leases = jobs.into_iter().filter_map(|claimed| {
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
        let number = change.job.0.as_u128() - id(0).0.as_u128();
        if change.from == Some(State::Running) {
            see(number, false);
        }
        if change.to == Some(State::Running) {
            see(number, true);
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

/// Lets nodes run their plans at once, each with its share of the jobs, until none of them runs any.
fn race(schema: &Schema, plans: &[Vec<u8>], job: impl Fn(u128) -> NewJob + Sync) {
    std::thread::scope(|scope| {
        for (n, plan) in (1..).zip(plans) {
            let job = &job;
            scope.spawn(move || {
                let (store, node) = open(schema, n);
                let mut runner = Runner::new(store, node, NOW);
                let share = (1..=JOBS).filter(|job| job % 3 == n % 3);
                runner.to_enqueue = share.map(job).collect();
                for choice in plan {
                    runner.step(*choice);
                }
                while !runner.running.is_empty() || !runner.to_enqueue.is_empty() {
                    runner.step(2);
                }
            });
        }
    });
}

/// Runs what is left to its end at one node, with a pause before each step. Checks that no job and no key is forgotten.
fn run_rest(schema: &Schema, pause_ms: u64) {
    let (store, node) = open(schema, 98);
    // It looks again for jobs that others had locked.
    let mut last = Runner::new(store, node, NOW.plus_ms(1_000));
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
        race(&schema, &plans, |job| of(job % CUSTOMERS, job));
        let reader = first.reader().unwrap();
        check_history(&*reader, CUSTOMERS, 2, 5);
        read(&*reader);
        run_rest(&schema, 0);
        check_history(&*reader, CUSTOMERS, 2, 5);
        prop_assert_eq!(found(&target(&schema)), []);
    }

    #[test]
    fn nodes_that_race_for_units_start_no_more_than_the_bucket_has(plans in plans()) {
        let schema = Schema::new();
        let (mut first, _) = open(&schema, 99);
        ask(&mut first, NOW, set_limit(of_units(None, (4, 1, 6)))).unwrap();
        let units = |job: u128| u32::try_from(job % 5).unwrap();
        race(&schema, &plans, |job| NewJob {
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
        run_rest(&schema, 1_000);
    }
}
