//! Which dispatches run, and which have ended: a dispatch that comes again is not executed again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    running: BTreeSet<String>,
    finished: BTreeSet<String>,
    /// Oldest first.
    order: VecDeque<String>,
}

impl Memory {
    /// Remembers dispatches of an earlier life, oldest first.
    pub(super) fn new(running_max: usize, finished: Vec<String>) -> Self {
        let mut known = Known::default();
        for key in finished {
            known.finish(key);
        }
        Self {
            running_max,
            known: Mutex::new(known),
        }
    }

    /// Looks at a dispatch.
    pub(super) fn see(&self, key: &str) -> Seen {
        let mut known = self.lock();
        if known.running.contains(key) {
            Seen::Running
        } else if known.finished.contains(key) {
            Seen::Finished
        } else if known.running.len() >= self.running_max {
            Seen::Full
        } else {
            known.running.insert(key.to_owned());
            Seen::New
        }
    }

    /// A dispatch has ended; it is remembered if `is_done`, else it may come again.
    pub(super) fn end(&self, key: &str, is_done: bool) {
        let mut known = self.lock();
        known.running.remove(key);
        if is_done {
            known.finish(key.to_owned());
        }
    }

    /// Returns how many run, and how many may.
    pub(super) fn load(&self) -> (usize, usize) {
        (self.lock().running.len(), self.running_max)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
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
