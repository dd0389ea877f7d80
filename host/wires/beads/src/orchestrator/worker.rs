//! One connected worker: its name, its state, and how often it sent something bad. Pure.

use host_core::id::{JobId, LeaseId};
use host_core::time::Time;
use host_wire_kit::executors::{WorkerHealth, WorkerState};
use serde_json::json;

use super::GrantedTask;
use crate::EXECUTOR;
use crate::frame::Dialect;
use crate::read::is_worker_id;

/// A connection that sends this many bad messages within this time is closed.
const BAD_MAX: u32 = 100;
const BAD_TIME_MS: u64 = 10_000;

/// How soon after a message a READY belongs to it on a framed connection, in milliseconds.
pub(super) const SAME_REQUEST_MS: u64 = 1_000;

/// How many of the first bad messages of a connection are all logged.
const BAD_SHOWN: u64 = 3;

/// The state of a worker.
#[derive(Debug)]
pub(super) enum State {
    /// It has sent nothing yet, was sent WAIT, or has ended its task.
    Idle,
    /// It is ready, and the host's answer is pending.
    Asking(super::Ask),
    /// It is ready, and the host no longer gives tasks. It may wait until then.
    Held(Time),
    Busy(Task),
    /// Its end was refused. It gets WAIT then, unless its READY comes first.
    Resyncing(Time),
    /// It may still be executing this issue, which is no longer its task.
    Stale(String),
}

/// A task that a worker holds.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    pub(super) issue_id: String,
    pub(super) timeout_ms: u64,
    /// When the task is given up.
    pub(super) due: Time,
    pub(super) is_cancelled: bool,
}

impl Task {
    pub(super) fn new(now: Time, granted: &GrantedTask) -> Self {
        Self {
            job: granted.job,
            lease: granted.lease,
            issue_id: granted.job.to_string(),
            timeout_ms: granted.timeout_ms,
            due: now.plus_ms(granted.timeout_ms),
            is_cancelled: false,
        }
    }
}

#[derive(Debug)]
pub(super) struct Worker {
    /// The smallest that no other connected worker has.
    pub(super) number: usize,
    pub(super) state: State,
    dialect: Option<Dialect>,
    /// When it was ready last.
    pub(super) ready_at: Time,
    has_asked: bool,
    /// Until when a READY has the answer of the message before it.
    answered_until: Time,
    /// The name that it gives itself.
    called: Option<String>,
    has_bad_name: bool,
    bad: Bad,
}

/// The bad messages of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bad {
    since: Time,
    recent: u32,
    all: u64,
}

impl Bad {
    /// Returns whether to log the message: the first ones, and then fewer and fewer.
    pub(super) const fn is_shown(self) -> bool {
        self.all <= BAD_SHOWN || self.all.is_power_of_two()
    }

    /// Returns whether there were too many.
    pub(super) const fn is_abuse(self) -> bool {
        self.recent >= BAD_MAX
    }
}

/// Returns the host's name for a worker.
pub(crate) fn worker_name(number: usize) -> String {
    format!("{EXECUTOR}/{number}")
}

/// Returns whether a name is `W` and a number, as in the document.
fn is_documented(name: &str) -> bool {
    let number = name.strip_prefix('W').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
}

impl Worker {
    pub(super) const fn new(number: usize, now: Time) -> Self {
        Self {
            number,
            state: State::Idle,
            dialect: None,
            ready_at: now,
            has_asked: false,
            answered_until: now,
            called: None,
            has_bad_name: false,
            bad: Bad {
                since: now,
                recent: 0,
                all: 0,
            },
        }
    }

    /// Records the dialect of its first message.
    pub(super) fn speaks(&mut self, dialect: Dialect) {
        self.dialect.get_or_insert(dialect);
    }

    /// Returns the dialect for answers: as documented until its first message.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect.unwrap_or(Dialect::Lines)
    }

    pub(super) fn is_framed(&self) -> bool {
        self.dialect() == Dialect::Framed
    }

    /// Records a READY. Returns whether it is a request, and not one that a framed worker has repeated after it
    /// connected or sends behind an end whose answer it has.
    pub(super) fn asks(&mut self, now: Time) -> bool {
        if self.is_framed() && now < self.answered_until {
            return false;
        }
        if !std::mem::replace(&mut self.has_asked, true) {
            self.answer_ahead(now);
        }
        self.ready_at = now;
        true
    }

    /// Answers the READYs that follow within a second by what was sent before.
    pub(super) fn answer_ahead(&mut self, now: Time) {
        self.answered_until = now.plus_ms(SAME_REQUEST_MS);
    }

    /// Records the end of its task: the next READY is a request.
    pub(super) const fn has_ended(&mut self) {
        self.answered_until = Time(i64::MIN);
    }

    /// Records the name that it gives itself. Returns false if that is invalid.
    pub(super) fn call(&mut self, name: String) -> bool {
        let is_name = is_worker_id(&name);
        self.called = is_name.then_some(name);
        is_name
    }

    /// Records an invalid name. Returns whether it is the first.
    pub(super) const fn is_first_bad_name(&mut self) -> bool {
        !std::mem::replace(&mut self.has_bad_name, true)
    }

    /// Returns its name on the wire: its own, or our number if it has none. Programs with the framed dialect
    /// get names of the form `W1`.
    pub(super) fn id(&self) -> String {
        let keeps = |name: &&String| !self.is_framed() || is_documented(name);
        let kept = self.called.as_ref().filter(keeps);
        kept.cloned().unwrap_or_else(|| format!("W{}", self.number))
    }

    /// Makes the result of a finished job.
    pub(super) fn result(&self, duration_ms: Option<u64>) -> String {
        let worker_id = self.called.clone().unwrap_or_else(|| self.id());
        json!({"duration_ms": duration_ms, "worker_id": worker_id}).to_string()
    }

    /// Counts a bad message.
    pub(super) fn bad(&mut self, now: Time) -> Bad {
        if now.since_ms(self.bad.since) > BAD_TIME_MS {
            (self.bad.since, self.bad.recent) = (now, 0);
        }
        self.bad.recent += 1;
        self.bad.all += 1;
        self.bad
    }

    /// Describes it for users.
    pub(super) fn health(&self, is_stopping: bool) -> WorkerHealth {
        let called = self.called.clone().unwrap_or_else(|| self.id());
        let (state, doing) = match &self.state {
            State::Idle if self.dialect.is_none() => {
                (WorkerState::Starting, "has sent nothing yet".to_owned())
            }
            State::Idle | State::Resyncing(_) => (WorkerState::Up, "has no task".to_owned()),
            State::Asking(_) | State::Held(_) => (WorkerState::Up, "waits for a task".to_owned()),
            State::Busy(task) => (WorkerState::Up, format!("works on {}", task.issue_id)),
            State::Stale(issue_id) => (
                WorkerState::Up,
                format!("may still work on {issue_id}, which is no longer its task"),
            ),
        };
        WorkerHealth {
            name: worker_name(self.number),
            state: if is_stopping {
                WorkerState::Ending
            } else {
                state
            },
            address: None,
            pid: None,
            in_flight: usize::from(matches!(self.state, State::Busy(_))),
            failures: 0,
            reason: None,
            doing: Some(format!("{called} {doing}")),
        }
    }
}
