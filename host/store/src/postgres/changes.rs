//! The changes of all hosts, and their numbers. A batch commits its changes without numbers, so that hosts do not wait
//! for each other. A reader of changes first numbers what is committed: in one transaction, whose lock on the row of
//! `host_log` no batch takes.

use futures_util::future::try_join4;
use host_core::query::{Changes, NumberedChange};
use host_core::time::Time;
use host_engine::StoreError;
use tokio_postgres::Row;

use super::client::{Client, rows};
use super::fetch::BEGIN;
use super::trouble::{damaged, doing};
use crate::record::ChangesRow;

/// The number that the next change will have once all that are committed are numbered.
pub(super) const NEXT: &str = "(SELECT next_change FROM host_log) + \
    (SELECT COALESCE(sum(count), 0)::bigint FROM host_changes WHERE first IS NULL)";

/// Keeps others from numbering. The next statement sees what they have numbered.
const LOCK: &str = "SELECT FROM host_log WHERE id = 1 FOR UPDATE";

/// Numbers committed changes, in the order of their ids: a batch that has seen another has a larger one. A batch that
/// commits later gets later numbers, whatever its id, so a reader misses none.
const NUMBER: &str = "WITH fresh AS MATERIALIZED (\
      SELECT id, place, count, (sum(count) OVER (ORDER BY id, place))::bigint - count AS before FROM (\
        SELECT id, place, count FROM host_changes WHERE first IS NULL ORDER BY id, place LIMIT $1) AS rows), \
    numbered AS (\
      UPDATE host_changes AS old SET first = next_change + before FROM fresh, host_log \
      WHERE old.id = fresh.id AND old.place = fresh.place) \
    UPDATE host_log SET next_change = next_change + (SELECT COALESCE(sum(count), 0)::bigint FROM fresh) \
    WHERE id = 1 RETURNING (SELECT count(*) FROM fresh)";

/// How many rows are numbered at a time.
const ROWS_MAX: i64 = 1_000;

/// One statement sees one snapshot.
const READ: &str = "SELECT next_change, oldest, is_fresh, first, at, node, body FROM host_log \
    CROSS JOIN (SELECT min(first) AS oldest FROM host_changes) AS ends \
    CROSS JOIN (SELECT EXISTS (SELECT FROM host_changes WHERE first IS NULL) AS is_fresh) AS rest \
    LEFT JOIN LATERAL (\
      SELECT first, at, node, body FROM host_changes WHERE first >= COALESCE(\
      (SELECT max(first) FROM host_changes WHERE first <= $1), 0) \
      AND first < GREATEST($1, oldest) + $2) AS kept ON TRUE \
    WHERE id = 1 ORDER BY first";

/// Changes, and the number of the node that made each.
pub(super) struct NumberedChanges {
    pub(super) changes: Changes,
    pub(super) nodes: Vec<i32>,
}

/// Numbers the changes that are committed, as many as are numbered at a time. Returns whether there may be more.
pub(super) async fn number(client: &Client) -> Result<bool, StoreError> {
    let failed = doing("number changes");
    for sql in [LOCK, NUMBER] {
        client.ready(sql).await.map_err(&failed)?;
    }
    // Sent together: the lock is held for no round trip, and a transaction that has begun ends.
    let numbered = try_join4(
        client.batch_execute(BEGIN),
        client.ask(LOCK, &[]),
        client.ask(NUMBER, &[&ROWS_MAX]),
        client.batch_execute("COMMIT"),
    );
    let ((), _, rows, ()) = numbered.await.map_err(&failed)?;
    Ok(rows
        .first()
        .is_some_and(|row| row.get::<_, i64>(0) == ROWS_MAX))
}

/// Reads at most `limit` changes after the one with the number `after`, with all that were committed before.
pub(super) async fn read(
    client: &Client,
    after: u64,
    limit: u32,
) -> Result<NumberedChanges, StoreError> {
    // Numbers have no gaps. The database has no larger ones, and thus no such change.
    let limit_rows = i64::from(limit);
    let from = i64::try_from(after)
        .unwrap_or(i64::MAX)
        .min(i64::MAX - 1 - limit_rows)
        + 1;
    let ask = async || rows(client, "read changes", READ, &[&from, &limit_rows]).await;
    let mut found = ask().await?;
    if found.first().is_some_and(|log| log.get(2)) {
        number(client).await?;
        found = ask().await?;
    }
    let missing = || damaged("the table host_log", "it is empty");
    let log = found.first().ok_or_else(missing)?;
    let number =
        |row: &Row, column: usize| row.get::<_, Option<i64>>(column).map(i64::unsigned_abs);
    let next = number(log, 0).ok_or_else(missing)?;
    let (mut items, mut nodes): (Vec<NumberedChange>, Vec<i32>) = (Vec::new(), Vec::new());
    for row in &found {
        let Some(first) = number(row, 3) else {
            continue;
        };
        items.extend(ChangesRow::read(
            first,
            Time(row.get(4)),
            row.get(6),
            after,
        )?);
        nodes.resize(items.len(), row.get(5));
    }
    items.truncate(limit as usize);
    nodes.truncate(items.len());
    let oldest = number(log, 1).unwrap_or(next);
    let changes = Changes {
        items,
        oldest,
        next,
    };
    Ok(NumberedChanges { changes, nodes })
}
