//! Execute: a foreign orchestrator sends work and gets answers by tag. The orchestrator keeps,
//! retries and dead-letters the work. Knows no wire.

use std::fmt;
use std::sync::Arc;

use super::Tag;
use crate::cell::LogLine;
use crate::failure::{Failure, FailureKind};
use crate::json::JsonText;
use crate::name::Name;
use crate::outcome::{Meter, Outcome, Progress};
use crate::time::Time;

/// A job that a foreign orchestrator owns: it keeps, retries and dead-letters the job; the host
/// only executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignJob {
    /// The wire's name.
    pub wire: &'static str,
    /// The orchestrator's id of the job; may be any text.
    pub external_id: String,
    /// The orchestrator's id of this execution; may be any text.
    pub request_id: String,
    /// The handler to call.
    pub handler: Name,
    /// What the handler is called with: a JSON object.
    pub params: JsonText,
    /// What the history shows in place of `params`, if those hold what must not be kept.
    pub kept_params: Option<JsonText>,
    /// The queue, as the orchestrator names it; may be any text.
    pub queue: String,
    /// The orchestrator's number of the attempt; the first is 1.
    pub attempt: u32,
    /// When the job was enqueued, according to the orchestrator.
    pub enqueued_at: Option<Time>,
    /// The instant of host time at which the guest must have stopped. The session asks to stop and
    /// answers before it; an executor ends its time limit at this instant.
    pub deadline: Option<Time>,
    /// The longest time that the guest may run, in milliseconds, counted from its begin. The handler's
    /// own limit may be lower. With it, [`Answer::Began`] is sent.
    pub timeout_ms: Option<u64>,
    /// W3C trace context, already checked: `traceparent`, `tracestate` and the like.
    pub trace: Vec<(String, String)>,
    /// Identifies the orchestrator that sends the work, in its own words.
    pub worker_id: Option<String>,
    /// Other key-value pairs that the orchestrator attached; bounded.
    pub attributes: Vec<(String, String)>,
    /// Environment variables from the orchestrator. The guest sees those that its handler is
    /// granted, instead of the host's own.
    pub env: Vec<(String, String)>,
    /// Whether [`Answer::Logged`] is wanted.
    pub wants_log: bool,
    /// The name of the tracing span of the execution, as the wire's document defines it.
    pub span: &'static str,
    /// The largest result that the wire can carry, in bytes. A handler's own limit may be lower.
    pub result_bytes_max: u64,
}

impl ForeignJob {
    /// Makes a first attempt with default values: no deadline, no log lines, and a result of at
    /// most 1 MiB.
    pub fn new(wire: &'static str, id: &str, handler: Name, params: JsonText) -> Self {
        Self {
            wire,
            external_id: id.to_owned(),
            request_id: id.to_owned(),
            handler,
            params,
            kept_params: None,
            queue: "default".to_owned(),
            attempt: 1,
            enqueued_at: None,
            deadline: None,
            timeout_ms: None,
            trace: Vec::new(),
            worker_id: None,
            attributes: Vec::new(),
            env: Vec::new(),
            wants_log: false,
            span: "execution",
            result_bytes_max: 1 << 20,
        }
    }
}

/// Why an execution must stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The orchestrator cancelled it.
    Cancelled,
    /// Its deadline is about to pass.
    Deadline,
    /// No client waits for the outcome any more.
    Disconnected,
    /// This host is shutting down.
    ShuttingDown,
}

impl Stop {
    /// Returns the reason that the guest sees.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled by the orchestrator",
            Self::Deadline => "the deadline has come",
            Self::Disconnected => "the orchestrator has gone",
            Self::ShuttingDown => "the host is shutting down",
        }
    }
}

/// Executes foreign jobs. Calls for one session come one at a time and in order: a stop never comes
/// before the start of its job. No call may block; each may answer immediately through its [`Reply`].
pub trait Execute: Send + Sync {
    /// Starts an execution, or answers immediately that there is no room.
    fn start(&self, job: ForeignJob, reply: Reply);

    /// Stops an execution: the guest sees the request immediately and is stopped by force after
    /// `grace_ms` milliseconds. A repeated stop can only shorten the grace. If the execution has
    /// ended, this does nothing.
    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop);
}

/// An answer about one execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The execution has got a place in a cell, and its time begins. Sent only if
    /// [`ForeignJob::timeout_ms`] is set.
    Began,
    /// The progress of the execution; the latest counts.
    Progressed(Progress),
    /// Log lines of the guest, in order. Sent only if [`ForeignJob::wants_log`] is set.
    Logged {
        /// When the guest was started. The lines' times are relative to it.
        started_at: Time,
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// The execution has ended: the guest runs no further instruction, and no other answer follows.
    Ended(Outcome, Meter),
    /// There is no room. The execution did not start, and no other answer follows.
    Busy,
}

/// Receives the answers for one session.
pub trait Answers: Send + Sync {
    /// Takes an answer. Never blocks for long; may be called from within [`Execute::start`].
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer);
}

/// The right to answer for one execution. The last answer uses it up. If it is dropped before, it
/// answers that the host lost the execution, so that every execution gets a last answer.
pub struct Reply {
    tag: Tag,
    to: Option<Arc<dyn Answers>>,
}

impl Reply {
    /// Makes the right to answer for `tag`.
    pub fn new(tag: Tag, to: Arc<dyn Answers>) -> Self {
        Self { tag, to: Some(to) }
    }

    /// Returns the tag that [`Execute::stop`] uses for this execution.
    pub const fn tag(&self) -> Tag {
        self.tag
    }

    /// Reports that the execution has got a place in a cell.
    pub fn began(&self) {
        self.send(Answer::Began);
    }

    /// Reports the progress of the execution.
    pub fn progressed(&self, progress: Progress) {
        self.send(Answer::Progressed(progress));
    }

    /// Sends log lines of the guest.
    pub fn logged(&self, started_at: Time, lines: Vec<LogLine>) {
        self.send(Answer::Logged { started_at, lines });
    }

    /// Reports how the execution ended, after its guest has stopped.
    pub fn ended(mut self, outcome: Outcome, meter: Meter) {
        self.send_last(Answer::Ended(outcome, meter));
    }

    /// Reports that the execution failed before a guest started.
    pub fn failed(self, failure: Failure) {
        self.ended(Outcome::Failed(failure), Meter::default());
    }

    /// Reports that there is no room.
    pub fn busy(mut self) {
        self.send_last(Answer::Busy);
    }

    fn send(&self, answer: Answer) {
        if let Some(to) = &self.to {
            Arc::clone(to).answer(self.tag, answer);
        }
    }

    fn send_last(&mut self, answer: Answer) {
        if let Some(to) = self.to.take() {
            to.answer(self.tag, answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        let failure = Failure::new(FailureKind::CellLost, "the host lost this execution");
        self.send_last(Answer::Ended(Outcome::Failed(failure), Meter::default()));
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.tag.0)
    }
}
