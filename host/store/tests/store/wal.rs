//! The log of a killed host's store, with a bit changed: nothing that was committed is lost silently.

use std::path::{Path, PathBuf};

use host_engine::{Store, StoreError};
use host_store::backup::Original;
use host_store::check;
use host_store::sqlite::SqliteStore;
use rusqlite::Connection;
use tempfile::TempDir;

use crate::jobs::{enqueue, job, read};

const JOBS: u128 = 6;
const FRAME_BYTES: usize = 24 + 4096;

/// Makes a store as a killed host leaves it, after a commit for each job.
fn killed() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let (path, left) = (folder.path().join("host.db"), folder.path().join("left.db"));
    let mut store = SqliteStore::open(&path).unwrap();
    for n in 1..=JOBS {
        enqueue(&mut store, vec![job(n)]);
    }
    std::fs::copy(&path, &left).unwrap();
    std::fs::copy(log_of(&path), log_of(&left)).unwrap();
    (folder, left)
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn jobs(path: &Path) -> u128 {
    let store = SqliteStore::open(path).unwrap();
    read(&*store.reader().unwrap()).jobs.len() as u128
}

/// A changed copy of the log.
fn changed(folder: &TempDir, left: &Path, log: &[u8]) -> PathBuf {
    let path = folder.path().join("changed.db");
    let shared = path.with_extension("db-shm");
    // It exists if SQLite has opened the file before.
    let _ = std::fs::remove_file(shared);
    std::fs::copy(left, &path).unwrap();
    std::fs::write(log_of(&path), log).unwrap();
    path
}

#[test]
fn a_store_with_a_changed_bit_in_its_log_is_refused() {
    let (folder, left) = killed();
    let log = std::fs::read(log_of(&left)).unwrap();
    assert_eq!(jobs(&changed(&folder, &left, &log)), JOBS);
    let frames = (log.len() - 32) / FRAME_BYTES;
    let (mut refused, mut accepted) = (0, 0);
    // In the header, and in the header and the page of each frame.
    let places = (0..frames)
        .map(|frame| 32 + frame * FRAME_BYTES)
        .flat_map(|at| [at + 2, at + 9, at + 17, at + 1_000]);
    for place in [1, 9, 17, 25].into_iter().chain(places) {
        let mut log = log.clone();
        log[place] ^= 4;
        let path = changed(&folder, &left, &log);
        match SqliteStore::open(&path) {
            Err(StoreError::Damaged { what, message }) => {
                assert_eq!(what, "changed.db-wal");
                assert!(message.contains("would be lost"), "{message}");
                Original::open_store(&path).err().unwrap();
                let found = check(&path);
                assert!(found.iter().any(|it| it.what == what), "{found:?}");
                let kept = std::fs::read(log_of(&path)).unwrap();
                assert!(kept == log, "byte {place}: the log is unchanged");
                refused += 1;
            }
            Err(error) => panic!("byte {place}: {error}"),
            Ok(store) => {
                drop(store);
                // The last transaction, and the one before it, which may be torn.
                assert!(jobs(&path) >= JOBS - 2, "byte {place}");
                accepted += 1;
            }
        }
    }
    assert!(refused > accepted && accepted > 0, "{refused} {accepted}");
}

/// As described in docs/backup.md.
#[test]
fn what_is_in_front_of_the_damage_can_be_kept() {
    let (folder, left) = killed();
    let mut log = std::fs::read(log_of(&left)).unwrap();
    // The first half may be the tables' creation.
    let frames = (log.len() - 32) / FRAME_BYTES;
    log[32 + frames / 4 * 3 * FRAME_BYTES + 1_000] ^= 1;
    let path = changed(&folder, &left, &log);
    assert!(SqliteStore::open(&path).is_err());
    let connection = Connection::open(&path).unwrap();
    let moved = "PRAGMA wal_checkpoint(TRUNCATE)";
    connection.query_row(moved, [], |_| Ok(())).unwrap();
    drop(connection);
    assert_eq!(check(&path), []);
    let jobs = jobs(&path);
    assert!((1..JOBS).contains(&jobs), "{jobs} jobs");
}

/// A log with a torn end is replayed up to there, and nothing of it remains for the next power failure to
/// extend.
#[test]
fn the_log_begins_anew_after_each_start() {
    let (folder, left) = killed();
    let log = std::fs::read(log_of(&left)).unwrap();
    let path = changed(&folder, &left, &log[..log.len() - 1]);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(std::fs::metadata(log_of(&path)).unwrap().len(), 0);
    assert_eq!(read(&*store.reader().unwrap()).jobs.len() as u128, JOBS - 1);
}
