//! The logs of guests, in a separate file with relaxed syncing. A crash of the host loses no lines;
//! a power failure may lose the last seconds. The size is bounded: the oldest lines are dropped
//! first. If this file is lost, no job is lost.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use host_core::id::JobId;
use host_core::query::PAGE_ITEMS_MAX;
use host_core::time::Time;
use host_engine::StoreError;
use rusqlite::{Connection, OpenFlags, Row, params};

use super::{check, connect, damaged, doing, log_of, name_of};
use crate::finding::Finding;
use crate::logs::{
    self, DROP_LINES, LEVELS, LOG_BYTES_MAX, LogEntry, LogPage, LogReader, LogWriter, SOURCES,
};

/// The version of the table, kept in the file's `user_version`.
const VERSION: i64 = 1;

/// `n` is the order of arrival. A number is never used twice, so a reader can continue where it
/// stopped.
const TABLES: &str = "
CREATE TABLE lines (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  job BLOB NOT NULL,
  attempt INTEGER NOT NULL,
  at INTEGER NOT NULL,
  level INTEGER NOT NULL,
  source INTEGER NOT NULL,
  message TEXT NOT NULL,
  fields TEXT
) STRICT;
CREATE INDEX lines_job ON lines (job, n);
";

/// The size of a line beyond its text, in bytes: its columns and an index entry.
const LINE_BYTES: u64 = 64;

/// Drops as many of the oldest lines as have `?3` bytes.
const DROP: &str = "DELETE FROM lines WHERE n IN (SELECT n FROM \
    (SELECT n, SUM(size) OVER (ORDER BY n) - size AS before FROM \
     (SELECT n, ?1 + octet_length(message) + COALESCE(octet_length(fields), 0) AS size \
      FROM lines ORDER BY n LIMIT ?2)) WHERE before < ?3)";

/// Which part of the limit the write-ahead log may take before it is emptied: one in so many.
const LOG_PART: u64 = 20;

/// The only writer of the logs.
pub struct LogStore {
    path: PathBuf,
    connection: Connection,
    bytes_max: u64,
    page_bytes: u64,
}

/// A read-only connection to the logs.
struct FileReader {
    connection: Connection,
}

/// A line to append.
struct Line {
    entry: LogEntry,
    /// Its fields as JSON, if it has any.
    fields: Option<String>,
    /// How much room it takes, in bytes.
    bytes: u64,
}

impl Line {
    fn new(entry: LogEntry) -> Result<Self, StoreError> {
        let fields = entry.fields_json().map_err(damaged("a line to write"))?;
        let text = entry.message.len() + fields.as_ref().map_or(0, String::len);
        Ok(Self {
            bytes: LINE_BYTES + text as u64,
            entry,
            fields,
        })
    }
}

impl LogStore {
    /// Opens the logs at `path` with a limit of [`LOG_BYTES_MAX`], and creates the file if it does
    /// not exist.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_bounded(path, LOG_BYTES_MAX)
    }

    /// Opens the logs at `path` with a limit of `bytes_max`, and creates the file if it does not
    /// exist.
    ///
    /// The file with its write-ahead log exceeds the limit by at most a tenth, or by its longest line.
    pub fn open_bounded(path: &Path, bytes_max: u64) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let connection = connect(path, flags)?;
        let set_up = doing("set up the logs");
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;")
            .map_err(&set_up)?;
        let version = pragma(&connection, "user_version")?;
        if version == 0 {
            let make = format!("BEGIN; {TABLES} PRAGMA user_version = {VERSION}; COMMIT;");
            connection.execute_batch(&make).map_err(&set_up)?;
        } else if version != VERSION {
            return Err(StoreError::Newer {
                what: "the file of logs",
                place: "data directory",
                version,
                known: VERSION,
            });
        }
        let page_bytes = pragma(&connection, "page_size")?.unsigned_abs().max(1);
        Ok(Self {
            path: path.to_owned(),
            connection,
            bytes_max,
            page_bytes,
        })
    }

    /// Drops the oldest lines until `added` more bytes are within the limit.
    fn make_room(&self, added: u64) -> Result<(), StoreError> {
        loop {
            let pages = pragma(&self.connection, "page_count")?
                - pragma(&self.connection, "freelist_count")?;
            let bytes = pages.unsigned_abs() * self.page_bytes + added;
            let excess = bytes.saturating_sub(self.bytes_max);
            if excess == 0 {
                return Ok(());
            }
            // Less frees no page.
            let excess = excess.max(4 * self.page_bytes);
            let dropped = self
                .connection
                .prepare_cached(DROP)
                .and_then(|mut drop| drop.execute(params![LINE_BYTES, DROP_LINES, excess]))
                .map_err(doing("drop the oldest lines of the logs"))?;
            if dropped == 0 {
                return Ok(());
            }
        }
    }

    /// Appends lines of so many bytes together, in one transaction.
    fn append_slice(&self, lines: &[Line], bytes: u64) -> Result<(), StoreError> {
        if lines.is_empty() {
            return Ok(());
        }
        let write = doing("append to the logs");
        let transaction = self.connection.unchecked_transaction().map_err(&write)?;
        self.make_room(bytes)?;
        for Line { entry, fields, .. } in lines {
            transaction
                .prepare_cached(
                    "INSERT INTO lines (job, attempt, at, level, source, message, fields) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )
                .and_then(|mut statement| {
                    statement.execute(params![
                        entry.job.0.as_bytes(),
                        entry.attempt,
                        entry.at.0,
                        entry.level as u8,
                        entry.source as u8,
                        entry.message,
                        fields,
                    ])
                })
                .map_err(&write)?;
        }
        self.make_room(0)?;
        transaction.commit().map_err(&write)?;
        self.checkpoint()
    }

    /// Empties the write-ahead log if it has become large.
    fn checkpoint(&self) -> Result<(), StoreError> {
        let log = std::fs::metadata(log_of(&self.path)).map_or(0, |log| log.len());
        if log <= self.bytes_max / LOG_PART {
            return Ok(());
        }
        // A reader may keep it: the next append tries again.
        let empty = "PRAGMA wal_checkpoint(TRUNCATE)";
        let emptied = self.connection.query_row(empty, [], |_| Ok(()));
        emptied.map_err(doing("empty the write-ahead log of the logs"))
    }
}

/// Checks the pages of the logs at `path`, which may be in use or missing.
pub fn check(path: &Path) -> Option<Finding> {
    if matches!(path.try_exists(), Ok(false)) {
        return None;
    }
    let finding = |message: String| Finding {
        what: name_of(path),
        message,
    };
    let checked = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).and_then(|connection| {
        // A host reads this first when it opens the file.
        let opens = connection.query_row("PRAGMA journal_mode", [], |_| Ok(()));
        opens.map_err(doing("read the logs"))?;
        Ok(check::quick(&connection))
    });
    match checked {
        Ok(Ok(())) => None,
        Err(StoreError::Damaged { message, .. }) => Some(finding(format!(
            "{message}; no job needs the log lines in it: at its next start, a host sets the file aside \
             as logs.db.damaged-1 and creates a new one"
        ))),
        Ok(Err(StoreError::Damaged { message, .. })) => Some(finding(format!(
            "{message}; no job needs the log lines in it: a host keeps using the file, but lines can be \
             lost; stop the host and move the file away, and the next start creates a new one"
        ))),
        Err(error) | Ok(Err(error)) => Some(finding(error.to_string())),
    }
}

impl LogWriter for LogStore {
    fn append(&mut self, entries: Vec<LogEntry>) -> Result<(), StoreError> {
        let (mut slice, mut bytes) = (Vec::new(), 0);
        for entry in entries {
            let line = Line::new(entry)?;
            if bytes + line.bytes > self.bytes_max / LOG_PART {
                self.append_slice(&std::mem::take(&mut slice), std::mem::take(&mut bytes))?;
            }
            bytes += line.bytes;
            slice.push(line);
        }
        self.append_slice(&slice, bytes)
    }

    fn forget(&mut self, jobs: &[JobId]) -> Result<(), StoreError> {
        let forget = doing("remove a job's log");
        let transaction = self.connection.unchecked_transaction().map_err(&forget)?;
        for job in jobs {
            transaction
                .prepare_cached("DELETE FROM lines WHERE job = ?1")
                .and_then(|mut statement| statement.execute([job.0.as_bytes()]))
                .map_err(&forget)?;
        }
        transaction.commit().map_err(&forget)
    }

    fn reader(&self) -> Result<Box<dyn LogReader>, StoreError> {
        let connection = connect(&self.path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        Ok(Box::new(FileReader { connection }))
    }
}

impl LogReader for FileReader {
    fn page(&self, job: JobId, after: Option<u64>, limit: u32) -> Result<LogPage, StoreError> {
        let limit = limit.clamp(1, PAGE_ITEMS_MAX) as usize;
        let after = after.map_or(0, |n| i64::try_from(n).unwrap_or(i64::MAX));
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT n, attempt, at, level, source, message, fields FROM lines \
                 WHERE job = ?1 AND n > ?2 ORDER BY n LIMIT ?3",
            )?;
            let rows = statement.query_map(params![job.0.as_bytes(), after, limit + 1], |row| {
                Ok((line(row, job)?, row.get::<_, Option<String>>(6)?))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let rows = read().map_err(doing("read a job's log"))?;
        let mut items = Vec::with_capacity(rows.len());
        for ((n, mut entry), fields) in rows {
            if let Some(fields) = fields {
                entry.fields = logs::fields(&fields).map_err(damaged(format!("log line {n}")))?;
            }
            items.push((n, entry));
        }
        Ok(LogPage::of(items, limit))
    }
}

/// Reads a line without its fields.
fn line(row: &Row<'_>, job: JobId) -> rusqlite::Result<(u64, LogEntry)> {
    let entry = LogEntry {
        job,
        attempt: row.get(1)?,
        at: Time(row.get(2)?),
        level: at_place(&LEVELS, row, 3)?,
        source: at_place(&SOURCES, row, 4)?,
        message: row.get(5)?,
        fields: Vec::new(),
    };
    Ok((row.get(0)?, entry))
}

fn at_place<T: Copy>(all: &[T], row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let place: i64 = row.get(column)?;
    let found = usize::try_from(place).ok().and_then(|place| all.get(place));
    found
        .copied()
        .ok_or(rusqlite::Error::IntegralValueOutOfRange(column, place))
}

fn pragma(connection: &Connection, name: &str) -> Result<i64, StoreError> {
    connection
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(doing("measure the logs"))
}
