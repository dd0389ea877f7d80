//! The jobs of batches, for the engine.

use host_core::id::{BatchId, JobId};
use host_engine::StoreError;
use host_engine::batch::BatchRows;

use super::fetch;
use super::pipeline::values;
use super::rows::Transaction;

impl BatchRows for Transaction<'_> {
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
        let jobs: Vec<(u64, JobId)> = found
            .iter()
            .map(|row| (row.get::<_, i64>(0).unsigned_abs(), JobId(row.get(1))))
            .collect();
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
