//! Requests that wait until a job ends. The loop wakes only those that wait for that job.

use std::collections::HashMap;
use std::sync::Arc;

use host_core::id::JobId;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// The requests that wait, by job. Cloning shares it.
#[derive(Clone, Default)]
pub struct Waiters {
    waiting: Arc<Mutex<HashMap<JobId, JobWait>>>,
}

struct JobWait {
    ended: CancellationToken,
    waiters: usize,
}

/// One waiting request. It unregisters when it is dropped.
pub struct Waiter {
    job: JobId,
    ended: CancellationToken,
    waiters: Waiters,
}

impl Waiters {
    /// Registers for the end of `job`.
    pub fn wait(&self, job: JobId) -> Waiter {
        let mut waiting = self.waiting.lock();
        let entry = waiting.entry(job).or_insert_with(|| JobWait {
            ended: CancellationToken::new(),
            waiters: 0,
        });
        entry.waiters += 1;
        Waiter {
            job,
            ended: entry.ended.clone(),
            waiters: self.clone(),
        }
    }

    /// Returns whether any request waits.
    pub(crate) fn any(&self) -> bool {
        let waiting = self.waiting.lock();
        !waiting.is_empty()
    }

    /// Wakes the requests that wait for `job`, which has ended or was purged.
    pub fn ended(&self, job: JobId) {
        let mut waiting = self.waiting.lock();
        if let Some(waiting) = waiting.remove(&job) {
            waiting.ended.cancel();
        }
    }
}

impl Waiter {
    /// Waits until the job ends; an end before this waiter was made is not seen. Cancel safe.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let waiters = &self.waiters.waiting;
        let mut waiting = waiters.lock();
        if let Some(entry) = waiting.get_mut(&self.job)
            && !self.ended.is_cancelled()
        {
            entry.waiters -= 1;
            if entry.waiters == 0 {
                waiting.remove(&self.job);
            }
        }
    }
}
