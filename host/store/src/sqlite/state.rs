//! The state that handlers keep, as far as values are not read.

use host_core::state::{Space, StateKey};
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::state::StateRows;
use rusqlite::{Connection, OptionalExtension, params};

use super::doing;
use super::jobs::Transaction;

impl StateRows for Transaction<'_> {
    fn state_length(&mut self, space: &Space, key: &str) -> Result<Option<u64>, StoreError> {
        self.connection
            .prepare_cached("SELECT length(value) FROM state WHERE space = ?1 AND key = ?2")
            .and_then(|mut statement| {
                let asked = params![space.to_string(), key];
                statement.query_row(asked, |row| row.get(0)).optional()
            })
            .map_err(doing("look up state"))
    }
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
