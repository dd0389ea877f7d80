//! Sends the document's operations to a Redis and reads the answers. The rest of the client makes
//! the decisions.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use host_core::time::Time;
use thiserror::Error;
use tokio::sync::Semaphore;

use super::{
    FULL, Fields, JobView, READ_JOBS_MAX, STATUS, SUMMARY, StopResult, Submitted, check_circles,
    gate, keep_reply, lengths, links, parse, read, requeue, requeued, scan, scanned, stop, stopped,
    submit, submitted,
};
use crate::job::circles::Walk;
use crate::job::is_id;
use crate::job::new::NewJob;
use crate::messages::{self, Command, Value};
use crate::refusals::Refusal;
use crate::transport::url::RedisUrl;
use crate::transport::{OwnConnection, SharedConnection};

/// The most concurrent requests that wait for jobs. Each has its own connection.
const WAITERS_MAX: usize = 128;

/// How often to read the hash of a job that a request waits for, because its worker may not reply.
const READ_EVERY: Duration = Duration::from_millis(100);

/// How long a waiting request pauses before it tries Redis again.
const AWAY_PAUSE: Duration = Duration::from_millis(500);

/// About how many keys one request for a list reads at most.
const KEYS_MAX: usize = 10_000;

/// The fewest and the most keys read in one step.
const STEP_KEYS: (u32, u32) = (10, 1_000);

/// Returns whether this turn of the gate looks for circles that it cannot see in one turn: one of eight,
/// at uneven distances, so that each part of a long line has such turns.
const fn is_walk(turn: u64) -> bool {
    turn.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 == 0
}

/// Why an operation was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum ClientError {
    /// Redis cannot be reached or refuses the command. The operation may have been carried out.
    #[error("{0}")]
    Away(String),
    /// The operation is not allowed for this job.
    #[error("{}", .0.text())]
    Refused(Refusal),
    /// Too many requests already wait for jobs.
    #[error("{WAITERS_MAX} requests already wait for jobs")]
    Full,
}

/// The document's operations on one Redis. Cloning shares the connection.
#[derive(Clone)]
pub(crate) struct Client {
    connection: SharedConnection,
    waiters: Arc<Semaphore>,
    /// How many turns the gate has had.
    turns: Arc<AtomicU64>,
}

/// Selects which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// Only jobs for this worker.
    pub(super) worker_id: Option<String>,
    /// Only jobs with this status.
    pub(super) status: Option<String>,
}

/// A part of a list, in no order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Page {
    pub(super) jobs: Vec<JobView>,
    /// The cursor of the next part; `None` at the end.
    pub(super) next: Option<u64>,
}

/// The result of one check of the waiting jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Turn {
    /// How many jobs were queued.
    pub(super) queued: usize,
    /// How many were ended.
    pub(super) ended: usize,
    /// How many jobs were checked.
    pub(super) checked: usize,
    /// Why Redis refused to queue or end a job. The next check tries it again.
    pub(super) refused: Option<String>,
}

impl From<Refusal> for ClientError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

type Answer<T> = Result<T, ClientError>;

impl Client {
    /// Makes a client. It connects when it is first used, and again when the connection was lost.
    pub(crate) fn new(url: &RedisUrl) -> Self {
        Self {
            connection: SharedConnection::new(url),
            waiters: Arc::new(Semaphore::new(WAITERS_MAX)),
            turns: Arc::default(),
        }
    }

    /// Returns the state of a job, or `None` if there is none. Cancel safe, like all reads.
    pub(crate) async fn job(&self, id: &str) -> Answer<Option<JobView>> {
        self.one(id, FULL).await
    }

    /// Returns the status of each job that exists.
    pub(crate) async fn statuses(
        &self,
        ids: &BTreeSet<String>,
    ) -> Answer<BTreeMap<String, String>> {
        let views = self
            .many(ids.iter().map(String::as_str), STATUS)
            .await?
            .into_iter()
            .flatten();
        Ok(views
            .map(|job| (job.id.clone(), job.status().to_owned()))
            .collect())
    }

    /// Returns the next part of the list of jobs: about `limit` jobs. There are fewer if few match,
    /// and may be a few more because Redis returns keys in groups.
    pub(crate) async fn jobs(
        &self,
        filter: &Filter,
        after: Option<u64>,
        limit: usize,
    ) -> Answer<Page> {
        let fits = |job: &JobView| {
            let is = |wanted: &Option<String>, found: &str| {
                wanted.as_ref().is_none_or(|wanted| wanted == found)
            };
            is(&filter.worker_id, job.get("worker_id").unwrap_or_default())
                && is(&filter.status, job.status())
        };
        self.list(fits, after, limit).await
    }

    /// Returns the next part of the list of jobs that fit.
    pub(super) async fn list(
        &self,
        fits: impl Fn(&JobView) -> bool,
        after: Option<u64>,
        limit: usize,
    ) -> Answer<Page> {
        let keys = u32::try_from(limit)
            .unwrap_or(u32::MAX)
            .clamp(STEP_KEYS.0, STEP_KEYS.1);
        let mut cursor = after.unwrap_or(0);
        let mut jobs: BTreeMap<String, JobView> = BTreeMap::new();
        for _ in 0..KEYS_MAX.div_ceil(keys as usize) {
            let found = self.ask_one(scan(cursor, keys)).await?;
            let (next, ids) = scanned(&found)?;
            let views: Vec<JobView> = self
                .many(ids.iter().map(String::as_str), SUMMARY)
                .await?
                .into_iter()
                .flatten()
                .filter(|job| fits(job))
                .collect();
            if !jobs.is_empty() && jobs.len() + views.len() > limit {
                break;
            }
            jobs.extend(views.into_iter().map(|job| (job.id.clone(), job)));
            cursor = next;
            if next == 0 || jobs.len() >= limit {
                break;
            }
        }
        Ok(Page {
            jobs: jobs.into_values().collect(),
            next: Some(cursor).filter(|cursor| *cursor != 0),
        })
    }

    /// Stores and queues a job, and returns when Redis has confirmed it. If other jobs may already
    /// wait for this id (`may_be_known`), checks for circles. Sending the same id again changes
    /// nothing.
    pub(crate) async fn submit(
        &self,
        job: &NewJob,
        may_be_known: bool,
        log_root: Option<&str>,
        wall: Time,
    ) -> Answer<Submitted> {
        // Errors that do not depend on other jobs are found before those are read.
        let command = submit(job, log_root, wall)?;
        let mut links = links(job);
        if may_be_known {
            links = self.walk(links).await?;
        }
        check_circles(job, &links)?;
        Ok(submitted(&self.ask_one(command).await?)?)
    }

    /// Asks for a job to be stopped; `None` if there is none.
    pub(crate) async fn stop(&self, id: &str, wall: Time) -> Answer<Option<StopResult>> {
        let Some(job) = self.one(id, SUMMARY).await? else {
            return Ok(None);
        };
        Ok(stopped(&self.ask_one(stop(&job, wall)?).await?)?)
    }

    /// Queues a job again, with the rules of [`requeue`]. Returns `None` if there is none.
    pub(crate) async fn requeue(&self, id: &str, force: bool, wall: Time) -> Answer<Option<()>> {
        let Some(job) = self.one(id, FULL).await? else {
            return Ok(None);
        };
        let command = requeue(&job, force, wall)?;
        Ok(requeued(&self.ask_one(command).await?)?)
    }

    /// Returns the lengths of a worker's lists, in the order of [`lengths`].
    pub(crate) async fn lengths(&self, worker_id: &str) -> Answer<[u64; 4]> {
        let commands = lengths(worker_id)?;
        let values = self.ask(commands.to_vec()).await?;
        let mut lengths = [0; 4];
        for (length, value) in lengths.iter_mut().zip(values) {
            if let Value::Int(found) = value {
                *length = u64::try_from(found).unwrap_or_default();
            }
        }
        Ok(lengths)
    }

    /// Waits until a job ends, at most `within`, and returns its state then; `None` if there is
    /// none. Leaves the reply for others who wait for it. Cancel safe.
    pub(crate) async fn wait(&self, id: &str, within: Duration) -> Answer<Option<JobView>> {
        let Ok(_permit) = self.waiters.try_acquire() else {
            return Err(ClientError::Full);
        };
        let timeout = tokio::time::sleep(within);
        tokio::pin!(timeout);
        loop {
            let waited = tokio::select! {
                waited = self.until_end(id) => waited,
                () = &mut timeout => return self.job(id).await,
            };
            match waited {
                Err(ClientError::Away(_)) => tokio::time::sleep(AWAY_PAUSE).await,
                Err(error) => return Err(error),
                Ok(()) => {
                    let job = self.job(id).await?;
                    if let Some(job) = &job {
                        // Other workers may never expire the reply. If Redis is too old for this
                        // command, it stays.
                        let _ = self.connection.ask(vec![keep_reply(job)]).await;
                    }
                    return Ok(job);
                }
            }
        }
    }

    /// Returns when the job has ended or is gone, or when Redis cannot be reached.
    async fn until_end(&self, id: &str) -> Answer<()> {
        let mut own: Option<OwnConnection> = None;
        loop {
            match self.one(id, STATUS).await? {
                Some(job) if !job.has_ended() => {}
                _ => return Ok(()),
            }
            let own = match &mut own {
                Some(own) => own,
                none => none.insert(self.connection.own().await.map_err(ClientError::Away)?),
            };
            let reply = messages::await_reply(id, READ_EVERY);
            let values = own.ask(vec![reply]).await.map_err(ClientError::Away)?;
            if !matches!(values.first(), Some(Value::Nil)) {
                // The reply may be older than the last start of the job. Then the job has not
                // ended.
                match self.one(id, STATUS).await? {
                    Some(job) if !job.has_ended() => tokio::time::sleep(READ_EVERY).await,
                    _ => return Ok(()),
                }
            }
        }
    }

    /// Checks the jobs that wait for others, and queues or ends those that are due. If two hosts do
    /// this concurrently, each job is still queued only once.
    pub(crate) async fn gate(&self, wall: Time) -> Answer<Turn> {
        let (line, mut acts) = gate::read_line(&self.ask_one(gate::line()).await?);
        if line.is_empty() && acts.is_empty() {
            return Ok(Turn::default());
        }
        let is_whole = line.len() + acts.len() < gate::TURN_JOBS_MAX;
        let waiting = self
            .many(line.iter().map(String::as_str), gate::FIELDS)
            .await?;
        let (count, others) = gate::turn(&waiting);
        let is_whole = is_whole && count == line.len();
        let (line, waiting) = (&line[..count], &waiting[..count]);
        let mut verdicts = gate::judge(waiting, &self.statuses(&others).await?);
        if is_walk(self.turns.fetch_add(1, Ordering::Relaxed)) {
            let known = self.walk(gate::links(waiting, &verdicts)).await?;
            gate::judge_circles(waiting, &mut verdicts, &known);
        }
        let jobs = line.iter().zip(waiting).zip(&verdicts);
        acts.extend(
            jobs.filter_map(|((id, view), verdict)| gate::act(id, view.as_ref(), verdict, wall)),
        );
        if !is_whole && !line.is_empty() {
            acts.push(gate::seen(line.iter().map(String::as_str), wall));
        }
        let mut turn = Turn {
            checked: count,
            ..Turn::default()
        };
        if !acts.is_empty() {
            for value in self.connection.ask(acts).await.map_err(ClientError::Away)? {
                turn.queued += usize::from(value.text() == Some("queued"));
                turn.ended += usize::from(value.text() == Some("ended"));
                if let Value::Error(error) = value {
                    turn.refused.get_or_insert(error);
                }
            }
        }
        Ok(turn)
    }

    /// Reads what the jobs wait for that these wait for, and so on.
    async fn walk(&self, mut walk: Walk) -> Answer<Walk> {
        loop {
            let next = walk.next();
            if next.is_empty() {
                return Ok(walk);
            }
            let found = self.ask_one(Walk::read(&next)).await?;
            if !walk.add(&next, Some(&found)) {
                return Err(Refusal::odd_reply("the read of what jobs wait for").into());
            }
        }
    }

    async fn one(&self, id: &str, fields: Fields) -> Answer<Option<JobView>> {
        if !is_id(id) {
            return Ok(None);
        }
        Ok(self.many([id], fields).await?.pop().flatten())
    }

    pub(super) async fn many<'a>(
        &self,
        ids: impl IntoIterator<Item = &'a str>,
        fields: Fields,
    ) -> Answer<Vec<Option<JobView>>> {
        let ids: Vec<&str> = ids.into_iter().collect();
        let parts: Vec<&[&str]> = ids.chunks(READ_JOBS_MAX).collect();
        let reads = parts.iter().map(|part| read(part.iter().copied(), fields));
        let mut views = Vec::with_capacity(ids.len());
        for (part, value) in parts.iter().zip(self.ask(reads.collect()).await?) {
            views.extend(parse(part.iter().copied(), fields, &value)?);
        }
        Ok(views)
    }

    pub(super) async fn ask_one(&self, command: Command) -> Answer<Value> {
        let mut values = self.ask(vec![command]).await?;
        Ok(values.pop().unwrap_or(Value::Nil))
    }

    async fn ask(&self, commands: Vec<Command>) -> Answer<Vec<Value>> {
        if commands.is_empty() {
            return Ok(Vec::new());
        }
        let values = self
            .connection
            .ask(commands)
            .await
            .map_err(ClientError::Away)?;
        let refused = values.iter().find_map(|value| match value {
            Value::Error(text) => Some(text.trim().to_owned()),
            _ => None,
        });
        match refused {
            Some(error) => Err(ClientError::Away(format!("Redis answers {error}"))),
            None => Ok(values),
        }
    }
}
