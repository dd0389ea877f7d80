//! A job that cannot be read keeps no other from what it waits for, on each engine, and on each node of a shared one.

use host_core::id::NodeId;
use host_core::job::{NewJob, State};
use host_core::prerequisite::When;
use host_core::time::Time;
use host_engine::job::{Enqueue, Tick};
use host_engine::limit::{Limit, WhenFull};
use host_engine::schedule::Overlap;
use host_engine::{Command, Heartbeat as _, Reply, Store, lease};
use host_store::postgres::PostgresStore;
use host_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;
use uuid::Uuid;

use crate::cases::state;
use crate::job_batches::{cancel, new_batch};
use crate::jobs::{
    NODE, NOW, after, ask, claim, commit, complete, enqueue, id, job, number, recover, returned,
};
use crate::limit_cancels::{cancelling, stopping};
use crate::limit_keys::{by_customer, ids_of, of, set_limit};
use crate::postgres::{TESTED, open, target};
use crate::schedules::{every, fire, set};
use crate::server::Schema;

/// Damages the records of jobs in a file.
fn damage_file(path: &std::path::Path, jobs: &[u128]) {
    let file = Connection::open(path).unwrap();
    for n in jobs {
        let id = id(*n).0.simple();
        let sql = format!("UPDATE jobs SET body = x'02ff' WHERE hex(id) = upper('{id}')");
        assert_eq!(file.execute(&sql, []).unwrap(), 1, "job {n}");
    }
}

/// Damages the records of jobs in a database.
fn damage_database(schema: &Schema, jobs: &[u128]) {
    for n in jobs {
        let id = id(*n).0;
        for table in ["host_live", "host_ended"] {
            schema.run(&format!(
                "UPDATE {table} SET body = '\\x02ff' WHERE id = '{id}'"
            ));
        }
    }
}

/// Prepares a store in each engine, damages these jobs of it, and opens it again for `rest`.
fn check(damaged: &[u128], prepare: impl Fn(&mut dyn Store), rest: impl Fn(&mut dyn Store)) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    prepare(&mut SqliteStore::open(&path).unwrap());
    damage_file(&path, damaged);
    rest(&mut SqliteStore::open(&path).unwrap());

    let schema = Schema::new();
    let mut store = open(&schema);
    prepare(&mut store);
    store.heartbeat().leave().unwrap();
    drop(store);
    damage_database(&schema, damaged);
    rest(&mut open(&schema));
}

/// Commits commands. Nothing that the store cannot read may fail one.
fn accept(store: &mut dyn Store, batch: Vec<Command>) -> Vec<String> {
    let committed = commit(store, NOW, batch);
    for reply in &committed.replies {
        assert!(reply.is_ok(), "{committed:?}");
    }
    committed.unreadable
}

/// Ticks until nothing is due now. Returns what could not be read.
fn tick(store: &mut dyn Store) -> Vec<String> {
    let mut unreadable = Vec::new();
    for _ in 0..10 {
        let committed = commit(store, NOW, vec![Command::from(Tick { limit: 100 })]);
        unreadable.extend(committed.unreadable);
        if committed.next_wakeup.is_none_or(|at| at > NOW) {
            return unreadable;
        }
    }
    panic!("it is always due");
}

fn names(flaws: &[String], jobs: &[u128]) -> bool {
    let named: Vec<_> = flaws
        .iter()
        .filter_map(|flaw| flaw.split(' ').nth(1))
        .collect();
    let expected: Vec<_> = jobs.iter().map(|n| id(*n).to_string()).collect();
    named == expected
}

#[test]
fn those_behind_it_that_wait_for_the_same_key_pass() {
    check(
        &[2, 3, 11],
        |store| {
            ask(store, NOW, set_limit(by_customer(Some(1), None))).unwrap();
            let jobs: Vec<NewJob> = (1..=12).map(|n| of(7, n)).collect();
            enqueue(store, jobs);
            assert_eq!(ids_of(store, NOW, 1..2), [1]);
        },
        |store| {
            let flaws = accept(store, vec![complete(1, 1, returned())]);
            assert!(names(&flaws, &[2, 3]), "{flaws:?}");
            for n in [4, 5, 6, 7, 8, 9, 10, 12] {
                assert_eq!(ids_of(store, NOW, n..n + 1), [n]);
                accept(store, vec![complete(n, n, returned())]);
                assert_eq!(tick(store), [] as [String; 0], "{n}");
            }
            enqueue(store, vec![of(7, 13)]);
            tick(store);
            assert_eq!(ids_of(store, NOW, 13..14), [13]);
        },
    );
}

#[test]
fn a_job_is_accepted_that_would_replace_it() {
    check(
        &[2],
        |store| {
            let replacing = Limit {
                when_full: WhenFull::ReplaceWaiting,
                ..by_customer(Some(1), None)
            };
            ask(store, NOW, set_limit(replacing)).unwrap();
            enqueue(store, vec![of(7, 1), of(7, 2)]);
            assert_eq!(ids_of(store, NOW, 1..2), [1]);
        },
        |store| {
            accept(store, vec![Command::from(Enqueue(vec![of(7, 3)]))]);
            accept(store, vec![complete(1, 1, returned())]);
            assert_eq!(state(store, 3), State::Available);
        },
    );
}

#[test]
fn another_job_is_cancelled_that_runs_with_the_same_key() {
    check(
        &[1],
        |store| {
            ask(store, NOW, set_limit(cancelling(2))).unwrap();
            enqueue(store, vec![of(7, 1), of(7, 2)]);
            assert_eq!(ids_of(store, NOW, 1..3), [1, 2]);
        },
        |store| {
            accept(store, vec![Command::from(Enqueue(vec![of(7, 3)]))]);
            tick(store);
            assert_eq!(stopping(store, [2]), [2]);
        },
    );
}

#[test]
fn jobs_that_wait_for_the_same_one_continue_without_it() {
    check(
        &[2],
        |store| {
            let waits = |n| after(n, &[(1, When::Completed)]);
            enqueue(store, vec![job(1), waits(2), waits(3)]);
            assert_eq!(ids_of(store, NOW, 1..2), [1]);
        },
        |store| {
            accept(store, vec![complete(1, 1, returned())]);
            tick(store);
            assert_eq!(state(store, 3), State::Available);
        },
    );
}

#[test]
fn other_jobs_of_a_node_that_ended_are_taken_back() {
    check(
        &[2],
        |store| {
            enqueue(store, vec![job(1), job(2), job(3)]);
            assert_eq!(ids_of(store, NOW, 1..4), [1, 2, 3]);
        },
        |store| {
            let flaws = accept(store, vec![recover(NODE)]);
            assert!(names(&flaws, &[2]), "{flaws:?}");
            for n in [1, 3] {
                assert_ne!(state(store, n), State::Running, "{n}");
            }
            assert_eq!(accept(store, vec![recover(NODE)]), [] as [String; 0]);
        },
    );
}

#[test]
fn other_jobs_of_a_batch_are_cancelled() {
    check(
        &[2],
        |store| {
            let jobs = (1..=3).map(job).collect();
            ask(store, NOW, new_batch(1, false, jobs)).unwrap();
        },
        |store| {
            accept(store, vec![cancel(1)]);
            tick(store);
            for n in [1, 3] {
                assert_eq!(state(store, n), State::Cancelled, "{n}");
            }
        },
    );
}

#[test]
fn a_schedule_fires_that_would_cancel_it() {
    let name = "report".parse().unwrap();
    check(
        &[1],
        |store| {
            let schedule = every("report", 60_000, Overlap::Cancel);
            ask(store, NOW, set(schedule, NOW)).unwrap();
            let first = fire(store, &name, NOW.plus_ms(60_000), &[id(1)], None);
            ask(store, NOW, first).unwrap();
            assert_eq!(state(store, 1), State::Available);
        },
        |store| {
            let second = fire(store, &name, NOW.plus_ms(120_000), &[id(2)], None);
            accept(store, vec![second]);
            assert_eq!(state(store, 2), State::Available);
        },
    );
}

/// Claims what there is as a node, and completes it, until nothing is left. Returns what could not be read.
fn work(store: &mut dyn Store, node: NodeId, first_lease: u128) -> Vec<String> {
    let mut flaws = Vec::new();
    for round in 0..10 {
        flaws.extend(tick(store));
        let leases = first_lease + 10 * round;
        let mut claim = claim(leases..leases + 5, false);
        let Command::Lease(lease::Command::Claim(of_node)) = &mut claim else {
            panic!("a claim");
        };
        of_node.node = node;
        let committed = commit(store, NOW, vec![claim]);
        flaws.extend(committed.unreadable);
        let [Ok(Reply::Claimed(claimed))] = &committed.replies[..] else {
            panic!("{:?}", committed.replies);
        };
        if claimed.is_empty() {
            return flaws;
        }
        let ends = claimed.iter().zip(leases..);
        let ends = ends.map(|(job, lease)| complete(number(job.lifecycle.id), lease, returned()));
        flaws.extend(accept(store, ends.collect()));
    }
    panic!("there is always more to claim");
}

/// Each node passes over what it cannot read by itself, and runs the rest.
#[test]
fn each_node_of_a_database_passes_over_it() {
    let schema = Schema::new();
    let mut first = open(&schema);
    ask(&mut first, NOW, set_limit(by_customer(Some(1), None))).unwrap();
    let later = NewJob {
        run_at: Some(NOW),
        ..of(3, 3)
    };
    enqueue(&mut first, vec![of(1, 1), of(2, 2), of(7, 4), of(7, 5)]);
    ask(&mut first, Time(0), Command::from(Enqueue(vec![later]))).unwrap();
    let other = NodeId(Uuid::from_u128(2));
    let mut second = PostgresStore::open(&target(&schema), other, TESTED).unwrap();
    damage_database(&schema, &[1, 3, 5]);
    for (n, node, store) in [(10, NODE, &mut first), (20, other, &mut second)] {
        enqueue(store, vec![of(7, n), of(7, n + 1), of(8, n + 2)]);
        let mut flaws = work(store, node, 100 * n);
        flaws.sort_unstable();
        assert!(names(&flaws, &[1, 3, 5]), "node {n}: {flaws:?}");
        for n in n..n + 3 {
            assert_eq!(state(store, n), State::Completed, "{n}");
        }
        assert_eq!(work(store, node, 100 * n + 100), [] as [String; 0]);
    }
    for n in [2, 4] {
        assert_eq!(state(&first, n), State::Completed, "{n}");
    }
}
