//! The latest changes of state, for listeners that reconnect. A row holds the changes of one batch.

use std::borrow::Cow;

use host_core::command::Change;
use host_core::query::{Changes, NumberedChange};
use host_core::time::Time;
use rusqlite::{Connection, OptionalExtension, params};

use super::doing;
use crate::error::StoreError;
use crate::record::{ChangesOfBatch, decode, encode};
use crate::store::CHANGES_KEPT;

/// A row: the number of its first change, its time and its changes.
type Row = (u64, Time, Vec<u8>);

fn read_row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Row> {
    Ok((row.get(0)?, Time(row.get(1)?), row.get(2)?))
}

fn changes((first, at, body): Row) -> Result<impl Iterator<Item = NumberedChange>, StoreError> {
    let ChangesOfBatch(changes) = decode(&body, || format!("the changes from {first}"))?;
    let numbered = (first..).zip(changes.into_owned());
    Ok(numbered.map(move |(number, change)| NumberedChange { number, at, change }))
}

/// Adds the changes of a batch, and forgets those that are too old.
pub(super) fn keep(
    connection: &Connection,
    first: u64,
    now: Time,
    changes: &[Change],
) -> Result<(), StoreError> {
    let body = encode(&ChangesOfBatch(Cow::Borrowed(changes)))?;
    connection
        .prepare_cached("INSERT INTO changes (first, at, body) VALUES (?1, ?2, ?3)")
        .and_then(|mut statement| statement.execute(params![first, now.0, body]))
        .map_err(doing("keep changes"))?;
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
    let row = connection
        .prepare_cached("SELECT first, at, body FROM changes ORDER BY first DESC LIMIT 1")
        .and_then(|mut statement| statement.query_row([], read_row).optional())
        .map_err(doing("read the last change"))?;
    let last = match row {
        Some(row) => changes(row)?.last(),
        None => None,
    };
    Ok(last.map_or(1, |last| last.number + 1))
}

/// Returns at most `limit` changes after the one with the number `after`.
pub(super) fn read(connection: &Connection, after: u64, limit: u32) -> Result<Changes, StoreError> {
    let reading = doing("read changes");
    // The largest number in SQLite, and thus of a change.
    let after = after.min(i64::MAX.unsigned_abs());
    // One transaction, so that all reads see the same state.
    let transaction = connection.unchecked_transaction().map_err(&reading)?;
    let next = next(&transaction)?;
    let oldest: Option<u64> = transaction
        .query_row("SELECT MIN(first) FROM changes", [], |row| row.get(0))
        .map_err(&reading)?;
    let mut items = Vec::new();
    let mut statement = transaction
        .prepare_cached(
            "SELECT first, at, body FROM changes WHERE first >= COALESCE(\
             (SELECT first FROM changes WHERE first <= ?1 ORDER BY first DESC LIMIT 1), 0) \
             ORDER BY first",
        )
        .map_err(&reading)?;
    let mut rows = statement.query([after]).map_err(&reading)?;
    while items.len() < limit as usize
        && let Some(row) = rows.next().map_err(&reading)?
    {
        let later = changes(read_row(row).map_err(&reading)?)?;
        items.extend(later.filter(|change| change.number > after));
    }
    items.truncate(limit as usize);
    Ok(Changes {
        items,
        oldest: oldest.unwrap_or(next),
        next,
    })
}
