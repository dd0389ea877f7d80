//! Batches of jobs of a store in memory.

use host_core::id::{BatchId, JobId};
use host_core::job::State;
use host_core::job_batch::JobBatch;
use host_core::time::Time;
use host_store::StoreError;
use host_store::engine::BatchRows;

use super::{Entry, Model};

impl BatchRows for Model {
    fn job_batch(&mut self, id: BatchId) -> Result<Option<JobBatch>, StoreError> {
        Ok(self.batches.get(&id).cloned())
    }

    fn put_job_batch(&mut self, batch: &JobBatch) -> Result<(), StoreError> {
        self.batches.insert(batch.id, batch.clone());
        Ok(())
    }

    fn delete_job_batch(&mut self, id: BatchId) -> Result<(), StoreError> {
        self.batches.remove(&id);
        Ok(())
    }

    fn count_job_batches(&mut self) -> Result<u64, StoreError> {
        Ok(self.open_batches())
    }

    fn due_job_batches(&mut self, now: Time, limit: usize) -> Result<Vec<JobBatch>, StoreError> {
        let mut due: Vec<_> = self
            .batches
            .values()
            .filter_map(|it| Some((it.wake_at()?, it)))
            .collect();
        due.retain(|(at, _)| *at <= now);
        due.sort_by_key(|(at, batch)| (*at, batch.id));
        Ok(due
            .into_iter()
            .take(limit)
            .map(|(_, it)| it.clone())
            .collect())
    }

    fn jobs_of_batch(
        &mut self,
        id: BatchId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<(u64, JobId)>, StoreError> {
        // Places begin with 0, but 0 means the one before the first.
        let jobs = self
            .of_batch(id)
            .filter(|entry| !entry.lifecycle.state.is_terminal())
            .map(|entry| (entry.seq + 1, entry.lifecycle.id));
        Ok(jobs
            .filter(|(place, _)| *place > after)
            .take(limit)
            .collect())
    }

    fn discarded_of_batch(&mut self, id: BatchId, limit: usize) -> Result<Vec<JobId>, StoreError> {
        let jobs = self.of_batch(id).map(|entry| &entry.lifecycle);
        let discarded = jobs.filter(|job| job.state == State::Discarded);
        Ok(discarded.take(limit).map(|job| job.id).collect())
    }
}

impl Model {
    fn of_batch(&self, id: BatchId) -> impl Iterator<Item = &Entry> {
        self.entries()
            .filter(move |entry| entry.lifecycle.batch == Some(id))
    }

    pub(super) fn open_batches(&self) -> u64 {
        let batches = self.batches.values();
        batches.filter(|it| it.progress.ended_at.is_none()).count() as u64
    }
}
