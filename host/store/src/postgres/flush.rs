//! Writes the changes of a batch: one statement for all rows of a kind, all statements in one round trip.

use std::collections::BTreeSet;

use host_core::id::JobId;
use host_core::job::LimitKey;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::time::Time;
use host_engine::{CHANGES_KEPT, StoreError};
use uuid::Uuid;

use super::client::Client;
use super::counts::Counts;
use super::dependencies::Changes;
use super::overlay::{Entry, Overlay, Table, Write};
use super::pipeline::{Pipeline, Value, values};
use super::trouble::Trouble;
use crate::record::{ChangesRow, Extra, encode};

/// How often old changes are forgotten, in batches of a node.
const FORGET_EVERY: i64 = 256;

/// The columns of rows of jobs.
#[derive(Default)]
struct Columns {
    seq: Vec<i64>,
    id: Vec<Uuid>,
    state: Vec<i16>,
    queue: Vec<String>,
    priority: Vec<i16>,
    suspect: Vec<bool>,
    handler: Vec<String>,
    executor: Vec<Option<String>>,
    wakeup_at: Vec<Option<i64>>,
    body: Vec<Vec<u8>>,
    rank: Vec<i64>,
    waits_for: Vec<Option<String>>,
    batch: Vec<Option<Uuid>>,
}

impl Columns {
    fn push(&mut self, entry: &Entry) -> Result<(), StoreError> {
        let Entry { seq, rank, job, .. } = entry;
        self.seq.push(*seq);
        self.id.push(job.id.0);
        self.state.push(job.state as i16);
        self.queue.push(job.queue.to_string());
        self.priority.push(job.priority.into());
        self.suspect.push(job.suspicion.is_apart());
        self.handler.push(job.handler.to_string());
        self.executor
            .push(job.executor.as_ref().map(Name::to_string));
        self.wakeup_at.push(job.wakeup().map(|at| at.0));
        self.body.push(encode(job)?);
        self.rank.push(*rank);
        let waits_for = job.waits_for_key().map(LimitKey::to_string);
        self.waits_for.push(waits_for);
        self.batch.push(job.batch.map(|batch| batch.0));
        Ok(())
    }

    /// Returns the values of a new row.
    fn whole(self) -> Vec<Value> {
        values![
            self.seq,
            self.id,
            self.state,
            self.queue,
            self.priority,
            self.suspect,
            self.handler,
            self.executor,
            self.wakeup_at,
            self.body,
            self.rank,
            self.waits_for,
            self.batch,
        ]
    }

    /// Returns a row's number and the columns that may change.
    fn changing(self) -> Vec<Value> {
        values![
            self.seq,
            self.state,
            self.priority,
            self.suspect,
            self.wakeup_at,
            self.body,
            self.rank,
            self.waits_for,
        ]
    }
}

const INSERT_LIVE: &str = "INSERT INTO host_live (seq, id, state, queue, priority, suspect, \
    handler, runner, wakeup_at, body, rank, waits_for, batch) SELECT * FROM unnest($1::bigint[], $2::uuid[], \
    $3::smallint[], $4::text[], $5::smallint[], $6::boolean[], $7::text[], $8::text[], \
    $9::bigint[], $10::bytea[], $11::bigint[], $12::text[], $13::uuid[])";

const INSERT_ENDED: &str = "INSERT INTO host_ended (seq, id, state, queue, priority, suspect, \
    handler, runner, wakeup_at, body, rank, waits_for, batch) SELECT * FROM unnest($1::bigint[], $2::uuid[], \
    $3::smallint[], $4::text[], $5::smallint[], $6::boolean[], $7::text[], $8::text[], \
    $9::bigint[], $10::bytea[], $11::bigint[], $12::text[], $13::uuid[])";

const UPDATE_LIVE: &str = "UPDATE host_live AS old SET state = new.state, \
    priority = new.priority, suspect = new.suspect, wakeup_at = new.wakeup_at, body = new.body, \
    rank = new.rank, waits_for = new.waits_for \
    FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::boolean[], $5::bigint[], \
    $6::bytea[], $7::bigint[], $8::text[]) \
    AS new (seq, state, priority, suspect, wakeup_at, body, rank, waits_for) WHERE old.seq = new.seq";

const UPDATE_ENDED: &str = "UPDATE host_ended AS old SET state = new.state, \
    priority = new.priority, suspect = new.suspect, wakeup_at = new.wakeup_at, body = new.body, \
    rank = new.rank, waits_for = new.waits_for \
    FROM unnest($1::bigint[], $2::smallint[], $3::smallint[], $4::boolean[], $5::bigint[], \
    $6::bytea[], $7::bigint[], $8::text[]) \
    AS new (seq, state, priority, suspect, wakeup_at, body, rank, waits_for) WHERE old.seq = new.seq";

const DELETE_LIVE: &str = "DELETE FROM host_live WHERE id = ANY($1)";
const DELETE_ENDED: &str = "DELETE FROM host_ended WHERE id = ANY($1)";

/// All data of a job outside its row.
const DELETE_REST: &[&str] = &[
    "DELETE FROM host_payloads WHERE job = ANY($1)",
    "DELETE FROM host_attempts WHERE job = ANY($1)",
    "DELETE FROM host_failures WHERE job = ANY($1)",
    "DELETE FROM host_unique_keys WHERE job = ANY($1)",
    "DELETE FROM host_artifacts WHERE job = ANY($1)",
    "DELETE FROM host_artifact_contents WHERE job = ANY($1)",
    "DELETE FROM host_input_files WHERE job = ANY($1)",
    "DELETE FROM host_steps WHERE job = ANY($1)",
];

/// When the next job, key of a limit or batch is due: at the time 0 while there are cascades to continue, and at 1 while limits
/// have changed. The jobs `$1` do not count.
pub(super) const NEXT_WAKEUP: &str = "SELECT LEAST( \
    (SELECT min(wakeup_at) FROM host_live WHERE id <> ALL($1)), \
    (SELECT min(wakeup_at) FROM host_ended WHERE id <> ALL($1)), (SELECT min(wake_at) FROM host_limit_keys), \
    (SELECT min(wake_at) FROM host_batches), \
    (SELECT 0 FROM host_cascades LIMIT 1), \
    (SELECT 1 FROM host_limits WHERE removed OR cursor IS NOT NULL LIMIT 1))";

/// Appends entries to the audit, each with the hash of the one before. The row of `host_audit_end` is locked until the
/// commit, which follows immediately. Batches without entries do not touch it.
const APPEND: &str = "WITH \
    last AS MATERIALIZED (SELECT next, hash FROM host_audit_end WHERE id = 1 FOR UPDATE), \
    added AS (INSERT INTO host_audit (number, at, previous, record, hash) \
      SELECT next, $1, hash, $2, \
      sha256(convert_to(encode(hash, 'hex') || E'\\n' || next || E'\\n' || $2, 'UTF8')) \
      FROM last RETURNING number, hash) \
    UPDATE host_audit_end SET next = added.number + 1, hash = added.hash FROM added WHERE id = 1";

/// Adds the statements that write all changed rows, which then count as written.
pub(super) async fn add(
    pipeline: &mut Pipeline<'_>,
    overlay: &mut Overlay,
    queues_made: Vec<String>,
) -> Result<(), Trouble> {
    let mut queues = jobs(pipeline, overlay).await?;
    queues.extend(queues_made);
    if !queues.is_empty() {
        // Behind the jobs: another host may be removing the queue, and then this one inserts them after its commit.
        let sql = "INSERT INTO host_queues (name) SELECT * FROM unnest($1::text[]) \
                   ON CONFLICT DO NOTHING";
        let queues: Vec<String> = queues.into_iter().collect();
        pipeline.add("make queues", sql, values![queues]).await?;
    }
    payloads(pipeline, overlay).await?;
    keys(pipeline, overlay).await?;
    dependencies(pipeline, overlay).await?;
    overlay.state.flush(pipeline).await?;
    overlay.limits.flush(pipeline).await?;
    overlay.tables.flush(pipeline).await?;
    mail(pipeline, overlay).await?;
    attempts(pipeline, overlay).await
}

/// Writes the rows of jobs. Returns the queues of new ones.
async fn jobs(
    pipeline: &mut Pipeline<'_>,
    overlay: &mut Overlay,
) -> Result<BTreeSet<String>, Trouble> {
    let (mut live, mut ended) = (Columns::default(), Columns::default());
    let (mut live_again, mut ended_again) = (Columns::default(), Columns::default());
    let (mut from_live, mut from_ended): (Vec<Uuid>, Vec<Uuid>) = (Vec::new(), Vec::new());
    overlay
        .write(|entry, Write { from, to }| {
            let columns = match (from, to) {
                (Some(Table::Live), Table::Live) => &mut live_again,
                (Some(Table::Ended), Table::Ended) => &mut ended_again,
                (_, Table::Live) => &mut live,
                (_, Table::Ended) => &mut ended,
            };
            match from {
                Some(Table::Live) if to == Table::Ended => from_live.push(entry.job.id.0),
                Some(Table::Ended) if to == Table::Live => from_ended.push(entry.job.id.0),
                _ => {}
            }
            columns.push(entry)
        })
        .map_err(Trouble::Fatal)?;
    let deleted = std::mem::take(&mut overlay.deleted);
    for (id, table) in &deleted {
        match table {
            Table::Live => from_live.push(id.0),
            Table::Ended => from_ended.push(id.0),
        }
    }
    for (sql, ids) in [(DELETE_LIVE, from_live), (DELETE_ENDED, from_ended)] {
        if !ids.is_empty() {
            pipeline
                .add("remove rows of jobs", sql, values![ids])
                .await?;
        }
    }
    if !deleted.is_empty() {
        let ids: Vec<Uuid> = deleted.iter().map(|(id, _)| id.0).collect();
        for sql in DELETE_REST {
            pipeline
                .add("purge jobs", *sql, values![ids.clone()])
                .await?;
        }
    }
    let mut queues = BTreeSet::new();
    for (sql, columns) in [(INSERT_LIVE, live), (INSERT_ENDED, ended)] {
        if !columns.seq.is_empty() {
            queues.extend(columns.queue.iter().cloned());
            pipeline.add("insert jobs", sql, columns.whole()).await?;
        }
    }
    for (sql, columns) in [(UPDATE_LIVE, live_again), (UPDATE_ENDED, ended_again)] {
        if !columns.seq.is_empty() {
            pipeline.add("write jobs", sql, columns.changing()).await?;
        }
    }
    Ok(queues)
}

async fn payloads(pipeline: &mut Pipeline<'_>, overlay: &mut Overlay) -> Result<(), Trouble> {
    let new: Vec<JobId> = std::mem::take(&mut overlay.payloads);
    if new.is_empty() {
        return Ok(());
    }
    let (mut ids, mut params, mut wires) = (Vec::new(), Vec::new(), Vec::new());
    let (mut keys, mut extras) = (Vec::new(), Vec::new());
    for id in new {
        let Some(new) = overlay.new.get(&id) else {
            continue;
        };
        let extra = Extra::of(&new.payload, &new.depends_on)
            .map(|extra| encode(&extra))
            .transpose();
        ids.push(id.0);
        params.push(new.payload.params.as_str().to_owned());
        wires.push(new.payload.wire.clone());
        keys.push(new.unique_key.clone().map(String::into_bytes));
        extras.push(extra.map_err(Trouble::Fatal)?);
    }
    let sql = "INSERT INTO host_payloads (job, params, wire, unique_key, extra) \
               SELECT * FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::bytea[])";
    let values = values![ids, params, wires, keys, extras];
    pipeline.add("insert jobs' params", sql, values).await
}

/// Writes the holders of keys, and deletes the placeholders of keys that stayed free.
async fn keys(pipeline: &mut Pipeline<'_>, overlay: &mut Overlay) -> Result<(), Trouble> {
    let (mut queues, mut keys, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
    let (mut free_queues, mut free_keys) = (Vec::new(), Vec::new());
    for ((queue, key), held) in overlay.keys() {
        if !std::mem::take(&mut held.is_new) {
            continue;
        }
        let (queue, key) = (queue.to_string(), key.clone().into_bytes());
        if let Some(job) = held.job {
            queues.push(queue);
            keys.push(key);
            jobs.push(job.0);
        } else {
            free_queues.push(queue);
            free_keys.push(key);
        }
    }
    if !jobs.is_empty() {
        let sql = "INSERT INTO host_unique_keys (queue, key, job) \
                   SELECT * FROM unnest($1::text[], $2::bytea[], $3::uuid[]) \
                   ON CONFLICT (queue, key) DO UPDATE SET job = EXCLUDED.job";
        let values = values![queues, keys, jobs];
        pipeline.add("write unique keys", sql, values).await?;
    }
    if !free_keys.is_empty() {
        let sql = "DELETE FROM host_unique_keys WHERE (queue, key) IN \
                   (SELECT * FROM unnest($1::text[], $2::bytea[]))";
        let values = values![free_queues, free_keys];
        pipeline.add("release unique keys", sql, values).await?;
    }
    Ok(())
}

/// Writes what has changed of dependencies and cascades.
pub(super) async fn dependencies(
    pipeline: &mut Pipeline<'_>,
    overlay: &mut Overlay,
) -> Result<(), Trouble> {
    let Changes {
        cleared,
        removed,
        added,
        ended,
    } = overlay.dependencies.take_changes();
    if !cleared.is_empty() {
        let sql = "DELETE FROM host_dependencies WHERE dependent = ANY($1)";
        let operation = "remove the dependencies of jobs";
        pipeline.add(operation, sql, values![cleared]).await?;
    }
    if !removed.is_empty() {
        let (prerequisites, seqs): (Vec<Uuid>, Vec<i64>) = removed.into_iter().unzip();
        let sql = "DELETE FROM host_dependencies WHERE (prerequisite, seq) IN \
                   (SELECT * FROM unnest($1::uuid[], $2::bigint[]))";
        let values = values![prerequisites, seqs];
        pipeline.add("remove dependencies", sql, values).await?;
    }
    if !added.is_empty() {
        let prerequisites: Vec<Uuid> = added.iter().map(|row| row.0).collect();
        let dependents: Vec<Uuid> = added.iter().map(|row| row.1).collect();
        let seqs: Vec<i64> = added.iter().map(|row| row.2).collect();
        let sql = "INSERT INTO host_dependencies (prerequisite, dependent, seq) \
                   SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[])";
        let values = values![prerequisites, dependents, seqs];
        pipeline.add("insert dependencies", sql, values).await?;
    }
    if !ended.is_empty() {
        let sql = "DELETE FROM host_cascades WHERE prerequisite = ANY($1)";
        pipeline.add("end cascades", sql, values![ended]).await?;
    }
    Ok(())
}

async fn mail(pipeline: &mut Pipeline<'_>, overlay: &mut Overlay) -> Result<(), Trouble> {
    let mail = std::mem::take(&mut overlay.mail);
    if mail.is_empty() {
        return Ok(());
    }
    let (mut nodes, mut for_others) = (Vec::new(), Vec::new());
    let (mut jobs, mut bodies) = (Vec::new(), Vec::new());
    for it in mail {
        nodes.push(it.node.0);
        for_others.push(it.is_for_others);
        jobs.push(it.job.0);
        bodies.push(it.body);
    }
    let sql = "INSERT INTO host_mail (node, job, body) SELECT number, job, new.body \
               FROM unnest($1::uuid[], $2::boolean[], $3::uuid[], $4::bytea[]) \
               AS new (to_node, for_others, job, body) JOIN host_nodes ON CASE WHEN for_others \
               THEN id <> to_node AND number IN (SELECT node FROM host_beats WHERE life = 0) \
               ELSE id = to_node END";
    let values = values![nodes, for_others, jobs, bodies];
    pipeline
        .add("send messages to other nodes", sql, values)
        .await
}

async fn attempts(pipeline: &mut Pipeline<'_>, overlay: &mut Overlay) -> Result<(), Trouble> {
    let rows = std::mem::take(&mut overlay.attempts);
    if !rows.is_empty() {
        let (mut jobs, mut numbers, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        let (mut progress, mut results) = (Vec::new(), Vec::new());
        let rows = rows
            .into_iter()
            .flat_map(|(job, rows)| rows.into_iter().map(move |row| (job, row)));
        for (job, row) in rows {
            jobs.push(job.0);
            numbers.push(i64::from(row.number));
            bodies.push(row.body);
            progress.push(row.progress);
            results.push(row.result.map(|JsonText(text)| text));
        }
        let sql = "INSERT INTO host_attempts (job, number, body, progress, result) SELECT * FROM \
                   unnest($1::uuid[], $2::bigint[], $3::bytea[], $4::bytea[], $5::text[])";
        let values = values![jobs, numbers, bodies, progress, results];
        pipeline.add("write attempts", sql, values).await?;
    }
    let forgotten = std::mem::take(&mut overlay.forgotten_attempts);
    if !forgotten.is_empty() {
        let jobs: Vec<Uuid> = forgotten.keys().map(|job| job.0).collect();
        let numbers: Vec<i64> = forgotten.into_values().map(i64::from).collect();
        let sql = "DELETE FROM host_attempts AS old USING unnest($1::uuid[], $2::bigint[]) \
                   AS kept (job, number) WHERE old.job = kept.job AND old.number < kept.number";
        let values = values![jobs, numbers];
        pipeline.add("delete old attempts", sql, values).await?;
    }
    let failures = std::mem::take(&mut overlay.failures);
    if !failures.is_empty() {
        let jobs: Vec<Uuid> = failures.keys().map(|job| job.0).collect();
        let attempts: Vec<i64> = failures.values().map(|row| row.0.into()).collect();
        let bodies: Vec<Vec<u8>> = failures.into_values().map(|row| row.1).collect();
        let sql = "INSERT INTO host_failures (job, attempt, body) \
                   SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bytea[]) \
                   ON CONFLICT (job) DO UPDATE SET attempt = EXCLUDED.attempt, body = EXCLUDED.body";
        let values = values![jobs, attempts, bodies];
        pipeline.add("write why jobs failed", sql, values).await?;
    }
    Ok(())
}

/// The changes of a batch, and the node that made them.
pub(super) struct BatchRecord {
    pub(super) node: i32,
    pub(super) batch: i64,
    pub(super) now: Time,
    pub(super) rows: Vec<ChangesRow>,
}

/// Writes the changed rows, the numbers of queues and the changes, and commits. Returns the next wakeup.
pub(super) async fn commit(
    client: &Client,
    overlay: &mut Overlay,
    counts: &mut Counts,
    record: BatchRecord,
) -> Result<Option<Time>, Trouble> {
    let BatchRecord { node, batch, .. } = record;
    let mut pipeline = Pipeline::new(client);
    add(&mut pipeline, overlay, counts.take_made()).await?;
    let firsts = pipeline.len();
    let firsts = firsts..firsts + counts.add_stale(&mut pipeline).await?;
    let changes_of_counts = counts.take_changed();
    let steps = &changes_of_counts.steps;
    let wakeup = pipeline.len();
    let operation = "find the next wakeup";
    let passed_over: Vec<Uuid> = counts.passed_over.iter().map(|id| id.0).collect();
    let values = values![passed_over];
    pipeline.add(operation, NEXT_WAKEUP, values).await?;
    if !steps.is_empty() {
        let queues: Vec<String> = steps.iter().map(|row| row.0.to_string()).collect();
        let states: Vec<i16> = steps.iter().map(|row| row.1).collect();
        let steps: Vec<i64> = steps.iter().map(|row| row.2).collect();
        let sql = "INSERT INTO host_counts AS old (node, queue, state, jobs) \
                   SELECT $1, * FROM unnest($2::text[], $3::smallint[], $4::bigint[]) \
                   ON CONFLICT (node, queue, state) DO UPDATE SET jobs = old.jobs + EXCLUDED.jobs";
        let values = values![node, queues, states, steps];
        pipeline
            .add("write the counters of queues", sql, values)
            .await?;
    }
    let owned = std::mem::take(&mut overlay.owned);
    if !owned.is_empty() {
        let (principals, steps): (Vec<String>, Vec<i64>) = owned.into_iter().unzip();
        let sql = "INSERT INTO host_owned AS old (node, principal, jobs) \
                   SELECT $1, * FROM unnest($2::text[], $3::bigint[]) \
                   ON CONFLICT (node, principal) DO UPDATE SET jobs = old.jobs + EXCLUDED.jobs";
        let values = values![node, principals, steps];
        pipeline
            .add("count the jobs of principals", sql, values)
            .await?;
    }
    if batch % FORGET_EVERY == 0 {
        // A row is forgotten once the row after it is old enough too.
        let sql = "DELETE FROM host_changes WHERE first < (SELECT max(first) FROM host_changes \
                   WHERE first <= (SELECT next_change FROM host_log WHERE id = 1) - $1)";
        let kept = i64::try_from(CHANGES_KEPT).unwrap_or(i64::MAX);
        pipeline
            .add("delete old changes", sql, values![kept])
            .await?;
    }
    if !record.rows.is_empty() {
        // Last: what a batch has seen has smaller ids.
        let sql = "WITH next AS MATERIALIZED (SELECT nextval('host_change_ids') AS id) \
                   INSERT INTO host_changes (id, place, count, node, batch, at, body, counts) \
                   SELECT id, place, count, $1, $2, $3, body, \
                   CASE WHEN place = 0 THEN $7::bytea END FROM next, \
                   unnest($4::bigint[], $5::bigint[], $6::bytea[]) AS rows (place, count, body)";
        let counts = encode(&changes_of_counts).map_err(Trouble::Fatal)?;
        let (mut places, mut sizes, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for row in record.rows {
            places.push(i64::try_from(row.place).unwrap_or(i64::MAX));
            sizes.push(i64::try_from(row.count).unwrap_or(i64::MAX));
            bodies.push(row.body);
        }
        let values = values![node, batch, record.now.0, places, sizes, bodies, counts,];
        pipeline.add("keep changes", sql, values).await?;
    }
    for (at, record) in std::mem::take(&mut overlay.audit) {
        let values = values![at.0, record];
        pipeline.add("append to the audit", APPEND, values).await?;
    }
    pipeline.simple("commit a batch", "COMMIT");
    let answers = pipeline.run().await?;
    for rows in &answers[firsts] {
        counts.set_firsts(rows)?;
    }
    let next_wakeup = answers.get(wakeup).and_then(|rows| rows.first()?.get(0));
    Ok(next_wakeup.map(Time))
}
