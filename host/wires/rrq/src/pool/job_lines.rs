//! Finds the job of each line a runner writes: the job whose id the line contains, or the runner's
//! only job. Such lines go to the job's log, up to a limit for each attempt.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use host_core::cell::{LINE_OVERHEAD_BYTES, Level, LogLine, LogSource};
use host_core::id::JobId;
use host_core::port::{Assignment, Clock, JobLogs, Tag};
use host_core::time::Time;
use parking_lot::{Mutex, MutexGuard};

use host_wire_kit::process::Output;

/// The most output kept of runners during one attempt, in bytes: what its lines cost, empty ones too.
const LOG_BYTES_MAX: u64 = 1 << 20;

/// How long after the end of an attempt a line may still belong to it, in milliseconds. Lines may
/// arrive after the answer.
const LATE_MS: u64 = 5_000;

/// Assigns the output of one pool to its jobs.
pub(super) struct JobLines {
    /// Whether each runner has only one job at a time.
    has_one_job: bool,
    clock: Arc<dyn Clock>,
    logs: Arc<dyn JobLogs>,
    attempts: Mutex<Attempts>,
}

#[derive(Default)]
struct Attempts {
    running: HashMap<Tag, Attempt>,
    /// The last attempt of each runner that has ended, and the time of its end.
    ended: HashMap<String, (Time, Attempt)>,
}

#[derive(Clone)]
struct Attempt {
    job: JobId,
    /// The job's id as runners write it.
    text: String,
    number: u32,
    started_at: Time,
    room_bytes: u64,
}

impl JobLines {
    pub(super) fn new(has_one_job: bool, clock: Arc<dyn Clock>, logs: Arc<dyn JobLogs>) -> Self {
        Self {
            has_one_job,
            clock,
            logs,
            attempts: Mutex::default(),
        }
    }

    /// Records an execution that is about to begin.
    pub(super) fn begin(&self, tag: Tag, assignment: &Assignment) {
        let Ok(job) = assignment.job_id.parse() else {
            return;
        };
        let attempt = Attempt {
            job,
            text: assignment.job_id.clone(),
            number: assignment.attempt,
            started_at: self.clock.now(),
            room_bytes: LOG_BYTES_MAX,
        };
        self.attempts().running.insert(tag, attempt);
    }

    /// Records the end of an execution.
    pub(super) fn end(&self, tag: Tag, runner: &str) {
        let mut attempts = self.attempts();
        if let Some(attempt) = attempts.running.remove(&tag) {
            let ended = (self.clock.now(), attempt);
            attempts.ended.insert(runner.to_owned(), ended);
        }
    }

    /// Writes a line to the log of its job. Returns whether there is such a job and its log is
    /// still open.
    pub(super) fn keep(&self, runner: &str, in_flight: &[Tag], output: Output, line: &str) -> bool {
        let (source, level) = match output {
            Output::Stdout => (LogSource::Stdout, Level::Info),
            Output::Stderr => (LogSource::Stderr, Level::Warn),
            Output::Host => return false,
        };
        let now = self.clock.now();
        let mut attempts = self.attempts();
        let found = attempts.find(self.has_one_job, runner, in_flight, line, now);
        let Some(attempt) = found else {
            return false;
        };
        let mut kept = LogLine {
            at_ms: now.since_ms(attempt.started_at),
            level,
            source,
            message: line.to_owned(),
            fields: Vec::new(),
        };
        match attempt.room_bytes.checked_sub(kept.cost()) {
            Some(rest) => attempt.room_bytes = rest,
            None if attempt.room_bytes == 0 => return true,
            None => {
                attempt.room_bytes = 0;
                kept.message = format!(
                    "the log is limited to {LOG_BYTES_MAX} bytes, and each line counts \
                     {LINE_OVERHEAD_BYTES} more than its text; the rest is dropped"
                );
                (kept.source, kept.level) = (LogSource::Host, Level::Warn);
            }
        }
        self.logs
            .keep(attempt.job, attempt.number, attempt.started_at, vec![kept])
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock()
    }
}

impl Attempts {
    /// Returns the attempt that a line belongs to.
    fn find(
        &mut self,
        has_one_job: bool,
        runner: &str,
        in_flight: &[Tag],
        line: &str,
        now: Time,
    ) -> Option<&mut Attempt> {
        let has_id = |attempt: &Attempt| line.contains(&attempt.text);
        let named = |tag: &&Tag| self.running.get(tag).is_some_and(has_id);
        let only = || in_flight.first().filter(|_| has_one_job);
        let running = in_flight.iter().find(named).or_else(only);
        if let Some(tag) = running {
            return self.running.get_mut(tag);
        }
        let (ended_at, attempt) = self.ended.get_mut(runner)?;
        let is_late = now.since_ms(*ended_at) <= LATE_MS;
        (is_late && (has_one_job || line.contains(&attempt.text))).then_some(attempt)
    }
}
