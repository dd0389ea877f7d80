//! Lease: foreign workers pull work. They ask, and may wait; then they acknowledge, say that they
//! are alive, complete, or give back. Leases by TTL live in the store and survive a restart of the
//! host. Knows no wire.

use std::sync::Arc;

use thiserror::Error;

use super::Assignment;
use crate::id::{JobId, LeaseId};
use crate::job::{Cancel, Lifecycle, State};
use crate::json::JsonText;
use crate::lease::{Fence, Hold};
use crate::name::Name;
use crate::outcome::{Meter, Outcome, Progress};
use crate::rejection::Rejection;
use crate::time::Time;

/// Where the answer to one request goes.
pub trait Respond<T>: Send {
    /// Tells whether nobody waits for the answer any more.
    fn is_gone(&self) -> bool;

    /// Answers; gives the answer back if nobody waits for it.
    fn respond(self: Box<Self>, answer: T) -> Result<(), T>;
}

/// A worker that has room for one attempt.
pub struct LeaseRequest {
    /// The executors whose jobs it takes, in the order in which they are tried.
    pub executors: Vec<Name>,
    /// Its name: the fence of [`Fence::Worker`], and shown to people.
    pub worker: String,
    /// What keeps the lease alive.
    pub hold: Hold,
    /// How long it waits for work, in milliseconds; 0 is answered at once.
    pub wait_ms: u64,
    /// Who hears at once that the lease is to be cancelled or was taken away, if somebody can. Not
    /// kept over a restart of the host: those workers learn it by their next message.
    pub events: Option<Arc<dyn LeaseEvents>>,
}

/// What happens to a lease without its worker's doing. No call waits.
pub trait LeaseEvents: Send + Sync {
    /// The attempt is to stop within `grace_ms` milliseconds. A lease held by connection is not
    /// watched by the host: its wire gives up a worker that does not stop.
    fn cancelled(&self, job: JobId, lease: LeaseId, grace_ms: u64);

    /// The lease is over: it ran out or was taken away. Whatever its worker says is stale.
    fn revoked(&self, job: JobId, lease: LeaseId);
}

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The job.
    pub job: JobId,
    /// The secret that the worker's messages present.
    pub lease: LeaseId,
    /// What to execute.
    pub assignment: Assignment,
    /// When the lease ends unless it is extended; `None` while a connection holds it.
    pub expires_at: Option<Time>,
    /// Until when the worker must acknowledge it; `None` if it need not.
    pub ack_by: Option<Time>,
}

/// What a worker says about its lease.
#[derive(Clone, Debug, PartialEq)]
pub enum LeaseMessage {
    /// It has begun.
    Ack,
    /// It is alive; a lease by TTL is extended.
    Heartbeat {
        /// How far it is, if it says.
        progress: Option<Progress>,
    },
    /// The attempt has ended.
    Complete {
        /// How.
        outcome: Outcome,
        /// What it used, as far as the worker tells.
        meter: Meter,
    },
    /// It has stopped because of a cancel; refused if none was requested.
    CancelAck {
        /// What it had by then.
        partial: Option<JsonText>,
    },
    /// It will not execute the attempt; another worker may.
    GiveBack {
        /// Whether it had begun. What had not is no attempt; what had is lost, and not charged as
        /// long as the job has free losses.
        begun: bool,
    },
}

/// How a job and its lease are after a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The job's state.
    pub state: State,
    /// The number of its current or latest attempt.
    pub attempt: u32,
    /// The cancel that its worker must obey.
    pub cancel: Option<Cancel>,
    /// When the lease ends unless it is extended; `None` if a connection holds it or it is over.
    pub expires_at: Option<Time>,
}

/// Why a message changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// The rules refuse it: the fence is stale, the lease has run out, or the state does not allow it.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// Too much waits already; the worker may repeat the message.
    #[error("the host is busy; repeat this later")]
    Busy,
    /// There is no room on the disk; the worker may repeat the message.
    #[error("the disk is full: nothing of this was kept; free space and repeat it")]
    StoreFull,
    /// The host stops. Whether the message was kept is not known.
    #[error("the host is stopping; whether this was kept is not known")]
    Stopping,
}

/// Grants leases to workers that pull. No call waits: answers come through [`Respond`], after the
/// commit of what they promise.
pub trait Leases: Send + Sync {
    /// Asks for one attempt: the most urgent and then the oldest of the first executor that has
    /// one. Answered `None` when the wait runs out or the host stops. A lease whose answer
    /// nobody takes is given back at once.
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Option<Granted>>>);

    /// Says something about the lease that `fence` names.
    fn tell(
        &self,
        job: JobId,
        fence: Fence,
        message: LeaseMessage,
        respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
    );
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
