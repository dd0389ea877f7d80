//! The host's side of one pool: passes its words on to the dispatch loop, and what its runners
//! write to the host's log.

use std::sync::Arc;

use host_core::name::Name;
use host_protocols::port::Tag;
use host_protocols::rrq::{Employer, End, Output, Room};

use super::inbox::{Inbox, Over};

pub(super) struct Office {
    runner: Name,
    inbox: Arc<Inbox>,
}

impl Office {
    pub(super) fn new(runner: Name, inbox: Arc<Inbox>) -> Self {
        Self { runner, inbox }
    }
}

impl Employer for Office {
    fn room(&self, room: Room) {
        self.inbox.room(&self.runner, room);
    }

    fn ended(&self, tag: Tag, executor: String, end: End) {
        self.inbox.over(Over { tag, executor, end });
    }

    fn wrote(&self, executor: &str, output: Output, line: &str) {
        match output {
            Output::Stdout => tracing::info!(runner = executor, output = "stdout", "{line}"),
            Output::Stderr => tracing::info!(runner = executor, output = "stderr", "{line}"),
            Output::Host => tracing::warn!(runner = executor, "{line}"),
        }
    }
}
