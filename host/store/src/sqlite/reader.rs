//! The queries of the store, on a separate read-only connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use host_core::failure::Failure;
use host_core::id::JobId;
use host_core::job::{Lifecycle, STATES, State};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::{Attempt, Progress};
use host_core::query::{
    Changes, Cursor, JobCount, JobDetail, JobFilter, JobSummary, Page, QueueStatus, RemoteLease,
};
use host_core::state::{Space, StateKey, first_key};
use host_core::time::Time;
use host_engine::limit::KeyUse;
use host_engine::table::{Row as TableRow, Select};
use host_engine::{Interrupt, Reader, StoreError};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::jobs::seq_of;
use super::moment::Moment;
use super::{
    access, available, changes, dependencies, doing, job_id, limits, list, payloads, state, tables,
};
use crate::record::decode;
use crate::start;

/// A job's result, failure and progress.
type Ending = (Option<JsonText>, Option<Failure>, Option<Progress>);

/// A read-only connection.
pub(super) struct SqliteReader {
    connection: Connection,
}

impl SqliteReader {
    pub(super) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    fn moment(&self) -> Result<Moment<'_>, StoreError> {
        Moment::begin(&self.connection).map_err(doing("begin to read"))
    }

    fn lifecycle(&self, seq: i64) -> Result<Lifecycle, StoreError> {
        let body: Vec<u8> = self
            .connection
            .prepare_cached("SELECT body FROM jobs WHERE seq = ?1")
            .and_then(|mut statement| statement.query_row([seq], |row| row.get(0)))
            .map_err(doing("read a job"))?;
        decode(&body, || format!("job {seq}"))
    }

    /// Returns the result of a job's latest attempt, or why the job failed after it.
    fn ending(&self, seq: i64) -> Result<Ending, StoreError> {
        let attempt = self
            .connection
            .prepare_cached(
                "SELECT number, body, progress, result FROM attempts WHERE seq = ?1 \
                 ORDER BY number DESC LIMIT 1",
            )
            .and_then(|mut statement| {
                let read = |row: &Row<'_>| {
                    let body: (Vec<u8>, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
                    Ok((
                        row.get::<_, u32>(0)?,
                        body,
                        row.get::<_, Option<String>>(3)?,
                    ))
                };
                statement.query_row([seq], read).optional()
            })
            .map_err(doing("read a job's last attempt"))?;
        let number = attempt.as_ref().map_or(0, |(number, ..)| *number);
        let failure: Option<Vec<u8>> = self
            .connection
            .prepare_cached("SELECT body FROM failures WHERE seq = ?1 AND attempt >= ?2")
            .and_then(|mut statement| {
                let read = statement.query_row(params![seq, number], |row| row.get(0));
                read.optional()
            })
            .map_err(doing("read why a job failed"))?;
        let what = || format!("the end of job {seq}");
        if let Some(failure) = failure {
            let failure = decode(&failure, what)?;
            return Ok((None, Some(failure), None));
        }
        let Some((_, (body, progress), result)) = attempt else {
            return Ok((None, None, None));
        };
        let attempt: Attempt = decode(&body, what)?;
        let progress = progress.map(|bytes| decode(&bytes, what)).transpose()?;
        Ok((result.map(JsonText), attempt.failure, progress))
    }

    fn wire(&self, seq: i64) -> Result<String, StoreError> {
        self.connection
            .prepare_cached("SELECT wire FROM payloads WHERE seq = ?1")
            .and_then(|mut statement| statement.query_row([seq], |row| row.get(0)))
            .map_err(doing("read a job's wire"))
    }
}

impl Reader for SqliteReader {
    fn interrupt(&self) -> Interrupt {
        let handle = self.connection.get_interrupt_handle();
        Arc::new(move || handle.interrupt())
    }

    fn select(&self, ranges: &[Select]) -> Result<Vec<Vec<TableRow>>, StoreError> {
        let moment = self.moment()?;
        let rows = |it: &Select| tables::select(&moment, it.table, &it.range);
        ranges.iter().map(rows).collect()
    }

    fn count_rows(&self, range: &Select) -> Result<u64, StoreError> {
        tables::count(&self.connection, range.table, &range.range)
    }

    fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        let moment = self.moment()?;
        let Some(seq) = seq_of(&moment, id)? else {
            return Ok(None);
        };
        let (payload, unique_key, depends_on) = payloads::of(&moment, seq)?;
        let (result, failure, progress) = self.ending(seq)?;
        Ok(Some(JobDetail {
            lifecycle: self.lifecycle(seq)?,
            payload,
            unique_key,
            depends_on,
            result,
            failure,
            progress,
        }))
    }

    fn job_ids(&self, prefix: &str, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let Some((low, high)) = start::ids(prefix) else {
            return Ok(Vec::new());
        };
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT id FROM jobs WHERE id BETWEEN ?1 AND ?2 ORDER BY id LIMIT ?3",
            )?;
            let rows =
                statement.query_map(params![low.0.as_bytes(), high.0.as_bytes(), limit], job_id)?;
            rows.collect::<Result<Vec<JobId>, _>>()
        };
        let ids = read().map_err(doing("find a job's id"))?;
        Ok(ids
            .into_iter()
            .filter(|id| id.to_string().starts_with(prefix))
            .collect())
    }

    fn state(&self, id: JobId) -> Result<Option<State>, StoreError> {
        let state: Option<usize> = self
            .connection
            .prepare_cached("SELECT state FROM jobs WHERE id = ?1")
            .and_then(|mut statement| {
                statement
                    .query_row([id.0.as_bytes()], |row| row.get(0))
                    .optional()
            })
            .map_err(doing("read a job's state"))?;
        Ok(state.and_then(|state| STATES.get(state).copied()))
    }

    fn dependents(&self, id: JobId, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let found = dependencies::on(&self.connection, &[id], limit as usize)?;
        Ok(found.into_iter().map(|(_, job)| job).collect())
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobSummary>, StoreError> {
        let moment = self.moment()?;
        let page = list::page(&moment, filter, after, limit)?;
        let mut items = Vec::with_capacity(page.items.len());
        for (seq, lifecycle) in page.items {
            let latest = list::latest_attempt(&self.connection, seq)?;
            items.push(JobSummary::new(lifecycle, latest.as_ref(), self.wire(seq)?));
        }
        Ok(Page {
            items,
            next: page.next,
        })
    }

    fn matching(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobId>, StoreError> {
        let page = list::page(&self.moment()?, filter, after, limit)?;
        let ids = page.items.into_iter().map(|(_, job)| job.id);
        Ok(Page {
            items: ids.collect(),
            next: page.next,
        })
    }

    fn count(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        examined_max: u64,
    ) -> Result<JobCount, StoreError> {
        list::count(&self.moment()?, filter, after, examined_max)
    }

    fn attempts(&self, id: JobId, after: u32, limit: u32) -> Result<Vec<Attempt>, StoreError> {
        let Some(seq) = seq_of(&self.connection, id)? else {
            return Ok(Vec::new());
        };
        let sql =
            "SELECT body FROM attempts WHERE seq = ?1 AND number > ?2 ORDER BY number LIMIT ?3";
        list::attempts(&self.connection, sql, (seq, after, limit))
    }

    fn attempts_since(
        &self,
        since: Time,
        limit: u32,
    ) -> Result<Vec<(String, Attempt)>, StoreError> {
        let sql = "SELECT handler, attempts.body FROM attempts JOIN jobs USING (seq) \
                   ORDER BY attempts.seq DESC, number DESC LIMIT ?1";
        let failed = || doing("read the latest attempts");
        let mut statement = self.connection.prepare_cached(sql).map_err(failed())?;
        let mut rows = statement.query([limit]).map_err(failed())?;
        let mut attempts = Vec::new();
        while let Some(row) = rows.next().map_err(failed())? {
            let body: Vec<u8> = row.get(1).map_err(failed())?;
            let attempt: Attempt = decode(&body, || "an attempt".to_owned())?;
            if attempt.revision.is_some() && attempt.finished_at >= since {
                attempts.push((row.get(0).map_err(failed())?, attempt));
            }
        }
        Ok(attempts)
    }

    fn changes(&self, after: u64, limit: u32) -> Result<Changes, StoreError> {
        changes::read(&self.connection, after, limit)
    }

    fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT name, paused, state, jobs FROM queues \
                 LEFT JOIN counters ON counters.queue = queues.id ORDER BY name",
            )?;
            let rows = statement.query_map([], |row| {
                let count: Option<(usize, u64)> = match row.get::<_, Option<usize>>(2)? {
                    Some(state) => Some((state, row.get(3)?)),
                    None => None,
                };
                Ok((row.get::<_, String>(0)?, row.get::<_, bool>(1)?, count))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        let mut queues: BTreeMap<Name, QueueStatus> = BTreeMap::new();
        for (name, paused, count) in read().map_err(doing("read the queues"))? {
            let name: Name = name.parse().map_err(|error| StoreError::Unreadable {
                what: "the name of a queue".to_owned(),
                message: format!("{error}"),
            })?;
            let queue = queues.entry(name.clone()).or_insert(QueueStatus {
                name,
                paused,
                counts: [0; STATES.len()],
            });
            if let Some((state, jobs)) = count
                && let Some(slot) = queue.counts.get_mut(state)
            {
                *slot = jobs;
            }
        }
        Ok(queues.into_values().collect())
    }

    fn oldest_available(
        &self,
        queues: &[Name],
        executors: &[Name],
    ) -> Result<Vec<(Name, Time)>, StoreError> {
        let moment = self.moment()?;
        let oldest = |queue: &Name| {
            let mut find = moment.prepare_cached("SELECT id FROM queues WHERE name = ?1")?;
            let id = find
                .query_row([queue.as_str()], |row| row.get(0))
                .optional()?;
            id.map_or(Ok(None), |id| available::oldest(&moment, executors, id))
        };
        let mut all = Vec::new();
        for queue in queues {
            let seq = oldest(queue).map_err(doing("find the oldest jobs"))?;
            if let Some(seq) = seq {
                all.push((queue.clone(), self.lifecycle(seq)?.enqueued_at));
            }
        }
        Ok(all)
    }

    fn is_paused(&self, queue: &Name) -> Result<bool, StoreError> {
        let paused = self
            .connection
            .prepare_cached("SELECT paused FROM queues WHERE name = ?1")
            .and_then(|mut statement| {
                let paused = statement.query_row([queue.as_str()], |row| row.get(0));
                paused.optional()
            });
        Ok(paused.map_err(doing("read a queue"))?.unwrap_or(false))
    }

    fn executors_awaited(&self) -> Result<Vec<Name>, StoreError> {
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT DISTINCT runner FROM jobs INDEXED BY jobs_runner WHERE state = 2 AND runner IS NOT NULL \
                 ORDER BY runner",
            )?;
            let rows = statement.query_map([], |row| row.get(0))?;
            rows.collect::<Result<Vec<String>, _>>()
        };
        let names = read().map_err(doing("find the runners that jobs wait for"))?;
        let parse = |name: String| {
            name.parse().map_err(|error| StoreError::Unreadable {
                what: "the runner of a job".to_owned(),
                message: format!("{error}"),
            })
        };
        names.into_iter().map(parse).collect()
    }

    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError> {
        let read = || {
            let mut statement = self
                .connection
                .prepare_cached("SELECT seq, body FROM jobs WHERE state = ?1 ORDER BY seq")?;
            let running = State::Running as u8;
            let rows = statement.query_map([running], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<(i64, Vec<u8>)>, _>>()
        };
        let mut leases = Vec::new();
        for (seq, body) in read().map_err(doing("read the leases of running jobs"))? {
            let job: Lifecycle = decode(&body, || format!("job {seq}"))?;
            leases.extend(RemoteLease::of(&job));
        }
        Ok(leases)
    }

    fn state_keys(
        &self,
        space: &Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StateKey>, StoreError> {
        let from = first_key(prefix, after);
        let mut keys = state::keys(&self.connection, space, from, limit)?;
        keys.retain(|it| it.key.starts_with(prefix));
        Ok(keys)
    }

    fn fullest_keys(&self, number: u64, limit: u32) -> Result<Vec<(String, KeyUse)>, StoreError> {
        limits::fullest(&self.connection, number, limit)
    }

    fn waiting_for_limits(&self) -> Result<BTreeMap<u64, u64>, StoreError> {
        limits::waiting(&self.connection)
    }

    fn owned(&self, principal: &str) -> Result<u64, StoreError> {
        access::owned(&self.connection, principal)
    }
}
