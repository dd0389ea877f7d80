//! Batches of jobs, as they are stored.

use host_core::id::BatchId;
use host_core::job_batch::JobBatch;
use host_core::time::Time;
use rusqlite::{Connection, OptionalExtension as _, Params, params};
use uuid::Uuid;

use super::{damaged, doing};
use crate::error::StoreError;

/// Returns when the next batch is due.
pub(super) fn next_wakeup(connection: &Connection) -> Result<Option<Time>, StoreError> {
    let sql = "SELECT wake_at FROM batches WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1";
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map(|at| at.map(Time))
        .map_err(doing("find the next batch that is due"))
}

/// Counts the batches that have not ended.
pub(super) fn count(connection: &Connection) -> Result<u64, StoreError> {
    connection
        .prepare_cached("SELECT COUNT(*) FROM batches WHERE ended = 0")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)))
        .map_err(doing("count batches"))
}

pub(super) fn one(connection: &Connection, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
    let sql = "SELECT id, body, progress FROM batches WHERE id = ?1";
    Ok(read(connection, sql, [id.0.as_bytes()])?.pop())
}

/// Returns at most `limit` batches before one, the newest first.
pub(super) fn page(
    connection: &Connection,
    before: Option<BatchId>,
    limit: u32,
) -> Result<Vec<JobBatch>, StoreError> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let sql = "SELECT id, body, progress FROM batches WHERE id < ?1 ORDER BY id DESC LIMIT ?2";
    read(connection, sql, params![before.as_bytes(), limit])
}

/// Returns all batches.
pub(super) fn all(connection: &Connection) -> Result<Vec<JobBatch>, StoreError> {
    read(connection, "SELECT id, body, progress FROM batches", [])
}

pub(super) fn read(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> Result<Vec<JobBatch>, StoreError> {
    let rows = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows =
            statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect::<Result<Vec<([u8; 16], String, String)>, _>>()
    };
    let rows = rows().map_err(doing("read batches"))?.into_iter();
    let batch = |(id, body, progress): ([u8; 16], String, String)| {
        let id = BatchId(Uuid::from_bytes(id));
        let reading = || damaged(format!("batch {id}"));
        Ok(JobBatch {
            id,
            plan: serde_json::from_str(&body).map_err(reading())?,
            progress: serde_json::from_str(&progress).map_err(reading())?,
        })
    };
    rows.map(batch).collect()
}
