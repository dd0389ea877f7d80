//! The rows of limits of one open transaction, for the engine.

use std::collections::VecDeque;
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::limit::{KeptLimit, KeyUse, Limits};
use host_core::time::Time;
use rusqlite::{OptionalExtension as _, Params, params};

use super::jobs::Transaction;
use super::limits::{key_of, used_of, write};
use super::{damaged, doing, execute, job_id};
use crate::engine::LimitRows;
use crate::error::StoreError;
use crate::held_keys::First;

/// How many waiting jobs of a key are read at once.
const WAITING_AT_ONCE: usize = 8;

const KEY: &str = "SELECT reserved, running, waiting, refilled_at_ns, wake_at FROM limit_keys \
                   WHERE number = ?1 AND key = ?2";

impl LimitRows for Transaction<'_> {
    fn limits(&mut self) -> Result<Arc<Limits>, StoreError> {
        Ok(Arc::clone(&self.counters.limits))
    }

    fn put_limit(&mut self, kept: &KeptLimit) -> Result<(), StoreError> {
        let body = serde_json::to_string(&kept.limit).map_err(damaged("a limit to write"))?;
        execute(
            self.connection,
            "store a limit",
            "INSERT OR REPLACE INTO limits (number, body, removed, cursor) VALUES (?1, ?2, ?3, ?4)",
            params![
                kept.number.cast_signed(),
                body,
                kept.is_removed,
                kept.cursor
            ],
        )?;
        let limits = Arc::make_mut(&mut self.counters.limits);
        limits.0.insert(kept.number, kept.clone());
        Ok(())
    }

    fn set_limit_cursor(&mut self, number: u64, cursor: Option<&str>) -> Result<(), StoreError> {
        let limits = Arc::make_mut(&mut self.counters.limits);
        if let Some(kept) = limits.0.get_mut(&number) {
            kept.cursor = cursor.map(str::to_owned);
        }
        execute(
            self.connection,
            "move the cursor of a limit",
            "UPDATE limits SET cursor = ?2 WHERE number = ?1",
            params![number.cast_signed(), cursor],
        )
    }

    fn delete_limit(&mut self, number: u64) -> Result<(), StoreError> {
        Arc::make_mut(&mut self.counters.limits).0.remove(&number);
        let sql = "DELETE FROM limits WHERE number = ?1";
        execute(
            self.connection,
            "remove a limit",
            sql,
            [number.cast_signed()],
        )
    }

    fn changed_limits(&mut self, limit: usize) -> Result<Vec<KeptLimit>, StoreError> {
        let limits = self.counters.limits.0.values();
        let changed = limits.filter(|kept| kept.is_removed || kept.cursor.is_some());
        Ok(changed.take(limit).cloned().collect())
    }

    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        if let Some(used) = self.held.key_use(key) {
            return Ok(used);
        }
        let read = self
            .connection
            .prepare_cached(KEY)
            .and_then(|mut statement| {
                let params = params![key.limit.cast_signed(), &*key.key];
                statement.query_row(params, used_of).optional()
            });
        let (used, wake_at) = read
            .map_err(doing("read a key of a limit"))?
            .unwrap_or_default();
        self.held.load(key.clone(), used, wake_at);
        Ok(used)
    }

    fn set_key_use(
        &mut self,
        key: &LimitKey,
        used: Option<(KeyUse, Option<Time>)>,
    ) -> Result<(), StoreError> {
        self.held.set(key, used);
        Ok(())
    }

    fn first_waiting(&mut self, key: &LimitKey) -> Result<Option<JobId>, StoreError> {
        loop {
            let after = match self.held.first(key, |id| self.hot.is_dirty(id)) {
                First::Job(id) => return Ok(id),
                First::After(place, _) => place,
            };
            let read = || {
                let mut statement = self.connection.prepare_cached(
                    "SELECT id, priority, seq FROM jobs INDEXED BY jobs_waiting \
                     WHERE waits_for = +?1 AND (priority, seq) > (+?2, +?3) \
                     ORDER BY priority, seq LIMIT +?4",
                )?;
                let params = params![key.to_string(), after.0, after.1, WAITING_AT_ONCE];
                let rows = statement
                    .query_map(params, |row| Ok(((row.get(1)?, row.get(2)?), job_id(row)?)))?;
                rows.collect::<Result<VecDeque<_>, _>>()
            };
            let jobs = read().map_err(doing("find jobs that wait for a limit"))?;
            let is_all = jobs.len() < WAITING_AT_ONCE;
            self.held.add_stored(key, jobs, is_all);
        }
    }

    fn due_keys(&mut self, now: Time, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        let sql = "SELECT number, key FROM limit_keys WHERE wake_at <= ?1 \
                   ORDER BY wake_at, number, key LIMIT ?2";
        self.keys("find keys that are due", sql, params![now.0, limit])
    }

    fn keys_from(
        &mut self,
        number: u64,
        from: &str,
        limit: usize,
    ) -> Result<Vec<LimitKey>, StoreError> {
        let sql = "SELECT number, key FROM limit_keys WHERE number = ?1 AND key >= ?2 \
                   ORDER BY key LIMIT ?3";
        let params = params![number.cast_signed(), from, limit];
        self.keys("read the keys of a limit", sql, params)
    }

    fn take_new_rank(&mut self, job: JobId) -> Result<(), StoreError> {
        let rank = self.counters.take_seq();
        // No job has this number.
        self.counters.note_purge();
        self.hot.set_rank(job, rank);
        Ok(())
    }
}

impl Transaction<'_> {
    /// Returns keys, after it has written those that have changed.
    fn keys(
        &mut self,
        operation: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<Vec<LimitKey>, StoreError> {
        write(self.connection, &mut self.held)?;
        let read = || {
            let mut statement = self.connection.prepare_cached(sql)?;
            let rows = statement.query_map(params, key_of)?;
            rows.collect::<Result<_, _>>()
        };
        read().map_err(doing(operation))
    }
}
