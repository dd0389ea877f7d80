//! The log stays short while the store is written to.

use rusqlite::params;
use tempfile::TempDir;

use super::*;

/// Writes to a file without a pause and returns the longest length of the log, in pages.
fn longest_log(folder: &TempDir, rows: i32) -> i32 {
    let path = folder.path().join("some.db");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut writer = connect(&path, flags).unwrap();
    writer
        .execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (n INTEGER PRIMARY KEY, b BLOB)")
        .unwrap();
    let mut checkpointer = Checkpointer::start(&path, &mut writer).unwrap();
    let mut longest = 0;
    for n in 0..rows {
        writer
            .execute("INSERT INTO t VALUES (?1, zeroblob(1000000))", params![n])
            .unwrap();
        checkpointer.after_commit(&writer).unwrap();
        longest = longest.max(checkpointer.pages.load(Ordering::Relaxed));
    }
    longest
}

#[test]
fn a_busy_log_starts_again_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let longest = longest_log(&folder, 200);
    assert!(longest > WAKE_PAGES, "{longest}");
    assert!(longest < LOG_PAGES_MAX + 2 * WAKE_PAGES, "{longest}");
    let path = folder.path().join("some.db");
    let connection = connect(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let rows: i32 = connection
        .query_row("SELECT COUNT(*) FROM t", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 200);
}

#[test]
fn a_failure_reaches_the_writer() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("some.db");
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
    let mut writer = connect(&path, flags).unwrap();
    let mut checkpointer = Checkpointer::start(&path, &mut writer).unwrap();
    assert_eq!(checkpointer.after_commit(&writer), Ok(()));
    checkpointer.failure.set("no more".to_owned()).unwrap();
    assert_eq!(
        checkpointer.after_commit(&writer),
        Err("no more".to_owned())
    );
}
