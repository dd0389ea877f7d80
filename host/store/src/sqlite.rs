//! The embedded store: one SQLite file in WAL mode. A commit is synced with `fdatasync` before
//! `commit` returns. All SQL for SQLite is in this module and its submodules.

mod access;
mod artifacts;
pub mod aside;
mod available;
pub mod backup;
mod changes;
pub mod check;
mod checkpoint;
mod columns;
pub(crate) mod copy;
mod counters;
mod dependencies;
mod hot;
mod job_batch_rows;
mod jobs;
mod limit_rows;
mod limits;
mod list;
mod live_jobs;
pub mod logs;
mod moment;
mod parts;
mod payloads;
mod reader;
mod reserve;
mod schema;
mod state;
mod table_rows;
mod tables;
mod wal;

#[cfg(test)]
mod tests;

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, NodeId};
use host_core::port::Clock;
use host_core::time::Time;
use host_engine::{
    Bounds, Capacity, Command, Committed, Reader, Store, StoreError, batch, component, job,
};
use rusqlite::{Connection, ErrorCode, OpenFlags, Params, Row};
use uuid::Uuid;

use self::checkpoint::Checkpointer;
use self::counters::Counters;
use self::hot::Hot;
use self::jobs::Transaction;
use self::reader::SqliteReader;
use self::reserve::{FreeSpace, Reserve};
use crate::held_keys::HeldKeys;

pub use self::reserve::reserved;

/// How many prepared statements a connection keeps.
const STATEMENTS_CACHED: usize = 128;

/// The suffixes of SQLite's files: the file itself, and those beside it while it is open.
const FILES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// How long a connection waits for a lock. Only a checkpoint or another program can hold one.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// A store in one SQLite file, with its only writer.
pub struct SqliteStore {
    path: PathBuf,
    /// The device and the number of its file.
    file: Option<(u64, u64)>,
    // Dropped before the connection. The connection is then the last one and cleans up the log when
    // it closes.
    checkpointer: Checkpointer,
    connection: Connection,
    counters: Counters,
    hot: Hot,
    held: HeldKeys,
    reserve: Reserve,
    bounds: Bounds,
    broken: Option<String>,
}

impl SqliteStore {
    /// Opens the store at `path` and creates it if it does not exist.
    ///
    /// Refuses a file of a later version and a file that SQLite reports as damaged.
    ///
    /// If the last writer did not close it, checks the log before SQLite replays it, and then all pages.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let was_closed = fs::metadata(log_of(path)).map_or(true, |log| log.len() == 0);
        if !was_closed {
            wal::check(path)?;
        }
        let mut connection = connect(
            path,
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        )?;
        let prepared = schema::prepare(&connection).and_then(|()| {
            if !was_closed {
                check::quick(&connection)?;
                // Empty the log, so that a torn end is gone before the next power failure.
                checkpoint::empty_log(&connection)?;
            }
            Counters::load(&connection)
        });
        let counters = prepared.map_err(|error| check::name(&connection, error))?;
        let room = room_of(&connection, path);
        Ok(Self {
            path: path.to_owned(),
            file: file_at(path),
            checkpointer: Checkpointer::start(path, &mut connection)?,
            counters,
            connection,
            hot: Hot::default(),
            held: HeldKeys::default(),
            reserve: Reserve::beside(path, room),
            bounds: Bounds::default(),
            broken: None,
        })
    }

    /// Returns the id of the host that the store belongs to. `fresh` becomes that id if the store
    /// has none yet.
    pub fn node(&self, fresh: NodeId) -> Result<NodeId, StoreError> {
        let keep = "INSERT OR IGNORE INTO node VALUES (1, ?1)";
        self.connection
            .execute(keep, [fresh.0.into_bytes()])
            .map_err(doing("store the id of this host"))?;
        let kept = self
            .connection
            .query_row("SELECT id FROM node", [], |row| row.get(0));
        kept.map(|bytes| NodeId(Uuid::from_bytes(bytes)))
            .map_err(doing("read the id of this host"))
    }

    fn transact(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        let transaction = self
            .connection
            .unchecked_transaction()
            .map_err(doing("begin a transaction"))?;
        let mut rows = Transaction::new(
            &transaction,
            &mut self.counters,
            &mut self.hot,
            &mut self.held,
        );
        let committed = host_engine::run(&mut rows, now, &self.bounds, batch)?;
        rows.flush()?;
        self.counters.find_firsts(&transaction)?;
        self.counters.save(&transaction)?;
        transaction.commit().map_err(doing("commit a batch"))?;
        self.hot.settle();
        self.held.settle();
        Ok(committed)
    }
}

impl Drop for SqliteStore {
    /// Empties the log, which shows the next host that the store was closed. Readers may still be open.
    fn drop(&mut self) {
        if self.broken.is_some() {
            return;
        }
        // If a reader is busy, the next host checks the store.
        let _ = checkpoint::empty_log(&self.connection);
    }
}

impl Store for SqliteStore {
    fn commit(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError> {
        if let Some(message) = &self.broken {
            return Err(StoreError::Broken {
                operation: "write after an earlier failure",
                message: message.clone(),
            });
        }
        if batch.iter().any(asks_for_room) {
            self.room()?;
        }
        let result = self
            .transact(now, batch)
            .map_err(|error| check::name(&self.connection, error));
        match &result {
            Ok(_) => self.broken = self.checkpointer.after_commit(&self.connection).err(),
            Err(
                error @ (StoreError::Full
                | StoreError::Failing { .. }
                | StoreError::Unreadable { .. }),
            ) => {
                self.counters = Counters::load(&self.connection)?;
                self.hot.clear();
                self.held.clear();
                if matches!(error, StoreError::Full) {
                    self.reserve.give_up();
                }
            }
            Err(error) => self.broken = Some(error.to_string()),
        }
        result
    }

    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        open_reader(&self.path)
    }

    fn limit(&mut self, capacity: Capacity, clock: Arc<dyn Clock>) {
        let clock = Some(clock);
        self.bounds = Bounds { capacity, clock };
    }

    fn room(&mut self) -> Result<(), StoreError> {
        if file_at(&self.path) != self.file {
            return Err(StoreError::Moved {
                path: self.path.display().to_string(),
            });
        }
        let room = || room_of(&self.connection, &self.path);
        self.reserve
            .take(room)
            .then_some(())
            .ok_or(StoreError::Full)
    }
}

/// Returns the name of a file for messages.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns the device and the number of the file that has this path now.
fn file_at(path: &Path) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Returns the space that an open store has already. What cannot be measured counts as zero.
fn room_of(connection: &Connection, path: &Path) -> FreeSpace {
    let count = |name| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let pages = count("freelist_count").unwrap_or_default();
    FreeSpace {
        inside: pages.saturating_mul(count("page_size").unwrap_or_default()),
        log: fs::metadata(log_of(path)).map_or(0, |log| log.len()),
    }
}

/// Returns the path of the write-ahead log, which is empty or gone if the last writer closed the store.
fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Opens a reader of the store at `path`. Another process may be writing to that store.
pub fn open_reader(path: &Path) -> Result<Box<dyn Reader>, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(Box::new(SqliteReader::new(connection)))
}

/// Returns whether a command adds new data, which is refused when the disk is full.
fn asks_for_room(command: &Command) -> bool {
    matches!(
        command.bare(),
        Command::Job(job::Command::Enqueue(_) | job::Command::Record(_))
            | Command::Batch(batch::Command::NewBatch(_))
            | Command::Component(component::Command::Deploy(_))
            | Command::State(_)
            | Command::Step(_)
    )
}

/// Refuses a FIFO, a device or a folder at `path` or beside it, where SQLite would open a file.
fn check_kind(path: &Path) -> Result<(), StoreError> {
    for suffix in FILES {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        let path = PathBuf::from(name);
        if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
            return Err(StoreError::Broken {
                operation: "open the file",
                message: format!("{} is not a regular file", path.display()),
            });
        }
    }
    Ok(())
}

fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    check_kind(path)?;
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(doing("open the store"))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    connection
        .busy_timeout(BUSY_TIMEOUT)
        .map_err(doing("set up the store's connection"))?;
    Ok(connection)
}

/// Reads a job id from the first column.
fn job_id(row: &Row<'_>) -> rusqlite::Result<JobId> {
    let bytes: [u8; 16] = row.get(0)?;
    Ok(JobId(Uuid::from_bytes(bytes)))
}

/// Runs a statement that is used again and again.
fn execute(
    connection: &Connection,
    operation: &'static str,
    sql: &str,
    params: impl Params,
) -> Result<(), StoreError> {
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.execute(params))
        .map(drop)
        .map_err(doing(operation))
}

/// Converts an error of SQLite into a [`StoreError`] that says what was being done.
fn doing(operation: &'static str) -> impl Fn(rusqlite::Error) -> StoreError {
    move |error| match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        Some(ErrorCode::TooBig | ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted) => {
            StoreError::Failing {
                operation,
                message: error.to_string(),
            }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged {
            what: format!("the store (while trying to {operation})"),
            message: error.to_string(),
        },
        _ if is_of_row(&error) => StoreError::Unreadable {
            what: format!("a record (while trying to {operation})"),
            message: error.to_string(),
        },
        _ => StoreError::Broken {
            operation,
            message: error.to_string(),
        },
    }
}

/// Returns whether a column has a value that it must not have.
fn is_of_row(error: &rusqlite::Error) -> bool {
    matches!(
        error,
        rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::InvalidColumnType(..)
    )
}

/// Converts the error of a record that cannot be parsed into a [`StoreError`] that names the
/// record.
fn damaged(what: impl Into<String>) -> impl FnOnce(serde_json::Error) -> StoreError {
    let what = what.into();
    move |error| StoreError::Unreadable {
        what,
        message: error.to_string(),
    }
}
