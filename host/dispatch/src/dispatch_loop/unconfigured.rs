//! Executors that this host is not configured for. Their jobs fail as if their handlers did not exist,
//! because the executors may never be configured.

use std::collections::BTreeSet;

use host_core::failure::{Failure, FailureKind};
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome, Report};

/// How many jobs of one executor fail at a time.
const AT_ONCE_MAX: usize = 256;

/// Returns whether this host is configured for an executor.
pub type IsConfigured = Box<dyn Fn(&Name) -> bool + Send>;

pub(super) struct Unconfigured {
    is_configured: IsConfigured,
    /// Whether other nodes may have the executors, now or later.
    is_shared: bool,
    names: BTreeSet<Name>,
}

impl Unconfigured {
    pub(super) fn new(is_configured: IsConfigured, is_shared: bool) -> Self {
        Self {
            is_configured,
            is_shared,
            names: BTreeSet::new(),
        }
    }

    /// Checks whether the host is configured for an executor that has jobs for the first time.
    pub(super) fn check(&mut self, executor: &Name) {
        if !(self.is_configured)(executor) && !self.is_shared {
            tracing::warn!(%executor, "jobs wait for an executor that is not configured; they are discarded");
            self.names.insert(executor.clone());
        }
    }

    /// Returns whether a claim may find jobs to fail.
    pub(super) fn may_claim(&self, may_have: impl Fn(&Name) -> bool) -> bool {
        self.names.iter().any(may_have)
    }

    /// Returns how many jobs of each executor may fail now.
    pub(super) fn offer(&self, demand: impl Fn(&Name) -> u64) -> Vec<(Name, usize)> {
        let slots = |executor: &Name| {
            let jobs = usize::try_from(demand(executor)).unwrap_or(usize::MAX);
            (executor.clone(), jobs.min(AT_ONCE_MAX))
        };
        self.names.iter().map(slots).collect()
    }

    /// Returns the end of an attempt of such an executor.
    pub(super) fn report(executor: String) -> Report {
        let message = format!(
            "no runner is named {executor}: this host is not configured for it; `host runner ls` lists the runners it has"
        );
        let failure = Failure::new(FailureKind::HandlerNotFound, message);
        Report {
            outcome: Outcome::Failed(failure),
            meter: Meter::default(),
            progress: None,
            executor,
            revision: None,
            worker: None,
            requests: None,
        }
    }
}
