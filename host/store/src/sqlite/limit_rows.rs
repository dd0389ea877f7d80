//! The rows of limits of one open transaction, for the engine.

use std::collections::VecDeque;
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::{Lifecycle, LimitKey};
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::limit::tables::KeptKey;
use host_engine::limit::{KeyUse, LimitChange, LimitRows, Limits};
use host_engine::table::{Range, TableRows as _};
use rusqlite::params;

use super::jobs::Transaction;
use super::limits::write;
use super::{doing, execute, job_id};
use crate::held_keys::{First, WaitingPlace};
use crate::record::decode;

/// How many waiting jobs of a key are read at a time, after the first.
const WAITING_AT_ONCE: usize = 8;

impl LimitRows for Transaction<'_> {
    fn limits(&mut self) -> Result<Arc<Limits>, StoreError> {
        Ok(Arc::clone(&self.counters.limits))
    }

    fn note_limit(&mut self, number: u64, limit: LimitChange<'_>) -> Result<(), StoreError> {
        let limits = &mut Arc::make_mut(&mut self.counters.limits).0;
        match limit {
            LimitChange::Set(kept) | LimitChange::CursorMoved(kept) => {
                limits.insert(number, kept.clone());
            }
            LimitChange::Deleted => drop(limits.remove(&number)),
        }
        Ok(())
    }

    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        if let Some(used) = self.held.key_use(key) {
            return Ok(used);
        }
        let row: Option<KeptKey> = self.get(key)?;
        let kept = row.map(|it| (it.used, it.wake_at));
        self.held.load(key.clone(), kept);
        Ok(kept.unwrap_or_default().0)
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
            let (hot, passed_over) = (&*self.hot, &self.counters.passed_over);
            let is_elsewhere = |id| hot.is_dirty(id) || passed_over.contains(&id);
            let (after, reads) = match self.held.first(key, is_elsewhere) {
                First::Job(id) => return Ok(id),
                First::After(place, reads) => (place, reads),
            };
            let limit = if reads == 0 { 1 } else { WAITING_AT_ONCE };
            let jobs = self.waiting_from(key, after, limit)?;
            let is_all = jobs.len() < limit;
            self.held.add_stored(key, jobs, is_all);
        }
    }

    fn due_keys(&mut self, now: Time, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        self.keys(Range::all().due(now), limit)
    }

    fn keys_from(
        &mut self,
        number: u64,
        from: &str,
        limit: usize,
    ) -> Result<Vec<LimitKey>, StoreError> {
        self.keys(Range::of(vec![number.into()]).from(from), limit)
    }

    fn take_new_rank(&mut self, job: JobId) -> Result<(), StoreError> {
        let rank = self.counters.take_seq();
        // No job has this number.
        self.counters.note_purge();
        self.hot.set_rank(job, rank);
        Ok(())
    }

    fn list_running(
        &mut self,
        key: &LimitKey,
        since: Time,
        job: JobId,
        is_listed: bool,
    ) -> Result<(), StoreError> {
        let sql = if is_listed {
            "INSERT INTO limit_running (number, key, since, job) VALUES (?1, ?2, ?3, ?4)"
        } else {
            "DELETE FROM limit_running WHERE number = ?1 AND key = ?2 AND since = ?3 AND job = ?4"
        };
        let params = params![
            key.limit.cast_signed(),
            &*key.key,
            since.0,
            job.0.as_bytes()
        ];
        execute(self.connection, "list a running job", sql, params)
    }

    fn listed_running(
        &mut self,
        key: &LimitKey,
        limit: usize,
    ) -> Result<Vec<Option<JobId>>, StoreError> {
        let sql = "SELECT job FROM limit_running WHERE number = ?1 AND key = ?2 \
                   ORDER BY since, job LIMIT ?3";
        let passed_over = &self.counters.passed_over;
        let most = limit + passed_over.len();
        let params = params![key.limit.cast_signed(), &*key.key, most];
        let mut jobs = self.ids("read the running jobs of a limit", sql, params)?;
        jobs.retain(|id| !passed_over.contains(id));
        jobs.truncate(limit);
        Ok(jobs.into_iter().map(Some).collect())
    }
}

impl Transaction<'_> {
    /// Returns the next jobs whose rows show that they wait for a key, and keeps them in the cache.
    fn waiting_from(
        &mut self,
        key: &LimitKey,
        after: WaitingPlace,
        limit: usize,
    ) -> Result<VecDeque<(WaitingPlace, JobId)>, StoreError> {
        let reading = doing("find jobs that wait for a limit");
        let mut statement = self
            .connection
            .prepare_cached(
                "SELECT id, priority, seq, rank, body FROM jobs INDEXED BY jobs_waiting \
                 WHERE waits_for = +?1 AND (priority, seq) > (+?2, +?3) \
                 ORDER BY priority, seq LIMIT +?4",
            )
            .map_err(&reading)?;
        let mut rows = statement
            .query(params![key.to_string(), after.0, after.1, limit])
            .map_err(&reading)?;
        let mut found = VecDeque::new();
        while let Some(row) = rows.next().map_err(&reading)? {
            let read = || Ok((job_id(row)?, row.get(1)?, row.get(2)?, row.get(3)?));
            let (id, priority, seq, rank) = read().map_err(&reading)?;
            if self.hot.get(id).is_none() {
                let body = row.get_ref(4).and_then(|body| Ok(body.as_blob()?));
                let job: Result<Lifecycle, _> =
                    decode(body.map_err(&reading)?, || format!("job {id}"));
                // The engine asks again for one that cannot be read, and gets the reason.
                if let Some(job) = job.ok().filter(|job| job.id == id) {
                    self.hot.load(seq, rank, job);
                }
            }
            found.push_back(((priority, seq), id));
        }
        Ok(found)
    }

    /// Returns keys, after it has written those that have changed.
    fn keys(&mut self, range: Range, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        write(self.connection, self.held)?;
        let range = range.first(u32::try_from(limit).unwrap_or(u32::MAX));
        let kept: Vec<KeptKey> = self.list(range)?;
        Ok(kept.into_iter().map(|it| it.key).collect())
    }
}
