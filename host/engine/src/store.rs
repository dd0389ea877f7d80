//! The traits that every backend implements. They are synchronous and work in batches: the owner of
//! a store calls it on a dedicated thread, and sends replies after `commit` returns.

#![warn(missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::port::Clock;
use host_core::query::{
    Changes, Cursor, JobCount, JobDetail, JobFilter, JobSummary, NumberedChange, Page, QueueStatus,
    RemoteLease,
};
use host_core::state::{Space, StateKey};
use host_core::time::Time;
use host_core::transition::Effect;

use crate::lease::Claimed;
use crate::limit::KeyUse;
use crate::node::{ChangeCounters, ClusterView, Components, NodeInfo, NodeRecord, Reported};
use crate::table::{Range, Record, Row, Select, Value};
use crate::{Capacity, Command, Committed, StoreError};

/// The least number of changes of state to keep, for listeners that reconnect.
pub const CHANGES_KEPT: u64 = 100_000;

/// How far a clock may be behind the last change of its store, in milliseconds.
const CLOCK_BEHIND_MS: u64 = 60_000;

/// The only writer of a store.
pub trait Store: Send {
    /// Applies a batch in order at the time `now`. Returns when all of it is on disk.
    ///
    /// If this fails, nothing of the batch is kept. After [`StoreError::Broken`] the store refuses
    /// every later batch. After [`StoreError::Failing`] the batch, or a part of it, may be committed again.
    /// After [`StoreError::Full`] or [`StoreError::Moved`] a batch without `Enqueue` and
    /// `Deploy` may be committed again: accepted jobs continue in reserved space while it lasts.
    fn commit(&mut self, now: Time, batch: &[Command]) -> Result<Committed, StoreError>;

    /// Returns why new jobs are refused now: [`StoreError::Full`] or [`StoreError::Moved`]. Reads the disk.
    fn room(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Limits how much the store accepts from now on, and how long ticks take, measured with `clock`. What
    /// the store already has stays.
    fn limit(&mut self, capacity: Capacity, clock: Arc<dyn Clock>);

    /// Opens a reader. Each of its calls sees all batches that were committed before the call.
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError>;
}

/// Ends the query that a reader runs, from any thread. It then fails. Does nothing if none runs.
pub type Interrupt = Arc<dyn Fn() + Send + Sync>;

/// Reads committed data. Readers never block the writer.
pub trait Reader: Send {
    /// Returns what ends a query of this reader.
    fn interrupt(&self) -> Interrupt {
        Arc::new(|| ())
    }

    /// Returns the rows of each of these ranges, all as they were at one moment.
    fn select(&self, ranges: &[Select]) -> Result<Vec<Vec<Row>>, StoreError>;

    /// Counts the rows of a range.
    fn count_rows(&self, range: &Select) -> Result<u64, StoreError>;

    /// Returns one job, `None` if there is no job with this id.
    fn job(&self, id: JobId) -> Result<Option<JobDetail>, StoreError>;

    /// Returns those of these jobs that are running, in order, as their claim returned them.
    fn running(&self, ids: &[JobId]) -> Result<Vec<Claimed>, StoreError> {
        let mut running = Vec::new();
        for id in ids {
            let kept = self.job(*id)?;
            let job = kept.filter(|job| job.lifecycle.state == State::Running);
            running.extend(job.map(|job| Claimed {
                lifecycle: job.lifecycle,
                payload: job.payload,
            }));
        }
        Ok(running)
    }

    /// Returns at most `limit` job ids that start with `prefix` (lower-case hex and dashes).
    fn job_ids(&self, prefix: &str, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Returns the state of one job, `None` if there is no job with this id.
    fn state(&self, id: JobId) -> Result<Option<State>, StoreError>;

    /// Returns at most `limit` jobs that wait for a job, in the order in which they were enqueued.
    fn dependents(&self, id: JobId, limit: u32) -> Result<Vec<JobId>, StoreError>;

    /// Returns a page of at most `limit` jobs, in the order of the filter.
    fn jobs(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobSummary>, StoreError>;

    /// Returns the ids of a page of jobs, as [`Reader::jobs`] does, with less work.
    fn matching(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<JobId>, StoreError>;

    /// Counts the jobs that match. Examines at most `examined_max` jobs, in the order of the filter, and fewer if the filter
    /// needs more of them than their lifecycles.
    fn count(
        &self,
        filter: &JobFilter,
        after: Option<Cursor>,
        examined_max: u64,
    ) -> Result<JobCount, StoreError>;

    /// Returns the ended attempts of one job that are kept, after the one with the number `after`, oldest first.
    fn attempts(&self, id: JobId, after: u32, limit: u32) -> Result<Vec<Attempt>, StoreError>;

    /// Returns attempts in this host's cells that ended at or after `since`, each with its handler:
    /// of the newest `limit` attempts, the one of the job that was enqueued last first.
    fn attempts_since(&self, since: Time, limit: u32)
    -> Result<Vec<(String, Attempt)>, StoreError>;

    /// Returns at most `limit` changes of state after the one with the number `after`, oldest first.
    /// At least the last [`CHANGES_KEPT`] are kept.
    fn changes(&self, after: u64, limit: u32) -> Result<Changes, StoreError>;

    /// Returns all queues by name. A queue exists once it has had a job or has been paused.
    fn queues(&self) -> Result<Vec<QueueStatus>, StoreError>;

    /// Returns when the oldest of the first available jobs of each priority in each of these queues was enqueued: of
    /// its jobs for cells and for these executors, without suspects. Queues without one are left out. Looks up one job for each queue, executor
    /// and priority.
    fn oldest_available(
        &self,
        queues: &[Name],
        executors: &[Name],
    ) -> Result<Vec<(Name, Time)>, StoreError>;

    /// Returns whether a queue is paused.
    fn is_paused(&self, queue: &Name) -> Result<bool, StoreError>;

    /// Returns the executors that have available jobs, by name.
    fn executors_awaited(&self) -> Result<Vec<Name>, StoreError>;

    /// Returns the leases with a TTL of all running jobs on all nodes, in the order in which the jobs were
    /// enqueued. An expired lease is included until a tick removes it.
    ///
    /// This reads every running job. A host calls it once, when it starts.
    fn remote_leases(&self) -> Result<Vec<RemoteLease>, StoreError>;

    /// Returns at most `limit` keys of state that start with `prefix`, after the key `after`, in the order of their
    /// bytes.
    fn state_keys(
        &self,
        space: &Space,
        prefix: &str,
        after: &str,
        limit: u32,
    ) -> Result<Vec<StateKey>, StoreError>;

    /// Returns the fullest keys of a limit, each with how much of it is used: those for which most jobs wait, and then
    /// others, at most `limit`.
    fn fullest_keys(&self, number: u64, limit: u32) -> Result<Vec<(String, KeyUse)>, StoreError>;

    /// Returns how many jobs wait for each limit, by its number, without limits that none waits for.
    fn waiting_for_limits(&self) -> Result<BTreeMap<u64, u64>, StoreError>;

    /// Returns how many jobs of a principal with a limit have not ended.
    fn owned(&self, principal: &str) -> Result<u64, StoreError>;

    /// Returns a number that grows with each change of tokens by any node. Always 0 if no other host can use the
    /// store.
    fn access_version(&self) -> Result<u64, StoreError> {
        Ok(0)
    }

    /// Returns the latest published progress of these jobs. Nothing if no other host can use the store.
    fn reported(&self, jobs: &[JobId]) -> Result<Vec<Reported>, StoreError> {
        let _ = jobs;
        Ok(Vec::new())
    }

    /// Returns the nodes that share the store, including those that are gone but still kept. Nothing if no
    /// other host can use it.
    fn nodes(&self) -> Result<Vec<NodeRecord>, StoreError> {
        Ok(Vec::new())
    }
}

/// The records of a range that this host can read.
pub struct Listing<T> {
    /// The records.
    pub records: Vec<T>,
    /// Why it cannot read each of the others.
    pub flaws: Vec<StoreError>,
    /// The first column of the last row's key, `None` without rows.
    pub last: Option<Value>,
}

impl<T: Record> Listing<T> {
    fn read(rows: Vec<Row>) -> Result<Self, StoreError> {
        let last = rows.last().and_then(|row| row.first()).cloned();
        let (mut records, mut flaws) = (Vec::with_capacity(rows.len()), Vec::new());
        for row in rows {
            match T::from_row(row) {
                Ok(record) => records.push(record),
                Err(flaw @ StoreError::Unreadable { .. }) => flaws.push(flaw),
                Err(error) => return Err(error),
            }
        }
        Ok(Self {
            records,
            flaws,
            last,
        })
    }
}

impl<T> Listing<T> {
    /// Returns how many rows there are, readable or not.
    pub fn rows(&self) -> usize {
        self.records.len() + self.flaws.len()
    }
}

impl dyn Reader + '_ {
    /// Returns the record with a key.
    pub fn get<T: Record>(&self, key: T::Key<'_>) -> Result<Option<T>, StoreError> {
        Ok(self.list(Range::of(T::key(key)))?.pop())
    }

    /// Returns the records of a range.
    pub fn list<T: Record>(&self, range: Range) -> Result<Vec<T>, StoreError> {
        let table = T::TABLE;
        let rows = self.select(&[Select { table, range }])?;
        rows.into_iter().flatten().map(T::from_row).collect()
    }

    /// Returns the records of a range that this host can read.
    pub fn list_readable<T: Record>(&self, range: Range) -> Result<Listing<T>, StoreError> {
        let table = T::TABLE;
        let rows = self.select(&[Select { table, range }])?;
        Listing::read(rows.into_iter().flatten().collect())
    }

    /// Returns how far the time `now` is behind the last change of a job's state, in milliseconds, if by more than clocks
    /// of nodes differ.
    pub fn clock_behind_ms(&self, now: Time) -> Result<Option<u64>, StoreError> {
        let next = self.changes(u64::MAX, 0)?.next;
        let last = self.changes(next.saturating_sub(2), 1)?;
        let behind_ms = last.items.last().map(|change| change.at.since_ms(now));
        Ok(behind_ms.filter(|ms| *ms > CLOCK_BEHIND_MS))
    }

    /// Counts the records of a range.
    pub fn count_records<T: Record>(&self, range: Range) -> Result<u64, StoreError> {
        let table = T::TABLE;
        self.count_rows(&Select { table, range })
    }
}

/// A node's heartbeats to the others that share its store. They wait for no batch.
pub trait Heartbeat: Send {
    /// Sends a heartbeat, with host time `ahead_ms` ahead of the database's, the node's info and the state of
    /// deployed components. Returns all nodes. Fails with [`StoreError::Fenced`] if others have replaced the
    /// node.
    fn beat(
        &mut self,
        ahead_ms: i64,
        info: &NodeInfo,
        components: &Arc<Components>,
    ) -> Result<ClusterView, StoreError>;

    /// Announces that the node has ended: others may take over its jobs immediately.
    fn leave(&mut self) -> Result<(), StoreError>;
}

/// Changes of all nodes, in order.
#[derive(Clone, Debug, Default)]
pub struct Followed {
    /// The changes.
    pub items: Vec<NumberedChange>,
    /// For each, whether another node has made it.
    pub by_others: Vec<bool>,
}

/// Changes by other nodes that a node must see soon.
pub trait Others: Send + Sync {
    /// Listens for hints while it is polled.
    fn listen(&self) -> BoxFuture<'_, ()>;

    /// Waits until this or another node has sent a hint. A hint may be lost.
    fn hinted(&self) -> BoxFuture<'_, ()>;

    /// Sends all nodes a hint that something has changed.
    fn hint(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns counters that show whether anything has changed.
    fn change_counters(&self) -> BoxFuture<'_, Result<ChangeCounters, StoreError>>;

    /// Returns at most `limit` changes after the one with the number `after`, oldest first.
    fn changes(&self, after: u64, limit: u32) -> BoxFuture<'_, Result<Followed, StoreError>>;

    /// Gives up the batch that is being committed, unless its commit was sent: it has no effect.
    fn give_up(&self);

    /// Records that the host stops: it no longer waits for a database that is away.
    fn stop(&self);

    /// Takes the first messages to this node about jobs that other nodes have changed, at most `limit`.
    fn mail(&self, limit: u32) -> BoxFuture<'_, Result<Vec<(JobId, Effect)>, StoreError>>;

    /// Publishes the progress of jobs on this node, and that others no longer run here. A report may be lost.
    fn report<'a>(
        &'a self,
        reported: &'a [Reported],
        over: &'a [JobId],
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the progress of other nodes' running jobs that was published since the last call.
    fn reported(&self) -> BoxFuture<'_, Result<Vec<Reported>, StoreError>>;

    /// Asks a node to start no more jobs, or to start jobs again. It reads this with its next heartbeat, even
    /// if it starts later.
    fn set_drain(&self, node: NodeId, drain: bool) -> BoxFuture<'_, Result<(), StoreError>>;
}
