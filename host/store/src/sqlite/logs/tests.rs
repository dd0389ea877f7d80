//! What only the file has: its size and its version. The crate's tests cover every backend.

use tempfile::TempDir;
use uuid::Uuid;

use host_core::cell::{Level, LogSource};

use super::*;

fn job(n: u128) -> JobId {
    JobId(Uuid::from_u128(n))
}

fn entry(n: u128, message: &str) -> LogEntry {
    LogEntry {
        job: job(n),
        attempt: 2,
        at: Time(1_000),
        level: Level::Warn,
        source: LogSource::Stderr,
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

#[test]
fn the_oldest_lines_make_room_and_the_file_stays_bounded() {
    const BYTES_MAX: u64 = 4 << 20;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    let mut logs = LogStore::open_bounded(&path, BYTES_MAX).unwrap();
    let text = "x".repeat(150);
    for round in 0..50_u128 {
        logs.append((0..2_000).map(|_| entry(round, &text)).collect())
            .unwrap();
    }
    let reader = logs.reader().unwrap();
    assert!(reader.page(job(0), None, 1).unwrap().items.is_empty());
    assert_eq!(reader.page(job(49), None, 1).unwrap().items.len(), 1);
    let file = std::fs::metadata(&path).unwrap().len();
    assert!(file <= BYTES_MAX + (1 << 20), "{file}");
}

#[test]
fn a_small_file_is_full_of_long_lines_and_no_larger_than_its_limit() {
    const BYTES_MAX: u64 = 1 << 20;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    let mut logs = LogStore::open_bounded(&path, BYTES_MAX).unwrap();
    let text = "x".repeat(1_900);
    for _ in 0..100 {
        logs.append((0..20).map(|_| entry(1, &text)).collect())
            .unwrap();
        let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let size = length(&path) + length(&log_of(&path));
        assert!(size <= BYTES_MAX * 11 / 10, "{size}");
    }
    let reader = logs.reader().unwrap();
    let kept = reader.page(job(1), None, 1_000).unwrap().items.len() as u64;
    assert!(kept * 1_900 >= BYTES_MAX * 8 / 10, "{kept}");
}

#[test]
fn a_burst_of_many_times_the_limit_stays_within_it() {
    const BYTES_MAX: u64 = 1 << 20;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    let mut logs = LogStore::open_bounded(&path, BYTES_MAX).unwrap();
    let text = "x".repeat(1_000);
    logs.append((0..10_000).map(|_| entry(1, &text)).collect())
        .unwrap();
    let length = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let size = length(&path) + length(&log_of(&path));
    assert!(size <= BYTES_MAX * 11 / 10, "{size}");
}

#[test]
fn a_file_of_a_later_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    drop(LogStore::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    let error = LogStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
}

#[test]
fn damage_is_named_with_what_a_host_does_about_it() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    assert_eq!(check(&path), None, "there are no logs yet");
    let mut logs = LogStore::open(&path).unwrap();
    logs.append((0..2_000).map(|n| entry(n, "text")).collect())
        .unwrap();
    assert_eq!(check(&path), None, "it may be in use");
    drop(logs);
    let whole = std::fs::read(&path).unwrap();
    for (damaged, next) in [
        (0..whole.len(), "sets the file aside"),
        (100..4096, "sets the file aside"),
        (4096..whole.len(), "move the file away"),
    ] {
        let mut bytes = whole.clone();
        bytes[damaged.clone()].fill(0xa5);
        std::fs::write(&path, bytes).unwrap();
        let found = check(&path).unwrap();
        assert_eq!(found.what, "logs.db");
        assert!(found.message.contains(next), "{damaged:?}: {found:?}");
        let opened = LogStore::open(&path).map(drop);
        assert_eq!(opened.is_err(), next == "sets the file aside", "{opened:?}");
    }
}
