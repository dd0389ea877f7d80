//! The attempts that are out there: sent to a worker, or about to be. The leases in the store are the
//! truth; this is what the parts of the control plane tell each other about them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::id::{JobId, LeaseId};
use host_core::name::Name;
use host_core::port::lease::LeaseEvents;
use host_core::time::Time;
use tokio::sync::{Mutex as Turn, watch};

use crate::arco::token::Scope;

/// One leased attempt.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    /// The executor that has it.
    pub(super) executor: Option<Name>,
    pub(super) scope: Scope,
    pub(super) key: String,
    /// When its time is over; it is then asked to stop.
    pub(super) due: Option<Time>,
    life: watch::Sender<Life>,
    /// Messages about one lease go to the host one after the other.
    pub(super) turn: Turn<()>,
}

/// How far an attempt is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Life {
    /// Its worker has said that it began.
    pub(super) has_begun: bool,
    /// It is to stop.
    pub(super) is_cancelled: bool,
    /// Its lease is over.
    pub(super) is_over: bool,
}

impl Attempt {
    pub(super) fn new(
        (job, lease): (JobId, LeaseId),
        executor: Option<Name>,
        (scope, key): (Scope, String),
        due: Option<Time>,
        life: Life,
    ) -> Self {
        Self {
            job,
            lease,
            executor,
            scope,
            key,
            due,
            life: watch::Sender::new(life),
            turn: Turn::default(),
        }
    }

    pub(super) fn life(&self) -> Life {
        *self.life.borrow()
    }

    pub(super) fn begin(&self) {
        self.life.send_modify(|life| life.has_begun = true);
    }

    /// Waits until the attempt is as far as `is_it` says.
    pub(super) async fn until(&self, is_it: impl Fn(Life) -> bool) {
        let mut watched = self.life.subscribe();
        // The sender lives as long as this attempt.
        let _reached = watched.wait_for(|life| is_it(*life)).await;
    }
}

/// All attempts that are out there, one for each job.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    by_job: Mutex<HashMap<JobId, Arc<Attempt>>>,
}

impl Attempts {
    /// Adds an attempt, or returns the one with the same lease that is there already.
    pub(super) fn add(&self, attempt: Attempt) -> Arc<Attempt> {
        let mut all = self.lock();
        if let Some(there) = all.get(&attempt.job) {
            if there.lease == attempt.lease {
                return Arc::clone(there);
            }
            there.life.send_modify(|life| life.is_over = true);
        }
        let attempt = Arc::new(attempt);
        all.insert(attempt.job, Arc::clone(&attempt));
        attempt
    }

    pub(super) fn find(&self, job: JobId) -> Option<Arc<Attempt>> {
        self.lock().get(&job).cloned()
    }

    /// Removes an attempt whose lease is over.
    pub(super) fn end(&self, job: JobId, lease: LeaseId) {
        let mut all = self.lock();
        if all.get(&job).is_some_and(|attempt| attempt.lease == lease)
            && let Some(attempt) = all.remove(&job)
        {
            attempt.life.send_modify(|life| life.is_over = true);
        }
    }

    /// Counts the attempts of an executor.
    pub(super) fn of(&self, executor: &Name) -> usize {
        let all = self.lock();
        let its = |attempt: &&Arc<Attempt>| attempt.executor.as_ref() == Some(executor);
        all.values().filter(its).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Attempt>>> {
        self.by_job.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LeaseEvents for Attempts {
    fn cancelled(&self, job: JobId, lease: LeaseId, _: u64) {
        if let Some(attempt) = self.find(job).filter(|it| it.lease == lease) {
            attempt.life.send_modify(|life| life.is_cancelled = true);
        }
    }

    fn revoked(&self, job: JobId, lease: LeaseId) {
        self.end(job, lease);
    }
}
