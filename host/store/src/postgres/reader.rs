//! The queries of the store. Each runs on a connection of the readers' pool; those that read several tables
//! see one snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
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
use host_engine::lease::Claimed;
use host_engine::limit::KeyUse;
use host_engine::node::{NodeRecord, Reported};
use host_engine::table::{Row, Select};
use host_engine::{Interrupt, Reader, StoreError};
use tokio::sync::Notify;
use uuid::Uuid;

use super::client::{Client, Readers, rows};
use super::counts::parse_name;
use super::rows::payload_of;
use super::trouble::{damaged, doing};
use super::wait::Driver;
use super::{access, changes, limits, list, nodes, reports, state, tables};
use crate::record::decode;
use crate::start;

/// Reads committed data.
pub(super) struct PostgresReader {
    pub(super) driver: Arc<Driver>,
    pub(super) pool: Readers,
    /// Ends the query that runs.
    pub(super) interrupted: Arc<Notify>,
}

/// Why and how the latest attempt of a job ended.
type Ending = (Option<JsonText>, Option<Failure>, Option<Progress>);

impl PostgresReader {
    /// Runs a query on a connection of the pool. Replaces a dead connection once.
    pub(super) fn ask<T>(
        &self,
        question: &impl AsyncFn(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        // An interrupt of an earlier query that had just ended.
        let _ = self.interrupted.notified().now_or_never();
        self.driver.wait(async {
            let first = self.pool.get().await?;
            match self.run(first, question).await {
                (Err(_), Some(first)) if first.is_closed() => {
                    drop(first);
                    self.run(self.pool.get().await?, question).await.0
                }
                (answer, _) => answer,
            }
        })
    }

    /// Runs a query until it ends or is interrupted. Returns the connection unless the query was interrupted.
    async fn run<T>(
        &self,
        client: Client,
        question: &impl AsyncFn(&Client) -> Result<T, StoreError>,
    ) -> (Result<T, StoreError>, Option<Client>) {
        let answer = tokio::select! {
            biased;
            answer = question(&client) => Some(answer),
            () = self.interrupted.notified() => None,
        };
        if let Some(answer) = answer {
            return (answer, Some(client));
        }
        self.pool.cancel(client).await;
        let interrupted = StoreError::Broken {
            operation: "read the store",
            message: "the answer is no longer wanted".to_owned(),
        };
        (Err(interrupted), None)
    }

    /// Runs a query whose statements all see one snapshot.
    fn ask_moment<T>(
        &self,
        question: &impl AsyncFn(&Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.ask(&async |client| {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
            let reading = doing("read the store");
            client.batch_execute(begin).await.map_err(reading)?;
            let answer = question(client).await;
            // If this fails, so does the next query on this connection, which is then replaced.
            let _ = client.batch_execute("COMMIT").await;
            answer
        })
    }
}

/// Returns the result of a job's latest attempt, or why the job failed after it.
async fn ending(client: &Client, id: JobId) -> Result<Ending, StoreError> {
    let sql = "SELECT number, body, progress, result FROM host_attempts WHERE job = $1 \
               ORDER BY number DESC LIMIT 1";
    let attempts = rows(client, "read a job's last attempt", sql, &[&id.0]).await?;
    let attempt = attempts.first();
    let number: i64 = attempt.map_or(0, |row| row.get(0));
    let sql = "SELECT body FROM host_failures WHERE job = $1 AND attempt >= $2";
    let failure = rows(client, "read why a job failed", sql, &[&id.0, &number]).await?;
    let what = || format!("the end of job {id}");
    if let Some(row) = failure.first() {
        return Ok((None, Some(decode(row.get(0), what)?), None));
    }
    let Some(row) = attempt else {
        return Ok((None, None, None));
    };
    let attempt: Attempt = decode(row.get(1), what)?;
    let progress: Option<&[u8]> = row.get(2);
    let progress = progress.map(|bytes| decode(bytes, what)).transpose()?;
    let result: Option<String> = row.get(3);
    Ok((result.map(JsonText), attempt.failure, progress))
}

const JOB: &str = "SELECT body FROM host_live WHERE id = $1 \
                   UNION ALL SELECT body FROM host_ended WHERE id = $1";

/// Those of the jobs `$1` that run, with their params.
const RUNNING: &str = "SELECT params, wire, unique_key, extra, wanted.id, live.body \
    FROM unnest($1::uuid[]) WITH ORDINALITY AS wanted (id, n) \
    JOIN host_live AS live ON live.id = wanted.id AND live.state = 3 \
    JOIN host_payloads ON job = wanted.id ORDER BY n";

/// How many of them are read at a time.
const RUNNING_READ: usize = 256;

impl Reader for PostgresReader {
    fn interrupt(&self) -> Interrupt {
        let interrupted = Arc::clone(&self.interrupted);
        Arc::new(move || interrupted.notify_one())
    }

    fn select(&self, ranges: &[Select]) -> Result<Vec<Vec<Row>>, StoreError> {
        let question = async |client: &Client| {
            let rows = tables::select(client, ranges).await;
            rows.map_err(|trouble| trouble.into_error("read the store"))
        };
        match ranges {
            [_] => self.ask(&question),
            _ => self.ask_moment(&question),
        }
    }

    fn count_rows(&self, range: &Select) -> Result<u64, StoreError> {
        self.ask(&async |client| {
            let counted = tables::count(client, range).await;
            counted.map_err(|trouble| trouble.into_error("read the store"))
        })
    }

    fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError> {
        self.ask_moment(&async |client| {
            let found = rows(client, "read a job", JOB, &[&id.0]).await?;
            let Some(row) = found.first() else {
                return Ok(None);
            };
            let lifecycle: Lifecycle = decode(row.get(0), || format!("job {id}"))?;
            let sql = "SELECT params, wire, unique_key, extra FROM host_payloads WHERE job = $1";
            let payload = rows(client, "read a job's params", sql, &[&id.0]).await?;
            let missing = || damaged(format!("job {id}"), "its params are missing");
            let payload = payload.first().ok_or_else(missing)?;
            let (payload, unique_key, depends_on) = payload_of(payload, id)?;
            let (result, failure, progress) = ending(client, id).await?;
            Ok(Some(JobDetail {
                lifecycle,
                payload,
                unique_key,
                depends_on,
                result,
                failure,
                progress,
            }))
        })
    }

    fn running(&self, ids: &[JobId]) -> Result<Vec<Claimed>, StoreError> {
        let mut running = Vec::new();
        for ids in ids.chunks(RUNNING_READ) {
            let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
            let operation = "read running jobs";
            let found =
                self.ask(&async |client| rows(client, operation, RUNNING, &[&ids]).await)?;
            for row in &found {
                let id = JobId(row.get(4));
                let lifecycle = decode(row.get(5), || format!("job {id}"))?;
                let (payload, _, _) = payload_of(row, id)?;
                running.push(Claimed { lifecycle, payload });
            }
        }
        Ok(running)
    }

    fn job_ids(&self, prefix: &str, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let Some((low, high)) = start::ids(prefix) else {
            return Ok(Vec::new());
        };
        let sql = "SELECT id FROM host_live WHERE id BETWEEN $1 AND $2 UNION ALL \
                   SELECT id FROM host_ended WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3";
        let limit = i64::from(limit);
        let found = self.ask(&async |client| {
            let operation = "find a job's id";
            rows(client, operation, sql, &[&low.0, &high.0, &limit]).await
        })?;
        let ids = found.iter().map(|row| JobId(row.get(0)));
        Ok(ids
            .filter(|id| id.to_string().starts_with(prefix))
            .collect())
    }

    fn state(&self, id: JobId) -> Result<Option<State>, StoreError> {
        let sql = "SELECT state FROM host_live WHERE id = $1 \
                   UNION ALL SELECT state FROM host_ended WHERE id = $1";
        let found =
            self.ask(&async |client| rows(client, "read a job's state", sql, &[&id.0]).await)?;
        let number = found.first().map(|row| row.get::<_, i16>(0));
        let index = number.and_then(|number| usize::try_from(number).ok());
        Ok(index.and_then(|index| STATES.get(index).copied()))
    }

    fn dependents(&self, id: JobId, limit: u32) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT dependent FROM host_dependencies WHERE prerequisite = $1 \
                   ORDER BY seq LIMIT $2";
        let limit = i64::from(limit);
        let found = self.ask(&async |client| {
            let operation = "read which jobs wait for a job";
            rows(client, operation, sql, &[&id.0, &limit]).await
        })?;
        Ok(found.iter().map(|row| JobId(row.get(0))).collect())
    }

    fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobSummary>, StoreError> {
        self.ask_moment(&async |client| {
            let page = list::page(client, filter, after, limit).await?;
            let ids: Vec<JobId> = page.items.iter().map(|job| job.id).collect();
            let latest = list::latest_attempts(client, &ids).await?;
            let mut wires = list::wires(client, &ids).await?;
            let items = page.items.into_iter().map(|lifecycle| {
                let latest = latest.get(&lifecycle.id);
                let wire = wires.remove(&lifecycle.id).unwrap_or_default();
                JobSummary::new(lifecycle, latest, wire)
            });
            Ok(Page {
                items: items.collect(),
                next: page.next,
            })
        })
    }

    fn matching(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobId>, StoreError> {
        let page =
            self.ask_moment(&async |client| list::page(client, filter, after, limit).await)?;
        Ok(Page {
            items: page.items.into_iter().map(|job| job.id).collect(),
            next: page.next,
        })
    }

    fn count(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        examined_max: u64,
    ) -> Result<JobCount, StoreError> {
        self.ask_moment(&async |client| list::count(client, filter, after, examined_max).await)
    }

    fn attempts(&self, id: JobId, after: u32, limit: u32) -> Result<Vec<Attempt>, StoreError> {
        let sql = "SELECT body FROM host_attempts WHERE job = $1 AND number > $2 \
                   ORDER BY number LIMIT $3";
        let (after, limit) = (i64::from(after), i64::from(limit));
        let found = self.ask(&async |client| {
            let operation = "read a job's attempts";
            rows(client, operation, sql, &[&id.0, &after, &limit]).await
        })?;
        let attempt =
            |row: &tokio_postgres::Row| decode(row.get(0), || format!("an attempt of job {id}"));
        found.iter().map(attempt).collect()
    }

    fn attempts_since(
        &self,
        since: Time,
        limit: u32,
    ) -> Result<Vec<(String, Attempt)>, StoreError> {
        // The newest jobs with attempts are among the newest of each table that have any.
        let sql = "SELECT jobs.handler, attempts.body FROM (\
                   SELECT seq, id, handler FROM host_live \
                   UNION ALL SELECT seq, id, handler FROM host_ended) AS jobs \
                   JOIN host_attempts AS attempts ON attempts.job = jobs.id \
                   ORDER BY jobs.seq DESC, attempts.number DESC LIMIT $1";
        let limit = i64::from(limit);
        let found = self
            .ask(&async |client| rows(client, "read the latest attempts", sql, &[&limit]).await)?;
        let mut attempts = Vec::new();
        for row in found {
            let attempt: Attempt = decode(row.get(1), || "an attempt".to_owned())?;
            if attempt.revision.is_some() && attempt.finished_at >= since {
                attempts.push((row.get(0), attempt));
            }
        }
        Ok(attempts)
    }

    fn changes(&self, after: u64, limit: u32) -> Result<Changes, StoreError> {
        self.ask(&async |client| Ok(changes::read(client, after, limit).await?.changes))
    }

    fn queues(&self) -> Result<Vec<QueueStatus>, StoreError> {
        let sql = "SELECT name, paused, state, sum(jobs)::bigint FROM host_queues \
                   LEFT JOIN host_counts ON queue = name AND state < 8 \
                   GROUP BY name, paused, state ORDER BY name";
        let found = self.ask(&async |client| rows(client, "read the queues", sql, &[]).await)?;
        let mut queues: BTreeMap<Name, QueueStatus> = BTreeMap::new();
        for row in found {
            let name = parse_name(row.get(0))?;
            let queue = queues.entry(name.clone()).or_insert(QueueStatus {
                name,
                paused: row.get(1),
                counts: [0; STATES.len()],
            });
            let state = row.get::<_, Option<i16>>(2).map(usize::try_from);
            if let Some(Ok(state)) = state
                && let Some(slot) = queue.counts.get_mut(state)
            {
                *slot = u64::try_from(row.get::<_, i64>(3)).unwrap_or(0);
            }
        }
        Ok(queues.into_values().collect())
    }

    fn oldest_available(
        &self,
        queues: &[Name],
        executors: &[Name],
    ) -> Result<Vec<(Name, Time)>, StoreError> {
        self.ask(&async |client| list::oldest_available(client, queues, executors).await)
    }

    fn is_paused(&self, queue: &Name) -> Result<bool, StoreError> {
        let sql = "SELECT FROM host_queues WHERE name = $1 AND paused";
        let name = queue.as_str();
        let found = self.ask(&async |client| rows(client, "read a queue", sql, &[&name]).await)?;
        Ok(!found.is_empty())
    }

    fn executors_awaited(&self) -> Result<Vec<Name>, StoreError> {
        let sql = "SELECT DISTINCT runner FROM host_live \
                   WHERE state = 2 AND runner IS NOT NULL ORDER BY runner";
        let operation = "find the runners that jobs wait for";
        let found = self.ask(&async |client| rows(client, operation, sql, &[]).await)?;
        found.iter().map(|row| parse_name(row.get(0))).collect()
    }

    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError> {
        let sql = "SELECT seq, id, body FROM host_live WHERE state = 3 ORDER BY seq";
        let operation = "read the leases of running jobs";
        let mut leases = Vec::new();
        for row in self.ask(&async |client| rows(client, operation, sql, &[]).await)? {
            let id = JobId(row.get(1));
            let job: Lifecycle = decode(row.get(2), || format!("job {id}"))?;
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
        let mut keys = self.ask(&async |client| state::keys(client, space, from, limit).await)?;
        keys.retain(|it| it.key.starts_with(prefix));
        Ok(keys)
    }

    fn fullest_keys(&self, number: u64, limit: u32) -> Result<Vec<(String, KeyUse)>, StoreError> {
        self.ask(&async |client| limits::fullest(client, number, limit).await)
    }

    fn waiting_for_limits(&self) -> Result<BTreeMap<u64, u64>, StoreError> {
        self.ask(&async |client| limits::waiting(client).await)
    }

    fn access_version(&self) -> Result<u64, StoreError> {
        self.ask(&async |client| access::version(client).await)
    }

    fn owned(&self, principal: &str) -> Result<u64, StoreError> {
        self.ask(&async |client| access::owned(client, principal).await)
    }

    fn reported(&self, jobs: &[JobId]) -> Result<Vec<Reported>, StoreError> {
        self.ask(&async |client| reports::of(client, jobs).await)
    }

    fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        self.ask(&async |client| nodes::known(client).await)
    }
}
