//! Assign: the host gives leased attempts to a wire that pushes them to foreign workers, as far as
//! the wire has room; the wire says what became of them by their tags. Knows no wire.

use super::Tag;
use crate::json::JsonText;
use crate::name::Name;
use crate::outcome::{Outcome, Progress};
use crate::time::Time;

/// One leased attempt, as a foreign worker is told about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Names this attempt; new for each.
    pub request_id: String,
    /// Names the job.
    pub job_id: String,
    /// The handler's name at the worker, without the executor's prefix.
    pub handler: String,
    /// An object.
    pub params: JsonText,
    /// The queue it waited in.
    pub queue: String,
    /// 1 for the first.
    pub attempt: u32,
    /// When the job was accepted.
    pub enqueued_at: Time,
    /// How long it may take, in milliseconds.
    pub timeout_ms: u64,
    /// The instant of host time after which it may not run.
    pub deadline: Option<Time>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Whatever else the job's sender attached.
    pub attributes: Vec<(String, String)>,
    /// Who gives the work, for the worker's logs.
    pub worker_id: String,
}

/// How an assigned attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its outcome is known.
    Outcome(Outcome),
    /// The worker is gone and nobody knows how far it came; the reason is for people.
    Lost(String),
    /// It was not sent: no worker has room.
    NoRoom,
}

/// One executor that is pushed to, as the host speaks to it. No call waits.
pub trait Assign: Send {
    /// Gives a worker an attempt; [`AssignEvents::ended`] follows exactly once, whatever happens.
    fn start(&self, tag: Tag, assignment: Assignment);

    /// Stops an attempt: its worker is told, and the attempt is given up if it has not ended
    /// `grace_ms` milliseconds from now. A repeated call can only shorten the grace.
    fn cancel(&self, tag: Tag, grace_ms: u64);

    /// Gives back what no worker has begun, because the host stops soon: those attempts end with
    /// [`End::NoRoom`].
    fn drain(&self) {}

    /// Returns the grace of a cancel that names none, in milliseconds.
    fn grace_ms(&self) -> u64 {
        500
    }
}

/// What executors say to the host. Called in order for each attempt; no call waits.
pub trait AssignEvents: Send + Sync {
    /// So many attempts are taken at once, those in flight included. Said whenever it changes; 0
    /// while no worker can be reached.
    fn capacity(&self, executor: &Name, attempts: usize);

    /// A worker has begun an attempt.
    fn started(&self, tag: Tag);

    /// How far an attempt is; the latest counts.
    fn progressed(&self, tag: Tag, progress: Progress);

    /// An attempt is over; nothing follows about it. `worker` names who had it, for people.
    fn ended(&self, tag: Tag, worker: String, end: End);
}
