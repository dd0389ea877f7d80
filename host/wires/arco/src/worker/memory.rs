//! The dispatches that run and those that have ended: a repeated dispatch is not executed again. Pure.

use std::collections::{BTreeSet, VecDeque};

/// How many dispatches that have ended are remembered.
pub(super) const FINISHED_MAX: usize = 10_000;

/// Whether a dispatch is to be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is new, and counts as running now.
    New,
    /// It runs already.
    Running,
    /// It has ended.
    Finished,
    /// Too many others are running.
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
    /// Starts with the dispatches that ended in an earlier process, oldest first.
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

    /// Admits a dispatch if it is new and there is room.
    pub(super) fn admit(&mut self, key: &str) -> Admission {
        if self.running.contains(key) {
            Admission::Running
        } else if self.finished.contains(key) {
            Admission::Finished
        } else if self.running.len() >= self.running_max {
            Admission::Full
        } else {
            self.running.insert(key.to_owned());
            Admission::New
        }
    }

    /// Ends a dispatch. It is remembered if `is_done`; otherwise it may be repeated.
    pub(super) fn end(&mut self, key: &str, is_done: bool) {
        self.running.remove(key);
        if is_done {
            self.finish(key.to_owned());
        }
    }

    /// Returns how many dispatches run, and how many may.
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
