//! Limits and how much of their keys is used, as they are stored. One lock orders the batches that change any: which keys a
//! batch needs is known only while it runs, so no order of their own locks would keep hosts from waiting for each other in
//! circles.

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::limit::tables::{KeptKey, LIMIT_KEYS};
use host_engine::limit::{KeptLimit, KeyUse, Limits};
use host_engine::table::{Range, Record as _};
use tokio_postgres::Row;

use super::client::{Client, rows};
use super::pipeline::{Pipeline, values};
use super::tables::{self, rows_of};
use super::trouble::Trouble;
use super::typed::Values;
use crate::held_keys::{HeldKeys, KeyRow, key_columns};

/// What a batch has read and changed of the keys of limits.
#[derive(Default)]
pub(super) struct HeldLimits {
    pub(super) keys: HeldKeys,
    /// Running jobs of keys, each with since when, whose rows are to be added or removed.
    pub(super) listed: BTreeMap<(LimitKey, Time, JobId), bool>,
    /// Keys whose waiting jobs the batch may move: those that a tick continues, and those of new jobs that replace others.
    pub(super) to_serve: BTreeSet<LimitKey>,
    pub(super) is_locked: bool,
}

impl HeldLimits {
    /// Adds the statements that write the keys that have changed.
    pub(super) async fn flush(&mut self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        let (mut numbers, mut keys) = (Vec::new(), Vec::new());
        let (mut reserved, mut running, mut waiting) = (Vec::new(), Vec::new(), Vec::new());
        let (mut refilled_at_ns, mut wake_at) = (Vec::new(), Vec::new());
        let (mut reserved_units, mut next_units) = (Vec::new(), Vec::new());
        let (mut cancelling, mut to_cancel) = (Vec::new(), Vec::new());
        let mut held_until = Vec::new();
        let (mut idle_numbers, mut idle_keys) = (Vec::new(), Vec::new());
        for KeyRow { key, after, .. } in self.keys.take_changed() {
            let (number, key) = (key.limit.cast_signed(), String::from(key.key));
            if let Some((used, wakes)) = after {
                numbers.push(number);
                keys.push(key);
                reserved.push(i64::from(used.reserved));
                running.push(i64::from(used.running));
                waiting.push(used.waiting.cast_signed());
                refilled_at_ns.push(used.refilled_at_ns);
                wake_at.push(wakes.map(|at| at.0));
                reserved_units.push(used.reserved_units.cast_signed());
                next_units.push(i64::from(used.next_units));
                cancelling.push(i64::from(used.cancelling));
                to_cancel.push(i64::from(used.to_cancel));
                held_until.push(used.held_until.0);
            } else {
                idle_numbers.push(number);
                idle_keys.push(key);
            }
        }
        if !numbers.is_empty() {
            let sql = concat!(
                "INSERT INTO host_limit_keys (number, key, ",
                key_columns!(),
                ") \
                       SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], \
                       $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], \
                       $10::bigint[], $11::bigint[], $12::bigint[]) \
                       ON CONFLICT (number, key) \
                       DO UPDATE SET reserved = EXCLUDED.reserved, running = EXCLUDED.running, \
                       waiting = EXCLUDED.waiting, refilled_at_ns = EXCLUDED.refilled_at_ns, \
                       wake_at = EXCLUDED.wake_at, reserved_units = EXCLUDED.reserved_units, \
                       next_units = EXCLUDED.next_units, cancelling = EXCLUDED.cancelling, \
                       to_cancel = EXCLUDED.to_cancel, held_until = EXCLUDED.held_until"
            );
            let values = values![
                numbers,
                keys,
                reserved,
                running,
                waiting,
                refilled_at_ns,
                wake_at,
                reserved_units,
                next_units,
                cancelling,
                to_cancel,
                held_until,
            ];
            pipeline.add("write keys of limits", sql, values).await?;
        }
        if !idle_numbers.is_empty() {
            let sql = "DELETE FROM host_limit_keys WHERE (number, key) IN \
                       (SELECT * FROM unnest($1::bigint[], $2::text[]))";
            let values = values![idle_numbers, idle_keys];
            pipeline.add("remove keys of limits", sql, values).await?;
        }
        self.flush_listed(pipeline).await
    }

    async fn flush_listed(&mut self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        const ADD: &str = "INSERT INTO host_limit_running (number, key, since, job) \
                           SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[]) \
                           ON CONFLICT DO NOTHING";
        const REMOVE: &str = "DELETE FROM host_limit_running WHERE (number, key, since, job) IN \
                              (SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::uuid[]))";
        let listed = std::mem::take(&mut self.listed);
        for (is_listed, sql) in [(false, REMOVE), (true, ADD)] {
            let (mut numbers, mut keys) = (Vec::new(), Vec::new());
            let (mut times, mut jobs) = (Vec::new(), Vec::new());
            for ((key, since, job), _) in listed.iter().filter(|(_, it)| **it == is_listed) {
                numbers.push(key.limit.cast_signed());
                keys.push(key.key.to_string());
                times.push(since.0);
                jobs.push(job.0);
            }
            if !numbers.is_empty() {
                let values = values![numbers, keys, times, jobs];
                pipeline
                    .add("list running jobs of limits", sql, values)
                    .await?;
            }
        }
        Ok(())
    }
}

/// The statement that reads keys, with what follows the table's name.
macro_rules! select_keys {
    ($rest:literal) => {
        concat!(
            "SELECT number, key, ",
            $crate::held_keys::key_columns!(),
            " FROM host_limit_keys ",
            $rest
        )
    };
}
pub(super) use select_keys;

/// Reads the limits, and how often any has changed. They may be newer than the number, never older.
pub(super) async fn load(client: &Client) -> Result<(Limits, i64), Trouble> {
    let sql = "SELECT limits_changed FROM host_log WHERE id = 1";
    let changed = client
        .ask(sql, &[])
        .await
        .map_err(|error| Trouble::of("read the limits", &error))?;
    let limits = all(client).await.map_err(Trouble::Fatal)?;
    Ok((limits, changed.first().map_or(0, |row| row.get(0))))
}

/// Reads the limits.
pub(super) async fn all(client: &Client) -> Result<Limits, StoreError> {
    let kept: Vec<KeptLimit> = tables::list(client, Range::all()).await?;
    Ok(kept.into_iter().collect())
}

/// Returns the fullest keys of a limit: those for which most jobs wait, and then others, at most `limit`.
pub(super) async fn fullest(
    client: &Client,
    number: u64,
    limit: u32,
) -> Result<Vec<(String, KeyUse)>, StoreError> {
    let sql = concat!(
        "(",
        select_keys!("WHERE number = $1 AND waiting > 0 ORDER BY waiting DESC LIMIT $2"),
        ") UNION ALL (",
        select_keys!("WHERE number = $1 AND waiting = 0 ORDER BY key LIMIT $2"),
        ") LIMIT $2"
    );
    let values: Values<'_> = &[&number.cast_signed(), &i64::from(limit)];
    let found = rows(client, "read the fullest keys of a limit", sql, values).await?;
    let rows = rows_of(LIMIT_KEYS.reading, &found)
        .map_err(|trouble| trouble.into_error(LIMIT_KEYS.reading))?;
    let name_and_use = |row| KeptKey::from_row(row).map(|it| (it.key.key.into(), it.used));
    rows.into_iter().map(name_and_use).collect()
}

/// Returns how many jobs wait for each limit that any wait for.
pub(super) async fn waiting(client: &Client) -> Result<BTreeMap<u64, u64>, StoreError> {
    let sql = "SELECT number, sum(waiting)::bigint FROM host_limit_keys WHERE waiting > 0 \
               GROUP BY number";
    let found = rows(client, "count the jobs that wait for limits", sql, &[]).await?;
    let jobs = |row: &Row| {
        let number = |column| row.get::<_, i64>(column).unsigned_abs();
        (number(0), number(1))
    };
    Ok(found.iter().map(jobs).collect())
}

/// Returns all jobs that are listed as running with a key.
pub(super) async fn all_listed(client: &Client) -> Result<Vec<(LimitKey, JobId)>, StoreError> {
    let sql = "SELECT number, key, job FROM host_limit_running";
    let found = rows(client, "read the running jobs of limits", sql, &[]).await?;
    let listed = found.iter().map(|row| {
        let key = LimitKey {
            limit: row.get::<_, i64>(0).unsigned_abs(),
            key: row.get::<_, String>(1).into(),
        };
        (key, JobId(row.get(2)))
    });
    Ok(listed.collect())
}
