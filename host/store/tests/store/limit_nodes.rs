//! Nodes that share the keys of limits: whatever they do at once, no key has more than its limit, and no job is forgotten.

use std::collections::BTreeMap;

use host_core::command::{Command, Reply};
use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::lease::Fence;
use host_core::time::Time;
use host_core::transition::Loss;
use host_store::postgres::PostgresStore;
use host_store::store::{Reader, Store as _};
use proptest::prelude::*;
use uuid::Uuid;

use crate::jobs::{NOW, ask, claim, commit, complete, id, lease, read, returned};
use crate::limit_keys::{by_customer, of, of_all, set_limit};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// A node of a shared store that runs whatever jobs it may.
struct Runner {
    store: PostgresStore,
    node: NodeId,
    now: Time,
    leases: u128,
    running: Vec<(JobId, u128)>,
}

impl Runner {
    /// Ends some of what runs, by a number that the test draws, and claims as many.
    fn step(&mut self, choice: u8) {
        let mut batch: Vec<Command> = Vec::new();
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

/// Replays all changes, and checks after each how many jobs of each customer run.
fn check_history(reader: &dyn Reader, customers: u128, most: usize, most_of_all: usize) {
    let mut running: BTreeMap<u128, usize> = BTreeMap::new();
    let changes = reader.changes(0, 100_000).unwrap();
    for numbered in changes.items {
        let change = numbered.change;
        let customer = (change.job.0.as_u128() - id(0).0.as_u128()) % customers;
        if change.from == Some(State::Running) {
            *running.entry(customer).or_default() -= 1;
        }
        if change.to == Some(State::Running) {
            *running.entry(customer).or_default() += 1;
        }
        assert!(running.values().all(|jobs| *jobs <= most), "{running:?}");
        assert!(
            running.values().sum::<usize>() <= most_of_all,
            "{running:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_that_race_for_keys_exceed_none_and_forget_no_job(
        plans in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 10..25), 2..4),
    ) {
        const CUSTOMERS: u128 = 3;
        const JOBS: u128 = 60;
        let schema = Schema::new();
        let open = |n: u128| {
            let node = NodeId(Uuid::from_u128(n));
            (PostgresStore::open(&target(&schema), node, TESTED).unwrap(), node)
        };
        let (mut first, _) = open(99);
        ask(&mut first, NOW, set_limit(by_customer(Some(2), None))).unwrap();
        ask(&mut first, NOW, set_limit(of_all(5))).unwrap();
        std::thread::scope(|scope| {
            for (n, plan) in (1..).zip(&plans) {
                let open = &open;
                scope.spawn(move || {
                    let (store, node) = open(n);
                    let (leases, running) = (n << 64, Vec::new());
                    let mut runner = Runner { store, node, now: NOW, leases, running };
                    // Each node enqueues its share.
                    let share = (1..=JOBS).filter(|job| job % 3 == n % 3);
                    let share = share.map(|job| of(job % CUSTOMERS, job));
                    commit(&mut runner.store, NOW, vec![Command::Enqueue(share.collect())]);
                    for choice in plan {
                        runner.step(*choice);
                    }
                    while !runner.running.is_empty() {
                        runner.step(2);
                    }
                });
            }
        });
        let reader = first.reader().unwrap();
        check_history(&*reader, CUSTOMERS, 2, 5);
        read(&*reader);
        // What is left runs to its end at one node, once it looks again for jobs that others had locked.
        let (store, node) = open(98);
        let (leases, running) = (98 << 64, Vec::new());
        let now = NOW.plus_ms(1_000);
        let mut last = Runner { store, node, now, leases, running };
        for _ in 0..JOBS {
            last.step(2);
        }
        let all = read(&*reader);
        let mut jobs = all.jobs.iter().map(|(detail, _)| detail.lifecycle.state);
        prop_assert!(jobs.all(State::is_terminal), "{:?}", all.keys);
        prop_assert!(all.keys.iter().all(|(_, keys)| keys.is_empty()), "{:?}", all.keys);
        check_history(&*reader, CUSTOMERS, 2, 5);
    }
}
