//! The rows of batches of jobs of one open transaction, for the engine.

use host_core::id::{BatchId, JobId};
use host_core::job_batch::JobBatch;
use host_core::time::Time;
use rusqlite::params;

use super::jobs::Transaction;
use super::{damaged, doing, execute, job_batches, job_id};
use crate::engine::BatchRows;
use crate::error::StoreError;

impl BatchRows for Transaction<'_> {
    fn job_batch(&mut self, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
        job_batches::one(self.connection, id)
    }

    fn put_job_batch(&mut self, batch: &JobBatch) -> Result<(), StoreError> {
        let writing = || damaged("a batch to write");
        let progress = serde_json::to_string(&batch.progress).map_err(writing())?;
        let (id, wake_at) = (batch.id.0.as_bytes(), batch.wake_at().map(|at| at.0));
        let ended = batch.progress.ended_at.is_some();
        let operation = "write a batch";
        let sql = "UPDATE batches SET progress = ?2, ended = ?3, wake_at = ?4 WHERE id = ?1";
        let written = self.connection.prepare_cached(sql);
        let written = written
            .and_then(|mut statement| statement.execute(params![id, progress, ended, wake_at]));
        if written.map_err(doing(operation))? > 0 {
            return Ok(());
        }
        let body = serde_json::to_string(&batch.plan).map_err(writing())?;
        execute(
            self.connection,
            operation,
            "INSERT INTO batches (id, body, progress, ended, wake_at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![id, body, progress, ended, wake_at],
        )
    }

    fn delete_job_batch(&mut self, id: BatchId) -> Result<(), StoreError> {
        let sql = "DELETE FROM batches WHERE id = ?1";
        execute(self.connection, "remove a batch", sql, [id.0.as_bytes()])
    }

    fn count_job_batches(&mut self) -> Result<u64, StoreError> {
        job_batches::count(self.connection)
    }

    fn due_job_batches(&mut self, now: Time, limit: usize) -> Result<Vec<JobBatch>, StoreError> {
        let sql = "SELECT id, body, progress FROM batches WHERE wake_at <= ?1 \
                   ORDER BY wake_at, id LIMIT ?2";
        job_batches::read(self.connection, sql, params![now.0, limit])
    }

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
