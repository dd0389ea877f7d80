//! The rows of the parts of a store in a file: how they are read and written. In other engines a job is named by its id, here
//! by its number.

use std::borrow::Cow;

use host_core::job::State;
use host_engine::StoreError;
use host_engine::table::Range;
use rusqlite::Connection;

use super::columns::params;
use super::{doing, tables};
use crate::parts::{Hot, PARTS, PartRows, Row, See};
use crate::statement::Dialect;

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

/// The parts that are no tables, without the logs.
const SQL: [Part; Hot::Logs as usize] = [
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
    rows!(
        "changes",
        "first, count, at, body" => "?1, ?2, ?3, ?4",
        "first"
    ),
    Part {
        read: "SELECT principal, jobs FROM owned WHERE jobs <> 0 ORDER BY principal",
        write: "INSERT INTO owned (principal, jobs) VALUES (?1, ?2)",
    },
    rows!(
        "limit_running",
        "number, key, since, job" => "?1, ?2, ?3, ?4",
        "number, key, since, job"
    ),
];

/// Adds a row to a part.
pub(super) fn insert(connection: &Connection, part: usize, row: &Row) -> Result<(), StoreError> {
    let written = connection
        .prepare_cached(&writing_of(part))
        .and_then(|mut statement| statement.execute(params(row)));
    written.map(drop).map_err(doing("write the store"))
}

/// Returns the query that reads a part.
pub(super) fn reading_of(part: usize) -> Cow<'static, str> {
    match PARTS[part].rows {
        PartRows::Hot(hot) => SQL.get(hot as usize).map_or(READ_LOGS, |it| it.read).into(),
        PartRows::Table(table) => Dialect::Sqlite.select(table, &Range::all()).sql.into(),
    }
}

/// Returns the statement that adds a row to a part.
fn writing_of(part: usize) -> Cow<'static, str> {
    match PARTS[part].rows {
        PartRows::Hot(hot) => SQL[hot as usize].write.into(),
        PartRows::Table(table) => Dialect::Sqlite.insert(table).into(),
    }
}

/// Calls `see` with each row of a part.
pub(super) fn each(connection: &Connection, part: usize, see: See<'_>) -> Result<(), StoreError> {
    let statement = Dialect::Sqlite.plain(reading_of(part));
    tables::each(connection, "read the store", &statement, see)
}
