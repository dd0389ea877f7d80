//! Stands in for an executor that is not configured. Every attempt fails, as if its handler did not
//! exist.

use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::port::{Assign, AssignEvents, Assignment, End, Tag};

/// How many jobs fail at once.
pub(super) const AT_ONCE_MAX: usize = 256;

pub(super) struct Missing {
    executor: Name,
    events: Arc<dyn AssignEvents>,
}

impl Missing {
    pub(super) fn new(executor: Name, events: Arc<dyn AssignEvents>) -> Self {
        Self { executor, events }
    }
}

impl Assign for Missing {
    fn start(&self, tag: Tag, _assignment: Assignment) {
        let message = format!(
            "no runner is named {}: this host is not configured for it; `host runner ls` lists the runners it has",
            self.executor
        );
        let failure = Failure::new(FailureKind::HandlerNotFound, message);
        let end = End::Outcome(Outcome::Failed(failure));
        self.events.ended(tag, self.executor.to_string(), end);
    }

    /// Nothing is ever in flight.
    fn cancel(&self, _tag: Tag, _grace_ms: u64) {}
}
