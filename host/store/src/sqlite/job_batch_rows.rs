//! The jobs of batches, for the engine.

use host_core::id::{BatchId, JobId};
use host_engine::StoreError;
use host_engine::batch::BatchRows;
use rusqlite::params;

use super::jobs::Transaction;
use super::{doing, job_id};

impl BatchRows for Transaction<'_> {
    fn jobs_of_batch(
        &mut self,
        id: BatchId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, JobId)>, StoreError> {
        self.flush()?;
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT id, seq FROM jobs INDEXED BY jobs_batch_live \
                 WHERE batch = ?1 AND state < 5 AND seq > ?2 ORDER BY seq LIMIT ?3",
            )?;
            let params = params![id.0.as_bytes(), after.cast_signed(), limit];
            let rows = statement.query_map(params, |row| {
                Ok((row.get::<_, i64>(1)?.unsigned_abs(), job_id(row)?))
            })?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(doing("find the jobs of a batch"))
    }

    fn discarded_of_batch(&mut self, id: BatchId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        self.flush()?;
        let read = || {
            let mut statement = self.connection.prepare_cached(
                "SELECT id FROM jobs INDEXED BY jobs_batch_discarded WHERE batch = ?1 AND state = 7 \
                 ORDER BY seq LIMIT ?2",
            )?;
            let rows = statement.query_map(params![id.0.as_bytes(), limit], job_id)?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(doing("find the failed jobs of a batch"))
    }
}
