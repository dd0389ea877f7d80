//! Logs written by SQLite, with single bits changed, truncated, and as a power failure leaves them.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;

const FRAME_BYTES: usize = FRAME_HEADER_BYTES + 4096;

/// A SQLite log with `transactions`, each of which writes several pages. The folder has the store.
fn log(transactions: u32) -> (TempDir, Vec<u8>) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let connection = Connection::open(&path).unwrap();
    let set_up = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; \
                  CREATE TABLE t (n INTEGER PRIMARY KEY, body BLOB); PRAGMA wal_checkpoint(TRUNCATE);";
    connection.execute_batch(set_up).unwrap();
    write(&connection, 0..transactions);
    let bytes = std::fs::read(log_of(&path)).unwrap();
    (folder, bytes)
}

fn write(connection: &Connection, numbers: std::ops::Range<u32>) {
    let insert = "INSERT INTO t VALUES (?1, randomblob(9000))";
    for n in numbers {
        connection.execute(insert, [n]).unwrap();
    }
}

fn found(bytes: &[u8]) -> Option<(u64, u64)> {
    let found = find(&mut &bytes[..]).unwrap();
    found.map(|broken| (broken.frame, broken.ends))
}

/// Returns, for each frame, whether a transaction ends with it.
fn ends(log: &[u8]) -> Vec<bool> {
    let frames = log[HEADER_BYTES..].chunks_exact(FRAME_BYTES);
    frames.map(|frame| word(frame, 4) != 0).collect()
}

/// Every bit of the header, and some of each frame.
#[test]
fn each_bit_is_missed_if_transactions_lie_behind_it() {
    let (_folder, mut log) = log(5);
    let ends = ends(&log);
    assert!(ends.len() >= 15 && ends.last() == Some(&true), "{ends:?}");
    assert_eq!(found(&log), None);
    for bit in 0..HEADER_BYTES * 8 {
        log[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(found(&log), Some((0, 5)), "bit {bit} of the header");
        log[bit / 8] ^= 1 << (bit % 8);
    }
    let of_header = (0..FRAME_HEADER_BYTES * 8).step_by(3);
    let places: Vec<_> = of_header
        .chain((200..FRAME_BYTES * 8).step_by(4001))
        .collect();
    for frame in 0..ends.len() {
        let at = HEADER_BYTES + frame * FRAME_BYTES;
        let behind = ends[frame + 1..].iter().filter(|it| **it).count() as u64;
        // The last transaction may be torn, and so may the one whose end it is.
        let expected = (behind >= 2).then_some((frame as u64 + 1, behind));
        for bit in &places {
            log[at + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(found(&log), expected, "bit {bit} of frame {frame}");
            log[at + bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[test]
fn a_log_that_is_cut_off_or_was_never_one_is_no_damage() {
    let (_folder, log) = log(4);
    for bytes in (0..log.len()).step_by(509) {
        assert_eq!(found(&log[..bytes]), None, "{bytes} bytes");
    }
    assert_eq!(found(b"cut off"), None);
    assert_eq!(found(&[0].repeat(50_000)), None);
    assert_eq!(found(&[0xa5].repeat(50_000)), None);
}

/// All frames of the last transaction, in any combination, may be missing after a power failure.
#[test]
fn a_torn_transaction_is_no_damage() {
    let (_folder, log) = log(4);
    let ends = ends(&log);
    let before = ends[..ends.len() - 1].iter().rposition(|it| *it).unwrap() + 1;
    let last = ends.len() - before;
    assert!(last >= 3, "{last} frames");
    for missing in 1_u32..1 << last {
        let mut torn = log.clone();
        for frame in (0..last).filter(|frame| missing >> frame & 1 == 1) {
            let at = HEADER_BYTES + (before + frame) * FRAME_BYTES;
            torn[at..at + FRAME_BYTES].fill(0);
        }
        assert_eq!(found(&torn), None, "{missing:b}");
    }
}

/// After a checkpoint the log begins anew, in front of what is left of the one before.
#[test]
fn what_is_left_of_an_earlier_log_is_no_damage() {
    let (folder, _) = log(9);
    let path = folder.path().join("host.db");
    let connection = Connection::open(&path).unwrap();
    write(&connection, 9..20);
    let moved = "PRAGMA wal_checkpoint(RESTART)";
    connection.query_row(moved, [], |_| Ok(())).unwrap();
    for n in 20..24 {
        write(&connection, n..n + 1);
        let log = std::fs::read(log_of(&path)).unwrap();
        assert_eq!(found(&log), None, "{n}");
        assert_eq!(check(&path).map_err(|error| error.to_string()), Ok(()));
    }
    // A log whose frames have been copied keeps its salts: without it whole, SQLite reads older pages.
    for mode in ["", "PRAGMA wal_checkpoint(PASSIVE)"] {
        connection.execute_batch(mode).unwrap();
        let mut log = std::fs::read(log_of(&path)).unwrap();
        log[HEADER_BYTES + FRAME_HEADER_BYTES + 7] ^= 1;
        assert_eq!(found(&log), Some((1, 4)), "{mode}");
    }
}

#[test]
fn the_file_is_named_and_stays_as_it_is() {
    let (folder, mut log) = log(4);
    let path = folder.path().join("host.db");
    log[HEADER_BYTES + FRAME_HEADER_BYTES] ^= 1;
    std::fs::write(log_of(&path), &log).unwrap();
    let message = check(&path).unwrap_err().to_string();
    for word in ["host.db-wal", "frame 1 ", "4 transactions", "restore"] {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    assert_eq!(std::fs::read(log_of(&path)).unwrap(), log);
    std::fs::remove_file(log_of(&path)).unwrap();
    check(&path).unwrap();
}

/// One that is being written while it is read has a bad frame that is good a moment later.
#[test]
fn a_log_that_others_write_is_no_damage() {
    let (folder, _) = log(3);
    let path = folder.path().join("host.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = 100")
        .unwrap();
    let (done, stop) = (AtomicBool::new(false), AtomicBool::new(false));
    let (done, stop) = (&done, &stop);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for n in 3..10_000 {
                write(&connection, n..n + 1);
                if stop.load(Ordering::Relaxed) {
                    break;
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        let looks = (0..200).map(|_| check(&path).map_err(|error| error.to_string()));
        let found: Vec<_> = looks
            .take_while(|_| !done.load(Ordering::Relaxed))
            .collect();
        stop.store(true, Ordering::Relaxed);
        assert!(found.len() > 10, "{} looks", found.len());
        assert!(found.iter().all(Result::is_ok), "{found:?}");
    });
}
