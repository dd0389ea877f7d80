//! The rows of dependencies that are not settled, and of the cascades that settle them.

use host_core::id::JobId;
use host_core::job::{STATES, State};
use host_engine::StoreError;
use host_engine::job::Cascade;
use rusqlite::{Connection, Row, params};

use super::{doing, execute, job_id};

/// Makes the job at this place wait for others.
pub(super) fn add(
    connection: &Connection,
    (seq, job): (i64, JobId),
    prerequisites: &[JobId],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO dependencies (prerequisite, dependent, job) VALUES (?1, ?2, ?3)";
    for prerequisite in prerequisites {
        let params = params![prerequisite.0.as_bytes(), seq, job.0.as_bytes()];
        execute(connection, "insert a dependency", sql, params)?;
    }
    Ok(())
}

/// Makes the job at this place wait for no others.
pub(super) fn clear(connection: &Connection, seq: i64) -> Result<(), StoreError> {
    let sql = "DELETE FROM dependencies WHERE dependent = ?1";
    execute(connection, "remove a job's dependencies", sql, [seq])
}

pub(super) fn remove(
    connection: &Connection,
    prerequisite: JobId,
    seq: i64,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM dependencies WHERE prerequisite = ?1 AND dependent = ?2";
    let params = params![prerequisite.0.as_bytes(), seq];
    execute(connection, "remove a dependency", sql, params)
}

/// Returns the first dependencies on these jobs.
pub(super) fn on(
    connection: &Connection,
    prerequisites: &[JobId],
    limit: usize,
) -> Result<Vec<(JobId, JobId)>, StoreError> {
    let read = || {
        let mut found = Vec::new();
        let mut statement = connection.prepare_cached(
            "SELECT job FROM dependencies WHERE prerequisite = ?1 ORDER BY dependent LIMIT ?2",
        )?;
        for prerequisite in prerequisites {
            let params = params![prerequisite.0.as_bytes(), limit - found.len()];
            let rows = statement.query_map(params, job_id)?;
            for job in rows {
                found.push((*prerequisite, job?));
            }
            if found.len() == limit {
                break;
            }
        }
        Ok(found)
    };
    read().map_err(doing("read dependents"))
}

pub(super) fn keep_cascades(
    connection: &Connection,
    cascades: &[Cascade],
) -> Result<(), StoreError> {
    let sql = "INSERT OR IGNORE INTO cascades (prerequisite, state) VALUES (?1, ?2)";
    for cascade in cascades {
        let params = params![cascade.prerequisite.0.as_bytes(), cascade.ended as i64];
        execute(connection, "keep a cascade", sql, params)?;
    }
    Ok(())
}

pub(super) fn cascades(connection: &Connection, limit: usize) -> Result<Vec<Cascade>, StoreError> {
    let read = || {
        let mut statement = connection
            .prepare_cached("SELECT prerequisite, state FROM cascades ORDER BY n LIMIT ?1")?;
        let rows = statement.query_map([limit], |row| {
            Ok(Cascade {
                prerequisite: job_id(row)?,
                ended: state(row, 1)?,
            })
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    read().map_err(doing("read cascades"))
}

/// Reads a state, which is its index in `STATES`.
fn state(row: &Row<'_>, column: usize) -> rusqlite::Result<State> {
    let index: usize = row.get(column)?;
    let state = STATES.get(index).copied();
    state.ok_or(rusqlite::Error::IntegralValueOutOfRange(
        column,
        row.get(column)?,
    ))
}

pub(super) fn end_cascade(connection: &Connection, prerequisite: JobId) -> Result<(), StoreError> {
    let sql = "DELETE FROM cascades WHERE prerequisite = ?1";
    execute(
        connection,
        "end a cascade",
        sql,
        [prerequisite.0.as_bytes()],
    )
}

pub(super) fn is_cascading(
    connection: &Connection,
    prerequisite: JobId,
) -> Result<bool, StoreError> {
    connection
        .prepare_cached("SELECT 1 FROM cascades WHERE prerequisite = ?1")
        .and_then(|mut statement| statement.exists([prerequisite.0.as_bytes()]))
        .map_err(doing("look up a cascade"))
}
