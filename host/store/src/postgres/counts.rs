//! How many jobs each queue has in each state, which queues are paused, and which have jobs to claim: read once,
//! and then brought up to date by what the batches of other hosts have changed. A batch changes only the numbers
//! of its own node, so hosts do not wait for each other. A number that is briefly wrong only makes a claim early
//! or late.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::{Lane, Lifecycle, STATES, State};
use host_core::name::Name;
use host_engine::lease::{Claim, Slot};
use host_engine::limit::Limits;
use host_engine::{Command, Counts as Limited, lease};
use tokio_postgres::Row;

use super::client::Client;
use super::limits;
use super::passed::Passed;
use super::pipeline::{Pipeline, values};
use super::trouble::{Trouble, unreadable};
use crate::ready::{QueuePosition, Ready, executor_of};
use crate::record::{CountsOfBatch, decode};

/// How many rows of changes are read to bring the numbers up to date. Beyond that, all numbers are read again.
const BEHIND_ROWS_MAX: u32 = 1_000;

/// The pseudo state under which available jobs of executors are counted.
const FOR_RUNNERS: i16 = 8;

#[derive(Default)]
struct Queue {
    paused: bool,
    /// The available jobs, and those of them that are for executors.
    available: i64,
    for_executors: i64,
}

/// The numbers of all queues.
#[derive(Default)]
pub(super) struct Counts {
    queues: HashMap<Name, Queue>,
    /// What the open batch has changed, by queue and state.
    changed: BTreeMap<(Name, i16), i64>,
    /// Queues that the open batch has created.
    made: HashSet<Name>,
    ready: Ready<Name>,
    /// How far claims for cells have passed jobs that this host cannot run.
    pub(super) passed: Passed,
    /// The first of the jobs that the open batch has made available, by executor and queue.
    firsts: BTreeMap<(Option<Name>, Name), QueuePosition>,
    /// Jobs that cannot be read and are passed over.
    pub(super) passed_over: BTreeSet<JobId>,
    /// How many jobs cells may claim in queues that are not paused.
    claimable: i64,
    /// The jobs that have not ended.
    live: i64,
    /// How often a queue had been paused or resumed when the numbers were read.
    pub(super) pauses: i64,
    /// The limits, also removed ones that jobs still wait for; and how often any had changed when they were read.
    pub(super) limits: Arc<Limits>,
    pub(super) limits_changed: i64,
    /// The number after the last change that is counted.
    pub(super) next_change: i64,
    /// The batches with later changes that are counted already.
    ahead: BTreeSet<i64>,
}

/// The number of a queue's jobs, of all queues. They include changes that are not numbered: the first row has the ids of
/// their batches.
const NUMBERS: &str = "SELECT name, paused, available, for_executors, live, pauses, next_change, \
    CASE WHEN row_number() OVER () = 1 THEN ARRAY(SELECT id FROM host_changes WHERE first IS NULL) END \
    FROM host_log LEFT JOIN host_queues ON TRUE LEFT JOIN (SELECT queue, \
      sum(jobs) FILTER (WHERE state = 2)::bigint AS available, \
      sum(jobs) FILTER (WHERE state = 8)::bigint AS for_executors, \
      sum(jobs) FILTER (WHERE state = ANY($1))::bigint AS live \
    FROM host_counts GROUP BY queue) AS counted ON queue = name WHERE id = 1";

/// The first available jobs of all queues, each found by an index lookup.
const ALL_FIRSTS: [&str; 2] = [
    "WITH RECURSIVE firsts AS (\
      (SELECT NULL::text AS runner, queue, priority, rank FROM host_live \
       WHERE state = 2 AND NOT suspect AND runner IS NULL ORDER BY queue, priority, rank LIMIT 1) \
      UNION ALL SELECT next.* FROM firsts CROSS JOIN LATERAL (\
       SELECT NULL::text, queue, priority, rank FROM host_live WHERE state = 2 AND NOT suspect \
       AND runner IS NULL AND queue > firsts.queue ORDER BY queue, priority, rank LIMIT 1) AS next) \
    SELECT runner, queue, priority, rank FROM firsts",
    "WITH RECURSIVE firsts AS (\
      (SELECT runner, queue, priority, rank FROM host_live \
       WHERE state = 2 AND runner IS NOT NULL ORDER BY runner, queue, priority, rank LIMIT 1) \
      UNION ALL SELECT next.* FROM firsts CROSS JOIN LATERAL (\
       SELECT runner, queue, priority, rank FROM host_live WHERE state = 2 AND runner IS NOT NULL \
       AND (runner, queue) > (firsts.runner, firsts.queue) \
       ORDER BY runner, queue, priority, rank LIMIT 1) AS next) \
    SELECT runner, queue, priority, rank FROM firsts",
];

/// The first available jobs of some queues: for cells, and for the executors `$2`.
const FIRSTS_FOR_CELLS: &str = "SELECT NULL::text, name, priority, rank \
    FROM unnest($1::text[]) AS named (name) LEFT JOIN LATERAL (\
      SELECT priority, rank FROM host_live WHERE state = 2 AND NOT suspect AND runner IS NULL \
      AND queue = name ORDER BY priority, rank LIMIT 1) AS first ON TRUE";
const FIRSTS_FOR_EXECUTORS: &str = "SELECT named.runner, name, priority, rank \
    FROM unnest($1::text[], $2::text[]) AS named (name, runner) LEFT JOIN LATERAL (\
      SELECT priority, rank FROM host_live WHERE state = 2 AND host_live.runner IS NOT NULL \
      AND host_live.runner = named.runner AND queue = name ORDER BY priority, rank LIMIT 1) \
    AS first ON TRUE";

/// What hosts have changed since the change `$1`, and what hosts other than `$3` have changed without a number yet, in at
/// most `$2` rows each.
const BEHIND: &str = "(SELECT first, count, node, counts, id FROM host_changes WHERE first >= $1 \
      ORDER BY first LIMIT $2) \
    UNION ALL (SELECT first, count, node, counts, id FROM host_changes \
      WHERE first IS NULL AND node <> $3 ORDER BY id LIMIT $2)";

impl Counts {
    /// Reads the numbers.
    pub(super) async fn load(client: &Client) -> Result<Self, Trouble> {
        let reading = |error| Trouble::of("read the queues", &error);
        let live: Vec<i16> = STATES
            .iter()
            .filter(|state| !state.is_terminal())
            .map(|state| *state as i16)
            .collect();
        let (limits, limits_changed) = limits::load(client).await?;
        let mut counts = Self {
            limits: Arc::new(limits),
            limits_changed,
            ..Self::default()
        };
        for row in client.ask(NUMBERS, &[&live]).await.map_err(reading)? {
            (counts.pauses, counts.next_change) = (row.get(5), row.get(6));
            let ahead: Option<Vec<i64>> = row.get(7);
            counts.ahead.extend(ahead.unwrap_or_default());
            let Some(name) = row.get(0) else { continue };
            let name = parse_name(name).map_err(Trouble::Fatal)?;
            let queue = Queue {
                paused: row.get(1),
                available: row.get::<_, Option<i64>>(2).unwrap_or(0),
                for_executors: row.get::<_, Option<i64>>(3).unwrap_or(0),
            };
            counts.live += row.get::<_, Option<i64>>(4).unwrap_or(0);
            if !queue.paused {
                counts.claimable += queue.available - queue.for_executors;
            }
            counts.queues.insert(name, queue);
        }
        // After the numbers: what is committed between the two is counted later.
        for sql in ALL_FIRSTS {
            let firsts = client.ask(sql, &[]).await.map_err(reading)?;
            counts.set_firsts(&firsts)?;
        }
        Ok(counts)
    }

    /// Counts what hosts other than `node` have changed since the last time.
    pub(super) async fn catch_up(&mut self, client: &Client, node: i32) -> Result<(), Trouble> {
        let rows_max = i64::from(BEHIND_ROWS_MAX);
        let found = client
            .ask(BEHIND, &[&self.next_change, &rows_max, &node])
            .await
            .map_err(|error| Trouble::of("read the changes of queues", &error))?;
        let mut numbers = found.iter().filter_map(|row| row.get::<_, Option<i64>>(0));
        let has_gap = numbers
            .next()
            .is_some_and(|first| first != self.next_change);
        if found.len() >= BEHIND_ROWS_MAX as usize || has_gap {
            *self = Self::load(client).await?;
            return Ok(());
        }
        for row in found {
            let (first, id): (Option<i64>, i64) = (row.get(0), row.get(4));
            if let Some(first) = first {
                self.next_change = first + row.get::<_, i64>(1);
            }
            let Some(counts) = row.get::<_, Option<&[u8]>>(3) else {
                continue;
            };
            // What is counted without its number comes again with it.
            let is_counted = match first {
                Some(_) => self.ahead.remove(&id),
                None => !self.ahead.insert(id),
            };
            if row.get::<_, i32>(2) != node && !is_counted {
                let counts = decode(counts, || {
                    format!("the numbers of the changes of batch {id}")
                });
                self.add(counts.map_err(Trouble::Fatal)?);
            }
        }
        Ok(())
    }

    /// Counts what another host has changed.
    fn add(&mut self, CountsOfBatch { steps, firsts }: CountsOfBatch) {
        for (name, state, step) in steps {
            let queue = self.queues.entry(name.clone()).or_default();
            let for_cells = match state {
                FOR_RUNNERS => {
                    queue.for_executors += step;
                    -step
                }
                state if state == State::Available as i16 => {
                    queue.available += step;
                    step
                }
                _ => 0,
            };
            if !queue.paused {
                self.claimable += for_cells;
            }
            if queue.available <= 0 {
                self.ready.note_all_stale(&name);
            }
            let state = usize::try_from(state)
                .ok()
                .and_then(|state| STATES.get(state));
            if state.is_some_and(|state| !state.is_terminal()) {
                self.live += step;
            }
        }
        for (executor, queue, place) in firsts {
            let is_paused = self.is_paused(&queue);
            self.ready.add(executor.as_ref(), &queue, is_paused, place);
            if executor.is_none() {
                self.passed.lower(&queue, place);
            }
        }
    }

    /// Adds the queries for the first jobs of queues whose first job may be gone. Returns how many.
    pub(super) async fn add_stale(
        &mut self,
        pipeline: &mut Pipeline<'_>,
    ) -> Result<usize, Trouble> {
        let (mut for_cells, mut queues, mut executors) = (Vec::new(), Vec::new(), Vec::new());
        for (executor, queue) in self.ready.take_stale() {
            match executor {
                None => for_cells.push(queue.to_string()),
                Some(executor) => {
                    queues.push(queue.to_string());
                    executors.push(executor.to_string());
                }
            }
        }
        let before = pipeline.len();
        let operation = "find the first jobs of queues";
        if !for_cells.is_empty() {
            let values = values![for_cells];
            pipeline.add(operation, FIRSTS_FOR_CELLS, values).await?;
        }
        if !queues.is_empty() {
            let values = values![queues, executors];
            pipeline
                .add(operation, FIRSTS_FOR_EXECUTORS, values)
                .await?;
        }
        Ok(pipeline.len() - before)
    }

    /// Sets the first jobs of queues.
    pub(super) fn set_firsts(&mut self, rows: &[Row]) -> Result<(), Trouble> {
        for row in rows {
            let executor = row
                .get::<_, Option<&str>>(0)
                .map(parse_name)
                .transpose()
                .map_err(Trouble::Fatal)?;
            let queue = parse_name(row.get(1)).map_err(Trouble::Fatal)?;
            let priority = row.get::<_, Option<i16>>(2).map(u8::try_from);
            let first = match (priority, row.get(3)) {
                (Some(Ok(priority)), Some(rank)) => Some((priority, rank)),
                _ => None,
            };
            let is_paused = self.is_paused(&queue);
            self.ready.set(executor.as_ref(), &queue, is_paused, first);
        }
        Ok(())
    }

    /// Moves a job with this rank from the number of one state to that of another.
    pub(super) fn count(
        &mut self,
        rank: i64,
        before: Option<&Lifecycle>,
        after: Option<&Lifecycle>,
    ) {
        let Some(job) = after.or(before) else { return };
        let is_paused = self.is_paused(&job.queue);
        let place = self
            .ready
            .note(&job.queue, is_paused, rank, [before, after]);
        if let Some(place) = place {
            if job.executor.is_none() {
                self.passed.lower(&job.queue, place);
            }
            let key = (job.executor.clone(), job.queue.clone());
            let first = self.firsts.entry(key).or_insert(place);
            *first = place.min(*first);
        }
        let [from, to] = [before, after].map(|job| job.map(|job| job.state));
        if from == to {
            return;
        }
        for (state, step) in [(from, -1), (to, 1)] {
            let Some(state) = state else { continue };
            self.step(&job.queue, state as i16, step);
            if !state.is_terminal() {
                self.live += step;
            }
            if state == State::Available {
                let queue = self.queues.entry(job.queue.clone()).or_default();
                queue.available += step;
                if job.executor.is_some() {
                    queue.for_executors += step;
                    self.step(&job.queue, FOR_RUNNERS, step);
                } else if !queue.paused {
                    self.claimable += step;
                }
            }
        }
    }

    fn step(&mut self, queue: &Name, state: i16, step: i64) {
        *self.changed.entry((queue.clone(), state)).or_default() += step;
    }

    /// Counts what has a capacity limit.
    pub(super) fn limited(&self) -> Limited {
        Limited {
            queues: self.queues.len() as u64,
            live: u64::try_from(self.live).unwrap_or(0),
        }
    }

    pub(super) fn has(&self, queue: &Name) -> bool {
        self.queues.contains_key(queue)
    }

    /// Makes sure that a queue exists.
    pub(super) fn make(&mut self, queue: &Name) {
        if !self.queues.contains_key(queue) {
            self.queues.insert(queue.clone(), Queue::default());
            self.made.insert(queue.clone());
        }
    }

    pub(super) fn set_paused(&mut self, name: &Name, paused: bool) {
        let queue = self.queues.entry(name.clone()).or_default();
        let jobs = queue.available - queue.for_executors;
        if paused && !queue.paused {
            self.claimable -= jobs;
        } else if !paused && queue.paused {
            self.claimable += jobs;
        }
        queue.paused = paused;
        self.ready.set_paused(name, paused);
        self.passed.forget(name);
        self.pauses += 1;
    }

    /// Removes a queue without jobs.
    pub(super) fn remove(&mut self, name: &Name) {
        self.queues.remove(name);
        self.changed.retain(|(queue, _), _| queue != name);
        self.ready.note_all_stale(name);
        self.passed.forget(name);
        self.pauses += 1;
    }

    pub(super) fn is_paused(&self, queue: &Name) -> bool {
        self.queues.get(queue).is_some_and(|queue| queue.paused)
    }

    /// Returns the queues with jobs that may be claimed.
    pub(super) fn ready(&mut self) -> &mut Ready<Name> {
        &mut self.ready
    }

    /// Returns at most `limit` queues after `last` from which jobs of a lane may be claimed, in the order of their
    /// first jobs, each with a place that is not after its first job's. `in_hand` has the available jobs that the
    /// batch has changed, by queue: a queue without others is left out.
    pub(super) fn queues(
        &self,
        lane: &Lane,
        last: Option<&(QueuePosition, Name)>,
        in_hand: &HashMap<Name, i64>,
        limit: usize,
    ) -> Vec<(QueuePosition, Name)> {
        let queues = self.with_others(lane, last, in_hand);
        queues.take(limit).cloned().collect()
    }

    fn with_others<'a>(
        &'a self,
        lane: &'a Lane,
        last: Option<&(QueuePosition, Name)>,
        in_hand: &'a HashMap<Name, i64>,
    ) -> impl Iterator<Item = &'a (QueuePosition, Name)> {
        let has_others = move |(_, name): &&(QueuePosition, Name)| {
            let jobs = self.queues.get(name).map_or(0, |queue| match lane {
                Lane::Shared | Lane::Apart => queue.available - queue.for_executors,
                Lane::Executor(_) => queue.for_executors,
            });
            jobs > in_hand.get(name).copied().unwrap_or(0)
        };
        let queues = self.ready.queues(executor_of(lane), last);
        queues.filter(has_others)
    }

    /// Returns those queues for cells that may have a job which a claim does not pass, see [`Counts::queues`].
    pub(super) fn queues_to_scan(
        &self,
        last: Option<&(QueuePosition, Name)>,
        in_hand: &HashMap<Name, i64>,
        limit: usize,
    ) -> Vec<(QueuePosition, Name)> {
        let queues = self
            .with_others(&Lane::Shared, last, in_hand)
            .filter(|(_, name)| !self.passed.is_through(name));
        queues.take(limit).cloned().collect()
    }

    /// Records that a queue has no job before a place which this host can run; `None` if it has none at all. Those that
    /// the open batch has made available are not stored yet.
    pub(super) fn pass(&mut self, queue: &Name, until: Option<QueuePosition>) {
        self.passed.pass(queue, until);
        if let Some(first) = self.firsts.get(&(None, queue.clone())) {
            self.passed.lower(queue, *first);
        }
    }

    /// Returns whether a claim of the batch wants more jobs than are known and than the batch adds.
    pub(super) fn starve(&self, batch: &[Command]) -> bool {
        let (mut brought, mut for_executors, mut starves) = (self.available(), 0_u64, false);
        for command in batch {
            for executor in command.new_executors() {
                match executor {
                    None => brought += 1,
                    Some(_) => for_executors += 1,
                }
            }
            match command {
                // A job that waits for this one, or this one again.
                Command::Lease(lease::Command::Complete(_) | lease::Command::Lose(_)) => {
                    brought += 1;
                }
                Command::Lease(lease::Command::Claim(Claim { slots, .. })) => {
                    let is_empty = |slot: &Slot| match &slot.lane {
                        Lane::Shared | Lane::Apart => false,
                        Lane::Executor(executor) => {
                            let mut queues = self.ready.queues(Some(executor), None);
                            for_executors == 0 && queues.next().is_none()
                        }
                    };
                    starves |= brought < slots.len() as u64 || slots.iter().any(is_empty);
                }
                _ => {}
            }
        }
        starves
    }

    /// Returns how many jobs cells may claim.
    pub(super) fn available(&self) -> u64 {
        u64::try_from(self.claimable).unwrap_or(0)
    }

    /// Takes the queues that the batch has created.
    pub(super) fn take_made(&mut self) -> Vec<String> {
        let mut made: Vec<String> = self.made.drain().map(|name| name.to_string()).collect();
        made.sort();
        made
    }

    /// Takes what the batch has changed.
    pub(super) fn take_changed(&mut self) -> CountsOfBatch {
        let steps = std::mem::take(&mut self.changed)
            .into_iter()
            .filter(|(_, step)| *step != 0)
            .map(|((queue, state), step)| (queue, state, step));
        let firsts = std::mem::take(&mut self.firsts)
            .into_iter()
            .map(|((executor, queue), place)| (executor, queue, place));
        CountsOfBatch {
            steps: steps.collect(),
            firsts: firsts.collect(),
        }
    }
}

/// Reads a name that a row has.
pub(super) fn parse_name(name: &str) -> Result<Name, host_engine::StoreError> {
    name.parse()
        .map_err(|error| unreadable(format!("the name {name}"), &error))
}
