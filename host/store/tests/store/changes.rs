//! The changes of a commit that is larger than a row of changes, on each engine.

use host_core::id::JobId;
use host_core::time::Time;
use host_engine::job::Enqueue;
use host_engine::{Command, Store};
use host_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::cases;
use crate::jobs::{NOW, commit, id, job};
use crate::server::Schema;

const CHANGES: u128 = 2_500;

/// Commits a change for each of the jobs.
fn fill(store: &mut dyn Store) {
    let jobs: Vec<_> = (1..=CHANGES).map(job).collect();
    let enqueue = jobs
        .chunks(500)
        .map(|some| Command::from(Enqueue(some.to_vec())));
    let committed = commit(store, NOW, enqueue.collect());
    assert_eq!(committed.changes.len() as u128, CHANGES);
}

/// Reads the changes in pages, from the one after `after` on.
fn pages(store: &dyn Store, mut after: u64, limit: u32) -> Vec<(u64, JobId)> {
    let reader = store.reader().unwrap();
    let mut all = Vec::new();
    loop {
        let page = reader.changes(after, limit).unwrap();
        assert!(page.items.len() <= limit as usize);
        if page.items.is_empty() {
            return all;
        }
        after = page.items.last().unwrap().number;
        all.extend(page.items.into_iter().map(|it| (it.number, it.change.job)));
    }
}

#[test]
fn pages_go_on_across_the_rows_of_a_large_commit() {
    cases::check(|store| {
        fill(store);
        let all: Vec<(u64, JobId)> = (1..).zip((1..=CHANGES).map(id)).collect();
        for limit in [300, 1_000] {
            assert_eq!(pages(store, 0, limit), all);
        }
        for after in [998, 999, 1_000, 1_001, 1_999, 2_000, 2_499, 2_500] {
            let later = all.iter().skip(after).copied().take(2);
            let page = store
                .reader()
                .unwrap()
                .changes(after as u64, 2)
                .unwrap()
                .items
                .into_iter()
                .map(|it| (it.number, it.change.job));
            assert_eq!(page.collect::<Vec<_>>(), later.collect::<Vec<_>>());
        }
    });
}

#[test]
fn a_clock_is_behind_if_the_last_change_is_more_than_a_minute_ahead() {
    cases::check(|store| {
        let behind_ms = |store: &dyn Store, now| {
            let reader = store.reader().unwrap();
            reader.clock_behind_ms(now).unwrap()
        };
        assert_eq!(behind_ms(store, Time(0)), None, "nothing has changed");
        for n in [1, 2] {
            commit(store, NOW, vec![Command::from(Enqueue(vec![job(n)]))]);
            assert_eq!(behind_ms(store, NOW), None);
            assert_eq!(behind_ms(store, Time(NOW.0 - 60_000)), None);
            assert_eq!(behind_ms(store, Time(NOW.0 - 60_001)), Some(60_001));
        }
    });
}

#[test]
fn a_row_has_at_most_a_thousand_changes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    fill(&mut SqliteStore::open(&path).unwrap());
    let file = Connection::open(&path).unwrap();
    let mut query = file.prepare("SELECT first, count FROM changes").unwrap();
    let rows: Vec<(i64, i64)> = query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(rows, [(1, 1_000), (1_001, 1_000), (2_001, 500)]);
    let schema = Schema::new();
    fill(&mut crate::postgres::open(&schema));
    schema.run(
        "SELECT 1 / (array_agg(count ORDER BY batch, first) = '{1000,1000,500}')::int FROM host_changes",
    );
}
