//! How many jobs of principals have not ended.

use host_engine::StoreError;
use host_engine::token::AccessRows;
use rusqlite::{Connection, OptionalExtension, params};

use super::jobs::Transaction;
use super::{doing, execute};

impl AccessRows for Transaction<'_> {
    fn owned(&mut self, principal: &str) -> Result<u64, StoreError> {
        owned(self.connection, principal)
    }

    fn count_owned(&mut self, principal: &str, step: i64) -> Result<(), StoreError> {
        execute(
            self.connection,
            "count the jobs of a principal",
            "INSERT INTO owned (principal, jobs) VALUES (?1, ?2) \
             ON CONFLICT (principal) DO UPDATE SET jobs = jobs + excluded.jobs",
            params![principal, step],
        )
    }
}

pub(super) fn owned(connection: &Connection, principal: &str) -> Result<u64, StoreError> {
    let found: Option<u64> = connection
        .prepare_cached("SELECT jobs FROM owned WHERE principal = ?1")
        .and_then(|mut statement| {
            let found = statement.query_row([principal], |row| row.get(0));
            found.optional()
        })
        .map_err(doing("count the jobs of a principal"))?;
    Ok(found.unwrap_or_default())
}
