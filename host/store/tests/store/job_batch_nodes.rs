//! Nodes that end jobs of the same batches at the same time: each callback is enqueued once, and the numbers are those of
//! the jobs.

use std::collections::BTreeMap;

use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::lease::Fence;
use host_engine::batch::On;
use host_engine::job::{Enqueue, Tick};
use host_engine::lease::{Claim, Complete};
use host_engine::{Command, Reply, Store as _, lease};
use host_store::postgres::PostgresStore;
use proptest::prelude::*;
use uuid::Uuid;

use crate::job_batches::{callback, cancel, close, new_batch, within};
use crate::jobs::{NOW, ask, claim, commit, complete, failed, id, job, lease, read, returned};
use crate::limit_keys::{of_all, set_limit};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

const BATCHES: u128 = 3;

struct Runner {
    store: PostgresStore,
    node: NodeId,
    number: u128,
    leases: u128,
    added: u128,
    running: Vec<(JobId, u128)>,
}

impl Runner {
    /// Ends some of what runs, adds jobs, and claims; by a number that the test draws.
    fn step(&mut self, choice: u8) {
        let mut turn: Vec<Command> = Vec::new();
        let ending = usize::from(choice % 4).min(self.running.len());
        for (of, lease_id) in self.running.drain(..ending) {
            let outcome = if choice >= 230 {
                failed(false)
            } else {
                returned()
            };
            let mut end = complete(0, lease_id, outcome);
            if let Command::Lease(lease::Command::Complete(Complete { job, fence, .. })) = &mut end
            {
                (*job, *fence) = (of, Fence::Lease(lease(lease_id)));
            }
            turn.push(end);
        }
        if choice.is_multiple_of(5) {
            // It is refused once the batch is closed.
            self.added += 1;
            let new = job((self.number << 32) + self.added);
            let of = u128::from(choice) % BATCHES;
            turn.push(Command::from(Enqueue(vec![within(of, new)])));
        }
        let mut claim = claim(self.leases..self.leases + 3, false);
        self.leases += 3;
        if let Command::Lease(lease::Command::Claim(Claim { node, .. })) = &mut claim {
            *node = self.node;
        }
        turn.push(claim);
        turn.push(Command::from(Tick { limit: 10 }));
        for reply in commit(&mut self.store, NOW, turn).replies {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn nodes_that_end_jobs_of_a_batch_call_back_once(
        plans in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 8..20), 2..4),
        is_limited in any::<bool>(),
        is_cancelled in any::<bool>(),
    ) {
        let schema = Schema::new();
        let open = |n: u128| {
            let node = NodeId(Uuid::from_u128(n));
            (PostgresStore::open(&target(&schema), node, TESTED).unwrap(), node)
        };
        let (mut first, _) = open(99);
        if is_limited {
            ask(&mut first, NOW, set_limit(of_all(8))).unwrap();
        }
        for of in 0..BATCHES {
            let jobs = (1..=12).map(|n| job(of * 100 + n)).collect();
            ask(&mut first, NOW, new_batch(of, true, jobs)).unwrap();
        }
        std::thread::scope(|scope| {
            for (number, plan) in (1..).zip(&plans) {
                let open = &open;
                scope.spawn(move || {
                    let (store, node) = open(number);
                    let (leases, running) = (number << 64, Vec::new());
                    let mut runner = Runner { store, node, number, leases, added: 0, running };
                    for (n, choice) in plan.iter().enumerate() {
                        runner.step(*choice);
                        if n == plan.len() / 2 {
                            let last = if is_cancelled { cancel(0) } else { close(0) };
                            commit(&mut runner.store, NOW, vec![close(1), close(2), last]);
                        }
                    }
                    while !runner.running.is_empty() {
                        runner.step(3);
                    }
                });
            }
        });
        let (store, node) = open(98);
        let (leases, running) = (98 << 64, Vec::new());
        let mut last = Runner { store, node, number: 98, leases, added: 0, running };
        for _ in 0..200 {
            last.step(3);
        }
        // Checks the numbers of all batches.
        let all = read(&*first.reader().unwrap());
        let mut enqueued: BTreeMap<JobId, usize> = BTreeMap::new();
        for numbered in first.reader().unwrap().changes(0, 100_000).unwrap().items {
            if numbered.change.from.is_none() {
                *enqueued.entry(numbered.change.job).or_default() += 1;
            }
        }
        prop_assert!(enqueued.values().all(|times| *times == 1));
        prop_assert_eq!(all.batches.len() as u128, BATCHES);
        for (of, batch) in (0..BATCHES).zip(&all.batches) {
            let counts = batch.progress.counts;
            prop_assert_eq!(counts.not_ended(), 0, "{:?}", batch.progress);
            let has = |on| enqueued.contains_key(&id(callback(of, on)));
            prop_assert!(has(On::End));
            prop_assert_eq!(has(On::Success), counts.completed == counts.jobs);
            prop_assert_eq!(has(On::FirstFailure), counts.discarded > 0);
        }
        let mut states = all.jobs.iter().map(|(detail, _)| detail.lifecycle.state);
        prop_assert!(states.all(State::is_terminal));
    }
}
