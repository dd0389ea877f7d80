//! What is particular about the rows of tokens, quotas and the audit.

use host_core::time::Time;
use host_engine::StoreError;
use host_engine::token::AccessRows;

use super::client::{Client, rows};
use super::pipeline::values;
use super::rows::Transaction;

/// How many jobs of a principal have not ended, as all nodes have counted them.
const OWNED: &str = "SELECT COALESCE(sum(jobs), 0)::bigint FROM host_owned WHERE principal = $1";

impl AccessRows for Transaction<'_> {
    fn note_tokens(&mut self) -> Result<(), StoreError> {
        let sql = "UPDATE host_access SET version = version + 1 WHERE id = 1";
        self.query("record that tokens have changed", sql, values![])?;
        Ok(())
    }

    /// The commit appends it, last.
    fn append_audit(&mut self, at: Time, record: String) -> Result<(), StoreError> {
        self.overlay.audit.push((at, record));
        Ok(())
    }

    fn owned(&mut self, principal: &str) -> Result<u64, StoreError> {
        if !self.overlay.owned_before.contains_key(principal) {
            let values = values![principal.to_owned()];
            let rows = self.query("count the jobs of a principal", OWNED, values)?;
            let stored = rows.first().map_or(0, |row| row.get(0));
            let before = &mut self.overlay.owned_before;
            before.insert(principal.to_owned(), stored);
        }
        let stored = self.overlay.owned_before[principal];
        let here = self.overlay.owned.get(principal).copied();
        Ok(u64::try_from(stored + here.unwrap_or_default()).unwrap_or_default())
    }

    fn count_owned(&mut self, principal: &str, step: i64) -> Result<(), StoreError> {
        *self.overlay.owned.entry(principal.to_owned()).or_default() += step;
        Ok(())
    }
}

pub(super) async fn owned(client: &Client, principal: &str) -> Result<u64, StoreError> {
    let operation = "count the jobs of a principal";
    let found = rows(client, operation, OWNED, &[&principal]).await?;
    let jobs = found.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(u64::try_from(jobs).unwrap_or_default())
}

/// Returns how often tokens have changed.
pub(super) async fn version(client: &Client) -> Result<u64, StoreError> {
    let sql = "SELECT version FROM host_access";
    let found = rows(client, "check whether tokens have changed", sql, &[]).await?;
    let version = found.first().map_or(0, |row| row.get::<_, i64>(0));
    Ok(version.unsigned_abs())
}
