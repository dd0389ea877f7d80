//! What running jobs last reported. It is kept in memory only and lost when the host stops.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::id::JobId;
use host_core::outcome::{Meter, Progress};

/// What each running job last reported, if it reported anything. Cloning shares it.
#[derive(Clone, Default)]
pub struct Live {
    jobs: Arc<Mutex<HashMap<JobId, Latest>>>,
}

/// What one running job last reported.
#[derive(Clone, Debug, Default)]
pub struct Latest {
    pub progress: Option<Progress>,
    /// What its attempt had used by then.
    pub meter: Meter,
}

impl Live {
    fn jobs(&self) -> MutexGuard<'_, HashMap<JobId, Latest>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what a running job last reported.
    pub fn latest(&self, job: JobId) -> Option<Latest> {
        self.jobs().get(&job).cloned()
    }

    /// Returns the latest progress of a running job.
    pub fn progress(&self, job: JobId) -> Option<Progress> {
        self.jobs().get(&job)?.progress.clone()
    }

    /// Stores a progress of a job that runs and does not end meanwhile.
    pub fn tell(&self, job: JobId, latest: Progress) {
        self.jobs().entry(job).or_default().progress = Some(latest);
    }

    /// Stores what an attempt has used. Only the dispatch loop calls it.
    pub fn used(&self, job: JobId, meter: Meter) {
        self.jobs().entry(job).or_default().meter = meter;
    }

    /// Removes a job whose attempt has ended and returns its last progress.
    pub fn forget(&self, job: JobId) -> Option<Progress> {
        self.jobs().remove(&job)?.progress
    }
}
