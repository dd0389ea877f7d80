//! Finds jobs that are claimable or due, and locks them. Hosts that search at the same time find different
//! jobs, because each skips what another has locked.

use std::collections::BTreeSet;

use host_core::id::JobId;
use host_core::job::{Lane, Payload, State};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::time::Time;
use tokio_postgres::Row;

use super::client::Client;
use super::fetch::{know_dependents, load};
use super::overlay::Overlay;
use super::pipeline::{Pipeline, Value, values};
use super::trouble::Trouble;
use crate::record::Extra;

/// Jobs of the queues `$1` for cells that run several jobs at once, without those of the handlers `$3`.
/// Params come along if they are small.
const SHARED: &str = "WITH found AS MATERIALIZED (
  SELECT live.seq, live.id, live.body, live.rank, live.priority FROM unnest($1::text[]) AS wanted (name)
  JOIN host_queues AS queues ON queues.name = wanted.name AND NOT queues.paused
  CROSS JOIN LATERAL (
    SELECT seq, id, body, rank, priority FROM host_live
    WHERE state = 2 AND NOT suspect AND runner IS NULL AND queue = wanted.name
    AND handler <> ALL($3::text[])
    ORDER BY priority, rank LIMIT $2 FOR UPDATE SKIP LOCKED
  ) AS live
  ORDER BY live.priority, live.rank LIMIT $2
)
SELECT seq, id, found.body, rank, wire, extra, CASE WHEN length(params) <= 8192 THEN params END
FROM found JOIN host_payloads ON job = id ORDER BY priority, rank";

/// The same for the foreign runners `$3`, whatever the handler.
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
    limit: usize,
) -> Result<Vec<JobId>, Trouble> {
    let changed = overlay.dirty();
    let changed = changed.filter(|entry| entry.stored == Some(State::Available));
    let rows = i64::try_from(limit + changed.count()).unwrap_or(i64::MAX);
    let except: Vec<String> = except.iter().map(Name::to_string).collect();
    let (sql, values) = match lane {
        Lane::Shared => (SHARED, values![queues, rows, except]),
        Lane::Apart => (APART, values![rows, except]),
        Lane::Runner(name) => (RUNNER, values![queues, rows, name.to_string()]),
    };
    let mut found = Vec::new();
    for row in ask(client, "find jobs to claim", sql, values).await? {
        let id = load(overlay, &row).map_err(Trouble::Fatal)?;
        if let Some(params) = row.get::<_, Option<String>>(6) {
            let payload = payload(&row, id, params).map_err(Trouble::Fatal)?;
            overlay.claimed.insert(id, payload);
        }
        found.push(id);
    }
    Ok(found)
}

fn payload(row: &Row, id: JobId, params: String) -> Result<Payload, crate::error::StoreError> {
    let extra = Extra::read(row.get(5), || id.to_string())?;
    Ok(Payload {
        params: JsonText(params),
        wire: row.get(4),
        external_id: extra.external_id,
        trace_context: extra.trace_context,
        attributes: extra.attributes,
        origin: extra.origin,
    })
}

/// Loads jobs whose rows are due, at least `limit` that the batch has not changed if there are so many.
pub(super) async fn due(
    client: &Client,
    overlay: &mut Overlay,
    now: Time,
    limit: usize,
) -> Result<Vec<JobId>, Trouble> {
    let changed = overlay.dirty().filter(|entry| entry.stored.is_some());
    let rows = i64::try_from(limit + changed.count()).unwrap_or(i64::MAX);
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
    let rows = answers.iter().flatten();
    let loaded: Result<Vec<_>, _> = rows.map(|row| load(overlay, row)).collect();
    let loaded = loaded.map_err(Trouble::Fatal)?;
    know_dependents(client, overlay, &loaded).await?;
    Ok(loaded)
}

/// Loads and locks all running jobs.
pub(super) async fn running(client: &Client, overlay: &mut Overlay) -> Result<Vec<JobId>, Trouble> {
    let sql = "SELECT seq, id, body, rank FROM host_live WHERE state = 3 ORDER BY seq FOR UPDATE";
    let rows = ask(client, "find running jobs", sql, values![]).await?;
    let loaded: Result<_, _> = rows.iter().map(|row| load(overlay, row)).collect();
    loaded.map_err(Trouble::Fatal)
}
