//! A job: what changes during its life, and what is written once when it is accepted.

use serde::{Deserialize, Serialize};

use crate::failure::FailureKind;
use crate::id::JobId;
use crate::json::JsonText;
use crate::lease::Lease;
use crate::name::Name;
use crate::policy::Policy;
use crate::time::Time;

/// Where a job is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for the jobs it depends on.
    Pending,
    /// Waits for its start time.
    Scheduled,
    /// May be claimed.
    Available,
    /// A worker holds its lease.
    Running,
    /// Waits for its next attempt.
    Retryable,
    /// Its handler returned.
    Completed,
    /// It was cancelled.
    Cancelled,
    /// It failed for good: the dead letter.
    Discarded,
}

/// All states, in the order of a job's life.
pub const STATES: [State; 8] = [
    State::Pending,
    State::Scheduled,
    State::Available,
    State::Running,
    State::Retryable,
    State::Completed,
    State::Cancelled,
    State::Discarded,
];

impl State {
    /// Tells whether the job has ended; only an operator's retry leaves such a state.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded)
    }

    /// Returns the stable name, as it stands in the API.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Scheduled => "scheduled",
            Self::Available => "available",
            Self::Running => "running",
            Self::Retryable => "retryable",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Discarded => "discarded",
        }
    }

    /// Returns the state with this [`State::as_str`].
    pub fn from_name(name: &str) -> Option<Self> {
        STATES.into_iter().find(|state| state.as_str() == name)
    }
}

/// A request to stop a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    /// When it was accepted.
    pub requested_at: Time,
    /// Why, in the requester's words.
    pub reason: Option<String>,
    /// Until when a worker with a lease by TTL must have stopped. `None` if our cells run the job,
    /// which enforce the grace themselves, or if the job was not running.
    pub grace_ends_at: Option<Time>,
}

/// The part of a job that the rules read and change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    /// Its identity.
    pub id: JobId,
    /// Where it is.
    pub state: State,
    /// The queue it waits in.
    pub queue: Name,
    /// The handler that executes it.
    pub handler: Name,
    /// The pool of foreign runners that has the handler; `None` for our own cells.
    pub runner: Option<Name>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// Its limits and rules.
    pub policy: Policy,
    /// When it was accepted.
    pub enqueued_at: Time,
    /// When it may start (scheduled) or start again (retryable).
    pub run_at: Option<Time>,
    /// After this instant no attempt may run.
    pub deadline: Option<Time>,
    /// How many prerequisites have not completed.
    pub prerequisites_open: u32,
    /// The number of the current or latest attempt; 0 before the first.
    pub attempt: u32,
    /// How many attempts were lost through no fault of the job and do not count.
    pub attempts_uncharged: u32,
    /// How many attempts no longer count because an operator's retry came after them.
    pub attempts_forgiven: u32,
    /// Grows with each lease and is never reset.
    pub lease_epoch: u64,
    /// The current lease, exactly while the job is running.
    pub lease: Option<Lease>,
    /// The pending or fulfilled request to stop it.
    pub cancel: Option<Cancel>,
    /// Whether it was in a cell that died, so that it must run alone.
    pub suspect: bool,
    /// How many cells died while it was alone in them.
    pub lone_deaths: u8,
    /// When it reached its terminal state.
    pub finished_at: Option<Time>,
    /// Why it is discarded, or why its latest attempt did not complete.
    pub failure: Option<FailureKind>,
}

/// Who may claim a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lane {
    /// Cells that share their runs.
    Shared,
    /// A cell of its own, for a suspect.
    Alone,
    /// The foreign runners of this pool.
    Runner(Name),
}

impl Lane {
    /// Tells whether a job is in this lane; each job is in exactly one.
    pub fn has(&self, job: &Lifecycle) -> bool {
        match self {
            Self::Shared => job.runner.is_none() && !job.suspect,
            Self::Alone => job.runner.is_none() && job.suspect,
            Self::Runner(name) => job.runner.as_ref() == Some(name),
        }
    }
}

impl Lifecycle {
    /// Returns how many attempts count against the limit.
    pub fn attempts_charged(&self) -> u32 {
        self.attempt
            .saturating_sub(self.attempts_uncharged)
            .saturating_sub(self.attempts_forgiven)
    }

    /// Returns the next instant at which time alone changes this job, `None` if it never does.
    ///
    /// One instant covers start, backoff, acknowledgement, lease end, deadline, cancel grace and
    /// the end of retention, so that a store needs one index of time.
    pub fn wakeup(&self) -> Option<Time> {
        match self.state {
            State::Pending | State::Available => self.deadline,
            State::Scheduled | State::Retryable => earliest(self.run_at, self.deadline),
            State::Running => {
                let lease = self.lease.as_ref();
                let lease_end = earliest(
                    lease.and_then(|lease| lease.expires_at),
                    lease.and_then(|lease| lease.ack_by),
                );
                let grace_end = self.cancel.as_ref().and_then(|cancel| cancel.grace_ends_at);
                earliest(lease_end, grace_end)
            }
            State::Completed | State::Cancelled | State::Discarded => self
                .finished_at
                .map(|end| end.plus_ms(self.policy.retention_ms)),
        }
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// The part of a job that is written once, when it is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// What the handler is called with.
    pub params: JsonText,
    /// How it came to us: `http`, `cli` or a protocol's name.
    pub wire: String,
    /// The id a foreign orchestrator knows it by.
    pub external_id: Option<String>,
    /// W3C trace context: `traceparent`, `tracestate`.
    pub trace_context: Vec<(String, String)>,
    /// Other key-value pairs that its sender attached.
    pub attributes: Vec<(String, String)>,
}

/// A job to accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// Its id, new.
    pub id: JobId,
    /// The handler that executes it.
    pub handler: Name,
    /// The pool of foreign runners that has the handler; `None` for our own cells.
    pub runner: Option<Name>,
    /// The queue it waits in.
    pub queue: Name,
    /// 0 (first) to 9.
    pub priority: u8,
    /// Not before this instant.
    pub run_at: Option<Time>,
    /// Not after this instant.
    pub deadline: Option<Time>,
    /// Its limits and rules.
    pub policy: Policy,
    /// At most one job of a queue has this key until it is purged.
    pub unique_key: Option<String>,
    /// Jobs that must complete first, known or earlier or later in the same batch; no duplicates.
    pub depends_on: Vec<JobId>,
    /// What is written once.
    pub payload: Payload,
}
