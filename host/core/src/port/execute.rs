//! Execute: work that a foreign orchestrator owns goes in; what happens to it comes back by its
//! tag. The orchestrator keeps, retries and dead-letters it. Knows no wire.

use std::fmt;
use std::sync::Arc;

use super::Tag;
use crate::cell::LogLine;
use crate::failure::{Failure, FailureKind};
use crate::json::JsonText;
use crate::name::Name;
use crate::outcome::{Meter, Outcome, Progress};
use crate::time::Time;

/// Work that a foreign orchestrator owns: it keeps, retries and dead-letters it; we only execute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignJob {
    /// The wire's name.
    pub wire: &'static str,
    /// The orchestrator's id of the job; any text.
    pub external_id: String,
    /// The orchestrator's id of this execution; any text.
    pub request_id: String,
    /// Which handler.
    pub handler: Name,
    /// What the handler is called with: an object.
    pub params: JsonText,
    /// The queue it waited in, as the orchestrator names it; any text.
    pub queue: String,
    /// 1 for the first, as the orchestrator counts.
    pub attempt: u32,
    /// When it was enqueued, as the orchestrator says.
    pub enqueued_at: Option<Time>,
    /// The instant of host time at which the guest must have stopped. The session answers and asks
    /// to stop before; an executor cuts its time limit to this one.
    pub deadline: Option<Time>,
    /// W3C trace context, checked: `traceparent`, `tracestate` and the like.
    pub trace: Vec<(String, String)>,
    /// Who gives the work, in the orchestrator's words.
    pub worker_id: Option<String>,
    /// Whatever else the orchestrator attached; bounded.
    pub attributes: Vec<(String, String)>,
    /// Environment variables the orchestrator sends along; the guest sees those of them that its
    /// handler is granted, in place of the host's own.
    pub env: Vec<(String, String)>,
    /// Whether [`Answer::Logged`] is wanted.
    pub wants_log: bool,
    /// The name of the span that covers it, as the wire's document has it.
    pub span: &'static str,
    /// The largest result the wire can carry, in bytes; a handler's own limit may be lower.
    pub result_bytes_max: u64,
}

impl ForeignJob {
    /// Makes a first attempt of which nothing else is known: no deadline, no log lines wanted, and a
    /// result of at most 1 MiB.
    pub fn new(wire: &'static str, id: &str, handler: Name, params: JsonText) -> Self {
        Self {
            wire,
            external_id: id.to_owned(),
            request_id: id.to_owned(),
            handler,
            params,
            queue: "default".to_owned(),
            attempt: 1,
            enqueued_at: None,
            deadline: None,
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

/// Why an execution is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The orchestrator cancelled it.
    Cancelled,
    /// Its deadline is about to pass.
    Deadline,
    /// Nobody is left who waits for its outcome.
    Disconnected,
    /// This host is shutting down.
    ShuttingDown,
}

impl Stop {
    /// Returns what the guest is told.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled by the orchestrator",
            Self::Deadline => "the deadline has come",
            Self::Disconnected => "the orchestrator has gone",
            Self::ShuttingDown => "the host is shutting down",
        }
    }
}

/// Executes foreign jobs. Called one at a time and in order for each session: a stop never overtakes
/// the start of its job. Neither call may block; each may answer at once through its [`Reply`].
pub trait Execute: Send + Sync {
    /// Starts an execution, or answers at once that there is no room.
    fn start(&self, job: ForeignJob, reply: Reply);

    /// Stops an execution: the guest sees it at once and is stopped by force after `grace_ms`.
    /// A repeated stop can only shorten the grace. For an execution that has ended it does nothing.
    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop);
}

/// What is said about one execution.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// How far it is; the latest counts.
    Progressed(Progress),
    /// Its guest wrote these lines, in order; only if [`ForeignJob::wants_log`].
    Logged {
        /// When the guest was started; the lines count from here.
        started_at: Time,
        /// The lines.
        lines: Vec<LogLine>,
    },
    /// It has ended: no instruction of the guest follows, and no other answer.
    Ended(Outcome, Meter),
    /// There is no room for it; it did not start, and no other answer follows.
    Busy,
}

/// Takes answers to the session that asked.
pub trait Answers: Send + Sync {
    /// Hands in an answer. Never blocks for long; may be called from within [`Execute::start`].
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer);
}

/// The right to answer for one execution; the last answer uses it up. Dropped before that, it
/// answers that the host lost the execution, so that nobody waits for an answer that never comes.
pub struct Reply {
    tag: Tag,
    to: Option<Arc<dyn Answers>>,
}

impl Reply {
    /// Makes the right to answer for `tag`.
    pub fn new(tag: Tag, to: Arc<dyn Answers>) -> Self {
        Self { tag, to: Some(to) }
    }

    /// Returns the name by which [`Execute::stop`] will mean this execution.
    pub const fn tag(&self) -> Tag {
        self.tag
    }

    /// Says how far the execution is.
    pub fn progressed(&self, progress: Progress) {
        self.send(Answer::Progressed(progress));
    }

    /// Passes on what the guest wrote.
    pub fn logged(&self, started_at: Time, lines: Vec<LogLine>) {
        self.send(Answer::Logged { started_at, lines });
    }

    /// Says how the execution ended, after its guest has stopped.
    pub fn ended(mut self, outcome: Outcome, meter: Meter) {
        self.send_last(Answer::Ended(outcome, meter));
    }

    /// Says that the execution failed before a guest started.
    pub fn failed(self, failure: Failure) {
        self.ended(Outcome::Failed(failure), Meter::default());
    }

    /// Says that there is no room.
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
