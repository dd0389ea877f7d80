//! Jobs that wait for one that has ended are settled in slices, whatever happens between them.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};

use host_core::id::NodeId;
use host_core::job::{NewJob, State};
use host_core::time::Time;
use host_engine::job::{Cancel, JobRefusal, Purge, Retry, Tick};
use host_engine::{Command, Committed, Rejection, Reply, Store};
use host_store::check;
use host_store::postgres::PostgresStore;
use host_store::sqlite::SqliteStore;
use host_testing::store::MemoryStore;
use tempfile::TempDir;
use uuid::Uuid;

use crate::cases::{self, state};
use crate::jobs::{
    Everything, NODE, NOW, ask, claim, claimed, commit, complete, enqueue, id, job, read, recover,
    returned,
};
use crate::kill::{named_by_the_parent, start};
use crate::postgres::{TESTED, target};
use crate::server::Schema;

/// How many jobs wait for the root, and how many wait for each of the first of these.
const CHILDREN: u128 = 400;
const LEAVES: u128 = 3;

/// A job of the first slice, for which no other waits.
const EARLY: u128 = 252;

/// A job of the tree that the first slice does not reach.
const LATE: u128 = CHILDREN;

/// The number of dependencies that each tick settles.
const SLICE: u32 = 50;

fn after(n: u128, prerequisites: &[u128]) -> NewJob {
    NewJob {
        depends_on: prerequisites.iter().map(|n| id(*n)).collect(),
        ..job(n)
    }
}

/// Job 1, those that wait for it, and those that wait for these. Each of the last waits for two.
fn tree() -> Vec<NewJob> {
    let children = (0..CHILDREN).map(|n| after(2 + n, &[1]));
    let leaves = (0..CHILDREN / 4).flat_map(|n| {
        let leaf = move |leaf| {
            after(
                1_000 + n * LEAVES + leaf,
                &[2 + n, 2 + (n * 7 + leaf) % CHILDREN],
            )
        };
        (0..LEAVES).map(leaf)
    });
    std::iter::once(job(1))
        .chain(children)
        .chain(leaves)
        .collect()
}

fn cancel(n: u128) -> Command {
    Command::from(Cancel {
        job: id(n),
        reason: None,
        grace_ms: None,
    })
}

fn retry(n: u128, force: bool) -> Command {
    Command::from(Retry { job: id(n), force })
}

fn tick(store: &mut dyn Store, limit: u32) -> Committed {
    commit(store, NOW, vec![Command::from(Tick { limit })])
}

/// Ticks until all is settled. Returns how often.
fn settle(store: &mut dyn Store) -> u32 {
    let mut ticks = 0;
    while tick(store, SLICE).next_wakeup == Some(Time(0)) {
        ticks += 1;
    }
    ticks
}

/// What becomes of the tree if one tick settles all of it.
fn in_one_piece(end: Command) -> Everything {
    let mut model = MemoryStore::default();
    enqueue(&mut model, tree());
    commit(&mut model, NOW, vec![end]);
    assert_ne!(tick(&mut model, u32::MAX).next_wakeup, Some(Time(0)));
    read(&*model.reader().unwrap())
}

/// Compares jobs of the tree alone.
fn assert_settled(store: &dyn Store, expected: &Everything) {
    let everything = read(&*store.reader().unwrap());
    let ids: BTreeSet<_> = expected
        .jobs
        .iter()
        .map(|(job, _)| job.lifecycle.id)
        .collect();
    let of_tree = everything
        .jobs
        .iter()
        .filter(|(job, _)| ids.contains(&job.lifecycle.id));
    assert!(of_tree.eq(expected.jobs.iter()));
}

#[test]
fn a_large_tree_falls_in_slices_as_it_does_in_one_piece() {
    let expected = in_one_piece(cancel(1));
    let discarded = expected
        .jobs
        .iter()
        .filter(|(job, _)| job.lifecycle.state == State::Discarded);
    assert_eq!(discarded.count() as u128, CHILDREN + CHILDREN / 4 * LEAVES);
    cases::check(|store| {
        enqueue(store, tree());
        let first = commit(store, NOW, vec![cancel(1), claim(1..=9, false)]);
        assert_eq!(first.next_wakeup, Some(Time(0)), "more is to be settled");
        assert_eq!(state(store, LATE), State::Pending);
        let mut others = 5_000;
        while tick(store, SLICE).next_wakeup == Some(Time(0)) {
            // Other work continues, and no job of the tree is among it.
            others += 1;
            enqueue(store, vec![job(others)]);
            let taken: Vec<_> = claimed(store, NOW, claim([others, 9_999], false))
                .iter()
                .map(|job| job.lifecycle.id)
                .collect();
            assert_eq!(taken, [id(others)]);
            ask(store, NOW, complete(others, others, returned())).unwrap();
        }
        assert!(others > 5_005, "there were several slices");
        assert_settled(store, &expected);
    });
}

#[test]
fn dependents_of_a_completed_job_start_in_slices() {
    cases::check(|store| {
        enqueue(store, tree());
        claimed(store, NOW, claim([1], false));
        let completed = commit(store, NOW, vec![complete(1, 1, returned())]);
        assert!(completed.available < 300, "{}", completed.available);
        assert_eq!(state(store, LATE), State::Pending);
        // One that is cancelled and retried in the meantime waits for nothing, and is not counted twice.
        commit(store, NOW, vec![cancel(LATE), retry(LATE, false)]);
        assert_eq!(state(store, LATE), State::Available);
        settle(store);
        let all = tick(store, SLICE).available;
        assert_eq!(u128::from(all), CHILDREN);
        assert_eq!(state(store, 1_000), State::Pending, "it waits for others");
    });
}

#[test]
fn what_a_cascade_has_to_settle_is_not_retried() {
    cases::check(|store| {
        enqueue(store, tree());
        commit(store, NOW, vec![cancel(1)]);
        let refused = Err(Rejection::Job(JobRefusal::CascadeUnfinished(id(1))));
        assert_eq!(ask(store, NOW, retry(1, false)), refused);
        assert_eq!(ask(store, NOW, retry(1, true)), refused);
        assert_eq!(state(store, EARLY), State::Discarded);
        assert_eq!(ask(store, NOW, retry(EARLY, false)), refused);
        // One that was not reached can be cancelled, and then runs without the others only.
        ask(store, NOW, cancel(LATE)).unwrap();
        assert_eq!(ask(store, NOW, retry(LATE, false)), refused);
        ask(store, NOW, retry(LATE, true)).unwrap();
        // So can one that is pending.
        ask(store, NOW, retry(LATE - 1, true)).unwrap();
        // A new job that names the one that has failed is settled immediately.
        enqueue(store, vec![after(6_000, &[1])]);
        assert_eq!(state(store, 6_000), State::Discarded);
        settle(store);
        for n in [LATE, LATE - 1] {
            assert_eq!(state(store, n), State::Available);
        }
        assert_eq!(state(store, LATE - 2), State::Discarded);
        // Now the first and one that waits for it run again.
        ask(store, NOW, retry(EARLY, false)).unwrap();
        assert_eq!(state(store, EARLY), State::Pending);
        ask(store, NOW, retry(1, false)).unwrap();
        assert_eq!(
            claimed(store, NOW, claim([1], false))[0].lifecycle.id,
            id(1)
        );
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, EARLY), State::Available);
    });
}

#[test]
fn a_cascade_goes_on_when_its_job_is_purged() {
    cases::check(|store| {
        enqueue(store, tree());
        commit(store, NOW, vec![cancel(1)]);
        ask(store, NOW, Command::from(Purge { job: id(1) })).unwrap();
        let gone = Err(Rejection::Job(JobRefusal::PrerequisiteGone(id(1))));
        assert_eq!(ask(store, NOW, retry(EARLY, false)), gone);
        settle(store);
        assert_eq!(state(store, LATE), State::Discarded);
        assert_eq!(state(store, 1_000), State::Discarded);
    });
}

/// The child: cancels the root of a tree, and prints each tick once it is committed.
///
/// The harness sees a normal test, which does nothing without a parent.
#[test]
fn child_that_cascades() {
    let Some(mut store) = named_by_the_parent() else {
        return;
    };
    enqueue(&mut store, tree());
    commit(&mut store, NOW, vec![cancel(1)]);
    let mut out = std::io::stdout();
    loop {
        tick(&mut store, SLICE);
        writeln!(out, "ticked").unwrap();
    }
}

#[test]
fn a_cascade_survives_a_kill() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let mut child = start("cascades::child_that_cascades", &path);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut ticks = lines.filter(|line| line.as_ref().unwrap().ends_with("ticked"));
    assert!(ticks.nth(2).is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    let mut store = SqliteStore::open(&path).unwrap();
    let recover = recover(NODE);
    let recovered = commit(&mut store, NOW, vec![recover]);
    assert!(matches!(recovered.replies[..], [Ok(Reply::TakenBack(_))]));
    settle(&mut store);
    assert_settled(&store, &in_one_piece(cancel(1)));
    drop(store);
    assert_eq!(check(&path), []);
}

/// Two nodes settle a tree at the same time, and one of them goes away.
#[test]
fn another_node_goes_on_with_a_cascade() {
    let schema = Schema::new();
    let open = |node: u128| {
        let node = NodeId(Uuid::from_u128(node));
        PostgresStore::open(&target(&schema), node, TESTED).unwrap()
    };
    let (mut first, mut second) = (open(1), open(2));
    enqueue(&mut first, tree());
    commit(&mut first, NOW, vec![cancel(1)]);
    tick(&mut first, SLICE);
    tick(&mut second, SLICE);
    drop(first);
    settle(&mut second);
    let states: BTreeSet<_> = read(&*second.reader().unwrap())
        .jobs
        .into_iter()
        .map(|(job, _)| job.lifecycle.state as u8)
        .collect();
    let expected = [State::Cancelled, State::Discarded].map(|state| state as u8);
    assert_eq!(states, expected.into());
}
