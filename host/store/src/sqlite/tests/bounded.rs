//! The work of a batch depends on what was asked, not on what is stored. It is counted in steps of SQLite's
//! virtual machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_core::job::{OnConflict, UniqueKey, UniqueScope};
use host_engine::job;
use host_engine::job::{Cancel, Enqueue, Purge, Tick};

use super::*;

/// How much more work a batch may be in a store that is a hundred times as large. A deeper tree costs some.
const FACTOR_MAX: u64 = 2;

/// A store, and what it does.
struct Measured {
    store: SqliteStore,
    steps: Arc<AtomicU64>,
    folder: TempDir,
}

impl Measured {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        Self::open(folder)
    }

    fn open(folder: TempDir) -> Self {
        let mut store = SqliteStore::open(&folder.path().join("host.db")).unwrap();
        let steps = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&steps);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
            false
        };
        store.connection.progress_handler(1, Some(count)).unwrap();
        Self {
            store,
            steps,
            folder,
        }
    }

    /// Opens the store again, as the next host does.
    fn again(self) -> Self {
        drop(self.store);
        Self::open(self.folder)
    }

    /// Commits a batch, all of whose commands must succeed. Returns its steps.
    fn steps(&mut self, batch: &[Command]) -> u64 {
        let before = self.steps.load(Ordering::Relaxed);
        let committed = self.store.commit(Time(10), batch).unwrap();
        assert!(committed.replies.iter().all(Result::is_ok), "{committed:?}");
        self.steps.load(Ordering::Relaxed) - before
    }
}

fn job(n: u128) -> NewJob {
    match enqueue(n) {
        Command::Job(job::Command::Enqueue(Enqueue(mut jobs))) => jobs.remove(0),
        other => panic!("{other:?}"),
    }
}

/// Compares the steps of a batch in a small store and in a large one.
fn assert_bounded(small: u64, large: u64) {
    assert!(small > 0, "nothing was counted");
    assert!(
        large <= small * FACTOR_MAX,
        "{small} steps in a small store, {large} in a large one"
    );
}

#[test]
fn a_purge_visits_no_other_unique_key() {
    let purge = |jobs: u128| {
        let mut store = Measured::new();
        let keyed = (1..=jobs).map(|n| NewJob {
            unique_key: Some(UniqueKey {
                key: format!("key-{n:05}"),
                scope: UniqueScope::Active,
                on_conflict: OnConflict::Keep,
            }),
            ..job(n)
        });
        store.steps(&[Command::from(Enqueue(keyed.collect()))]);
        store.steps(&[Command::from(Enqueue(vec![job(jobs + 1)]))]);
        let (with_key, without) = (
            JobId(Uuid::from_u128(jobs)),
            JobId(Uuid::from_u128(jobs + 1)),
        );
        let cancel = |job| {
            Command::from(Cancel {
                job,
                reason: None,
                grace_ms: None,
            })
        };
        store.steps(&[cancel(with_key), cancel(without)]);
        let purges = [with_key, without].map(|job| store.steps(&[Command::from(Purge { job })]));
        let query = "SELECT COUNT(*) FROM unique_keys";
        let kept: u128 = store
            .store
            .connection
            .query_row(query, [], |row| row.get::<_, u64>(0))
            .unwrap()
            .into();
        assert_eq!(kept, jobs - 1, "a purged job gives its key back");
        purges
    };
    for (small, large) in purge(10).into_iter().zip(purge(1_000)) {
        assert_bounded(small, large);
    }
}

#[test]
fn a_claim_visits_few_queues_however_many_have_jobs() {
    let claims = |queues: u128| {
        let mut store = Measured::new();
        let jobs = (1..=queues).map(|n| NewJob {
            queue: format!("queue-{n}").parse().unwrap(),
            ..job(n)
        });
        store.steps(&[Command::from(Enqueue(jobs.collect()))]);
        let first = store.steps(&[claim()]);
        let next = store.steps(&[complete(1), claim()]);
        // The next host knows the queues immediately.
        let mut store = store.again();
        let restarted = store.steps(&[complete(2), claim()]);
        [first, next, restarted]
    };
    for (small, large) in claims(10).into_iter().zip(claims(1_000)) {
        assert_bounded(small, large);
    }
}

#[test]
fn the_end_of_a_job_visits_a_slice_of_those_that_wait_for_it() {
    let cancel = |dependents: u128| {
        let mut store = Measured::new();
        store.steps(&[Command::from(Enqueue(vec![job(1)]))]);
        let waits = (2..2 + dependents).map(|n| NewJob {
            depends_on: vec![JobId(Uuid::from_u128(1))],
            ..job(n)
        });
        store.steps(&[Command::from(Enqueue(waits.collect()))]);
        let root = JobId(Uuid::from_u128(1));
        let cancel = Command::from(Cancel {
            job: root,
            reason: None,
            grace_ms: None,
        });
        let late = NewJob {
            depends_on: vec![root],
            ..job(100_000)
        };
        [
            store.steps(&[cancel]),
            store.steps(&[Command::from(Tick { limit: 20 })]),
            store.steps(&[Command::from(Enqueue(vec![late]))]),
            store.steps(&[Command::from(Purge { job: root })]),
        ]
    };
    for (small, large) in cancel(1_000).into_iter().zip(cancel(8_000)) {
        assert_bounded(small, large);
    }
}
