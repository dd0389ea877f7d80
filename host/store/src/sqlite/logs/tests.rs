//! What is of the file alone: its size, and its version. What every backend does is in the crate's tests.

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
fn a_file_of_a_later_version_is_refused() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs.db");
    drop(LogStore::open(&path).unwrap());
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "user_version", 9).unwrap();
    let error = LogStore::open(&path).map(drop).unwrap_err();
    assert!(error.to_string().contains("version"), "{error}");
}
