//! How many statements batches need on PostgreSQL, and how many rows searches pass.

use std::ops::Range;

use host_core::job::State;
use host_core::query::JobFilter;
use host_engine::job::{Enqueue, Tick};
use host_engine::limit::{Limit, WhenFull};
use host_engine::{Command, Store};
use host_store::postgres::PostgresStore;
use host_store::postgres::target::Target;

use crate::access;
use crate::job_batches::{cancel, new_batch};
use crate::jobs::{
    NODE, NOW, claim, claimed, commit, complete, enqueue, failed, job, number, returned,
};
use crate::limit_keys::{by_customer, of, set_limit};
use crate::postgres::{Statistics, TESTED, completed, open};
use crate::proxy::Proxy;
use crate::server::Schema;

/// Opens a store whose statements are counted.
fn behind_a_proxy() -> (Proxy, PostgresStore) {
    let (proxy, url) = Schema::new().proxy();
    let target = Target::parse(&url, None).unwrap();
    let store = PostgresStore::open(&target, NODE, TESTED).unwrap();
    (proxy, store)
}

/// Runs a batch. Returns how many statements it took.
fn statements(proxy: &Proxy, store: &mut dyn Store, batch: Vec<Command>) -> usize {
    let before = proxy.answered();
    for reply in commit(store, NOW, batch).replies {
        reply.unwrap();
    }
    proxy.answered() - before
}

#[test]
fn limited_jobs_take_as_many_statements_however_many_keys_they_have() {
    for when_full in [WhenFull::Wait, WhenFull::ReplaceWaiting] {
        let (proxy, mut store) = behind_a_proxy();
        let limit = Limit {
            when_full,
            ..by_customer(Some(1), None)
        };
        commit(&mut store, NOW, vec![set_limit(limit)]);
        let mut leases = 1..;
        let mut take = |first: u128, customers: u128| {
            let mut counts = Vec::new();
            let these = first..first + customers;
            let array = |n: u128| these.clone().map(move |of_it| of(of_it, of_it + n));
            counts.push(vec![Command::from(Enqueue(array(0).collect()))]);
            // More of each, which wait.
            counts.push(vec![Command::from(Enqueue(array(10_000).collect()))]);
            let one_by_one = array(20_000).map(|new| Command::from(Enqueue(vec![new])));
            counts.push(one_by_one.collect());
            let mut counts: Vec<usize> = counts
                .into_iter()
                .map(|batch| statements(&proxy, &mut store, batch))
                .collect();
            // Each end lets the next one pass.
            loop {
                let slots = leases.by_ref().take(usize::try_from(customers).unwrap());
                let running = claimed(&mut store, NOW, claim(slots, false));
                let ends = running.iter().map(|it| completed(&it.lifecycle));
                if running.is_empty() {
                    return counts;
                }
                counts.push(statements(&proxy, &mut store, ends.collect()));
            }
        };
        // The first batches prepare statements.
        take(1, 2);
        let few = take(11, 3);
        assert_eq!(take(101, 70), few, "{when_full:?}");
    }
}

#[test]
fn requests_of_a_principal_with_a_limit_take_as_many_statements_however_many_they_are() {
    let (proxy, mut store) = behind_a_proxy();
    let limited = |n| {
        let mut new = access::of(n, "q", &[]);
        new.payload.origin.as_mut().unwrap().max_waiting = Some(1_000);
        Command::from(Enqueue(vec![new]))
    };
    let mut take = |jobs: Range<u128>| statements(&proxy, &mut store, jobs.map(limited).collect());
    // The first batch prepares statements.
    take(1..3);
    let few = take(11..14);
    assert_eq!(take(101..171), few);
}

/// A tick asks for all jobs of a cancelled batch together.
#[test]
fn a_cancelled_batch_takes_as_many_statements_however_many_jobs_it_has() {
    let (proxy, mut store) = behind_a_proxy();
    let mut take = |n: u128, jobs: u128| {
        let first = n * 1_000;
        let jobs = (first..first + jobs).map(job).collect();
        commit(&mut store, NOW, vec![new_batch(n, false, jobs)]);
        commit(&mut store, NOW, vec![cancel(n)]);
        statements(
            &proxy,
            &mut store,
            vec![Command::from(Tick { limit: 1_000 })],
        )
    };
    // The first batches prepare statements.
    take(1, 2);
    let few = take(2, 3);
    assert_eq!(take(3, 70), few);
}

/// What becomes due in a batch and then starts is written once.
#[test]
fn a_job_that_becomes_due_and_starts_in_a_batch_is_written_once() {
    const JOBS: u128 = 20;
    let schema = Schema::new();
    let mut store = open(&schema);
    let later = NOW.plus_ms(1);
    let scheduled = |n| {
        let mut new = job(n);
        new.run_at = Some(later);
        new
    };
    enqueue(&mut store, (1..=JOBS).map(scheduled).collect());
    let batch = vec![Command::from(Tick { limit: 100 }), claim(1..=JOBS, false)];
    let started = commit(&mut store, later, batch).changes;
    assert_eq!(started.len() as u128, 2 * JOBS);
    drop(store);
    let statistics = Statistics::of_table(&schema, "host_live");
    statistics.reach("n_tup_upd >= 20");
    assert!(statistics.meet("n_tup_upd = 20"), "jobs were written twice");
}

/// A page has what an index has of its queue and state, whatever else there is of both.
#[test]
fn a_search_for_few_jobs_of_a_queue_passes_no_others() {
    const JOBS: u128 = 300;
    const SEARCHES: usize = 300;
    let schema = Schema::new();
    let mut store = open(&schema);
    let new = (1..=2 * JOBS).map(|n| {
        let mut new = job(n);
        if n > JOBS {
            new.queue = "other".parse().unwrap();
        }
        new
    });
    enqueue(&mut store, new.collect());
    let running = claimed(&mut store, NOW, claim(1..=2 * JOBS, false));
    let ends = running.iter().zip(1..).map(|(it, lease)| {
        let n = number(it.lifecycle.id);
        let has_failed = n == 1 || n > JOBS;
        let outcome = if has_failed {
            failed(false)
        } else {
            returned()
        };
        complete(n, lease, outcome)
    });
    commit(&mut store, NOW, ends.collect());
    let reader = store.reader().unwrap();
    let filter = JobFilter {
        state: Some(State::Discarded),
        queue: Some(job(1).queue),
        ..JobFilter::default()
    };
    for _ in 0..SEARCHES {
        assert_eq!(reader.matching(&filter, None, 50).unwrap().items.len(), 1);
    }
    drop((reader, store));
    let statistics = Statistics::of_table(&schema, "host_ended");
    let searched = format!("idx_scan >= {SEARCHES}");
    statistics.reach(&searched);
    let few = format!("seq_tup_read + idx_tup_fetch < {}", 10 * SEARCHES);
    assert!(statistics.meet(&few), "other jobs were passed");
}
