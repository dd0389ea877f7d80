//! What tests of wires that send attempts to their workers ask the host in memory.

use std::sync::Arc;

use host_core::id::JobId;
use host_core::policy::Policy;
use host_core::port::lease::End;
use host_core::transition::Input;

use super::{BOUND, LeaseHost};
use crate::LeaseAudit;

impl LeaseHost {
    /// Makes a host whose jobs have one attempt, however it ends, and the audit that a wire uses it through.
    pub fn of_single_attempts() -> (Arc<Self>, Arc<LeaseAudit>) {
        let host = Self::new();
        host.inner.lock().has_single_attempts = true;
        let audit = LeaseAudit::new(host.first());
        (host, audit)
    }

    /// Accepts a job for an executor and its handler, with a time limit of `timeout_ms`.
    pub fn give(&self, handler: (&str, &str), params: &str, timeout_ms: u64) -> JobId {
        let policy = Policy {
            timeout_ms: Some(timeout_ms),
            ..Policy::default()
        };
        self.enqueue(handler, params, policy, &[])
    }

    /// Stops a job within `grace_ms`.
    pub fn stop(&self, id: JobId, grace_ms: u64) {
        let (reason, grace_ms) = (None, Some(grace_ms));
        self.change(|inner, now| inner.apply(now, id, &Input::Cancel { reason, grace_ms }))
            .unwrap();
    }

    /// Returns how many attempts an executor takes, including those in flight.
    pub fn capacity(&self, executor: &str) -> usize {
        let inner = self.inner.lock();
        let waiting = inner
            .waiting
            .iter()
            .filter(|it| !it.respond.is_gone())
            .map(|it| &it.request)
            .filter(|request| request.executors[0].as_str() == executor);
        let in_flight = inner.jobs.values().map(|job| &job.lifecycle).filter(|job| {
            job.lease.is_some()
                && job
                    .executor
                    .as_ref()
                    .is_some_and(|it| it.as_str() == executor)
        });
        waiting.map(|request| request.slots).sum::<usize>() + in_flight.count()
    }

    /// Waits until an executor takes so many attempts.
    pub async fn until_capacity(&self, executor: &str, attempts: usize) {
        // A request may be withdrawn without a new one.
        let change = async {
            while self.capacity(executor) != attempts {
                tokio::task::yield_now().await;
            }
        };
        let reached = tokio::time::timeout(BOUND, change).await;
        assert!(reached.is_ok(), "{}", self.capacity(executor));
    }

    /// Returns the worker and the end of a job's latest attempt whose lease a connection held.
    pub fn end(&self, id: JobId) -> Option<(String, End)> {
        self.inner.lock().ends.get(&id).cloned()
    }

    /// Waits for this end.
    pub async fn until_end(&self, id: JobId) -> (String, End) {
        let mut changes = self.changes.subscribe();
        let change = changes.wait_for(|_| self.end(id).is_some());
        let reached = tokio::time::timeout(BOUND, change).await.is_ok();
        assert!(reached, "it stays {:?}", self.kept(id));
        self.end(id).unwrap()
    }
}
