//! The rows of the state that handlers keep.

use host_core::state::{Space, SpaceUsage, StateKey, StateValue, Usage};
use host_core::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::jobs::Transaction;
use super::{doing, execute};
use crate::engine::StateRows;
use crate::error::StoreError;

impl StateRows for Transaction<'_> {
    fn state_usage(&mut self, space: &Space) -> Result<Usage, StoreError> {
        usage(self.connection, space)
    }

    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
        length(self.connection, space, key)
    }

    fn state_is(
        &mut self,
        space: &Space,
        key: &str,
        expected: Option<&[u8]>,
    ) -> Result<bool, StoreError> {
        has(self.connection, space, key, expected)
    }

    fn set_state(
        &mut self,
        now: Time,
        space: &Space,
        key: &str,
        value: Option<&[u8]>,
    ) -> Result<(), StoreError> {
        set(self.connection, now, space, key, value)
    }

    fn set_state_usage(&mut self, space: &Space, usage: Usage) -> Result<(), StoreError> {
        set_usage(self.connection, space, usage)
    }
}

/// Returns how much a space has.
fn usage(connection: &Connection, space: &Space) -> Result<Usage, StoreError> {
    let found = connection
        .prepare_cached("SELECT keys, bytes FROM state_spaces WHERE space = ?1")
        .and_then(|mut statement| {
            let usage = |row: &Row<'_>| {
                let (keys, bytes) = (row.get(0)?, row.get(1)?);
                Ok(Usage { keys, bytes })
            };
            statement.query_row([space.to_string()], usage).optional()
        });
    let found = found.map_err(doing("look up a space of state"))?;
    Ok(found.unwrap_or_default())
}

/// Returns the length of a value.
fn length(connection: &Connection, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
    connection
        .prepare_cached("SELECT length(value) FROM state WHERE space = ?1 AND key = ?2")
        .and_then(|mut statement| {
            let asked = params![space.to_string(), key];
            statement.query_row(asked, |row| row.get(0)).optional()
        })
        .map_err(doing("look up state"))
}

/// Returns whether a key has this value, or none. A value of another length is not read.
fn has(
    connection: &Connection,
    space: &Space,
    key: &str,
    expected: Option<&[u8]>,
) -> Result<bool, StoreError> {
    let length = length(connection, space, key)?;
    let expected_length = expected.map(|value| value.len() as u64);
    if length != expected_length || expected.is_none() {
        return Ok(length == expected_length);
    }
    let found = value(connection, space, key)?;
    Ok(found.map(|found| found.value).as_deref() == expected)
}

/// Returns a value.
pub(super) fn value(
    connection: &Connection,
    space: &Space,
    key: &str,
) -> Result<Option<StateValue>, StoreError> {
    connection
        .prepare_cached("SELECT value, at FROM state WHERE space = ?1 AND key = ?2")
        .and_then(|mut statement| {
            let value = |row: &Row<'_>| {
                Ok(StateValue {
                    value: row.get(0)?,
                    at: Time(row.get(1)?),
                })
            };
            let asked = params![space.to_string(), key];
            statement.query_row(asked, value).optional()
        })
        .map_err(doing("read state"))
}

fn set(
    connection: &Connection,
    now: Time,
    space: &Space,
    key: &str,
    value: Option<&[u8]>,
) -> Result<(), StoreError> {
    let space = space.to_string();
    match value {
        Some(value) => execute(
            connection,
            "write state",
            "INSERT INTO state (space, key, value, at) VALUES (?1, ?2, ?3, ?4) \
             ON CONFLICT (space, key) DO UPDATE SET value = ?3, at = ?4",
            params![space, key, value, now.0],
        ),
        None => execute(
            connection,
            "remove state",
            "DELETE FROM state WHERE space = ?1 AND key = ?2",
            params![space, key],
        ),
    }
}

/// Keeps how much a space has. One without keys is forgotten.
fn set_usage(connection: &Connection, space: &Space, usage: Usage) -> Result<(), StoreError> {
    let space = space.to_string();
    if usage.keys == 0 {
        let sql = "DELETE FROM state_spaces WHERE space = ?1";
        return execute(connection, "forget a space of state", sql, [space]);
    }
    execute(
        connection,
        "write the size of a space of state",
        "INSERT OR REPLACE INTO state_spaces (space, keys, bytes) VALUES (?1, ?2, ?3)",
        params![space, usage.keys, usage.bytes],
    )
}

/// Returns the spaces after one, by name.
pub(super) fn spaces(
    connection: &Connection,
    after: &str,
    limit: u32,
) -> Result<Vec<SpaceUsage>, StoreError> {
    let sql =
        "SELECT space, keys, bytes FROM state_spaces WHERE space > ?1 ORDER BY space LIMIT ?2";
    let found = connection.prepare_cached(sql).and_then(|mut statement| {
        let rows = statement.query_map(params![after, limit], |row| {
            let (keys, bytes) = (row.get(1)?, row.get(2)?);
            Ok((row.get::<_, String>(0)?, Usage { keys, bytes }))
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    let found = found.map_err(doing("list spaces of state"))?;
    let space = |(space, usage): (String, Usage)| {
        let space = space.parse().map_err(|error| StoreError::Unreadable {
            what: "a space of state".to_owned(),
            message: format!("{space}: {error}"),
        })?;
        Ok(SpaceUsage { space, usage })
    };
    found.into_iter().map(space).collect()
}

/// Returns the keys of a space from `from` on, or after it, in order.
pub(super) fn keys(
    connection: &Connection,
    space: &Space,
    (from, is_after): (&str, bool),
    limit: u32,
) -> Result<Vec<StateKey>, StoreError> {
    let sql = "SELECT key, length(value), at FROM state WHERE space = ?1 AND key >= ?2 \
               AND (key > ?2 OR NOT ?3) ORDER BY key LIMIT ?4";
    let found = connection.prepare_cached(sql).and_then(|mut statement| {
        let asked = params![space.to_string(), from, is_after, limit];
        let rows = statement.query_map(asked, |row| {
            Ok(StateKey {
                key: row.get(0)?,
                bytes: row.get(1)?,
                at: Time(row.get(2)?),
            })
        })?;
        rows.collect::<Result<Vec<_>, _>>()
    });
    found.map_err(doing("list state"))
}
