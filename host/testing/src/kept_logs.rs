//! The logs of jobs in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host_core::cell::LogLine;
use host_core::id::JobId;
use host_core::port::JobLogs;
use host_core::time::Time;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Nothing in a test takes as long.
const BOUND: Duration = Duration::from_mins(1);

/// A line, with its job and the number of its attempt.
type KeptLine = (JobId, u32, LogLine);

/// Keeps lines until it is closed.
#[derive(Default)]
pub struct KeptLogs {
    lines: Mutex<Vec<KeptLine>>,
    is_closed: AtomicBool,
    changes: watch::Sender<()>,
}

impl KeptLogs {
    pub fn all(&self) -> Vec<KeptLine> {
        self.lines.lock().clone()
    }

    /// Returns the lines of a job.
    pub fn of(&self, job: JobId) -> Vec<LogLine> {
        let lines = self.all().into_iter().filter(|(of, ..)| *of == job);
        lines.map(|(.., line)| line).collect()
    }

    /// Removes the latest line.
    pub fn pop(&self) -> Option<KeptLine> {
        self.lines.lock().pop()
    }

    /// Keeps no more lines.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Waits until a job has a line for which `is_it` returns true.
    pub async fn until(&self, job: JobId, is_it: impl Fn(&str) -> bool) {
        let mut changes = self.changes.subscribe();
        let has_it = |(): &()| self.of(job).iter().any(|line| is_it(&line.message));
        let reached = tokio::time::timeout(BOUND, changes.wait_for(has_it)).await;
        assert!(reached.is_ok(), "{:?}", self.all());
    }
}

impl JobLogs for KeptLogs {
    fn keep(&self, job: JobId, attempt: u32, _: Time, lines: Vec<LogLine>) -> bool {
        let is_closed = self.is_closed.load(Ordering::Relaxed);
        if !is_closed {
            let lines = lines.into_iter().map(|line| (job, attempt, line));
            self.lines.lock().extend(lines);
            self.changes.send_replace(());
        }
        !is_closed
    }
}
