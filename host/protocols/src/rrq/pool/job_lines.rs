//! Which job a line is about that a runner wrote: the one it names by its id, or the only one its
//! runner may have. Such lines go to the job's log, bounded for each attempt.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::cell::{Level, LogLine, LogSource};
use host_core::id::JobId;
use host_core::time::Time;
use host_core::port::{Clock, Tag};
use host_protocols::rrq::Output;
use host_core::port::Assignment;

use host_dispatch::logged::{Logged, Logs};

/// How much of what runners write during one attempt is kept, in bytes.
const LOG_BYTES_MAX: usize = 1 << 20;

/// How long after the end of an attempt a line may still be about it, in milliseconds: it comes by
/// another way than the answer.
const LATE_MS: u64 = 5_000;

/// Tells the lines of one pool apart.
pub(super) struct Lines {
    /// Whether a runner has one job at a time.
    alone: bool,
    clock: Arc<dyn Clock>,
    known: Mutex<Known>,
}

struct Known {
    /// Where jobs' logs go, until the host is about to end.
    logs: Option<Logs>,
    running: HashMap<Tag, Attempt>,
    /// The latest attempt of each runner that is over, and when that was.
    over: HashMap<String, (Time, Attempt)>,
}

#[derive(Clone)]
struct Attempt {
    job: JobId,
    /// The job's id as runners write it.
    text: String,
    number: u32,
    started_at: Time,
    room_bytes: usize,
}

impl Lines {
    pub(super) fn new(alone: bool, clock: Arc<dyn Clock>, logs: Logs) -> Self {
        Self {
            alone,
            clock,
            known: Mutex::new(Known {
                logs: Some(logs),
                running: HashMap::new(),
                over: HashMap::new(),
            }),
        }
    }

    /// Takes note of an execution that is about to begin.
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
        self.known().running.insert(tag, attempt);
    }

    /// Takes note of the end of an execution.
    pub(super) fn end(&self, tag: Tag, executor: &str) {
        let mut known = self.known();
        if let Some(attempt) = known.running.remove(&tag) {
            let over = (self.clock.now(), attempt);
            known.over.insert(executor.to_owned(), over);
        }
    }

    /// Keeps no more lines: the logs are about to be closed.
    pub(super) fn close(&self) {
        self.known().logs = None;
    }

    /// Keeps a line in the log of the job it is about; tells whether there is one.
    pub(super) fn keep(
        &self,
        executor: &str,
        in_flight: &[Tag],
        output: Output,
        line: &str,
    ) -> bool {
        let (source, level) = match output {
            Output::Stdout => (LogSource::Stdout, Level::Info),
            Output::Stderr => (LogSource::Stderr, Level::Warn),
            Output::Host => return false,
        };
        let now = self.clock.now();
        let mut known = self.known();
        let Some(logs) = known.logs.clone() else {
            return false;
        };
        let Some(attempt) = known.whose(self.alone, executor, in_flight, line, now) else {
            return false;
        };
        let (source, level, message) = match attempt.room_bytes.checked_sub(line.len() + 1) {
            Some(rest) => {
                attempt.room_bytes = rest;
                (source, level, line.to_owned())
            }
            None if attempt.room_bytes == 0 => return true,
            None => {
                attempt.room_bytes = 0;
                let message =
                    format!("the log is limited to {LOG_BYTES_MAX} bytes; the rest is dropped");
                (LogSource::Host, Level::Warn, message)
            }
        };
        let at_ms = now.since_ms(attempt.started_at);
        logs.tell(Logged::Lines {
            job: attempt.job,
            attempt: attempt.number,
            started_at: attempt.started_at,
            lines: vec![LogLine {
                at_ms,
                level,
                source,
                message,
                fields: Vec::new(),
            }],
        });
        true
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns the attempt that a line is about.
    fn whose(
        &mut self,
        alone: bool,
        executor: &str,
        in_flight: &[Tag],
        line: &str,
        now: Time,
    ) -> Option<&mut Attempt> {
        let has_id = |attempt: &Attempt| line.contains(&attempt.text);
        let named = |tag: &&Tag| self.running.get(tag).is_some_and(has_id);
        let only = || in_flight.first().filter(|_| alone);
        let running = in_flight.iter().find(named).or_else(only);
        if let Some(tag) = running {
            return self.running.get_mut(tag);
        }
        let (ended_at, attempt) = self.over.get_mut(executor)?;
        let late = now.since_ms(*ended_at) <= LATE_MS;
        (late && (alone || line.contains(&attempt.text))).then_some(attempt)
    }
}
