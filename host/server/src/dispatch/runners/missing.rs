//! Stands for a pool that is not configured: whatever it is given fails, as a job does whose handler
//! is gone.

use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_protocols::port::Tag;
use host_protocols::runner::{Assignment, End};

use super::RunnerPort;
use crate::runners::{Inbox, Over, is_lane};

/// How many jobs fail at once.
pub(super) const AT_ONCE_MAX: usize = 256;

pub(super) struct Missing {
    runner: Name,
    inbox: Arc<Inbox>,
}

impl Missing {
    pub(super) fn new(runner: Name, inbox: Arc<Inbox>) -> Self {
        Self { runner, inbox }
    }
}

impl RunnerPort for Missing {
    fn start(&self, tag: Tag, _assignment: Assignment) {
        let next = if is_lane(self.runner.as_str()) {
            "a worker of Hero needs the setting protocol.hero.url"
        } else {
            "each is a table protocol.rrq.runners.NAME of the configuration"
        };
        let message = format!("no runner is named {}; {next}", self.runner);
        let failure = Failure::new(FailureKind::HandlerNotFound, message);
        self.inbox.over(Over {
            tag,
            executor: self.runner.to_string(),
            end: End::Outcome(Outcome::Failed(failure)),
        });
    }

    /// Nothing is ever in flight.
    fn cancel(&self, _tag: Tag, _grace_ms: u64) {}
}
