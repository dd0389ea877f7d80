//! Which dispatches run, and which have ended: a dispatch that comes again is not executed again. Pure.

use std::collections::{BTreeSet, VecDeque};

/// How many dispatches that have ended are remembered.
pub(super) const FINISHED_MAX: usize = 10_000;

/// What to do with a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    /// It is new and counts as running now.
    New,
    /// It runs already.
    Running,
    /// It has ended.
    Finished,
    /// Too many others run.
    Full,
}

/// The dispatches that this worker knows.
#[derive(Debug)]
pub(super) struct Memory {
    running_max: usize,
    running: BTreeSet<String>,
    finished: BTreeSet<String>,
    /// Oldest first.
    order: VecDeque<String>,
}

impl Memory {
    /// Remembers dispatches of an earlier life, oldest first.
    pub(super) fn new(running_max: usize, finished: Vec<String>) -> Self {
        let mut memory = Self {
            running_max,
            running: BTreeSet::new(),
            finished: BTreeSet::new(),
            order: VecDeque::new(),
        };
        for key in finished {
            memory.finish(key);
        }
        memory
    }

    /// Looks at a dispatch.
    pub(super) fn see(&mut self, key: &str) -> Seen {
        if self.running.contains(key) {
            Seen::Running
        } else if self.finished.contains(key) {
            Seen::Finished
        } else if self.running.len() >= self.running_max {
            Seen::Full
        } else {
            self.running.insert(key.to_owned());
            Seen::New
        }
    }

    /// A dispatch has ended; it is remembered if `is_done`, else it may come again.
    pub(super) fn end(&mut self, key: &str, is_done: bool) {
        self.running.remove(key);
        if is_done {
            self.finish(key.to_owned());
        }
    }

    /// Returns how many run, and how many may.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.running.len(), self.running_max)
    }

    fn finish(&mut self, key: String) {
        if !self.finished.insert(key.clone()) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > FINISHED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.finished.remove(&oldest);
        }
    }
}
