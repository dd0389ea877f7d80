//! Limits and how much of their keys is used, as they are stored.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::limit::{KeptLimit, KeyUse, Limits};
use host_core::time::Time;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::{damaged, doing, execute, job_id};
use crate::engine::AT_ONCE;
use crate::error::StoreError;
use crate::held_keys::{HeldKeys, Kept, KeyRow, key_columns};

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
        let is_same = |(row, at): Kept| {
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
    let has_changed = |kept: &KeptLimit| kept.is_removed || kept.cursor.is_some();
    if limits.0.values().any(has_changed) {
        return Ok(Some(AT_ONCE));
    }
    if limits.0.is_empty() {
        return Ok(None);
    }
    let sql = "SELECT wake_at FROM limit_keys WHERE wake_at IS NOT NULL ORDER BY wake_at LIMIT 1";
    connection
        .prepare_cached(sql)
        .and_then(|mut statement| statement.query_row([], |row| row.get(0)).optional())
        .map(|at| at.map(Time))
        .map_err(doing("find the next key that is due"))
}

/// Reads [`key_columns`].
pub(super) fn used_of(row: &Row<'_>) -> rusqlite::Result<Kept> {
    let used = KeyUse {
        reserved: row.get(0)?,
        running: row.get(1)?,
        waiting: row.get::<_, i64>(2)?.unsigned_abs(),
        refilled_at_ns: row.get(3)?,
        reserved_units: row.get::<_, i64>(5)?.unsigned_abs(),
        next_units: row.get(6)?,
        cancelling: row.get(7)?,
        to_cancel: row.get(8)?,
        held_until: Time(row.get(9)?),
    };
    Ok((used, row.get::<_, Option<i64>>(4)?.map(Time)))
}

pub(super) fn key_of(row: &Row<'_>) -> rusqlite::Result<LimitKey> {
    Ok(LimitKey {
        limit: row.get::<_, i64>(0)?.unsigned_abs(),
        key: row.get(1)?,
    })
}

/// Returns how much of a key is used, if it has a row.
pub(super) fn used(connection: &Connection, key: &LimitKey) -> Result<Option<Kept>, StoreError> {
    const KEY: &str = concat!(
        "SELECT ",
        key_columns!(),
        " FROM limit_keys WHERE number = ?1 AND key = ?2"
    );
    let read = connection.prepare_cached(KEY).and_then(|mut statement| {
        let params = params![key.limit.cast_signed(), &*key.key];
        statement.query_row(params, used_of).optional()
    });
    read.map_err(doing("read a key of a limit"))
}

/// Reads the limits.
pub(super) fn load(connection: &Connection) -> Result<Limits, StoreError> {
    let read = || {
        let mut statement =
            connection.prepare_cached("SELECT number, body, removed, cursor FROM limits")?;
        let rows = statement.query_map([], |row| {
            let number: i64 = row.get(0)?;
            Ok((number, row.get::<_, String>(1)?, row.get(2)?, row.get(3)?))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    };
    let rows = read().map_err(doing("read the limits"))?.into_iter();
    let kept = rows.map(|(number, body, is_removed, cursor)| {
        let limit = serde_json::from_str(&body).map_err(damaged(format!("limit {number}")))?;
        let number = number.unsigned_abs();
        let kept = KeptLimit {
            number,
            limit,
            is_removed,
            cursor,
        };
        Ok((number, kept))
    });
    Ok(Limits(kept.collect::<Result<_, StoreError>>()?))
}

/// Returns the fullest keys of a limit: those for which most jobs wait, and then others, at most `limit`.
pub(super) fn fullest(
    connection: &Connection,
    number: u64,
    limit: u32,
) -> Result<Vec<(String, KeyUse)>, StoreError> {
    let mut found = Vec::new();
    for sql in [
        concat!(
            "SELECT ",
            key_columns!(),
            ", key FROM limit_keys INDEXED BY limit_keys_waiting \
             WHERE number = ?1 AND waiting > 0 ORDER BY waiting DESC LIMIT ?2"
        ),
        concat!(
            "SELECT ",
            key_columns!(),
            ", key FROM limit_keys WHERE number = ?1 AND waiting = 0 ORDER BY key LIMIT ?2"
        ),
    ] {
        let rest = limit as usize - found.len();
        let read = || {
            let mut statement = connection.prepare_cached(sql)?;
            let rows = statement.query_map(params![number.cast_signed(), rest], |row| {
                Ok((row.get(10)?, used_of(row)?.0))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        found.extend(read().map_err(doing("read the fullest keys of a limit"))?);
    }
    Ok(found)
}

/// Returns all keys.
pub(super) fn all_keys(connection: &Connection) -> Result<Vec<(LimitKey, KeyUse)>, StoreError> {
    let read = || {
        let sql = concat!("SELECT ", key_columns!(), ", number, key FROM limit_keys");
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([], |row| {
            let key = LimitKey {
                limit: row.get::<_, i64>(10)?.unsigned_abs(),
                key: row.get(11)?,
            };
            Ok((key, used_of(row)?.0))
        })?;
        rows.collect::<Result<_, _>>()
    };
    read().map_err(doing("read the keys of limits"))
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
