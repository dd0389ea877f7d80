//! Reads and locks, in one round trip, the rows that the commands of a batch name: keys first, then
//! jobs, each in one order, so that hosts rarely wait for each other in a circle.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use host_core::id::{BatchId, JobId};
use host_core::job::{Lifecycle, NewJob};
use host_core::name::Name;
use host_engine::batch::JobBatch;
use host_engine::job::Record;
use host_engine::table::Record as _;
use host_engine::{Command, StoreError, batch, job, schedule};
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Client;
use super::counts::{Counts, parse_name};
use super::dependencies::Pair;
use super::flush;
use super::overlay::{Key, KeyHolder, Overlay};
use super::pipeline::{Pipeline, values};
use super::state::NamedState;
use super::trouble::{Trouble, damaged, unreadable};
use crate::record::decode;

/// How many times to read a job that keeps moving between tables.
const READS_MAX: u32 = 8;

/// The rows that the commands of a batch name.
#[derive(Default)]
pub(super) struct BatchRows {
    jobs: BTreeSet<JobId>,
    keys: BTreeSet<Key>,
    /// Jobs that do not exist yet.
    new: Vec<JobId>,
    /// Jobs that may exist or not, which other hosts may insert too.
    offered: Vec<JobId>,
    /// Whether the registry of components is read or changed.
    registry: bool,
    /// The components of new jobs, which must stay while the batch runs.
    components: BTreeSet<Name>,
    /// The principals of new jobs that may have only so many.
    principals: BTreeSet<String>,
    state: NamedState,
    /// Batches that jobs are added to, and that are closed or cancelled.
    batches: BTreeSet<BatchId>,
}

impl BatchRows {
    pub(super) fn by(commands: &[Command]) -> Self {
        let mut named = Self::default();
        for command in commands {
            named.add(command);
        }
        named
    }

    fn add(&mut self, command: &Command) {
        self.state.add(command);
        self.batches.extend(command.batches());
        let is_offered = matches!(command.bare(), Command::Job(job::Command::EnqueueOnce(_)));
        for new in command.new_jobs() {
            if is_offered {
                self.offered.push(new.id);
            } else {
                self.new.push(new.id);
            }
            self.components.extend(new.component.clone());
            self.principals.extend(limited(new));
            self.jobs.extend(&new.depends_on);
            if let Some(unique) = &new.unique_key {
                self.keys.insert((new.queue.clone(), unique.key.clone()));
            }
        }
        for new in command.new_jobs() {
            self.jobs.remove(&new.id);
        }
        self.jobs.extend(command.job());
        match command.bare() {
            Command::Job(job::Command::Record(Record(foreign))) => self.new.push(foreign.job.id),
            Command::Batch(batch::Command::NewBatch(new)) => {
                self.batches.remove(&new.id);
                let callbacks = new.plan.callbacks.iter();
                let components = callbacks.filter_map(|(_, job)| job.component.clone());
                self.components.extend(components);
            }
            Command::Schedule(schedule::Command::Fire(fire)) => {
                self.new.extend(&fire.ids);
                self.jobs.extend(&fire.open);
                let component = fire.job.iter().filter_map(|job| job.component.clone());
                self.components.extend(component);
                self.principals
                    .extend(fire.job.iter().filter_map(|job| limited(job)));
            }
            Command::Component(_) => self.registry = true,
            Command::Job(_)
            | Command::Lease(_)
            | Command::Limit(_)
            | Command::Schedule(_)
            | Command::Batch(_)
            | Command::Token(_)
            | Command::State(_)
            | Command::Artifact(_)
            | Command::Step(_)
            | Command::Queue(_)
            | Command::Node(_)
            | Command::Audit(_)
            | Command::Noted { .. } => {}
        }
    }
}

/// Returns the principal of a job, if it may have only so many.
fn limited(new: &NewJob) -> Option<String> {
    let origin = new.payload.origin.as_ref()?;
    origin.max_waiting.map(|_| origin.principal.clone())
}

/// The start of a batch.
pub(super) struct Begun {
    pub(super) overlay: Overlay,
    /// Numbers in the order for the new jobs, and ranks.
    pub(super) seqs: VecDeque<i64>,
    pub(super) next_change: i64,
    /// Whether other hosts have changed something that is not counted.
    pub(super) is_behind: bool,
    pub(super) pauses: i64,
    pub(super) limits_changed: i64,
}

/// The node that writes, and the number of its batch.
#[derive(Clone, Copy)]
pub(super) struct BatchOwner {
    pub(super) node: i32,
    pub(super) epoch: i64,
    pub(super) batch: i64,
}

/// Begins a batch, with settings that end with it. A batch whose host is gone ends by itself, and none waits
/// long for a lock. The planner must use an index: it makes a plan when a table has few rows, and keeps it
/// while thousands of dead rows collect until the next vacuum. A scan without an index would look expensive
/// to it and trigger JIT compilation, which does not pay. It must also read in the order of the index: where it
/// expects few rows, it would read all of them by a bitmap and sort them to find the first.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL enable_seqscan = off; SET LOCAL jit = off; \
    SET LOCAL enable_bitmapscan = off; SET LOCAL lock_timeout = '10s'; SET LOCAL idle_in_transaction_session_timeout = '10s'";

/// Writes the number of a batch, reserves numbers for jobs and ranks, and reads the number of the next change and whether other
/// nodes have made changes from `$5` on, or some without a number. No row if the node has a later epoch.
const ENTER: &str = "WITH mine AS (\
      UPDATE host_nodes SET batch = $3, seen_at = now() WHERE number = $1 AND epoch = $2 \
      RETURNING number) \
    SELECT next_change, pauses, ARRAY(SELECT nextval('host_seq') FROM generate_series(1, $4)), \
    EXISTS (SELECT FROM host_changes WHERE first >= $5 AND node <> $1) \
    OR EXISTS (SELECT FROM host_changes WHERE first IS NULL AND node <> $1), limits_changed \
    FROM mine LEFT JOIN host_log ON id = 1";

/// Lets batches take turns that concern the same names, until they end, where there is no row that all of them could lock:
/// each node counts the jobs of a principal in a row of its own, and an offered job may have no row yet.
const TAKE_TURNS: &str = "SELECT \
    pg_advisory_xact_lock(hashtextextended(current_schema() || $1 || name, 0)) \
    FROM unnest($2::text[]) AS name";

/// Begins a transaction and reads what the batch names.
pub(super) async fn begin(
    client: &Client,
    writer: BatchOwner,
    named: &BatchRows,
    counts: &Counts,
) -> Result<Begun, Trouble> {
    let mut pipeline = Pipeline::new(client);
    pipeline.simple("begin a batch", BEGIN);
    // Each job that ends may let one pass that has waited for a limit.
    let ranks = if counts.limits.0.is_empty() {
        0
    } else {
        named.jobs.len()
    };
    let numbers = i32::try_from(named.new.len() + named.offered.len() + ranks).unwrap_or(i32::MAX);
    let counted = counts.next_change;
    let values = values![writer.node, writer.epoch, writer.batch, numbers, counted];
    let operation = "write the number of a batch";
    pipeline.add(operation, ENTER, values).await?;
    if !named.principals.is_empty() {
        let principals: Vec<String> = named.principals.iter().cloned().collect();
        let operation = "lock the numbers of jobs of principals";
        let values = values![" host_owned ".to_owned(), principals];
        pipeline.add(operation, TAKE_TURNS, values).await?;
    }
    if !named.offered.is_empty() {
        let ids: BTreeSet<String> = named.offered.iter().map(JobId::to_string).collect();
        let ordered: Vec<String> = ids.into_iter().collect();
        let values = values![" host_offered ".to_owned(), ordered];
        pipeline
            .add("lock offered jobs", TAKE_TURNS, values)
            .await?;
    }
    if named.registry {
        let lock = "LOCK TABLE host_components IN SHARE ROW EXCLUSIVE MODE";
        pipeline.simple("lock the components", lock);
    }
    let asks_for_components = !named.registry && !named.components.is_empty();
    if asks_for_components {
        // Waits for a change of the registry, and lets none begin before the batch ends.
        let lock = "LOCK TABLE host_components IN ROW EXCLUSIVE MODE";
        pipeline.simple("keep the components", lock);
        let asked: Vec<String> = named.components.iter().map(Name::to_string).collect();
        let sql = "SELECT name FROM host_components WHERE name = ANY($1) AND current > 0";
        pipeline
            .add("look up components", sql, values![asked])
            .await?;
    }
    let first_state = pipeline.len();
    if !named.state.is_empty() {
        named.state.lock(&mut pipeline).await?;
    }
    let first_keys = pipeline.len();
    if !named.keys.is_empty() {
        add_keys(&mut pipeline, &named.keys).await?;
    }
    if !named.jobs.is_empty() {
        add_jobs(&mut pipeline, &named.jobs).await?;
    }
    let mut answers = pipeline.run().await?;
    let Some(entered) = answers[1].first() else {
        return Err(Trouble::Fatal(StoreError::Fenced));
    };
    let (Some(next_change), Some(pauses)) = (entered.get(0), entered.get(1)) else {
        let damaged = damaged("the table host_log", "it is empty");
        return Err(Trouble::Fatal(damaged));
    };
    let mut begun = Begun {
        overlay: Overlay::default(),
        seqs: entered.get::<_, Vec<i64>>(2).into(),
        next_change,
        is_behind: entered.get(3),
        pauses,
        limits_changed: entered.get::<_, Option<i64>>(4).unwrap_or_default(),
    };
    for id in &named.new {
        begun.overlay.dependencies.know(*id, BTreeMap::new());
    }
    let mut others = BTreeSet::new();
    let rest = answers.split_off(first_keys);
    if !named.state.is_empty() {
        let state = answers.split_off(first_state);
        let held = named.state.take(&mut state.into_iter());
        begun.overlay.state = held.map_err(Trouble::Fatal)?;
    }
    if asks_for_components {
        let found = answers.pop().unwrap_or_default();
        let deployed: Result<_, _> = found.iter().map(|row| parse_name(row.get(0))).collect();
        begun.overlay.components = Some(deployed.map_err(Trouble::Fatal)?);
    }
    begun.take(named, rest, &mut others)?;
    // Jobs that keys and dependencies name, and jobs that have ended.
    let missing: Vec<JobId> = others
        .into_iter()
        .filter(|id| begun.overlay.get(*id).is_none())
        .collect();
    lock(client, &mut begun.overlay, &missing).await?;
    let batches: Vec<_> = named.batches.iter().map(|id| JobBatch::key(*id)).collect();
    let held = &mut begun.overlay.tables;
    held.lock(client, JobBatch::TABLE, &batches).await?;
    Ok(begun)
}

impl Begun {
    /// Stores the rows of keys, jobs and dependencies. Adds the jobs that are still to be read to `others`.
    fn take(
        &mut self,
        named: &BatchRows,
        answers: Vec<Vec<Row>>,
        others: &mut BTreeSet<JobId>,
    ) -> Result<(), Trouble> {
        let mut answers = answers.into_iter();
        if !named.keys.is_empty() {
            // The first answer is for the placeholders.
            for row in answers.nth(1).unwrap_or_default() {
                let (key, held) = key_of(&row).map_err(Trouble::Fatal)?;
                others.extend(held.job);
                self.overlay.hold(key, held);
            }
        }
        if !named.jobs.is_empty() {
            for row in answers.next().unwrap_or_default() {
                load(&mut self.overlay, &row);
            }
            others.extend(&named.jobs);
            // Dependents of a job that is not locked are read again when they are needed.
            let overlay = &self.overlay;
            let locked: Vec<JobId> = named
                .jobs
                .iter()
                .filter(|id| overlay.get(**id).is_some())
                .copied()
                .collect();
            let rows = answers.next().unwrap_or_default();
            others.extend(know_all(&mut self.overlay, &locked, &rows));
        }
        Ok(())
    }
}

/// Locks keys. A free key gets a row without a job, so that hosts that want the same new key take turns.
async fn add_keys(pipeline: &mut Pipeline<'_>, keys: &BTreeSet<Key>) -> Result<(), Trouble> {
    let queues: Vec<String> = keys.iter().map(|(queue, _)| queue.to_string()).collect();
    let names: Vec<Vec<u8>> = keys
        .iter()
        .map(|(_, key)| key.clone().into_bytes())
        .collect();
    pipeline
        .add(
            "lock unique keys",
            "INSERT INTO host_unique_keys (queue, key) \
             SELECT * FROM unnest($1::text[], $2::bytea[]) ON CONFLICT DO NOTHING",
            values![queues.clone(), names.clone()],
        )
        .await?;
    pipeline
        .add(
            "look up unique keys",
            "SELECT queue, key, job FROM host_unique_keys WHERE (queue, key) IN \
             (SELECT * FROM unnest($1::text[], $2::bytea[])) ORDER BY queue, key FOR UPDATE",
            values![queues, names],
        )
        .await
}

const LOCK_LIVE: &str =
    "SELECT seq, id, body, rank FROM host_live WHERE id = ANY($1) ORDER BY id FOR UPDATE";

/// Locks jobs that have not ended, and then reads their dependents. The lock keeps other hosts from adding
/// dependents at the same time.
async fn add_jobs(pipeline: &mut Pipeline<'_>, jobs: &BTreeSet<JobId>) -> Result<(), Trouble> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
    pipeline
        .add("lock jobs", LOCK_LIVE, values![ids.clone()])
        .await?;
    let limit = i64::try_from(DEPENDENTS_AHEAD).unwrap_or(i64::MAX);
    pipeline
        .add("read dependents", DEPENDENTS, values![ids, limit])
        .await
}

/// Locks jobs in either table, and notes those that do not exist.
pub(super) async fn lock(
    client: &Client,
    overlay: &mut Overlay,
    jobs: &[JobId],
) -> Result<(), Trouble> {
    let mut missing: Vec<JobId> = jobs.to_vec();
    for _ in 0..READS_MAX {
        missing.retain(|id| {
            let is_known = overlay.is_absent(*id) || overlay.unreadable.contains_key(id);
            overlay.get(*id).is_none() && !is_known
        });
        if missing.is_empty() {
            return Ok(());
        }
        missing.sort_unstable();
        let ids = || missing.iter().map(|id| id.0).collect::<Vec<Uuid>>();
        let mut pipeline = Pipeline::new(client);
        pipeline.add("lock jobs", LOCK_LIVE, values![ids()]).await?;
        pipeline
            .add(
                "lock ended jobs",
                "SELECT seq, id, body, rank FROM host_ended WHERE id = ANY($1) ORDER BY id FOR UPDATE",
                values![ids()],
            )
            .await?;
        // A job may have moved from the second table to the first in the meantime. One query of both shows it.
        pipeline
            .add(
                "find jobs",
                "SELECT id FROM host_live WHERE id = ANY($1) \
                 UNION ALL SELECT id FROM host_ended WHERE id = ANY($1)",
                values![ids()],
            )
            .await?;
        let answers = pipeline.run().await?;
        for row in answers[..2].iter().flatten() {
            load(overlay, row);
        }
        let there: BTreeSet<JobId> = answers[2].iter().map(|row| JobId(row.get(0))).collect();
        for id in missing.iter().filter(|id| !there.contains(id)) {
            if overlay.get(*id).is_none() {
                overlay.note_absent(*id);
            }
        }
    }
    Err(Trouble::Conflict)
}

/// How many dependents are read before they are needed.
const DEPENDENTS_AHEAD: usize = 256;

/// The first dependents of jobs, `$2` at most.
const DEPENDENTS: &str = "SELECT wanted.id, found.dependent, found.seq \
    FROM unnest($1::uuid[]) WITH ORDINALITY AS wanted (id, n) CROSS JOIN LATERAL \
    (SELECT dependent, seq FROM host_dependencies WHERE prerequisite = wanted.id \
     ORDER BY seq LIMIT $2) AS found ORDER BY wanted.n, found.seq LIMIT $2";

/// Records the dependents of jobs if these rows have all of them. Returns them.
fn know_all(overlay: &mut Overlay, jobs: &[JobId], rows: &[Row]) -> Vec<JobId> {
    if rows.len() >= DEPENDENTS_AHEAD {
        return Vec::new();
    }
    let mut waiting: HashMap<JobId, BTreeMap<i64, JobId>> =
        jobs.iter().map(|id| (*id, BTreeMap::new())).collect();
    let mut found = Vec::new();
    for row in rows {
        if let Some(waiting) = waiting.get_mut(&JobId(row.get(0))) {
            waiting.insert(row.get(2), JobId(row.get(1)));
            found.push(JobId(row.get(1)));
        }
    }
    for (id, waiting) in waiting {
        overlay.dependencies.know(id, waiting);
    }
    found
}

/// Reads the dependents of locked jobs, and locks them too, if they are few.
pub(super) async fn know_dependents(
    client: &Client,
    overlay: &mut Overlay,
    jobs: &[JobId],
) -> Result<(), Trouble> {
    let unknown: Vec<JobId> = jobs
        .iter()
        .filter(|id| overlay.dependencies.on(**id).is_none())
        .copied()
        .collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let rows = read_dependents(client, overlay, &unknown, DEPENDENTS_AHEAD).await?;
    let waiting = know_all(overlay, &unknown, &rows);
    lock(client, overlay, &waiting).await
}

/// Reads the first dependents of jobs, after it has written what has changed of dependencies.
async fn read_dependents(
    client: &Client,
    overlay: &mut Overlay,
    jobs: &[JobId],
    limit: usize,
) -> Result<Vec<Row>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    flush::dependencies(&mut pipeline, overlay).await?;
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    pipeline
        .add("read dependents", DEPENDENTS, values![ids, limit])
        .await?;
    Ok(pipeline.run().await?.pop().unwrap_or_default())
}

/// Returns the first dependencies on jobs, and locks the jobs that wait.
pub(super) async fn dependencies(
    client: &Client,
    overlay: &mut Overlay,
    on: &[JobId],
    limit: usize,
) -> Result<Vec<Pair>, Trouble> {
    let unknown: Vec<JobId> = on
        .iter()
        .filter(|id| overlay.dependencies.on(**id).is_none())
        .copied()
        .collect();
    let mut read: HashMap<JobId, Vec<JobId>> = HashMap::new();
    if !unknown.is_empty() {
        let rows = read_dependents(client, overlay, &unknown, limit).await?;
        for row in &rows {
            let waiting = read.entry(JobId(row.get(0))).or_default();
            waiting.push(JobId(row.get(1)));
        }
    }
    let mut found: Vec<Pair> = Vec::new();
    for id in on {
        if let Some(waiting) = overlay.dependencies.on(*id) {
            found.extend(waiting.map(|job| (*id, job)));
        } else {
            let waiting = read.remove(id).unwrap_or_default().into_iter();
            found.extend(waiting.map(|job| (*id, job)));
        }
        if found.len() >= limit {
            found.truncate(limit);
            break;
        }
    }
    let waiting: Vec<JobId> = found.iter().map(|(_, job)| *job).collect();
    lock(client, overlay, &waiting).await?;
    Ok(found)
}

/// Reads the number, id, body and rank of a job.
pub(super) fn load(overlay: &mut Overlay, row: &Row) -> JobId {
    let id = JobId(row.get(1));
    match decode::<Lifecycle>(row.get(2), || format!("job {id}")) {
        Ok(job) if job.id == id => overlay.load(row.get(0), row.get(3), job),
        Ok(job) => {
            let reason = format!("it is the record of job {}", job.id);
            overlay.unreadable.insert(id, reason);
        }
        Err(error) => {
            overlay.unreadable.insert(id, error.flaw());
        }
    }
    id
}

/// Reads a unique key and its holder.
pub(super) fn key_of(row: &Row) -> Result<(Key, KeyHolder), StoreError> {
    let queue = super::counts::parse_name(row.get(0))?;
    let key = String::from_utf8(row.get(1))
        .map_err(|error| unreadable(format!("a unique key of queue {queue}"), &error))?;
    let job = row.get::<_, Option<Uuid>>(2).map(JobId);
    // A row without a job is removed or filled before the batch ends.
    let is_new = job.is_none();
    Ok(((queue, key), KeyHolder { job, is_new }))
}

/// Locks one key that no command named, and the job that has it.
pub(super) async fn lock_key(
    client: &Client,
    overlay: &mut Overlay,
    key: &Key,
) -> Result<(), Trouble> {
    let mut pipeline = Pipeline::new(client);
    add_keys(&mut pipeline, &BTreeSet::from([key.clone()])).await?;
    let rows = pipeline.run().await?.pop().unwrap_or_default();
    for row in rows {
        let (key, mut held) = key_of(&row).map_err(Trouble::Fatal)?;
        if held.job.is_some_and(|job| overlay.was_deleted(job)) {
            held = KeyHolder {
                job: None,
                is_new: true,
            };
        }
        overlay.hold(key, held);
    }
    Ok(())
}
