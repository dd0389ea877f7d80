//! The jobs of batches of a store in memory.

use host_core::id::{BatchId, JobId};
use host_core::job::State;
use host_engine::StoreError;
use host_engine::batch::BatchRows;

use super::{Entry, Model};

impl BatchRows for Model {
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
}
