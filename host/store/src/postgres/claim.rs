//! Finds jobs that are claimable or due, and locks them. Hosts that search at the same time find different
//! jobs, because each skips what another has locked.

use std::collections::{BTreeSet, HashMap};

use host_core::id::JobId;
use host_core::job::{Lane, Payload, State};
use host_core::name::Name;
use host_core::time::Time;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::Client;
use super::counts::parse_name;
use super::fetch::{know_dependents, load};
use super::overlay::Overlay;
use super::pipeline::{Pipeline, Value, values};
use super::trouble::{Trouble, damaged};
use crate::ready::QueuePosition;
use crate::record::Extra;

/// Jobs of the queues `$1` for cells that run several jobs concurrently. Params come along if they are small.
const SHARED: &str = "WITH found AS MATERIALIZED (
  SELECT live.seq, live.id, live.body, live.rank, live.priority FROM unnest($1::text[]) AS wanted (name)
  JOIN host_queues AS queues ON queues.name = wanted.name AND NOT queues.paused
  CROSS JOIN LATERAL (
    SELECT seq, id, body, rank, priority FROM host_live
    WHERE state = 2 AND NOT suspect AND runner IS NULL AND queue = wanted.name
    ORDER BY priority, rank LIMIT $2 FOR UPDATE SKIP LOCKED
  ) AS live
  ORDER BY live.priority, live.rank LIMIT $2
)
SELECT seq, id, found.body, rank, wire, extra, CASE WHEN length(params) <= 8192 THEN params END
FROM found JOIN host_payloads ON job = id ORDER BY priority, rank";

/// What the first jobs of the queues `$1` for such cells are, from the places `$2` and `$3` on, at most `$4` of each: how
/// many, the last of them, and those of other handlers than `$5`. It locks none: others may run what this host cannot.
const SEARCH: &str = "SELECT wanted.name, count(*), max(ARRAY[seen.priority, seen.rank]),
  min(ARRAY[seen.priority, seen.rank]) FILTER (WHERE handler <> ALL($5::text[])),
  array_agg(seen.id ORDER BY seen.priority, seen.rank) FILTER (WHERE handler <> ALL($5::text[]))
FROM unnest($1::text[], $2::smallint[], $3::bigint[]) AS wanted (name, priority, rank)
JOIN host_queues AS queues ON queues.name = wanted.name AND NOT queues.paused
CROSS JOIN LATERAL (
  SELECT id, handler, live.priority::bigint AS priority, live.rank FROM host_live AS live
  WHERE state = 2 AND NOT suspect AND runner IS NULL AND queue = wanted.name
  AND (live.priority, live.rank) >= (wanted.priority, wanted.rank)
  ORDER BY live.priority, live.rank LIMIT $4
) AS seen GROUP BY wanted.name";

/// Those of the jobs `$1` that such cells may still claim, `$2` at most.
const TAKE: &str = "WITH found AS MATERIALIZED (
  SELECT seq, id, body, rank, priority FROM host_live
  WHERE id = ANY($1) AND state = 2 AND NOT suspect AND runner IS NULL
  ORDER BY priority, rank LIMIT $2 FOR UPDATE SKIP LOCKED
)
SELECT seq, id, found.body, rank, wire, extra, CASE WHEN length(params) <= 8192 THEN params END
FROM found JOIN host_payloads ON job = id ORDER BY priority, rank";

/// The same as the first for the executors `$3`, whatever the handler.
const RUNNER: &str = "WITH found AS MATERIALIZED (
  SELECT live.seq, live.id, live.body, live.rank, live.priority FROM unnest($1::text[]) AS wanted (name)
  JOIN host_queues AS queues ON queues.name = wanted.name AND NOT queues.paused
  CROSS JOIN LATERAL (
    SELECT seq, id, body, rank, priority FROM host_live
    WHERE state = 2 AND runner IS NOT NULL AND runner = $3 AND queue = wanted.name
    ORDER BY priority, rank LIMIT $2 FOR UPDATE SKIP LOCKED
  ) AS live
  ORDER BY live.priority, live.rank LIMIT $2
)
SELECT seq, id, found.body, rank, wire, extra, CASE WHEN length(params) <= 8192 THEN params END
FROM found JOIN host_payloads ON job = id ORDER BY priority, rank";

/// Suspects, which are few, without those of the handlers `$2`.
const APART: &str = "WITH found AS MATERIALIZED (
  SELECT seq, id, body, rank, priority FROM host_live
  WHERE state = 2 AND suspect AND runner IS NULL
  AND handler <> ALL($2::text[])
  AND NOT EXISTS (SELECT FROM host_queues WHERE name = queue AND paused)
  ORDER BY priority, rank LIMIT $1 FOR UPDATE SKIP LOCKED
)
SELECT seq, id, found.body, rank, wire, extra, CASE WHEN length(params) <= 8192 THEN params END
FROM found JOIN host_payloads ON job = id ORDER BY priority, rank";

async fn ask(
    client: &Client,
    operation: &'static str,
    sql: &'static str,
    values: Vec<Value>,
) -> Result<Vec<Row>, Trouble> {
    let mut pipeline = Pipeline::new(client);
    pipeline.add(operation, sql, values).await?;
    Ok(pipeline.run().await?.pop().unwrap_or_default())
}

/// Loads the first claimable jobs of a lane that the rows show, at least `limit` that the batch has
/// not changed if there are so many. Returns all that were found.
pub(super) async fn claimable(
    client: &Client,
    overlay: &mut Overlay,
    (lane, queues): (&Lane, Vec<String>),
    except: &BTreeSet<Name>,
    passed_over: &BTreeSet<JobId>,
    limit: usize,
) -> Result<Vec<JobId>, Trouble> {
    let rows = rows_for(overlay, limit + passed_over.len());
    let (sql, values) = match lane {
        Lane::Shared => (SHARED, values![queues, rows]),
        Lane::Apart => (APART, values![rows, texts(except)]),
        Lane::Executor(name) => (RUNNER, values![queues, rows, name.to_string()]),
    };
    load_claimable(client, overlay, passed_over, sql, values).await
}

/// What a search of the next jobs of a queue shows.
pub(super) struct QueueScan {
    /// How many jobs were examined.
    pub(super) jobs: usize,
    /// The place behind the last of them.
    pub(super) next: QueuePosition,
    /// The place of the first that this host can run.
    pub(super) first: Option<QueuePosition>,
    /// All of these, in their order.
    pub(super) ids: Vec<JobId>,
}

/// Looks at the next jobs of queues for cells, each from a place on, at most `each`. A queue without any is left out.
pub(super) async fn scan(
    client: &Client,
    from: &[(Name, QueuePosition)],
    except: &BTreeSet<Name>,
    each: usize,
) -> Result<HashMap<Name, QueueScan>, Trouble> {
    let names: Vec<String> = from.iter().map(|(name, _)| name.to_string()).collect();
    let priorities: Vec<i16> = from.iter().map(|(_, place)| i16::from(place.0)).collect();
    let ranks: Vec<i64> = from.iter().map(|(_, place)| place.1).collect();
    let each = i64::try_from(each).unwrap_or(i64::MAX);
    let values = values![names, priorities, ranks, each, texts(except)];
    let mut scans = HashMap::new();
    for row in ask(client, "find jobs to claim", SEARCH, values).await? {
        let name = parse_name(row.get(0)).map_err(Trouble::Fatal)?;
        let last = place(&row.get::<_, Vec<i64>>(2)).ok_or_else(|| damaged_place(&name))?;
        let first: Option<Vec<i64>> = row.get(3);
        let ids: Option<Vec<Uuid>> = row.get(4);
        let scan = QueueScan {
            jobs: usize::try_from(row.get::<_, i64>(1)).unwrap_or(usize::MAX),
            next: (last.0, last.1.saturating_add(1)),
            first: first.as_deref().and_then(place),
            ids: ids.unwrap_or_default().into_iter().map(JobId).collect(),
        };
        scans.insert(name, scan);
    }
    Ok(scans)
}

/// Loads the first of these jobs that may still be claimed, see [`claimable`].
pub(super) async fn take(
    client: &Client,
    overlay: &mut Overlay,
    jobs: Vec<JobId>,
    passed_over: &BTreeSet<JobId>,
    limit: usize,
) -> Result<Vec<JobId>, Trouble> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = jobs.into_iter().map(|id| id.0).collect();
    let values = values![ids, rows_for(overlay, limit + passed_over.len())];
    load_claimable(client, overlay, passed_over, TAKE, values).await
}

/// Returns how many rows to read for `limit` jobs that the batch has not changed.
fn rows_for(overlay: &Overlay, limit: usize) -> i64 {
    let changed = overlay
        .dirty()
        .filter(|entry| entry.stored == Some(State::Available));
    i64::try_from(limit + changed.count()).unwrap_or(i64::MAX)
}

fn texts(names: &BTreeSet<Name>) -> Vec<String> {
    names.iter().map(Name::to_string).collect()
}

/// Reads a priority and a rank.
fn place(place: &[i64]) -> Option<QueuePosition> {
    let [priority, rank] = place else {
        return None;
    };
    Some((u8::try_from(*priority).ok()?, *rank))
}

fn damaged_place(queue: &Name) -> Trouble {
    Trouble::Fatal(damaged(
        format!("the order of the jobs of queue {queue}"),
        "a job has no place in it",
    ))
}

async fn load_claimable(
    client: &Client,
    overlay: &mut Overlay,
    passed_over: &BTreeSet<JobId>,
    sql: &'static str,
    values: Vec<Value>,
) -> Result<Vec<JobId>, Trouble> {
    let mut found = Vec::new();
    for row in ask(client, "find jobs to claim", sql, values).await? {
        if passed_over.contains(&JobId(row.get(1))) {
            continue;
        }
        let id = load(overlay, &row);
        // A claim that meets a payload which cannot be read asks for it again, and gets the reason.
        if let Some(params) = row.get::<_, Option<String>>(6)
            && let Ok(payload) = payload(&row, id, params)
        {
            overlay.claimed.insert(id, payload);
        }
        found.push(id);
    }
    Ok(found)
}

fn payload(row: &Row, id: JobId, params: String) -> Result<Payload, host_engine::StoreError> {
    let extra = Extra::read(row.get(5), || id.to_string())?;
    let (payload, _) = extra.whole(params, row.get(4));
    Ok(payload)
}

/// Loads jobs whose rows are due, at least `limit` that the batch has not changed if there are so many.
pub(super) async fn due(
    client: &Client,
    overlay: &mut Overlay,
    passed_over: &BTreeSet<JobId>,
    now: Time,
    limit: usize,
) -> Result<Vec<JobId>, Trouble> {
    let changed = overlay.dirty().filter(|entry| entry.stored.is_some());
    let wanted = limit + changed.count() + passed_over.len();
    let rows = i64::try_from(wanted).unwrap_or(i64::MAX);
    let mut pipeline = Pipeline::new(client);
    for sql in [
        "SELECT seq, id, body, rank FROM host_live WHERE wakeup_at <= $1 \
         ORDER BY wakeup_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED",
        "SELECT seq, id, body, rank FROM host_ended WHERE wakeup_at <= $1 \
         ORDER BY wakeup_at, seq LIMIT $2 FOR UPDATE SKIP LOCKED",
    ] {
        let operation = "find due jobs";
        pipeline.add(operation, sql, values![now.0, rows]).await?;
    }
    let answers = pipeline.run().await?;
    let loaded: Vec<_> = answers
        .iter()
        .flatten()
        .filter(|row| !passed_over.contains(&JobId(row.get(1))))
        .map(|row| load(overlay, row))
        .collect();
    know_dependents(client, overlay, &loaded).await?;
    Ok(loaded)
}

/// Loads and locks running jobs behind a place, at least `limit` that the batch has not changed if there are so many. Returns
/// their places too.
pub(super) async fn running(
    client: &Client,
    overlay: &mut Overlay,
    after: i64,
    limit: usize,
) -> Result<Vec<(i64, JobId)>, Trouble> {
    let changed = overlay.dirty().filter(|entry| entry.stored.is_some());
    let limit = i64::try_from(limit + changed.count()).unwrap_or(i64::MAX);
    let sql = "SELECT seq, id, body, rank FROM host_live WHERE state = 3 AND seq > $1 \
               ORDER BY seq LIMIT $2 FOR UPDATE";
    let rows = ask(client, "find running jobs", sql, values![after, limit]).await?;
    let loaded = rows.iter().map(|row| (row.get(0), load(overlay, row)));
    Ok(loaded.collect())
}
