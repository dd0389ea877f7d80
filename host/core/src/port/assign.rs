//! Assign: the host gives leased attempts to a wire, which pushes them to foreign workers while it
//! has room. The wire reports the end of each attempt by its tag. Knows no wire.

use super::Tag;
use crate::json::JsonText;
use crate::name::Name;
use crate::outcome::{Outcome, Progress};
use crate::time::Time;

/// One leased attempt, as a foreign worker gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Identifies this attempt; every attempt has a new one.
    pub request_id: String,
    /// Identifies the job.
    pub job_id: String,
    /// The handler's name at the worker, without the executor's prefix.
    pub handler: String,
    /// What the handler is called with: a JSON object.
    pub params: JsonText,
    /// The queue it waited in.
    pub queue: String,
    /// The job's priority; 0 is the most urgent.
    pub priority: u8,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// When the job was accepted.
    pub enqueued_at: Time,
    /// The longest time for the attempt, in milliseconds.
    pub timeout_ms: u64,
    /// The instant of host time after which the attempt may not run.
    pub deadline: Option<Time>,
    /// W3C trace context.
    pub trace: Vec<(String, String)>,
    /// Other key-value pairs that the job's sender attached.
    pub attributes: Vec<(String, String)>,
    /// Identifies the host in the worker's logs.
    pub worker_id: String,
    /// How many workers were lost while they had this job and others, since its latest outcome.
    /// An executor whose workers run several attempts at once keeps such a job away from others.
    pub losses: u8,
}

/// How an assigned attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its outcome is known.
    Outcome(Outcome),
    /// The worker is gone, and its result is not known. The reason is for people.
    Lost(String),
    /// The same, and the worker had other attempts too, any of which may be the cause.
    LostWithOthers(String),
    /// The attempt was not sent, because no worker has room.
    NoRoom,
}

/// One executor that the host pushes attempts to. No call waits.
pub trait Assign: Send {
    /// Gives a worker an attempt. [`AssignEvents::ended`] follows exactly once in every case.
    fn start(&self, tag: Tag, assignment: Assignment);

    /// Tells the worker to stop an attempt. If the attempt has not ended after `grace_ms`
    /// milliseconds, it is given up. A repeated call can only shorten the grace.
    fn cancel(&self, tag: Tag, grace_ms: u64);

    /// Returns the attempts that no worker has begun, because the host stops soon. They end with
    /// [`End::NoRoom`].
    fn drain(&self) {}

    /// Returns the grace of a cancel that sets none, in milliseconds.
    fn grace_ms(&self) -> u64 {
        500
    }
}

/// What executors report to the host. Calls for one attempt come in order. No call waits.
pub trait AssignEvents: Send + Sync {
    /// Reports how many attempts the executor runs at once, including those in flight. Called when
    /// the number changes; it is 0 while no worker can be reached.
    fn capacity(&self, executor: &Name, attempts: usize);

    /// A worker has begun an attempt.
    fn started(&self, tag: Tag);

    /// Reports the progress of an attempt; the latest report counts.
    fn progressed(&self, tag: Tag, progress: Progress);

    /// Reports that an attempt has ended; no more calls for it follow. `worker` is the name of its
    /// worker, for people.
    fn ended(&self, tag: Tag, worker: String, end: End);
}
