//! Limits and how much of their keys is used, as they are stored.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::limit::tables::{KeptKey, LIMIT_KEYS};
use host_engine::limit::{AT_ONCE, KeptLimit, KeyUse, Limits};
use host_engine::table::{Kind, Record as _};
use rusqlite::{Connection, params};

use super::{doing, execute, job_id, tables};
use crate::held_keys::{HeldKeys, KeyRow, KeyState};
use crate::statement::{Dialect, names};

/// Writes the keys that have changed. An index is touched only if its column changes.
pub(super) fn write(connection: &Connection, held: &mut HeldKeys) -> Result<(), StoreError> {
    const INSERT: &str = "INSERT INTO limit_keys \
                          (reserved, reserved_units, running, cancelling, refilled_at_ns, held_until, \
                          waiting, next_units, to_cancel, wake_at, number, key) \
                          VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
    const UPDATE: &str = "UPDATE limit_keys \
                          SET reserved = ?1, reserved_units = ?2, running = ?3, cancelling = ?4, \
                          refilled_at_ns = ?5, held_until = ?6, waiting = ?7, next_units = ?8, \
                          to_cancel = ?9, wake_at = ?10 WHERE number = ?11 AND key = ?12";
    const UPDATE_PLACES: &str = "UPDATE limit_keys \
                                 SET reserved = ?1, reserved_units = ?2, running = ?3, cancelling = ?4, \
                                 refilled_at_ns = ?5, held_until = ?6 WHERE number = ?7 AND key = ?8";
    for KeyRow { key, before, after } in held.take_changed() {
        let (number, name) = (key.limit.cast_signed(), &*key.key);
        let Some((used, wake_at)) = after else {
            let sql = "DELETE FROM limit_keys WHERE number = ?1 AND key = ?2";
            execute(
                connection,
                "remove a key of a limit",
                sql,
                params![number, name],
            )?;
            continue;
        };
        let places = params![
            used.reserved,
            used.reserved_units.cast_signed(),
            used.running,
            used.cancelling,
            used.refilled_at_ns,
            used.held_until.0,
        ];
        let waiting = params![
            used.waiting.cast_signed(),
            used.next_units,
            used.to_cancel,
            wake_at.map(|at| at.0)
        ];
        let key = params![number, name];
        let is_same = |(row, at): KeyState| {
            let waits = |it: &KeyUse| (it.waiting, it.next_units, it.to_cancel);
            (waits(&row), at) == (waits(&used), wake_at)
        };
        let (sql, values) = match before {
            Some(row) if is_same(row) => (UPDATE_PLACES, [places, key].concat()),
            Some(_) => (UPDATE, [places, waiting, key].concat()),
            None => (INSERT, [places, waiting, key].concat()),
        };
        execute(connection, "write a key of a limit", sql, &*values)?;
    }
    Ok(())
}

/// Returns when the next key is due: immediately if a limit has changed.
pub(super) fn next_wakeup(
    connection: &Connection,
    limits: &Limits,
) -> Result<Option<Time>, StoreError> {
    if limits.0.values().any(KeptLimit::has_changed) {
        return Ok(Some(AT_ONCE));
    }
    if limits.0.is_empty() {
        return Ok(None);
    }
    tables::first_time(connection, &LIMIT_KEYS)
}

/// Returns the fullest keys of a limit: those for which most jobs wait, and then others, at most `limit`.
pub(super) fn fullest(
    connection: &Connection,
    number: u64,
    limit: u32,
) -> Result<Vec<(String, KeyUse)>, StoreError> {
    let columns = names(&LIMIT_KEYS);
    let mut found = Vec::new();
    for rest in [
        "INDEXED BY limit_keys_waiting WHERE number = ?1 AND waiting > 0 ORDER BY waiting DESC",
        "WHERE number = ?1 AND waiting = 0 ORDER BY key",
    ] {
        let left = u32::try_from(limit as usize - found.len()).unwrap_or(u32::MAX);
        let mut statement =
            Dialect::Sqlite.plain(format!("SELECT {columns} FROM limit_keys {rest} LIMIT ?2"));
        statement.values = vec![(number.into(), Kind::Int), (left.into(), Kind::Int)];
        tables::each(connection, LIMIT_KEYS.reading, &statement, |row| {
            let KeptKey { key, used, .. } = KeptKey::from_row(row)?;
            found.push((key.key.into(), used));
            Ok(())
        })?;
    }
    Ok(found)
}

/// Returns how many jobs wait for each limit that any wait for.
pub(super) fn waiting(connection: &Connection) -> Result<BTreeMap<u64, u64>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(
            "SELECT number, SUM(waiting) FROM limit_keys INDEXED BY limit_keys_waiting \
             WHERE waiting > 0 GROUP BY number",
        )?;
        let rows = statement.query_map([], |row| {
            let (number, jobs): (i64, i64) = (row.get(0)?, row.get(1)?);
            Ok((number.unsigned_abs(), jobs.unsigned_abs()))
        })?;
        rows.collect::<Result<_, _>>()
    };
    read().map_err(doing("count the jobs that wait for limits"))
}

/// Returns all jobs that are listed as running with a key.
pub(super) fn all_listed(connection: &Connection) -> Result<Vec<(LimitKey, JobId)>, StoreError> {
    let read = || {
        let sql = "SELECT job, number, key FROM limit_running";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            let key = LimitKey {
                limit: row.get::<_, i64>(1)?.unsigned_abs(),
                key: row.get(2)?,
            };
            Ok((key, job_id(row)?))
        })?;
        rows.collect::<Result<_, _>>()
    };
    read().map_err(doing("read the running jobs of limits"))
}
