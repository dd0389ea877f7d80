//! The latest progress of running jobs. It is kept in memory only and lost when the host stops.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use host_core::id::JobId;
use host_core::outcome::Progress;

/// The latest progress of each running job that reported any. Cloning shares it.
#[derive(Clone, Default)]
pub struct Live {
    progress: Arc<Mutex<HashMap<JobId, Progress>>>,
}

impl Live {
    /// Returns the latest progress of a running job.
    pub fn progress(&self, job: JobId) -> Option<Progress> {
        let progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.get(&job).cloned()
    }

    /// Stores a progress. Only the dispatch loop calls it.
    pub fn tell(&self, job: JobId, latest: Progress) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.insert(job, latest);
    }

    /// Removes a job whose attempt has ended and returns its last progress.
    pub fn forget(&self, job: JobId) -> Option<Progress> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.remove(&job)
    }
}
