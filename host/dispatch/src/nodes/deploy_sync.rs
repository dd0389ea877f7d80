//! Which deploys of other nodes this node may be missing.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use host_core::time::Time;
use host_engine::node::LEASE_MS;

/// When this node last took in what was deployed, and whether other nodes live.
#[derive(Debug)]
pub(crate) struct DeploySync {
    at: AtomicI64,
    has_others: AtomicBool,
}

impl Default for DeploySync {
    /// Until the first read there may be others.
    fn default() -> Self {
        Self {
            at: AtomicI64::new(i64::MIN),
            has_others: AtomicBool::new(true),
        }
    }
}

impl DeploySync {
    /// Records a read that began at `at` and is done.
    pub(crate) fn done(&self, at: Time, has_others: bool) {
        self.at.store(at.0, Ordering::Relaxed);
        self.has_others.store(has_others, Ordering::Relaxed);
    }

    /// Returns whether another node may run a handler that this one cannot run, for a job enqueued at
    /// `enqueued_at`. If this node knows the handler, its component does not run here, and the job waits for a
    /// node where it does. If not, it may have been deployed since the last read; what a read shows may be
    /// as old as a lease.
    pub(crate) fn may_run_elsewhere(&self, is_known: bool, enqueued_at: Time) -> bool {
        let synced = Time(self.at.load(Ordering::Relaxed));
        let has_others = self.has_others.load(Ordering::Relaxed);
        is_known || (has_others && synced < enqueued_at.plus_ms(LEASE_MS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_unknown_once_a_read_is_later_than_its_job() {
        let deploy_sync = DeploySync::default();
        let may = |is_known, at| deploy_sync.may_run_elsewhere(is_known, Time(at));
        assert!(may(false, 0) && may(true, 0));
        deploy_sync.done(Time(20_000), true);
        assert_eq!(
            [10_000, 10_001, 30_000].map(|at| may(false, at)),
            [false, true, true]
        );
        assert!(may(true, 0), "others may have compiled it");
        deploy_sync.done(Time(20_000), false);
        assert!(!may(false, 30_000), "there is no other node");
        assert!(may(true, 30_000), "another node may have joined");
    }
}
