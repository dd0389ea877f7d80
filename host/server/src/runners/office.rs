//! The host's side of one pool: passes its words on to the dispatch loop, and what its runners
//! write to the log of the job it is about, or else to the host's.

use std::sync::Arc;

use host_core::name::Name;
use host_protocols::port::Tag;
use host_protocols::rrq::{Employer, Output};
use host_protocols::runner::{Assignment, End, Room};

use super::inbox::{Inbox, Over};
use super::lines::Lines;

pub(super) struct Office {
    runner: Name,
    inbox: Arc<Inbox>,
    lines: Lines,
}

impl Office {
    pub(super) fn new(runner: Name, inbox: Arc<Inbox>, lines: Lines) -> Self {
        Self {
            runner,
            inbox,
            lines,
        }
    }

    /// Takes note of an execution that is about to be given to the pool.
    pub(super) fn begin(&self, tag: Tag, assignment: &Assignment) {
        self.lines.begin(tag, assignment);
    }

    /// Keeps nothing in jobs' logs any more.
    pub(super) fn close_logs(&self) {
        self.lines.close();
    }
}

impl Employer for Office {
    fn room(&self, room: Room) {
        self.inbox.room(&self.runner, room);
    }

    fn ended(&self, tag: Tag, executor: String, end: End) {
        self.lines.end(tag, &executor);
        self.inbox.over(Over { tag, executor, end });
    }

    fn wrote(&self, executor: &str, in_flight: &[Tag], output: Output, line: &str) {
        if self.lines.keep(executor, in_flight, output, line) {
            return;
        }
        match output {
            Output::Stdout => tracing::info!(runner = executor, output = "stdout", "{line}"),
            Output::Stderr => tracing::info!(runner = executor, output = "stderr", "{line}"),
            Output::Host => tracing::warn!(runner = executor, "{line}"),
        }
    }
}
