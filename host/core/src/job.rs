//! A job: the part that changes during its life, and the part that is written once.

mod membership;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::access::{Object, Scope};
use crate::artifact::InputFile;
use crate::failure::FailureKind;
use crate::id::{BatchId, JobId};
use crate::json::JsonText;
use crate::lease::Lease;
use crate::name::Name;
use crate::notify::{Notify, Receiver};
use crate::policy::Policy;
use crate::prerequisite::Conditions;
use crate::suspicion::Suspicion;
use crate::time::Time;

pub use self::membership::{BATCH_ATTRIBUTE, BatchPlan, BatchStart, Membership, On};

/// The priority that starts last; 0 starts first.
pub const PRIORITY_LAST: u8 = 9;

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Waits for the jobs it depends on, or for a limit.
    Pending,
    /// Waits for its start time.
    Scheduled,
    /// May be claimed.
    Available,
    /// A worker holds its lease.
    Running,
    /// Waits for its next attempt.
    Retryable,
    Completed,
    #[serde(alias = "canceled")]
    Cancelled,
    /// It failed for good: a dead letter.
    #[serde(alias = "failed", alias = "dead")]
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

impl fmt::Display for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl State {
    /// Returns whether the job has ended. Only an operator's retry leaves such a state.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled | Self::Discarded)
    }

    /// Returns the stable name that the API uses.
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

    /// Returns what else people call the state.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Cancelled => &["canceled"],
            Self::Discarded => &["failed", "dead"],
            _ => &[],
        }
    }

    /// Returns the state with this name or alias.
    pub fn from_name(name: &str) -> Option<Self> {
        let is_named = |state: &Self| state.as_str() == name || state.aliases().contains(&name);
        STATES.into_iter().find(is_named)
    }
}

/// A request to stop a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub requested_at: Time,
    /// The reason, in the requester's words.
    pub reason: Option<String>,
    /// When a worker with a lease by TTL must have stopped. `None` if a cell runs the job, because
    /// cells enforce the grace themselves, or if the job was not running.
    pub grace_ends_at: Option<Time>,
}

/// The part of a job that the rules read and change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lifecycle {
    pub id: JobId,
    pub state: State,
    pub queue: Name,
    pub handler: Name,
    /// The executor that has the handler; `None` for cells.
    #[serde(rename = "runner")]
    pub executor: Option<Name>,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    pub policy: Policy,
    pub enqueued_at: Time,
    /// When it may start (scheduled) or start again (retryable).
    pub run_at: Option<Time>,
    /// No attempt may run after this instant.
    pub deadline: Option<Time>,
    /// How many prerequisites have still to end.
    pub prerequisites_open: u32,
    /// The number of the current or latest attempt; 0 before the first.
    pub attempt: u32,
    /// How many lost attempts do not count. Their number is limited.
    pub attempts_uncharged: u32,
    /// How many attempts never count: they did not start, were lost because of another job, or preceded an
    /// operator's retry.
    pub attempts_forgiven: u32,
    /// How long its attempts that have ended took together, in milliseconds.
    pub ran_ms: u64,
    /// Grows with each lease and never resets.
    pub lease_epoch: u64,
    /// The current lease: `Some` if and only if the job is running.
    pub lease: Option<Lease>,
    /// The request to stop the job, even after it was carried out.
    pub cancel: Option<Cancel>,
    /// The evidence of lost workers against the job since its latest outcome.
    pub suspicion: Suspicion,
    /// When the job ended.
    pub finished_at: Option<Time>,
    /// Why it is discarded, or why its latest attempt did not complete.
    pub failure: Option<FailureKind>,
    /// The principal whose waiting jobs are limited and count this one.
    pub owner: Option<Box<str>>,
    pub limits: LimitsOfJob,
    /// The receiver of its end.
    pub notify: Vec<Receiver>,
    /// The batch that counts it.
    pub batch: Option<BatchId>,
    /// What it asks of its prerequisites; `None` if only that they complete.
    pub conditions: Option<Box<Conditions>>,
    /// How long it had ended before operators retried it, in milliseconds. It comes last: records of earlier hosts, and
    /// of jobs that were never retried, end before it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "is_zero")]
    pub ended_ms: u64,
}

/// Reads the last field of a record, which is absent from most.
#[expect(clippy::unnecessary_wraps, reason = "serde asks for a result")]
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    Ok(u64::deserialize(deserializer).unwrap_or_default())
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde calls it with a reference"
)]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Lifecycle {
    /// Returns how long it has waited, in milliseconds: all the time until now or its end in which it neither ran nor had
    /// ended, whatever it waited for.
    pub fn waited_ms(&self, now: Time) -> u64 {
        let exists_ms = self.finished_at.unwrap_or(now).since_ms(self.enqueued_at);
        exists_ms.saturating_sub(self.ran_ms(now) + self.ended_ms)
    }

    /// Returns how long its attempts have taken together, in milliseconds.
    pub fn ran_ms(&self, now: Time) -> u64 {
        let running = self.lease.as_ref();
        self.ran_ms + running.map_or(0, |lease| now.since_ms(lease.granted_at))
    }
}

impl<'a> From<&'a Lifecycle> for Object<'a> {
    fn from(job: &'a Lifecycle) -> Self {
        let executor = job.executor.as_ref().map(Name::as_str);
        Self::Job(job.queue.as_str(), executor, job.handler.as_str())
    }
}

/// Which workers may claim a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lane {
    /// Cells that run several jobs concurrently.
    Shared,
    /// Cells that run one group of suspects each. Their slots come by the group:
    /// [`GROUP_JOBS_MAX`](crate::suspicion::GROUP_JOBS_MAX) for each cell, of which a claim fills those that the
    /// suspects may share.
    Apart,
    /// The executor of this name, outside our cells.
    Executor(Name),
}

impl Lane {
    /// Returns whether a job is in this lane. Each job is in exactly one lane.
    pub fn has(&self, job: &Lifecycle) -> bool {
        match self {
            Self::Shared => job.executor.is_none() && !job.suspicion.is_apart(),
            Self::Apart => job.executor.is_none() && job.suspicion.is_apart(),
            Self::Executor(name) => job.executor.as_ref() == Some(name),
        }
    }
}

/// A key of a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LimitKey {
    /// The number of the limit.
    pub limit: u64,
    pub key: Box<str>,
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.limit, self.key)
    }
}

/// A key of a limit, as a job has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyOfJob {
    pub key: LimitKey,
    /// How much each start takes of the limit's rate.
    pub units: u32,
    /// Whether the store lists the job under this key while it runs, so that it can be cancelled for a new one.
    pub is_listed: bool,
}

/// The limits of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsOfJob {
    /// Computed when the job was enqueued, in the order of the limits' numbers.
    pub keys: Vec<KeyOfJob>,
    /// The one that the job waits for: its index in `keys`.
    pub waits_for: Option<u8>,
    /// The latest attempt that has held one of them; 0 if none has.
    pub held_in: u32,
}

impl Lifecycle {
    /// Returns whether it waits for the jobs it depends on.
    pub fn waits_for_jobs(&self) -> bool {
        self.state == State::Pending && self.prerequisites_open > 0
    }

    /// Returns the key that it waits for.
    pub fn waits_for_key(&self) -> Option<&LimitKey> {
        self.waits_with().map(|it| &it.key)
    }

    /// Returns the key that it waits for, and what it takes of it.
    pub fn waits_with(&self) -> Option<&KeyOfJob> {
        let place = self.limits.waits_for?;
        self.limits.keys.get(usize::from(place))
    }

    /// Returns whether it takes a place of each of its limits.
    pub fn has_places(&self) -> bool {
        matches!(self.state, State::Available | State::Running)
    }

    /// Returns the batch whose numbers change if the job had the state `before`; `None` for no state if it is new.
    pub fn counts_in(&self, before: Option<State>) -> Option<BatchId> {
        let changes = before.is_none_or(|before| before.is_terminal() != self.state.is_terminal());
        self.batch.filter(|_| changes)
    }

    /// Returns how many attempts count against the limit.
    pub fn attempts_charged(&self) -> u32 {
        self.attempt
            .saturating_sub(self.attempts_uncharged)
            .saturating_sub(self.attempts_forgiven)
    }

    /// Returns when an ended job is forgotten; `None` if it has not ended.
    pub fn kept_until(&self) -> Option<Time> {
        let kept_ms = match self.state {
            State::Discarded => self.policy.retention.discarded_ms,
            _ => self.policy.retention.ms,
        };
        self.finished_at.map(|end| end.plus_ms(kept_ms))
    }

    /// Returns when the running attempt ends whatever its worker does. A cancel has a grace of its own.
    pub fn ends_by(&self) -> Option<Time> {
        let lease = self.lease.as_ref().filter(|_| self.cancel.is_none())?;
        lease.ends_by.filter(|_| lease.ack_by.is_none())
    }

    /// Returns when time alone next changes this job; `None` if never.
    ///
    /// One instant covers start, backoff, acknowledgement, lease end, deadline, cancel grace, the end of an attempt's
    /// time and the end of retention, so that a store needs only one index of time.
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
                earliest(earliest(lease_end, grace_end), self.ends_by())
            }
            State::Completed | State::Cancelled | State::Discarded => self.kept_until(),
        }
    }
}

fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, None) | (None, one) => one,
    }
}

/// The part of a job that is written once, when the job is accepted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Payload {
    /// The params of the handler.
    pub params: JsonText,
    /// Where the job came from: `http` or the name of another wire.
    pub wire: String,
    /// The id that a foreign orchestrator uses for the job.
    pub external_id: Option<String>,
    /// W3C trace context: `traceparent`, `tracestate`.
    pub trace_context: Vec<(String, String)>,
    /// Other key-value pairs that the sender attached.
    pub attributes: Vec<(String, String)>,
    /// Who enqueued it; `None` for anyone on a host without tokens, and for peers of wires.
    pub origin: Option<Box<Origin>>,
    /// The latest start that later jobs with its unique key can push it back to.
    pub latest_start: Option<Time>,
}

/// The [`Payload::wire`] of jobs that handlers enqueue.
pub const HANDLER_WIRE: &str = "handler";

/// The principal that enqueued a job. What the job enqueues or calls in turn has the same origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub principal: String,
    /// What it may enqueue. It stays with the job, even if the principal is gone.
    pub scope: Scope,
    /// How many of its jobs may wait or run concurrently.
    pub max_waiting: Option<u64>,
}

/// A job's unique key in its queue. If an earlier job with this key is in scope, an enqueue returns that job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UniqueKey {
    pub key: String,
    pub scope: UniqueScope,
    pub on_conflict: OnConflict,
}

/// What becomes of the earlier job that an enqueue with its unique key returns. It changes only if no attempt has begun, and
/// if the same principal has enqueued both for the same handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnConflict {
    /// It stays as it is.
    #[default]
    Keep,
    /// It gets the params of the new one.
    Replace,
    /// It gets the params of the new one and starts when that would, but no later than its own latest start.
    PushBack,
}

/// Which earlier job with the same key an enqueue returns. A job that has not ended always qualifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UniqueScope {
    /// Only a job that has not ended.
    Active,
    /// Any job that is still kept.
    Retained,
    /// Also a job that was enqueued within this time, in milliseconds.
    Within { ms: u64 },
}

impl UniqueScope {
    /// Returns whether an enqueue with the same key returns `earlier`.
    pub fn has(self, earlier: &Lifecycle, now: Time) -> bool {
        !earlier.state.is_terminal()
            || match self {
                Self::Active => false,
                Self::Retained => true,
                Self::Within { ms } => now < earlier.enqueued_at.plus_ms(ms),
            }
    }
}

/// The most jobs that all jobs of one request may name as prerequisites, together.
pub const DEPENDENCIES_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewJob {
    /// A new id.
    pub id: JobId,
    pub handler: Name,
    /// The executor that has the handler; `None` for cells.
    #[serde(rename = "runner")]
    pub executor: Option<Name>,
    /// The component that had the handler when the job was made. If it has been removed since, the job is refused.
    pub component: Option<Name>,
    pub queue: Name,
    /// 0 is the most urgent, 9 the least.
    pub priority: u8,
    /// The job starts at this instant at the earliest.
    pub run_at: Option<Time>,
    /// No attempt may run after this instant.
    pub deadline: Option<Time>,
    pub policy: Policy,
    /// The key that is unique in its queue.
    pub unique_key: Option<UniqueKey>,
    /// Jobs that must end first: existing ones, or others in the same batch. No duplicates.
    pub depends_on: Vec<JobId>,
    /// What it asks of them; `None` if only that they complete.
    pub conditions: Option<Box<Conditions>>,
    /// The batch that counts it.
    pub batch: Option<Membership>,
    /// The receivers of its end: its own and its queue's.
    pub notify: Vec<Notify>,
    /// The files that it reads, each under another name.
    #[serde(default)]
    pub files: Vec<InputFile>,
    pub payload: Payload,
}

impl NewJob {
    /// Returns about how many bytes it takes.
    pub fn bytes(&self) -> usize {
        let pairs: usize = self
            .payload
            .attributes
            .iter()
            .chain(&self.payload.trace_context)
            .map(|(name, value)| name.len() + value.len())
            .sum();
        let callbacks: usize = self.callbacks().iter().map(|(_, it)| it.bytes()).sum();
        self.payload.params.as_str().len() + pairs + callbacks
    }
}
