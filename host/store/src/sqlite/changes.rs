//! The latest changes of state, for listeners that reconnect. A row holds changes of one batch.

use host_core::query::{Change, Changes};
use host_core::time::Time;
use host_engine::{CHANGES_KEPT, StoreError};
use rusqlite::{Connection, OptionalExtension, params};

use super::doing;
use super::moment::Moment;
use crate::record::ChangesRow;

/// Adds the changes of a batch, and forgets those that are too old.
pub(super) fn keep(
    connection: &Connection,
    first: u64,
    now: Time,
    changes: &[Change],
) -> Result<(), StoreError> {
    for ChangesRow { place, count, body } in ChangesRow::of_batch(changes)? {
        connection
            .prepare_cached("INSERT INTO changes (first, count, at, body) VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut statement| {
                statement.execute(params![first + place as u64, count, now.0, body])
            })
            .map_err(doing("keep changes"))?;
    }
    // A row is forgotten once the row after it is old enough too.
    connection
        .prepare_cached(
            "DELETE FROM changes WHERE first < \
             (SELECT first FROM changes WHERE first <= ?1 ORDER BY first DESC LIMIT 1)",
        )
        .and_then(|mut statement| statement.execute([first.saturating_sub(CHANGES_KEPT)]))
        .map(drop)
        .map_err(doing("delete old changes"))
}

/// Returns the number of the next change.
pub(super) fn next(connection: &Connection) -> Result<u64, StoreError> {
    let next = connection
        .prepare_cached("SELECT first + count FROM changes ORDER BY first DESC LIMIT 1")
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional());
    Ok(next.map_err(doing("read the last change"))?.unwrap_or(1))
}

/// Returns at most `limit` changes after the one with the number `after`.
pub(super) fn read(connection: &Connection, after: u64, limit: u32) -> Result<Changes, StoreError> {
    let reading = doing("read changes");
    // SQLite has no larger numbers, and thus no such change.
    let after = after.min(i64::MAX.unsigned_abs() - 1);
    let moment = Moment::begin(connection).map_err(&reading)?;
    let next = next(&moment)?;
    let oldest: Option<u64> = moment
        .query_row("SELECT MIN(first) FROM changes", [], |row| row.get(0))
        .map_err(&reading)?;
    let mut items = Vec::new();
    let mut statement = moment
        .prepare_cached(
            "SELECT first, at, body FROM changes WHERE first >= COALESCE(\
             (SELECT first FROM changes WHERE first <= ?1 ORDER BY first DESC LIMIT 1), 0) \
             ORDER BY first",
        )
        .map_err(&reading)?;
    let mut rows = statement.query([after + 1]).map_err(&reading)?;
    while items.len() < limit as usize
        && let Some(row) = rows.next().map_err(&reading)?
    {
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, Time(row.get(1)?), row.get(2)?));
        let (first, at, body): (_, _, Vec<u8>) = read(row).map_err(&reading)?;
        items.extend(ChangesRow::read(first, at, &body, after)?);
    }
    items.truncate(limit as usize);
    Ok(Changes {
        items,
        oldest: oldest.unwrap_or(next),
        next,
    })
}
