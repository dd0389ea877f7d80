//! The progress of running jobs, shared with nodes other than the one where they run.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::time::Time;
use host_engine::StoreError;
use host_engine::node::Reported;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::{Client, rows};
use crate::record::{decode, encode};

/// How many reports are read at a time.
const READ_MAX: i64 = 1_000;

/// Deletes the reports of node `$1` about the jobs `$2`, and writes others. Does not wait for the disk. A
/// later report of another node stays.
const PUBLISH: &str = "WITH over AS (\
      DELETE FROM host_progress WHERE node = $1 AND job = ANY($2::uuid[])) \
    INSERT INTO host_progress AS old (job, node, n, attempt, at, body) \
    SELECT job, $1, nextval('host_progress_numbers'), attempt, at, body \
    FROM unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bytea[]) AS new (job, attempt, at, body) \
    WHERE set_config('synchronous_commit', 'off', TRUE) <> '' ORDER BY job \
    ON CONFLICT (job) DO UPDATE SET node = EXCLUDED.node, n = EXCLUDED.n, \
      attempt = EXCLUDED.attempt, at = EXCLUDED.at, body = EXCLUDED.body \
    WHERE (old.attempt, old.at) <= (EXCLUDED.attempt, EXCLUDED.at)";

/// Reads the reports of nodes other than `$1` about running jobs, after the numbers `$3` of the nodes `$2`.
/// The reports of one node become visible in the order of their numbers.
const HEAR: &str = "SELECT job, attempt, at, progress.body, progress.node, n \
    FROM host_progress AS progress JOIN host_live AS live ON live.id = job AND live.state = 3 \
    LEFT JOIN unnest($2::bigint[], $3::bigint[]) AS seen (node, last) \
      ON seen.node = progress.node \
    WHERE progress.node <> $1 AND n > coalesce(last, 0) ORDER BY n LIMIT $4";

const OF: &str = "SELECT job, attempt, at, body FROM host_progress WHERE job = ANY($1::uuid[])";

/// Publishes the progress of a node's jobs, and deletes that of others.
pub(super) async fn publish(
    client: &Client,
    node: i32,
    reported: &[Reported],
    over: &[JobId],
) -> Result<(), StoreError> {
    let over: Vec<Uuid> = over.iter().map(|job| job.0).collect();
    let jobs: Vec<Uuid> = reported.iter().map(|it| it.job.0).collect();
    let attempts: Vec<i64> = reported.iter().map(|it| it.attempt.into()).collect();
    let times: Vec<i64> = reported.iter().map(|it| it.at.0).collect();
    let bodies: Vec<Vec<u8>> = reported
        .iter()
        .map(|it| encode(&it.progress))
        .collect::<Result<_, _>>()?;
    let operation = "publish the progress of jobs";
    rows(
        client,
        operation,
        PUBLISH,
        &[&node, &over, &jobs, &attempts, &times, &bodies],
    )
    .await
    .map(drop)
}

/// Reads the reports of other nodes after `seen`, the last number of each.
pub(super) async fn read_new(
    client: &Client,
    node: i32,
    seen: &mut BTreeMap<i32, i64>,
) -> Result<Vec<Reported>, StoreError> {
    let last_of = seen.iter().map(|(node, n)| (i64::from(*node), *n));
    let (nodes, last): (Vec<i64>, Vec<i64>) = last_of.unzip();
    let operation = "read the progress of jobs of other nodes";
    let found = rows(client, operation, HEAR, &[&node, &nodes, &last, &READ_MAX]).await?;
    for row in &found {
        seen.insert(row.get(4), row.get(5));
    }
    found.iter().map(read).collect()
}

/// Reads the latest progress of these jobs.
pub(super) async fn of(client: &Client, jobs: &[JobId]) -> Result<Vec<Reported>, StoreError> {
    let jobs: Vec<Uuid> = jobs.iter().map(|job| job.0).collect();
    let found = rows(client, "read the progress of jobs", OF, &[&jobs]).await?;
    found.iter().map(read).collect()
}

/// Deletes the progress that earlier processes of a node wrote.
pub(super) async fn forget(client: &Client, node: i32) -> Result<(), StoreError> {
    let sql = "DELETE FROM host_progress WHERE node = $1";
    rows(client, "delete old progress", sql, &[&node])
        .await
        .map(drop)
}

fn read(row: &Row) -> Result<Reported, StoreError> {
    let job = JobId(row.get(0));
    Ok(Reported {
        job,
        attempt: u32::try_from(row.get::<_, i64>(1)).unwrap_or_default(),
        at: Time(row.get(2)),
        progress: decode(row.get(3), || format!("the progress of job {job}"))?,
    })
}
