//! The available jobs of a queue, in the order of claims.

use host_core::name::Name;
use rusqlite::{CachedStatement, Connection};

use crate::ready::QueuePosition;

/// Returns a query for the available jobs of a lane in a queue, from a place on.
pub(super) fn from<'a>(
    connection: &'a Connection,
    executor: Option<&Name>,
    queue: i64,
    (priority, rank): QueuePosition,
) -> rusqlite::Result<CachedStatement<'a>> {
    // The unary plus keeps SQLite from replanning the query for each value, as it does for partial indexes.
    let mut statement = connection.prepare_cached(match executor {
        None => {
            "SELECT id, priority, rank, handler, seq FROM jobs INDEXED BY jobs_claim \
             WHERE state = 2 AND suspect = 0 AND runner IS NULL \
             AND queue = +?1 AND (priority, rank) >= (+?2, +?3) ORDER BY priority, rank"
        }
        Some(_) => {
            "SELECT id, priority, rank, handler, seq FROM jobs INDEXED BY jobs_runner \
             WHERE state = 2 AND queue = +?1 AND (priority, rank) >= (+?2, +?3) AND runner = +?4 \
             ORDER BY priority, rank"
        }
    })?;
    statement.raw_bind_parameter(1, queue)?;
    statement.raw_bind_parameter(2, priority)?;
    statement.raw_bind_parameter(3, rank)?;
    if let Some(executor) = executor {
        statement.raw_bind_parameter(4, executor.as_str())?;
    }
    Ok(statement)
}

/// Returns the place of the first available job in a queue: of an executor, or for cells. Suspects do not count.
pub(super) fn first_place(
    connection: &Connection,
    executor: Option<&Name>,
    queue: i64,
) -> rusqlite::Result<Option<QueuePosition>> {
    let mut statement = from(connection, executor, queue, (0, 0))?;
    let mut rows = statement.raw_query();
    let first = rows.next()?;
    first.map(|row| Ok((row.get(1)?, row.get(2)?))).transpose()
}

/// Returns the oldest of the first available jobs of each priority in a queue, by its place in the table: of those for cells
/// and for these executors. Suspects do not count.
pub(super) fn oldest(
    connection: &Connection,
    executors: &[Name],
    queue: i64,
) -> rusqlite::Result<Option<i64>> {
    let lanes = std::iter::once(None).chain(executors.iter().map(Some));
    let mut oldest: Option<i64> = None;
    for executor in lanes {
        let mut next = Some((0, 0));
        while let Some(from_here) = next {
            let mut statement = from(connection, executor, queue, from_here)?;
            let mut rows = statement.raw_query();
            let first = rows
                .next()?
                .map(|row| -> rusqlite::Result<(u8, i64)> { Ok((row.get(1)?, row.get(4)?)) })
                .transpose()?;
            oldest = oldest.into_iter().chain(first.map(|(_, seq)| seq)).min();
            next = first.map(|(priority, _)| (priority + 1, 0));
        }
    }
    Ok(oldest)
}
