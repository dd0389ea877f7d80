//! The one door inward for work that others own: a foreign job goes in, its outcome comes back by
//! its tag. Knows no wire; the server implements [`Executor`] over its cells.

use std::fmt;
use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::time::Time;

/// Names one execution between a session and the host; unique for the life of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

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
    /// Where its log is written to as well: a path below the folder for such files, to be opened
    /// without following links.
    pub log_path: Option<String>,
    /// The largest result the wire can carry, in bytes; a handler's own limit may be lower.
    pub result_bytes_max: u64,
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
pub trait Executor: Send + Sync {
    /// Starts an execution, or answers at once that it cannot.
    fn start(&self, job: ForeignJob, reply: Reply);

    /// Stops an execution: the guest sees it at once and is stopped by force after `grace_ms`.
    /// A repeated stop can only shorten the grace. For an execution that has ended it does nothing.
    fn stop(&self, tag: Tag, grace_ms: u64, why: Stop);
}

/// What an executor says about an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It has ended: no instruction of the guest follows.
    Ended(Outcome),
    /// There is no room for it; it did not start.
    Busy,
    /// Its log file cannot be opened, and why; it did not start.
    NoLog(String),
}

/// Takes answers to the session that asked.
pub trait Answers: Send + Sync {
    /// Hands in an answer. Never blocks for long; may be called from within [`Executor::start`].
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer);
}

/// The right to answer for one execution, once. Dropped unused, it answers that the executor lost
/// the execution: nobody waits for an answer that does not come.
pub struct Reply {
    tag: Tag,
    to: Option<Arc<dyn Answers>>,
}

impl Reply {
    /// Makes the right to answer for `tag`.
    pub fn new(tag: Tag, to: Arc<dyn Answers>) -> Self {
        Self { tag, to: Some(to) }
    }

    /// Returns the name by which [`Executor::stop`] will mean this execution.
    pub const fn tag(&self) -> Tag {
        self.tag
    }

    /// Says how the execution ended, after its guest has stopped.
    pub fn ended(self, outcome: Outcome) {
        self.send(Answer::Ended(outcome));
    }

    /// Says that there is no room.
    pub fn busy(self) {
        self.send(Answer::Busy);
    }

    /// Says why its log file cannot be opened, in words that do not quote its path.
    pub fn no_log(self, why: String) {
        self.send(Answer::NoLog(why));
    }

    fn send(mut self, answer: Answer) {
        if let Some(to) = self.to.take() {
            to.answer(self.tag, answer);
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if let Some(to) = self.to.take() {
            let failure = Failure::new(FailureKind::CellLost, "the executor lost this execution");
            to.answer(self.tag, Answer::Ended(Outcome::Failed(failure)));
        }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reply({})", self.tag.0)
    }
}

/// Tells the time. Host time never jumps; the wall clock may.
pub trait Clock: Send + Sync {
    /// Returns host time.
    fn now(&self) -> Time;

    /// Returns the wall clock, against which foreign deadlines are read.
    fn wall(&self) -> Time;
}

/// Counts what was refused.
pub trait Counters: Send + Sync {
    /// Counts one refusal: `wire` and `code` are metric labels from closed lists.
    fn refused(&self, wire: &'static str, code: &'static str);
}
