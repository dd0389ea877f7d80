//! The rows of limits of one open transaction, for the engine. It asks the database seldom: for what all jobs of the batch
//! need.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::limit::tables::{KeptKey, LIMIT_KEYS};
use host_engine::limit::{KeptLimit, KeyUse, LimitChange, LimitRows, Limits, WhenFull};
use host_engine::table::{Range, Record as _};
use tokio_postgres::Row;

use super::client::Client;
use super::fetch::{know_dependents, load as load_job};
use super::limits::{load, select_keys};
use super::overlay::Overlay;
use super::pipeline::{Pipeline, Value, values};
use super::rows::Transaction;
use super::tables::{add, rows_of};
use super::trouble::{Trouble, damaged};
use crate::held_keys::First;
use crate::statement::Dialect;

/// How many numbers are reserved at a time, if those of the batch do not suffice.
const SEQS_AT_ONCE: i32 = 64;

/// How many waiting jobs of a key are read at a time: first, and at most.
const WAITING_FIRST: i64 = 4;
const WAITING_MAX: i64 = 256;

/// The most keys whose waiting jobs are read at a time.
const KEYS_AT_ONCE: usize = 512;

impl LimitRows for Transaction<'_> {
    fn lock_limits(&mut self) -> Result<(), StoreError> {
        if self.overlay.limits.is_locked {
            return Ok(());
        }
        let counted = self.counts.limits_changed;
        let changed = self.wait(async |client, _| lock(client, counted).await)?;
        if let Some((limits, limits_changed)) = changed {
            self.counts.limits = Arc::new(limits);
            self.counts.limits_changed = limits_changed;
        }
        self.overlay.limits.is_locked = true;
        Ok(())
    }

    fn limits(&mut self) -> Result<Arc<Limits>, StoreError> {
        Ok(Arc::clone(&self.counts.limits))
    }

    fn note_limit(&mut self, number: u64, limit: LimitChange<'_>) -> Result<(), StoreError> {
        let limits = &mut Arc::make_mut(&mut self.counts.limits).0;
        match limit {
            LimitChange::Set(kept) => drop(limits.insert(number, kept.clone())),
            LimitChange::Deleted => drop(limits.remove(&number)),
            LimitChange::CursorMoved(_) => return Ok(()),
        }
        let sql = "UPDATE host_log SET limits_changed = limits_changed + 1 WHERE id = 1";
        self.query("record that a limit has changed", sql, values![])?;
        self.counts.limits_changed += 1;
        Ok(())
    }

    /// Other hosts move cursors without a note. Ticks ask, so only changed limits are read.
    fn changed_limits(&mut self, limit: usize) -> Result<Vec<KeptLimit>, StoreError> {
        let sql = "SELECT number, body, removed, cursor FROM host_limits \
                   WHERE removed OR cursor IS NOT NULL ORDER BY number LIMIT $1";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let reading = "read changed limits";
        self.wait(async |client, overlay| {
            let mut pipeline = Pipeline::new(client);
            overlay.tables.flush(&mut pipeline).await?;
            pipeline.add(reading, sql, values![limit]).await?;
            let found = pipeline.run().await?.pop().unwrap_or_default();
            let kept = rows_of(reading, &found)?
                .into_iter()
                .map(KeptLimit::from_row);
            kept.collect::<Result<_, _>>().map_err(Trouble::Fatal)
        })
    }

    /// Reads those of all jobs that the batch has as well, so that it asks the database seldom.
    fn read_keys(&mut self, keys: BTreeSet<LimitKey>) -> Result<(), StoreError> {
        let limits = &self.counts.limits;
        let replaces =
            |key: &&LimitKey| limits.get_if(key.limit, WhenFull::ReplaceWaiting).is_some();
        let to_serve = keys.iter().filter(replaces).cloned();
        self.overlay.limits.to_serve.extend(to_serve);
        self.wait(async |client, overlay| read_keys(client, overlay, keys).await)
    }

    fn key_use(&mut self, key: &LimitKey) -> Result<KeyUse, StoreError> {
        if let Some(used) = self.overlay.limits.keys.key_use(key) {
            return Ok(used);
        }
        self.read_keys(BTreeSet::from([key.clone()]))?;
        Ok(self.overlay.limits.keys.key_use(key).unwrap_or_default())
    }

    fn set_key_use(
        &mut self,
        key: &LimitKey,
        used: Option<(KeyUse, Option<Time>)>,
    ) -> Result<(), StoreError> {
        self.overlay.limits.keys.set(key, used);
        Ok(())
    }

    fn first_waiting(&mut self, key: &LimitKey) -> Result<Option<JobId>, StoreError> {
        loop {
            let overlay = &mut self.overlay;
            let mut keys = std::mem::take(&mut overlay.limits.keys);
            let passed_over = &self.counts.passed_over;
            let first = keys.first(key, |id| {
                overlay.is_dirty(id) || overlay.is_absent(id) || passed_over.contains(&id)
            });
            overlay.limits.keys = keys;
            let (after, reads) = match first {
                First::Job(id) => return Ok(id),
                First::After(after, reads) => (after, reads),
            };
            let key = key.clone();
            self.wait(async |client, overlay| {
                if reads == 0 {
                    read_first_waiting(client, overlay, &key).await
                } else {
                    let most = WAITING_FIRST << (2 * reads.min(3));
                    let read = read_waiting(client, overlay, vec![key], after, most).await;
                    read.map(drop)
                }
            })?;
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
        let rank = self.take_seq()?;
        self.overlay.set_rank(job, rank);
        Ok(())
    }

    fn list_running(
        &mut self,
        key: &LimitKey,
        since: Time,
        job: JobId,
        is_listed: bool,
    ) -> Result<(), StoreError> {
        let listed = &mut self.overlay.limits.listed;
        listed.insert((key.clone(), since, job), is_listed);
        Ok(())
    }

    fn listed_running(
        &mut self,
        key: &LimitKey,
        limit: usize,
    ) -> Result<Vec<Option<JobId>>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let most = i64::try_from(limit + self.counts.passed_over.len()).unwrap_or(i64::MAX);
        let values = values![key.limit.cast_signed(), key.key.to_string(), most];
        let passed_over = self.counts.passed_over.clone();
        let mut listed = self.wait(async |client, overlay| {
            read_listed(client, overlay, &passed_over, values).await
        })?;
        listed.truncate(limit);
        Ok(listed)
    }
}

impl Transaction<'_> {
    /// Returns the next number in the order of jobs.
    pub(super) fn take_seq(&mut self) -> Result<i64, StoreError> {
        if self.seqs.is_empty() {
            let sql = "SELECT nextval('host_seq') FROM generate_series(1, $1)";
            let rows = self.query("reserve numbers", sql, values![SEQS_AT_ONCE])?;
            self.seqs
                .extend(rows.iter().map(|row| row.get::<_, i64>(0)));
        }
        let next = self.seqs.pop_front();
        next.ok_or_else(|| damaged("the sequence host_seq", "it returns no numbers"))
    }

    /// Returns keys, after it has written those that have changed.
    fn keys(&mut self, range: Range, limit: usize) -> Result<Vec<LimitKey>, StoreError> {
        let range = range.first(u32::try_from(limit).unwrap_or(u32::MAX));
        self.wait(async |client, overlay| {
            let mut pipeline = Pipeline::new(client);
            overlay.limits.flush(&mut pipeline).await?;
            let statement = Dialect::Postgres.select(&LIMIT_KEYS, &range);
            add(&mut pipeline, LIMIT_KEYS.reading, statement).await?;
            let found = pipeline.run().await?.pop().unwrap_or_default();
            let keys = load_keys(overlay, &found)?;
            overlay.limits.to_serve.extend(keys.iter().cloned());
            Ok(keys)
        })
    }
}

/// Keeps keys that were read.
fn load_keys(overlay: &mut Overlay, found: &[Row]) -> Result<Vec<LimitKey>, Trouble> {
    let load = |row| {
        let KeptKey { key, used, wake_at } = KeptKey::from_row(row)?;
        overlay.limits.keys.load(key.clone(), Some((used, wake_at)));
        Ok(key)
    };
    let rows = rows_of(LIMIT_KEYS.reading, found)?.into_iter();
    rows.map(load)
        .collect::<Result<_, _>>()
        .map_err(Trouble::Fatal)
}

/// Waits for other batches that touch limited jobs. Returns the limits if they have changed since.
async fn lock(client: &Client, counted: i64) -> Result<Option<(Limits, i64)>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    let sql = "SELECT id FROM host_limit_lock FOR UPDATE";
    pipeline
        .add("lock the keys of limits", sql, values![])
        .await?;
    let sql = "SELECT limits_changed FROM host_log WHERE id = 1";
    pipeline
        .add("check whether limits have changed", sql, values![])
        .await?;
    let rows = pipeline.run().await?.pop().unwrap_or_default();
    if rows.first().map(|row| row.get::<_, i64>(0)) == Some(counted) {
        return Ok(None);
    }
    load(client).await.map(Some)
}

/// Reads keys and those of all jobs that the batch has.
async fn read_keys(
    client: &Client,
    overlay: &mut Overlay,
    mut unknown: BTreeSet<LimitKey>,
) -> Result<(), Trouble> {
    let of_jobs = overlay.jobs().flat_map(|entry| &entry.job.limits.keys);
    unknown.extend(of_jobs.map(|it| it.key.clone()));
    unknown.retain(|key| overlay.limits.keys.key_use(key).is_none());
    if unknown.is_empty() {
        return Ok(());
    }
    let numbers: Vec<i64> = unknown.iter().map(|key| key.limit.cast_signed()).collect();
    let keys: Vec<String> = unknown.iter().map(|key| key.key.to_string()).collect();
    let mut pipeline = Pipeline::new(client);
    let sql = select_keys!(
        "JOIN unnest($1::bigint[], $2::text[]) AS asked (number, key) USING (number, key)"
    );
    pipeline
        .add("read keys of limits", sql, values![numbers, keys])
        .await?;
    let found = pipeline.run().await?.pop().unwrap_or_default();
    for key in load_keys(overlay, &found)? {
        unknown.remove(&key);
    }
    for key in unknown {
        overlay.limits.keys.load(key, None);
    }
    Ok(())
}

/// Reads the first jobs that wait for a key, and those of the other keys whose waiting jobs the batch may move: also of the
/// keys of jobs that may end.
async fn read_first_waiting(
    client: &Client,
    overlay: &mut Overlay,
    key: &LimitKey,
) -> Result<(), Trouble> {
    let limits = &overlay.limits;
    let may_end = overlay
        .jobs()
        .filter(|entry| entry.stored.is_some() && entry.job.has_places());
    let of_jobs = may_end.flat_map(|entry| &entry.job.limits.keys);
    let others: BTreeSet<&LimitKey> = of_jobs
        .map(|it| &it.key)
        .chain(&limits.to_serve)
        .filter(|it| *it != key && limits.keys.is_unread(it))
        .collect();
    let keys: Vec<LimitKey> = std::iter::once(key)
        .chain(others)
        .take(KEYS_AT_ONCE)
        .cloned()
        .collect();
    let replaces = limits.to_serve.contains(key);
    let jobs = read_waiting(client, overlay, keys, (0, 0), WAITING_FIRST).await?;
    if replaces {
        know_dependents(client, overlay, &jobs).await?;
    }
    Ok(())
}

/// The jobs that wait for each of the keys `$1` after the priority `$2` and the number `$3`, at most `$4` of each, without
/// those that another host has locked.
const WAITING: &str = "SELECT live.seq, live.id, live.body, live.rank, live.priority, asked.n \
    FROM unnest($1::text[]) WITH ORDINALITY AS asked (key, n) CROSS JOIN LATERAL \
    (SELECT seq, id, body, rank, priority FROM host_live WHERE waits_for = asked.key \
     AND (priority, seq) > ($2, $3) ORDER BY priority, seq LIMIT $4 FOR UPDATE SKIP LOCKED) AS live \
    ORDER BY asked.n, live.priority, live.seq";

async fn read_waiting(
    client: &Client,
    overlay: &mut Overlay,
    keys: Vec<LimitKey>,
    after: (u8, i64),
    most: i64,
) -> Result<Vec<JobId>, Trouble> {
    let most = most.min(WAITING_MAX);
    let texts: Vec<String> = keys.iter().map(LimitKey::to_string).collect();
    let mut pipeline = Pipeline::new(client);
    let values = values![texts, i16::from(after.0), after.1, most];
    let operation = "find jobs that wait for limits";
    pipeline.add(operation, WAITING, values).await?;
    let found = pipeline.run().await?.pop().unwrap_or_default();
    let mut jobs: BTreeMap<i64, VecDeque<((u8, i64), JobId)>> = BTreeMap::new();
    let mut all = Vec::with_capacity(found.len());
    for row in &found {
        let id = load_job(overlay, row);
        all.push(id);
        let priority = u8::try_from(row.get::<_, i16>(4)).unwrap_or(u8::MAX);
        let of_key = jobs.entry(row.get(5)).or_default();
        of_key.push_back(((priority, row.get(0)), id));
    }
    for (n, key) in (1..).zip(keys) {
        let jobs = jobs.remove(&n).unwrap_or_default();
        let is_all = i64::try_from(jobs.len()).is_ok_and(|read| read < most);
        overlay.limits.keys.add_stored(&key, jobs, is_all);
    }
    Ok(all)
}

/// The jobs that are listed as running with a key, each with its row unless another host has locked it.
const LISTED: &str = "SELECT live.seq, listed.job, live.body, live.rank FROM \
    (SELECT since, job FROM host_limit_running WHERE number = $1 AND key = $2 \
     ORDER BY since, job LIMIT $3) AS listed LEFT JOIN LATERAL \
    (SELECT seq, body, rank FROM host_live WHERE id = listed.job FOR UPDATE SKIP LOCKED) AS live \
    ON TRUE ORDER BY listed.since, listed.job";

async fn read_listed(
    client: &Client,
    overlay: &mut Overlay,
    passed_over: &BTreeSet<JobId>,
    values: Vec<Value>,
) -> Result<Vec<Option<JobId>>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    overlay.limits.flush(&mut pipeline).await?;
    let operation = "read the running jobs of a limit";
    pipeline.add(operation, LISTED, values).await?;
    let mut listed = Vec::new();
    for row in pipeline.run().await?.pop().unwrap_or_default() {
        let id = JobId(row.get(1));
        if passed_over.contains(&id) {
            continue;
        }
        if row.get::<_, Option<i64>>(0).is_some() {
            load_job(overlay, &row);
        }
        // One that is new in the batch has no row.
        let is_loaded = overlay.get(id).is_some() || overlay.unreadable.contains_key(&id);
        listed.push(is_loaded.then_some(id));
    }
    Ok(listed)
}
