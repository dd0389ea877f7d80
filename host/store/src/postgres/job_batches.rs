//! Batches of jobs, as they are stored. A turn locks those that it touches when all of its jobs are locked, in the order of
//! their ids, and writes them at its end.

use std::collections::BTreeMap;

use host_core::id::BatchId;
use host_core::job_batch::JobBatch;
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::{Client, rows};
use super::pipeline::{Pipeline, values};
use super::trouble::{Trouble, damaged, unreadable};
use super::typed::Values;
use crate::error::StoreError;

/// The batches that a turn has read and changed.
#[derive(Default)]
pub(super) struct HeldBatches {
    /// `None` for those that do not exist.
    read: BTreeMap<BatchId, Option<JobBatch>>,
    changed: BTreeMap<BatchId, Written>,
}

/// How a batch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    New,
    Again,
    Deleted,
}

impl HeldBatches {
    pub(super) fn get(&self, id: BatchId) -> Option<JobBatch> {
        self.read.get(&id).cloned().flatten()
    }

    pub(super) fn put(&mut self, batch: &JobBatch) {
        let before = self.read.insert(batch.id, Some(batch.clone())).flatten();
        let written = match (before, self.changed.get(&batch.id)) {
            (Some(_), None | Some(Written::Again | Written::Deleted)) => Written::Again,
            (None, _) | (Some(_), Some(Written::New)) => Written::New,
        };
        self.changed.insert(batch.id, written);
    }

    pub(super) fn delete(&mut self, id: BatchId) {
        self.read.insert(id, None);
        if self.changed.insert(id, Written::Deleted) == Some(Written::New) {
            self.changed.remove(&id);
        }
    }

    /// Adds the statements that write the batches that have changed.
    pub(super) async fn flush(&mut self, pipeline: &mut Pipeline<'_>) -> Result<(), Trouble> {
        let mut deleted: Vec<Uuid> = Vec::new();
        let (mut ids, mut progress) = (Vec::<Uuid>::new(), Vec::new());
        let (mut ended, mut wake_at) = (Vec::new(), Vec::new());
        for (id, written) in std::mem::take(&mut self.changed) {
            let Some(batch) = self.read.get(&id).and_then(Option::as_ref) else {
                deleted.push(id.0);
                continue;
            };
            let has_ended = batch.progress.ended_at.is_some();
            let text = json(&batch.progress).map_err(Trouble::Fatal)?;
            let wakes = batch.wake_at().map(|at| at.0);
            if written == Written::New {
                let body = json(&batch.plan).map_err(Trouble::Fatal)?;
                let sql = "INSERT INTO host_batches (id, body, progress, ended, wake_at) \
                           VALUES ($1, $2, $3, $4, $5)";
                let values = values![id.0, body, text, has_ended, wakes];
                pipeline.add("add a batch", sql, values).await?;
            } else {
                ids.push(id.0);
                progress.push(text);
                ended.push(has_ended);
                wake_at.push(wakes);
            }
        }
        if !ids.is_empty() {
            let sql = "UPDATE host_batches AS old SET progress = new.progress, ended = new.ended, \
                       wake_at = new.wake_at \
                       FROM unnest($1::uuid[], $2::text[], $3::boolean[], $4::bigint[]) \
                       AS new (id, progress, ended, wake_at) WHERE old.id = new.id";
            let values = values![ids, progress, ended, wake_at];
            pipeline.add("write batches", sql, values).await?;
        }
        if !deleted.is_empty() {
            let sql = "DELETE FROM host_batches WHERE id = ANY($1)";
            pipeline
                .add("remove batches", sql, values![deleted])
                .await?;
        }
        Ok(())
    }
}

/// Reads and locks batches.
pub(super) async fn lock(
    client: &Client,
    held: &mut HeldBatches,
    ids: &[BatchId],
) -> Result<(), Trouble> {
    let held = &mut held.read;
    let unknown = ids.iter().filter(|id| !held.contains_key(*id));
    let unknown: Vec<Uuid> = unknown.map(|id| id.0).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let sql = "SELECT id, body, progress FROM host_batches WHERE id = ANY($1) \
               ORDER BY id FOR UPDATE";
    let found = client.ask(sql, &[&unknown]).await;
    let found = found.map_err(|error| Trouble::of("lock batches", &error))?;
    held.extend(unknown.into_iter().map(|id| (BatchId(id), None)));
    for row in &found {
        let batch = decode(row).map_err(Trouble::Fatal)?;
        held.insert(batch.id, Some(batch));
    }
    Ok(())
}

pub(super) const COUNT: &str = "SELECT count(*) FROM host_batches WHERE NOT ended";

fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    let text = serde_json::to_string(value);
    text.map_err(|error| damaged("a batch to write", error.to_string()))
}

pub(super) fn decode(row: &Row) -> Result<JobBatch, StoreError> {
    let id = BatchId(row.get(0));
    let wrong = |error: serde_json::Error| unreadable(format!("batch {id}"), &error);
    Ok(JobBatch {
        id,
        plan: serde_json::from_str(row.get(1)).map_err(wrong)?,
        progress: serde_json::from_str(row.get(2)).map_err(wrong)?,
    })
}

async fn read(
    client: &Client,
    sql: &'static str,
    values: Values<'_>,
) -> Result<Vec<JobBatch>, StoreError> {
    let found = rows(client, "read batches", sql, values).await?;
    found.iter().map(decode).collect()
}

pub(super) async fn one(client: &Client, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
    let sql = "SELECT id, body, progress FROM host_batches WHERE id = $1";
    Ok(read(client, sql, &[&id.0]).await?.pop())
}

/// Returns at most `limit` batches before one, the newest first.
pub(super) async fn page(
    client: &Client,
    before: Option<BatchId>,
    limit: u32,
) -> Result<Vec<JobBatch>, StoreError> {
    let before = before.map_or(Uuid::max(), |id| id.0);
    let sql = "SELECT id, body, progress FROM host_batches WHERE id < $1 ORDER BY id DESC LIMIT $2";
    read(client, sql, &[&before, &i64::from(limit)]).await
}

/// Counts the batches that have not ended.
pub(super) async fn count(client: &Client) -> Result<u64, StoreError> {
    let found = rows(client, "count batches", COUNT, &[]).await?;
    Ok(found
        .first()
        .map_or(0, |row| row.get::<_, i64>(0).unsigned_abs()))
}

/// Returns all batches.
pub(super) async fn all(client: &Client) -> Result<Vec<JobBatch>, StoreError> {
    read(client, "SELECT id, body, progress FROM host_batches", &[]).await
}
