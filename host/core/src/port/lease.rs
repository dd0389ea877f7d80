//! Lease: foreign workers execute our jobs. A wire asks for attempts on behalf of its workers and
//! may wait; then a worker acknowledges, sends heartbeats, and completes the attempt or gives it
//! back. Leases by TTL live in the store and survive a restart of the host, which begins a whole
//! TTL for each: what it promised last may not have been stored. Knows no wire.

mod explain;

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::id::{JobId, LeaseId, NodeId};
use crate::job::{Cancel, Lifecycle, State};
use crate::json::JsonText;
use crate::lease::{Fence, Hold, Revocation};
use crate::name::Name;
use crate::outcome::{Attempt, Meter, Outcome, Progress, WorkerReport};
use crate::query::JobDetail;
use crate::suspicion::Suspicion;
use crate::time::Time;
use crate::transition::Exit;

pub use self::explain::{EndCause, LeaseEnd, LeaseRecord, explain};

/// Receives the answer to one request.
pub trait Respond<T>: Send {
    /// Returns whether the requester no longer waits for the answer.
    fn is_gone(&self) -> bool;

    /// Sends the answer. Returns it as the error if the requester no longer waits.
    fn respond(self: Box<Self>, answer: T) -> Result<(), T>;
}

/// The wait of a wire that sends attempts to its workers: until there is work or the host stops. The
/// number of such requests is not limited, because the configuration limits it.
pub const WAIT_FOREVER: u64 = u64::MAX;

/// Workers that have room for attempts.
pub struct LeaseRequest {
    /// The executors whose jobs the workers take, in the order in which they are tried.
    pub executors: Vec<Name>,
    /// The worker's name. It is the fence of [`Fence::Worker`], and people see it.
    pub worker: String,
    /// The most attempts of the answer.
    pub slots: usize,
    /// What keeps the leases alive.
    pub hold: Hold,
    /// How long the workers wait for work, in milliseconds; 0 is answered immediately.
    pub wait_ms: u64,
    /// Gets a call immediately when the lease is cancelled or taken away; `None` if the wire cannot
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
    fn revoked(&self, job: JobId, lease: LeaseId, why: Revocation);

    /// The host starts no more attempts for now: those that no worker has begun should go back.
    fn recalled(&self) {}

    /// Returns the grace of a cancel that sets none, in milliseconds.
    fn grace_ms(&self) -> u64 {
        5_000
    }
}

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
    /// What lost workers say against the job. An executor whose workers run several attempts concurrently keeps suspects
    /// apart, in groups.
    pub suspicion: Suspicion,
}

/// How an attempt ended that a wire had sent to one of its workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Its outcome is known.
    Outcome(Outcome),
    /// The worker is gone, and its result is not known. The reason is for people.
    Lost(String),
    /// The same, and the worker had other attempts too, any of which may be the cause.
    LostWithOthers {
        /// The reason, for people.
        why: String,
        /// How many attempts it had.
        jobs: usize,
    },
    /// The attempt was not sent, because no worker has room.
    NoRoom,
}

/// The end of an attempt whose lease a connection holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptEnd {
    /// The job.
    pub job: JobId,
    /// Its lease.
    pub lease: LeaseId,
    /// The worker's name, for people: the wire may have chosen it after the lease was granted.
    pub worker: String,
    /// How it ended.
    pub end: End,
}

/// A lease that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedLease {
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
    pub granted: GrantedLease,
    /// When it was granted.
    pub granted_at: Time,
    /// Its worker, as [`LeaseRequest::worker`] named it.
    pub worker: String,
    /// The cancel that the worker must obey.
    pub cancel: Option<Cancel>,
}

/// A job as it is kept, with its attempts that have ended, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredJob {
    /// The job.
    pub job: JobDetail,
    /// Its attempts that have ended.
    pub attempts: Vec<Attempt>,
}

/// A job that a worker identifies by something other than its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobQuery {
    /// The executor that has had its attempt.
    pub executor: Name,
    /// Its handler there.
    pub handler: Name,
    /// One of its attributes.
    pub attribute: (String, String),
    /// The number of an attempt that it has had.
    pub attempt: u32,
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
        /// How long the answer may wait for a cancel or the end of the lease, in milliseconds.
        wait_ms: u64,
    },
    /// The worker uploads a part of its log, which extends a lease by TTL like a heartbeat. Refused with
    /// [`LeaseError::LogOffset`] unless it begins where the part before ended, at whichever node.
    Log {
        /// Where the part begins in the log, in bytes.
        offset: u64,
        /// How long it is.
        bytes: u64,
    },
    /// The attempt has ended.
    Complete {
        /// How the attempt ended.
        outcome: Outcome,
        /// What the attempt used, as far as the worker reports it.
        meter: Meter,
        /// What else the worker reports.
        worker: Option<Box<WorkerReport>>,
    },
    /// The worker has stopped because of a cancel. Refused if none was requested.
    CancelAck {
        /// What the attempt had done by then.
        partial: Option<JsonText>,
        /// How it stopped, in the worker's words: the message of the failure.
        message: Option<String>,
    },
    /// The worker has received a cancel, and has `grace_ms` milliseconds from now at the most. Refused if no cancel
    /// was requested.
    CancelReceived {
        /// The rest of its grace.
        grace_ms: u64,
    },
    /// The worker will not execute the attempt; another worker may.
    GiveBack {
        /// Whether the worker had begun. If not, there was no attempt. If so, the attempt is lost,
        /// and it is not charged while the job has free losses.
        begun: bool,
    },
    /// The worker's process has ended. The attempt is lost, and not charged while the job has free losses and
    /// the worker had acknowledged its lease.
    Exited(Exit),
}

impl LeaseMessage {
    /// Returns how many bytes the result takes that it brings.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Complete { outcome, .. } => outcome.bytes(),
            Self::CancelAck {
                partial: Some(partial),
                ..
            } => partial.as_str().len(),
            _ => 0,
        }
    }
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
    /// When the lease was granted; `None` if it is over.
    pub granted_at: Option<Time>,
    /// Whether the message repeats an end that counted before.
    pub is_repeated: bool,
}

/// Why a message was not accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LeaseError {
    /// The worker must acknowledge its lease first.
    #[error("the lease is not acknowledged yet")]
    NotAcknowledged,
    /// The worker acknowledges a cancel that was not requested.
    #[error("no cancel of the job is requested")]
    CancelNotRequested,
    /// The part of the log begins elsewhere than where the log continues.
    #[error("the log was received up to byte {next}")]
    LogOffset {
        /// Where it continues, in bytes.
        next: u64,
    },
    /// The worker sends more heartbeats than a lease may have.
    #[error("too many heartbeats of one lease")]
    TooManyHeartbeats,
    /// Another worker holds the lease.
    #[error("the lease belongs to the worker {holder}")]
    NotYours {
        /// The worker that holds it.
        holder: String,
    },
    /// The lease is over.
    #[error("the lease is over")]
    Over(Box<LeaseEnd>),
    /// The host knows no such lease.
    #[error("the host knows no such lease")]
    Unknown,
    /// Too many messages are waiting; the worker may repeat this one.
    #[error("the host is busy; repeat this later")]
    Busy,
    /// There is no room on the disk; the worker may repeat the message.
    #[error("the disk is full: nothing of this was kept; free space and repeat it")]
    StoreFull,
    /// The host is stopping. The message may or may not have been kept.
    #[error("the host is stopping; whether this was kept is unknown")]
    Stopping,
}

/// A secret of all nodes that share a store, in random bytes.
pub type Secret = [u8; 32];

/// Grants leases to foreign workers. No call waits: answers come through [`Respond`], after the
/// commit that makes them true; those to heartbeats, see [`LeaseMessage::Heartbeat`].
pub trait Leases: Send + Sync {
    /// Asks for attempts: of the first executor that has jobs, the most urgent and then the oldest.
    /// There is one answer, with those that one claim found; a wire with room for more asks again.
    /// The answer is empty if the wait ends or the host stops. If the requester no longer takes the
    /// answer, the leases are given back immediately.
    fn lease(&self, request: LeaseRequest, respond: Box<dyn Respond<Vec<GrantedLease>>>);

    /// Ends an attempt whose lease a connection holds. There is no answer: the host keeps the end
    /// until it is stored, also while the disk is full.
    fn end(&self, ended: AttemptEnd);

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
    fn read(&self, job: JobId, respond: Box<dyn Respond<Result<Option<StoredJob>, LeaseError>>>);

    /// Answers when a lease is over, immediately if it is not known to be current here. By default, none is.
    fn await_end(&self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        let _ = lease;
        let _ = respond.respond(EndCause::Revoked);
    }

    /// Finds the worker of a lease, also after its end if that is remembered. By default, none.
    fn find_worker(
        &self,
        job: JobId,
        lease: LeaseId,
        respond: Box<dyn Respond<Result<Option<String>, LeaseError>>>,
    ) {
        let _ = (job, lease);
        drop(respond.respond(Ok(None)));
    }

    /// Returns how many leases of this node each worker holds whose name begins with `prefix`. By default, none.
    fn workers(&self, prefix: &str) -> BTreeMap<String, usize> {
        let _ = prefix;
        BTreeMap::new()
    }

    /// Finds the newest job that `wanted` describes, among so many of the newest of the handler. By default, none.
    fn find(&self, wanted: JobQuery, respond: Box<dyn Respond<Result<Option<JobId>, LeaseError>>>) {
        let _ = wanted;
        drop(respond.respond(Ok(None)));
    }

    /// Returns this node, if others may share the store.
    fn node(&self) -> Option<NodeId> {
        None
    }

    /// Returns the secret of the nodes that share the store, if there may be several: a worker may send its
    /// messages to any of them.
    fn shared_secret(&self) -> Option<Secret> {
        None
    }
}

impl From<&Lifecycle> for Standing {
    fn from(job: &Lifecycle) -> Self {
        let lease = job.lease.as_ref();
        Self {
            state: job.state,
            attempt: job.attempt,
            cancel: job.cancel.clone(),
            expires_at: lease.and_then(|lease| lease.expires_at),
            granted_at: lease.map(|lease| lease.granted_at),
            is_repeated: false,
        }
    }
}
