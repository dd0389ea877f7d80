//! Reads and writes the rows of a store in a file, for a copy to or from a database. There a job is named by
//! its id, here by its number.

use std::path::Path;

use host_core::id::NodeId;
use host_core::job::State;
use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags, params_from_iter};

use super::logs::LogStore;
use super::{SqliteStore, backup, changes, connect, counters, doing};
use crate::error::StoreError;
use crate::held_keys::key_columns;
use crate::parts::{LOGS, PARTS, Row, See, Value};

/// The query that reads the rows of a part in order, and the statement that writes one.
struct Part {
    read: &'static str,
    write: &'static str,
}

/// A part whose rows are written to the columns that are read.
macro_rules! rows {
    ($table:literal, $columns:expr => $values:literal, $order:literal) => {
        Part {
            read: concat!("SELECT ", $columns, " FROM ", $table, " ORDER BY ", $order),
            write: concat!(
                "INSERT INTO ",
                $table,
                " (",
                $columns,
                ") VALUES (",
                $values,
                ")"
            ),
        }
    };
}

/// The first of the states of jobs that have ended.
const _ENDED_ARE_FROM_5: () = assert!(State::Completed as u8 == 5 && State::Discarded as u8 == 7);

/// Writes a job in any state.
const WRITE_JOB: &str = "INSERT INTO jobs \
    (seq, id, state, queue, priority, suspect, handler, runner, wakeup_at, body, rank, waits_for, batch) \
    VALUES (?1, ?2, ?3, (SELECT id FROM queues WHERE name = ?4), ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";

/// The logs, which are in a file of their own beside the store.
const READ_LOGS: &str = "SELECT n, job, attempt, at, level, source, CAST(message AS BLOB), fields \
                         FROM logs.lines ORDER BY n";
const LOGS_FILE: &str = "logs.db";

/// An empty stand-in for missing logs.
const NO_LOGS: &str = "ATTACH ':memory:' AS logs; \
    CREATE TABLE logs.lines (n, job, attempt, at, level, source, message, fields)";

/// The parts without the logs, in the order of [`PARTS`].
const SQL: [Part; LOGS] = [
    rows!("queues", "name, paused" => "?1, ?2", "name"),
    Part {
        read: "SELECT seq, jobs.id, state, name, priority, suspect, handler, runner, wakeup_at, \
               body, rank, waits_for, batch FROM jobs JOIN queues ON queues.id = queue WHERE state < 5 ORDER BY seq",
        write: WRITE_JOB,
    },
    Part {
        read: "SELECT seq, jobs.id, state, name, priority, suspect, handler, runner, wakeup_at, \
               body, rank, waits_for, batch FROM jobs JOIN queues ON queues.id = queue WHERE state >= 5 ORDER BY seq",
        write: WRITE_JOB,
    },
    Part {
        read: "SELECT id, params, wire, CAST(unique_key AS BLOB), extra \
               FROM jobs JOIN payloads USING (seq) ORDER BY id",
        write: "INSERT INTO payloads (seq, params, wire, unique_key, extra) VALUES \
                ((SELECT seq FROM jobs WHERE id = ?1), ?2, ?3, CAST(?4 AS TEXT), ?5)",
    },
    Part {
        read: "SELECT id, number, attempts.body, progress, result \
               FROM jobs JOIN attempts USING (seq) ORDER BY id, number",
        write: "INSERT INTO attempts (seq, number, body, progress, result) VALUES \
                ((SELECT seq FROM jobs WHERE id = ?1), ?2, ?3, ?4, ?5)",
    },
    Part {
        read: "SELECT id, attempt, failures.body FROM jobs JOIN failures USING (seq) ORDER BY id",
        write: "INSERT INTO failures (seq, attempt, body) VALUES \
                ((SELECT seq FROM jobs WHERE id = ?1), ?2, ?3)",
    },
    Part {
        read: "SELECT name, CAST(key AS BLOB), job \
               FROM unique_keys JOIN queues ON queues.id = queue ORDER BY name, key",
        write: "INSERT INTO unique_keys (queue, key, job) VALUES \
                ((SELECT id FROM queues WHERE name = ?1), CAST(?2 AS TEXT), ?3)",
    },
    rows!(
        "dependencies",
        "prerequisite, job, dependent" => "?1, ?2, ?3",
        "prerequisite, dependent"
    ),
    rows!("cascades", "n, prerequisite, state" => "?1, ?2, ?3", "n"),
    rows!("components", "name, current" => "?1, ?2", "name"),
    rows!(
        "revisions",
        "component, revision, digest, body" => "?1, ?2, ?3, ?4",
        "component, revision"
    ),
    rows!("blobs", "digest, bytes" => "?1, ?2", "digest"),
    rows!(
        "state",
        "space, key, at, value" => "?1, ?2, ?3, ?4",
        "space, key"
    ),
    rows!("state_spaces", "space, keys, bytes" => "?1, ?2, ?3", "space"),
    rows!(
        "changes",
        "first, count, at, body" => "?1, ?2, ?3, ?4",
        "first"
    ),
    rows!("tokens", "id, body, used_at" => "?1, ?2, ?3", "id"),
    Part {
        read: "SELECT principal, jobs FROM owned WHERE jobs <> 0 ORDER BY principal",
        write: "INSERT INTO owned (principal, jobs) VALUES (?1, ?2)",
    },
    rows!(
        "audit",
        "number, at, previous, record, hash" => "?1, ?2, ?3, ?4, ?5",
        "number"
    ),
    rows!(
        "schedules",
        "name, body, progress, fires_at, holds" => "?1, ?2, ?3, ?4, ?5",
        "name"
    ),
    rows!(
        "firings",
        "schedule, number, body" => "?1, ?2, ?3",
        "schedule, number"
    ),
    rows!(
        "limits",
        "number, body, removed, cursor" => "?1, ?2, ?3, ?4",
        "number"
    ),
    rows!(
        "limit_keys",
        concat!("number, key, ", key_columns!()) =>
            "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12",
        "number, key"
    ),
    rows!(
        "limit_running",
        "number, key, since, job" => "?1, ?2, ?3, ?4",
        "number, key, since, job"
    ),
    rows!(
        "batches",
        "id, body, progress, ended, wake_at" => "?1, ?2, ?3, ?4, ?5",
        "id"
    ),
];

impl FromSql for Value {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        Ok(match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(number) => Self::Int(number),
            ValueRef::Text(text) => match std::str::from_utf8(text) {
                Ok(text) => Self::Text(text.to_owned()),
                Err(_) => Self::Bytes(text.to_owned()),
            },
            ValueRef::Blob(bytes) => Self::Bytes(bytes.to_owned()),
            ValueRef::Real(_) => return Err(rusqlite::types::FromSqlError::InvalidType),
        })
    }
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

/// Adds a row to a part.
pub(super) fn insert(connection: &Connection, part: usize, row: &Row) -> Result<(), StoreError> {
    let written = connection
        .prepare_cached(SQL[part].write)
        .and_then(|mut statement| statement.execute(params_from_iter(row)));
    written.map(drop).map_err(doing("write the store"))
}

fn reading_of(part: usize) -> &'static str {
    SQL.get(part).map_or(READ_LOGS, |part| part.read)
}

/// Calls `see` with each row of a part.
pub(super) fn each(connection: &Connection, part: usize, see: See<'_>) -> Result<(), StoreError> {
    let reading = doing("read the store");
    let mut statement = connection
        .prepare_cached(reading_of(part))
        .map_err(&reading)?;
    let columns = statement.column_count();
    let mut rows = statement.query([]).map_err(&reading)?;
    while let Some(row) = rows.next().map_err(&reading)? {
        let values = (0..columns).map(|column| row.get(column));
        see(values.collect::<Result<Row, _>>().map_err(&reading)?)?;
    }
    Ok(())
}

/// Makes the logs readable with the store, or an empty stand-in for them.
fn attach_logs(connection: &Connection, logs: Option<&Path>) -> Result<(), StoreError> {
    let attached = match logs {
        Some(logs) => connection
            .execute("ATTACH ?1 AS logs", [logs.to_string_lossy()])
            .map(drop),
        None => connection.execute_batch(NO_LOGS),
    };
    attached.map_err(doing("open the logs"))
}

/// Attaches the logs beside the store at `path`, if they can be opened: a host sets a damaged file aside.
pub(super) fn attach_usable_logs(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let logs = path.with_file_name(LOGS_FILE);
    let is_usable = logs.exists() && LogStore::open(&logs).is_ok();
    attach_logs(connection, is_usable.then_some(&*logs))
}

/// Reads a store that no host uses.
pub(crate) struct Reader {
    connection: Connection,
    node: NodeId,
}

impl Reader {
    /// Opens the store as a host does, which upgrades it and empties its log.
    pub(crate) fn open(path: &Path, fresh: NodeId) -> Result<Self, StoreError> {
        let node = SqliteStore::open(path)?.node(fresh)?;
        // What stands in for missing logs is made in memory, and could not be made in a connection that only reads.
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let logs = path.with_file_name(LOGS_FILE);
        let has_logs = logs.exists();
        if has_logs {
            drop(LogStore::open(&logs)?);
        }
        attach_logs(&connection, has_logs.then_some(&*logs))?;
        let ready = connection.execute_batch("BEGIN");
        ready.map_err(doing("read the store"))?;
        Ok(Self { connection, node })
    }

    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Counts the rows of each part.
    pub(crate) fn counts(&self) -> Result<[u64; PARTS.len()], StoreError> {
        let mut counts = [0; PARTS.len()];
        for (part, count) in counts.iter_mut().enumerate() {
            let sql = format!("SELECT COUNT(*) FROM ({})", reading_of(part));
            let counted = self.connection.query_row(&sql, [], |row| row.get(0));
            *count = counted.map_err(doing("count the rows of the store"))?;
        }
        Ok(counts)
    }

    pub(crate) fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        each(&self.connection, part, see)
    }

    /// Returns the place of the next new job.
    pub(crate) fn next_seq(&self) -> Result<i64, StoreError> {
        let next = counters::next_seq(&self.connection);
        next.map_err(doing("read the place of the next job"))
    }

    /// Returns the number of the next change.
    pub(crate) fn next_change(&self) -> Result<u64, StoreError> {
        changes::next(&self.connection)
    }
}

/// Writes a new store, in one transaction.
pub(crate) struct Writer {
    connection: Connection,
}

impl Writer {
    pub(crate) fn open(path: &Path, node: NodeId) -> Result<Self, StoreError> {
        SqliteStore::open(path)?.node(node)?;
        backup::private(path)?;
        let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        // An incomplete file is removed, so it needs no journal. A complete one is synced.
        let begin = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN";
        let ready = connection.execute_batch(begin);
        ready.map_err(doing("write the copy"))?;
        Ok(Self { connection })
    }

    pub(crate) fn write(&self, part: usize, row: &Row) -> Result<(), StoreError> {
        insert(&self.connection, part, row)
    }

    pub(crate) fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        each(&self.connection, part, see)
    }

    /// Writes the numbers of queues and the place of the next new job.
    pub(crate) fn number(&self, next_seq: i64) -> Result<(), StoreError> {
        counters::rebuild(&self.connection, next_seq).map_err(doing("write the counters"))
    }

    pub(crate) fn commit(self) -> Result<(), StoreError> {
        let failed = doing("write the copy");
        self.connection.execute_batch("COMMIT").map_err(&failed)?;
        self.connection.close().map_err(|(_, error)| failed(error))
    }
}
