//! Keeps in memory how many jobs each queue has in each state, which queues are paused, and the
//! next place in the order. Only the one writer changes them. Each batch writes the changes to the
//! file, because counting a million rows takes a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::{Lifecycle, STATES, State};
use host_core::name::Name;
use host_engine::limit::Limits;
use host_engine::queue::QueueRefusal;
use host_engine::table::Range;
use host_engine::{Counts, StoreError};
use rusqlite::{Connection, params};

use super::live_jobs::{self, LiveJobs};
use super::{available, changes, doing, tables};
use crate::ready::Ready;

struct Queue {
    id: i64,
    counts: [i64; STATES.len()],
    dirty: [bool; STATES.len()],
}

impl Queue {
    fn new(id: i64) -> Self {
        Self {
            id,
            counts: [0; STATES.len()],
            dirty: [false; STATES.len()],
        }
    }
}

/// The queue id under which the place after the newest purged job is kept.
const PURGED: i64 = 0;

/// The counters of all queues. There may be many queues, so no operation of a batch visits all of
/// them.
pub(super) struct Counters {
    queues: BTreeMap<Name, Queue>,
    /// The queues whose counts have changed since they were last written.
    dirty: Vec<Name>,
    paused: BTreeSet<i64>,
    /// The number of available jobs for this host's cells, by queue id. Queues without any are left
    /// out; paused queues are included.
    for_cells: BTreeMap<i64, i64>,
    ready: Ready<i64>,
    /// The sum of `for_cells` over the queues that are not paused.
    claimable_jobs: i64,
    /// The number of jobs that have not ended.
    live: i64,
    /// The number of those for each handler of this host's cells.
    live_jobs: LiveJobs,
    next_id: i64,
    next_seq: i64,
    next_change: u64,
    has_purged: bool,
    /// Whether any job may be waiting for another.
    has_dependencies: bool,
    /// Whether there may be cascades to continue.
    has_cascades: bool,
    /// Jobs that cannot be read and are passed over.
    pub(super) passed_over: BTreeSet<JobId>,
    /// The limits, also removed ones that jobs still wait for.
    pub(super) limits: Arc<Limits>,
}

impl Counters {
    pub(super) fn load(connection: &Connection) -> Result<Self, StoreError> {
        let load = doing("read the queues");
        let has_rows = |sql| {
            connection
                .query_row(sql, [], |row| row.get(0))
                .map_err(&load)
        };
        let mut counters = Self {
            queues: BTreeMap::new(),
            dirty: Vec::new(),
            paused: BTreeSet::new(),
            for_cells: BTreeMap::new(),
            ready: Ready::default(),
            claimable_jobs: 0,
            live: 0,
            live_jobs: LiveJobs::load(connection)?,
            next_id: 1,
            next_seq: next_seq(connection).map_err(&load)?,
            next_change: changes::next(connection)?,
            has_purged: false,
            has_dependencies: has_rows("SELECT EXISTS (SELECT 1 FROM dependencies)")?,
            has_cascades: has_rows("SELECT EXISTS (SELECT 1 FROM cascades)")?,
            passed_over: BTreeSet::new(),
            limits: Arc::new(Limits::from_iter(tables::list(connection, &Range::all())?)),
        };
        let mut names = BTreeMap::new();
        let mut statement = connection
            .prepare("SELECT id, name, paused FROM queues")
            .map_err(&load)?;
        let rows = statement
            .query_map([], |row| {
                Ok((row.get(0)?, row.get::<_, String>(1)?, row.get(2)?))
            })
            .map_err(&load)?;
        for row in rows {
            let (id, name, paused) = row.map_err(&load)?;
            let name: Name = name.parse().map_err(|error| StoreError::Unreadable {
                what: format!("queue {id}"),
                message: format!("{error}"),
            })?;
            names.insert(id, name.clone());
            counters.next_id = counters.next_id.max(id + 1);
            counters.queues.insert(name, Queue::new(id));
            if paused {
                counters.paused.insert(id);
            }
        }
        let for_executors = counters.load_for_executors(connection).map_err(&load)?;
        let mut statement = connection
            .prepare("SELECT queue, state, jobs FROM counters")
            .map_err(&load)?;
        let rows = statement
            .query_map([], |row| {
                Ok((row.get::<_, i64>(0)?, row.get::<_, usize>(1)?, row.get(2)?))
            })
            .map_err(&load)?;
        for row in rows {
            let (id, state, jobs) = row.map_err(&load)?;
            let queue = names
                .get(&id)
                .and_then(|name| counters.queues.get_mut(name));
            if let Some(count) = queue.and_then(|queue| queue.counts.get_mut(state)) {
                *count = jobs;
                if STATES.get(state).is_some_and(|state| !state.is_terminal()) {
                    counters.live += jobs;
                }
                let others = for_executors.get(&id).copied().unwrap_or(0);
                if state == State::Available as usize && jobs > others {
                    counters.for_cells.insert(id, jobs - others);
                    if !counters.paused.contains(&id) {
                        counters.claimable_jobs += jobs - others;
                    }
                    counters.ready.note_stale(None, &id);
                }
            }
        }
        counters.find_firsts(connection)?;
        Ok(counters)
    }

    /// Counts the available jobs of executors by queue: the stored counters do not list them
    /// separately.
    fn load_for_executors(
        &mut self,
        connection: &Connection,
    ) -> rusqlite::Result<BTreeMap<i64, i64>> {
        let mut counts = BTreeMap::new();
        let mut statement = connection.prepare(
            "SELECT runner, queue, COUNT(*) FROM jobs INDEXED BY jobs_runner \
             WHERE state = 2 AND runner IS NOT NULL GROUP BY runner, queue",
        )?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (executor, queue): (String, i64) = (row.get(0)?, row.get(1)?);
            let Ok(executor) = executor.parse() else {
                continue;
            };
            self.ready.note_stale(Some(&executor), &queue);
            *counts.entry(queue).or_default() += row.get::<_, i64>(2)?;
        }
        Ok(counts)
    }

    /// Finds the first jobs of queues whose first job is gone. All rows must be up to date.
    pub(super) fn find_firsts(&mut self, connection: &Connection) -> Result<(), StoreError> {
        for (executor, queue) in self.ready.take_stale() {
            let first = available::first_place(connection, executor.as_ref(), queue);
            let first = first.map_err(doing("find the first job of a queue"))?;
            let is_paused = self.paused.contains(&queue);
            self.ready.set(executor.as_ref(), &queue, is_paused, first);
        }
        Ok(())
    }

    /// Writes the changes since the last call.
    pub(super) fn save(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let save = doing("write the counters");
        let mut statement = connection
            .prepare_cached(
                "INSERT OR REPLACE INTO counters (queue, state, jobs) VALUES (?1, ?2, ?3)",
            )
            .map_err(&save)?;
        for name in self.dirty.drain(..) {
            let Some(queue) = self.queues.get_mut(&name) else {
                continue;
            };
            for (state, dirty) in queue.dirty.iter_mut().enumerate() {
                if std::mem::take(dirty) {
                    statement
                        .execute(params![queue.id, state, queue.counts[state]])
                        .map_err(&save)?;
                }
            }
        }
        if std::mem::take(&mut self.has_purged) {
            statement
                .execute(params![PURGED, 0, self.next_seq])
                .map_err(&save)?;
        }
        self.live_jobs.save(connection).map_err(save)
    }

    /// Returns the place for a new job.
    pub(super) fn take_seq(&mut self) -> i64 {
        self.next_seq += 1;
        self.next_seq - 1
    }

    /// Returns the number of the first of this many new changes.
    pub(super) fn take_changes(&mut self, count: usize) -> u64 {
        let first = self.next_change;
        self.next_change += count as u64;
        first
    }

    /// Records that the newest job may be removed, so that its place is not reused.
    pub(super) fn note_purge(&mut self) {
        self.has_purged = true;
    }

    pub(super) fn note_dependency(&mut self) {
        self.has_dependencies = true;
    }

    pub(super) fn has_dependencies(&self) -> bool {
        self.has_dependencies
    }

    pub(super) fn note_cascades(&mut self, has_cascades: bool) {
        self.has_cascades = has_cascades;
    }

    pub(super) fn has_cascades(&self) -> bool {
        self.has_cascades
    }

    /// Returns the id of a queue if it exists.
    pub(super) fn queue_id(&self, name: &Name) -> Option<i64> {
        self.queues.get(name).map(|queue| queue.id)
    }

    /// Returns the id of a queue and creates the queue if it does not exist.
    pub(super) fn queue(
        &mut self,
        connection: &Connection,
        name: &Name,
    ) -> Result<i64, StoreError> {
        if let Some(queue) = self.queues.get(name) {
            return Ok(queue.id);
        }
        let id = self.next_id;
        connection
            .execute(
                "INSERT INTO queues (id, name) VALUES (?1, ?2)",
                params![id, name.as_str()],
            )
            .map_err(doing("make a queue"))?;
        self.next_id += 1;
        self.queues.insert(name.clone(), Queue::new(id));
        Ok(id)
    }

    pub(super) fn set_paused(
        &mut self,
        connection: &Connection,
        name: &Name,
        paused: bool,
    ) -> Result<(), StoreError> {
        let id = self.queue(connection, name)?;
        connection
            .execute(
                "UPDATE queues SET paused = ?2 WHERE id = ?1",
                params![id, paused],
            )
            .map_err(doing("pause or resume a queue"))?;
        let jobs = self.for_cells.get(&id).copied().unwrap_or(0);
        if paused && self.paused.insert(id) {
            self.claimable_jobs -= jobs;
        } else if !paused && self.paused.remove(&id) {
            self.claimable_jobs += jobs;
        }
        self.ready.set_paused(&id, paused);
        Ok(())
    }

    /// Removes a queue, or returns why not.
    pub(super) fn remove(
        &mut self,
        connection: &Connection,
        name: &Name,
    ) -> Result<Result<(), QueueRefusal>, StoreError> {
        let Some(queue) = self.queues.get(name) else {
            return Ok(Err(QueueRefusal::Unknown(name.clone())));
        };
        if queue.counts.iter().any(|jobs| *jobs > 0) {
            return Ok(Err(QueueRefusal::HasJobs(name.clone())));
        }
        let id = queue.id;
        for sql in [
            "DELETE FROM counters WHERE queue = ?1",
            "DELETE FROM queues WHERE id = ?1",
        ] {
            let deleted = connection.execute(sql, [id]);
            deleted.map_err(doing("remove a queue"))?;
        }
        self.queues.remove(name);
        self.paused.remove(&id);
        self.ready.note_all_stale(&id);
        Ok(Ok(()))
    }

    /// Moves a job with this rank from the count of one state to that of another.
    pub(super) fn count(
        &mut self,
        rank: i64,
        before: Option<&Lifecycle>,
        after: Option<&Lifecycle>,
    ) {
        let Some(job) = after.or(before) else { return };
        let Some(queue) = self.queues.get_mut(&job.queue) else {
            return;
        };
        let is_paused = self.paused.contains(&queue.id);
        self.ready.note(&queue.id, is_paused, rank, [before, after]);
        let [from, to] = [before, after].map(|job| job.map(|job| job.state));
        if from == to {
            return;
        }
        self.live_jobs.note(before, after);
        if !queue.dirty.contains(&true) {
            self.dirty.push(job.queue.clone());
        }
        let id = queue.id;
        for (state, step) in [(from, -1), (to, 1)] {
            let Some(state) = state else { continue };
            queue.counts[state as usize] += step;
            queue.dirty[state as usize] = true;
            if !state.is_terminal() {
                self.live += step;
            }
            if state != State::Available {
                continue;
            }
            if job.executor.is_none() {
                step_by(&mut self.for_cells, id, step);
                if !is_paused {
                    self.claimable_jobs += step;
                }
            }
        }
    }

    /// Returns the queues with jobs that may be claimed.
    pub(super) fn ready(&self) -> &Ready<i64> {
        &self.ready
    }

    pub(super) fn is_paused(&self, name: &Name) -> bool {
        let queue = self.queues.get(name);
        queue.is_some_and(|queue| self.paused.contains(&queue.id))
    }

    /// Returns whether the queue with this id is paused.
    pub(super) fn is_paused_id(&self, id: i64) -> bool {
        self.paused.contains(&id)
    }

    /// Returns how many jobs for a handler of this host's cells have not ended.
    pub(super) fn live_jobs(&self, handler: &Name) -> u64 {
        self.live_jobs.of(handler)
    }

    /// Returns how much of each limit is used.
    pub(super) fn all(&self) -> Counts {
        Counts {
            queues: self.queues.len() as u64,
            live: u64::try_from(self.live).unwrap_or(0),
        }
    }

    /// Returns how many jobs this host's cells may claim.
    pub(super) fn available(&self) -> u64 {
        u64::try_from(self.claimable_jobs).unwrap_or(0)
    }
}

/// Returns the place for the next new job.
pub(super) fn next_seq(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row(
        "SELECT MAX((SELECT COALESCE(MAX(seq), 0) + 1 FROM jobs), \
         (SELECT COALESCE(MAX(jobs), 1) FROM counters WHERE queue = ?1))",
        [PURGED],
        |row| row.get(0),
    )
}

/// Counts the jobs of a store that has no counters yet.
pub(super) fn rebuild(connection: &Connection, next_seq: i64) -> rusqlite::Result<()> {
    let count = "INSERT INTO counters (queue, state, jobs) \
                 SELECT queue, state, COUNT(*) FROM jobs GROUP BY queue, state";
    connection.execute(count, [])?;
    live_jobs::rebuild(connection)?;
    let place = "INSERT INTO counters (queue, state, jobs) VALUES (?1, 0, ?2)";
    connection.execute(place, [PURGED, next_seq]).map(drop)
}

/// Changes a queue's number of jobs. Removes the entry if the number becomes 0.
fn step_by(jobs: &mut BTreeMap<i64, i64>, queue: i64, step: i64) {
    let count = jobs.entry(queue).or_default();
    *count += step;
    if *count <= 0 {
        jobs.remove(&queue);
    }
}
