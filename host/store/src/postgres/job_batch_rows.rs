//! The rows of batches of jobs of one open transaction, for the engine.

use host_core::id::{BatchId, JobId};
use host_core::job_batch::JobBatch;
use host_core::time::Time;

use super::fetch;
use super::job_batches::{COUNT, decode, lock};
use super::pipeline::values;
use super::rows::Transaction;
use crate::engine::BatchRows;
use crate::error::StoreError;

impl BatchRows for Transaction<'_> {
    fn lock_batches(&mut self, ids: &[BatchId]) -> Result<(), StoreError> {
        self.wait(async |client, overlay| lock(client, &mut overlay.batches, ids).await)
    }

    fn job_batch(&mut self, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
        self.lock_batches(&[id])?;
        Ok(self.overlay.batches.get(id))
    }

    fn put_job_batch(&mut self, batch: &JobBatch) -> Result<(), StoreError> {
        self.overlay.batches.put(batch);
        Ok(())
    }

    fn delete_job_batch(&mut self, id: BatchId) -> Result<(), StoreError> {
        self.overlay.batches.delete(id);
        Ok(())
    }

    fn count_job_batches(&mut self) -> Result<u64, StoreError> {
        let found = self.flush_and_ask("count batches", COUNT, values![])?;
        let count = found.first().map_or(0, |row| row.get::<_, i64>(0));
        Ok(count.unsigned_abs())
    }

    fn due_job_batches(&mut self, now: Time, limit: usize) -> Result<Vec<JobBatch>, StoreError> {
        let sql = "SELECT id, body, progress FROM host_batches WHERE wake_at <= $1 \
                   ORDER BY wake_at, id LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let found = self.flush_and_ask("find batches that are due", sql, values![now.0, limit])?;
        found.iter().map(decode).collect()
    }

    fn jobs_of_batch(
        &mut self,
        id: BatchId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, JobId)>, StoreError> {
        let sql =
            "SELECT seq, id FROM host_live WHERE batch = $1 AND seq > $2 ORDER BY seq LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = values![id.0, after.cast_signed(), limit];
        let found = self.flush_and_ask("find the jobs of a batch", sql, values)?;
        let jobs = found
            .iter()
            .map(|row| (row.get::<_, i64>(0).unsigned_abs(), JobId(row.get(1))));
        let jobs: Vec<(u64, JobId)> = jobs.collect();
        let ids: Vec<JobId> = jobs.iter().map(|(_, id)| *id).collect();
        self.wait(async |client, overlay| {
            fetch::lock(client, overlay, &ids).await?;
            fetch::know_dependents(client, overlay, &ids).await
        })?;
        Ok(jobs)
    }

    fn discarded_of_batch(&mut self, id: BatchId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let sql = "SELECT id FROM host_ended WHERE batch = $1 AND state = 7 ORDER BY seq LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let operation = "find the failed jobs of a batch";
        let found = self.flush_and_ask(operation, sql, values![id.0, limit])?;
        Ok(found.iter().map(|row| JobId(row.get(0))).collect())
    }
}
