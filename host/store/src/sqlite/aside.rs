//! Sets records aside in a file that no host uses.

use std::borrow::Cow;
use std::path::Path;

use host_engine::StoreError;
use host_engine::table::Kind;
use rusqlite::{Connection, OpenFlags};

use super::columns::{Column, params};
use super::{check, connect, copy, counters, doing, execute, parts, schema, wal};
use crate::aside::{self, Engine, Keep};
use crate::parts::{HOT, PARTS, PartRows, Row, See, Value};

/// The statements that remove a row of each part that is no table, by its keys.
const DELETE: [&str; HOT] = [
    "DELETE FROM queues WHERE name = CAST(?1 AS TEXT)",
    "DELETE FROM jobs WHERE seq = ?1",
    "DELETE FROM jobs WHERE seq = ?1",
    "DELETE FROM payloads WHERE seq = (SELECT seq FROM jobs WHERE id = ?1)",
    "DELETE FROM attempts WHERE seq = (SELECT seq FROM jobs WHERE id = ?1) AND number = ?2",
    "DELETE FROM failures WHERE seq = (SELECT seq FROM jobs WHERE id = ?1)",
    "DELETE FROM unique_keys WHERE queue = (SELECT id FROM queues WHERE name = CAST(?1 AS TEXT)) \
     AND key = CAST(?2 AS TEXT)",
    "DELETE FROM dependencies WHERE prerequisite = ?1 AND dependent = ?2",
    "DELETE FROM cascades WHERE n = ?1",
    "DELETE FROM changes WHERE first = ?1",
    "DELETE FROM owned WHERE principal = CAST(?1 AS TEXT)",
    "DELETE FROM limit_running WHERE number = ?1 AND key = CAST(?2 AS TEXT) AND since = ?3 AND job = ?4",
    "DELETE FROM logs.lines WHERE n = ?1",
];

/// Returns the statement that removes a row of a part, by its keys. A text that is not UTF-8 comes as bytes.
fn removing(part: usize) -> Cow<'static, str> {
    let table = match PARTS[part].rows {
        PartRows::Hot(hot) => return DELETE[hot as usize].into(),
        PartRows::Table(table) => table,
    };
    let keys = (1..).zip(&table.columns[..table.key]);
    let conditions = keys.map(|(n, (name, kind))| match kind {
        Kind::Text => format!("{name} = CAST(?{n} AS TEXT)"),
        _ => format!("{name} = ?{n}"),
    });
    let all = conditions.collect::<Vec<_>>().join(" AND ");
    format!("DELETE FROM {} WHERE {all}", table.name).into()
}

/// Counts what the store counts, lets what waits for a job that is gone continue, and removes components whose current revision
/// is gone.
const RECOUNT: &str = "\
    DELETE FROM state_spaces;
    INSERT INTO state_spaces (space, keys, bytes)
      SELECT space, count(*), sum(length(CAST(key AS BLOB)) + length(value) + 64) FROM state GROUP BY space;
    INSERT OR IGNORE INTO cascades (prerequisite, state)
      SELECT DISTINCT prerequisite, 7 FROM dependencies WHERE prerequisite NOT IN (SELECT id FROM jobs);
    UPDATE components SET current = -current WHERE current > 0 AND NOT EXISTS (
      SELECT 1 FROM revisions JOIN blobs USING (digest) WHERE component = name AND revision = current);
    DELETE FROM counters;
    DELETE FROM live_jobs;";

struct File {
    connection: Connection,
    next_seq: i64,
}

/// Sets aside what cannot be read of the store at `path`, which no host may use. Returns how many records were kept elsewhere.
pub fn set_aside(path: &Path, keep: &mut dyn Keep) -> Result<u64, StoreError> {
    wal::check(path)?;
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    schema::prepare(&connection)?;
    check::quick(&connection)?;
    copy::attach_usable_logs(&connection, path)?;
    let failed = doing("set aside what cannot be read");
    connection
        .execute_batch("BEGIN IMMEDIATE")
        .map_err(&failed)?;
    let next_seq = counters::next_seq(&connection).map_err(&failed)?;
    let file = File {
        connection,
        next_seq,
    };
    let kept = aside::set_aside(&file, keep)?;
    // The host makes a new id.
    let nameless = "DELETE FROM node WHERE length(id) <> 16";
    file.connection.execute(nameless, []).map_err(&failed)?;
    file.connection.execute_batch("COMMIT").map_err(&failed)?;
    file.connection
        .close()
        .map_err(|(_, error)| failed(error))?;
    Ok(kept)
}

impl Engine for File {
    fn columns(part: usize) -> Cow<'static, str> {
        crate::postgres::copy::columns(part)
    }

    fn each(&self, part: usize, see: See<'_>) -> Result<(), StoreError> {
        parts::each(&self.connection, part, see)
    }

    fn delete(&self, part: usize, keys: &Row) -> Result<(), StoreError> {
        let deleting = "remove what is set aside";
        execute(&self.connection, deleting, &removing(part), params(keys))
    }

    fn insert(&self, part: usize, row: &Row) -> Result<(), StoreError> {
        if let (true, Some(Value::Text(queue))) = (aside::is_of_jobs(part), row.get(aside::QUEUE)) {
            let sql = "INSERT OR IGNORE INTO queues (name) VALUES (?1)";
            execute(&self.connection, "add a queue", sql, [queue])?;
        }
        parts::insert(&self.connection, part, row)
    }

    fn empty_changes(&self, row: &Row, body: &[u8]) -> Result<(), StoreError> {
        let sql = "UPDATE changes SET body = ?2 WHERE first = ?1";
        execute(
            &self.connection,
            "empty changes",
            sql,
            rusqlite::params![Column(&row[0]), body],
        )
    }

    fn recount(&self) -> Result<(), StoreError> {
        let recounted = self.connection.execute_batch(RECOUNT);
        recounted
            .and_then(|()| counters::rebuild(&self.connection, self.next_seq))
            .map_err(doing("count what is left"))
    }
}
