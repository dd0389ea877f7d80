//! Lease: foreign workers pull work. A worker asks for work and may wait; then it acknowledges,
//! sends heartbeats, and completes the attempt or gives it back. Leases by TTL live in the store
//! and survive a restart of the host, which begins a whole TTL for each: what it promised last may
//! not have been stored. Knows no wire.

use std::sync::Arc;

use thiserror::Error;

use super::Assignment;
use crate::id::{JobId, LeaseId};
use crate::job::{Cancel, Lifecycle, State};
use crate::json::JsonText;
use crate::lease::{Fence, Hold};
use crate::name::Name;
use crate::outcome::{Attempt, Meter, Outcome, Progress};
use crate::query::JobDetail;
use crate::rejection::Rejection;
use crate::time::Time;
use crate::transition::Exit;

/// Receives the answer to one request.
pub trait Respond<T>: Send {
    /// Returns whether the requester no longer waits for the answer.
    fn is_gone(&self) -> bool;

    /// Sends the answer. Returns it as the error if the requester no longer waits.
    fn respond(self: Box<Self>, answer: T) -> Result<(), T>;
}

/// A worker that has room for one attempt.
pub struct LeaseRequest {
    /// The executors whose jobs the worker takes, in the order in which they are tried.
    pub executors: Vec<Name>,
    /// The worker's name. It is the fence of [`Fence::Worker`], and people see it.
    pub worker: String,
    /// What keeps the lease alive.
    pub hold: Hold,
    /// How long the worker waits for work, in milliseconds; 0 is answered at once.
    pub wait_ms: u64,
    /// Gets a call at once when the lease is cancelled or taken away; `None` if the wire cannot
    /// call the worker. It is not kept over a restart of the host: the worker then learns it from
    /// the answer to its next message.
    pub events: Option<Arc<dyn LeaseEvents>>,
}

/// Changes of a lease that its worker did not cause. No call waits.
pub trait LeaseEvents: Send + Sync {
    /// The attempt must stop within `grace_ms` milliseconds. The host does not enforce this for a
    /// lease held by connection: its wire gives up a worker that does not stop.
    fn cancelled(&self, job: JobId, lease: LeaseId, grace_ms: u64);

    /// The lease is over: it ran out or was taken away. Later messages from its worker are stale.
    fn revoked(&self, job: JobId, lease: LeaseId);
}

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The job.
    pub job: JobId,
    /// The secret that the worker's messages must present.
    pub lease: LeaseId,
    /// What to execute.
    pub assignment: Assignment,
    /// When the lease ends unless it is extended; `None` while a connection holds it.
    pub expires_at: Option<Time>,
    /// When the worker must have acknowledged the lease; `None` if it need not.
    pub ack_by: Option<Time>,
}

/// A lease by TTL that was granted before the host restarted. If its policy has an acknowledgement
/// window and `granted.ack_by` is `None`, its worker has acknowledged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resumed {
    /// The lease as it was granted, with its current end.
    pub granted: Granted,
    /// When it was granted.
    pub granted_at: Time,
    /// Its worker, as [`LeaseRequest::worker`] named it.
    pub worker: String,
    /// The cancel that the worker must obey.
    pub cancel: Option<Cancel>,
}

/// A job as it is kept, with its attempts that have ended, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The job.
    pub job: JobDetail,
    /// Its attempts that have ended.
    pub attempts: Vec<Attempt>,
}

/// A worker's message about its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseMessage {
    /// The worker has begun the attempt. The first one extends a lease by TTL.
    Ack,
    /// The worker is alive. If its lease is by TTL, it is extended.
    ///
    /// The answer comes from memory: the end that it promises is stored later, with those of other
    /// leases. It holds all the same. Before the stored end has passed, the host stores the promised
    /// one; a host that was killed before gives each lease by TTL a whole TTL when it starts, which is
    /// no less than was promised. The same rules decide as in the store, and what they refuse there,
    /// the store answers.
    Heartbeat {
        /// The progress of the attempt, if the worker reports it.
        progress: Option<Progress>,
    },
    /// The attempt has ended.
    Complete {
        /// How the attempt ended.
        outcome: Outcome,
        /// What the attempt used, as far as the worker reports it.
        meter: Meter,
    },
    /// The worker has stopped because of a cancel. Refused if none was requested.
    CancelAck {
        /// What the attempt had done by then.
        partial: Option<JsonText>,
        /// How it stopped, in the worker's words: the message of the failure.
        message: Option<String>,
    },
    /// The worker will not execute the attempt; another worker may.
    GiveBack {
        /// Whether the worker had begun. If not, there was no attempt. If so, the attempt is lost,
        /// and it is not charged while the job has free losses.
        begun: bool,
    },
    /// The worker's process has ended. The attempt is lost, and not charged while the job has free losses.
    Exited(Exit),
}

/// The state of a job and its lease after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The job's state.
    pub state: State,
    /// The number of the current or latest attempt.
    pub attempt: u32,
    /// The cancel that the worker must obey.
    pub cancel: Option<Cancel>,
    /// When the lease ends unless it is extended; `None` if a connection holds it or it is over.
    pub expires_at: Option<Time>,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// The rules refuse it: the fence is stale, the lease has run out, or the state forbids it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Too many messages are waiting; the worker may repeat this one.
    #[error("the host is busy; repeat this later")]
    Busy,
    /// There is no room on the disk; the worker may repeat the message.
    #[error("the disk is full: nothing of this was kept; free space and repeat it")]
    StoreFull,
    /// The host is stopping. The message may or may not have been kept.
    #[error("the host is stopping; whether this was kept is not known")]
    Stopping,
}

/// Grants leases to workers that pull. No call waits: answers come through [`Respond`], after the
/// commit that makes them true; those to heartbeats, see [`LeaseMessage::Heartbeat`].
pub trait Leases: Send + Sync {
    /// Asks for one attempt: of the first executor that has a job, the most urgent and then the
    /// oldest. The answer is `None` if the wait ends or the host stops. If the requester no longer
    /// takes the answer, the lease is given back at once.
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Option<Granted>>>);

    /// Sends a message about the lease that `fence` names.
    fn send(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    );

    /// Takes over the leases by TTL of an executor's jobs that were granted before the host
    /// restarted, oldest first: `events` gets a call when one is cancelled or taken away. For wires
    /// that send attempts to their workers and must know what is out there.
    fn resume(
        &self,
        executor: Name,
        events: Arc<dyn LeaseEvents>,
        respond: Box<dyn Respond<Result<Vec<Resumed>, LeaseError>>>,
    );

    /// Reads a job, to explain a refusal or to recognize a repeated message. The answer is `None` if
    /// there is no job with this id.
    fn read(&self, job: JobId, respond: Box<dyn Respond<Result<Option<Kept>, LeaseError>>>);
}

impl From<&Lifecycle> for Standing {
    fn from(job: &Lifecycle) -> Self {
        let lease = job.lease.as_ref();
        Self {
            state: job.state,
            attempt: job.attempt,
            cancel: job.cancel.clone(),
            expires_at: lease.and_then(|lease| lease.expires_at),
        }
    }
}
