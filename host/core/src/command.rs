//! The commands of a store: the rules' inputs for one job, and the few that concern many. Commands are plain data, so a batch can be logged and repeated.

use serde::{Deserialize, Serialize};

use crate::handler::Revision;
use crate::id::{JobId, LeaseId, NodeId};
use crate::job::{Lane, Lifecycle, Payload, State};
use crate::json::JsonText;
use crate::lease::{Fence, Hold};
use crate::name::Name;
use crate::outcome::Report;
use crate::time::Time;
use crate::transition::{Effect, Loss};

pub use crate::job::NewJob;

/// The most jobs that may wait for one job.
pub const DEPENDENTS_MAX: u32 = 10_000;

/// What was executed for another orchestrator, once it has ended: history, not work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// What it was; its payload names the orchestrator's id, and its policy allows one attempt.
    pub job: NewJob,
    /// The lease it was executed under, new.
    pub lease: LeaseId,
    /// When it was given to its executor.
    pub started_at: Time,
    /// When it ended.
    pub finished_at: Time,
    /// How, with what it used.
    pub report: Report,
}

/// Room for one run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The lease to grant, new.
    pub lease: LeaseId,
    /// Who will execute.
    pub worker: String,
    /// Which jobs it takes.
    pub lane: Lane,
    /// What keeps the lease alive.
    pub hold: Hold,
}

/// One change that a store is asked to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Accept these jobs, all or none. Answered by [`Reply::Enqueued`].
    Enqueue(Vec<NewJob>),
    /// Lease available jobs of queues that are not paused into these slots, the most urgent and
    /// then the oldest first. Answered by [`Reply::Claimed`], shorter than `slots` if too few
    /// jobs are available.
    Claim {
        /// The host that grants the leases.
        node: NodeId,
        /// Room for this many.
        slots: Vec<Slot>,
        /// The claim ends with the job whose params bring it to so many bytes in all.
        params_bytes_max: usize,
    },
    /// A worker acknowledges its lease. Answered by [`Reply::Moved`].
    Ack {
        /// Which job.
        job: JobId,
        /// Which lease.
        fence: Fence,
    },
    /// A worker is alive; its lease by TTL is extended. Answered by [`Reply::Moved`]: the job shows
    /// the lease's new end and, if a cancel is requested, its reason and the end of its grace.
    Heartbeat {
        /// Which job.
        job: JobId,
        /// Which lease.
        fence: Fence,
    },
    /// An attempt has ended. Answered by [`Reply::Moved`].
    Complete {
        /// Which job.
        job: JobId,
        /// Which lease.
        fence: Fence,
        /// How, with what it used.
        report: Box<Report>,
    },
    /// A lease was lost without a report. Answered by [`Reply::Moved`].
    Lose {
        /// Which job.
        job: JobId,
        /// Which lease.
        fence: Fence,
        /// How it was lost.
        loss: Loss,
        /// The name of its executor, as people see it.
        executor: String,
    },
    /// A user wants the job stopped. Answered by [`Reply::Moved`].
    Cancel {
        /// Which job.
        job: JobId,
        /// Why, in the requester's words.
        reason: Option<String>,
        /// Overrides the job's grace, in milliseconds.
        grace_ms: Option<u64>,
    },
    /// A worker has stopped because of the cancel: the attempt and the job end as cancelled. Refused
    /// if no cancel is requested. Answered by [`Reply::Moved`].
    CancelAck {
        /// Which job.
        job: JobId,
        /// Which lease.
        fence: Fence,
        /// What the attempt had done until then.
        partial: Option<JsonText>,
    },
    /// An operator wants a cancelled or discarded job run again. Answered by [`Reply::Moved`].
    Retry {
        /// Which job.
        job: JobId,
    },
    /// Time has passed: apply it to at most `limit` jobs whose wakeup is due, oldest first.
    /// Answered by [`Reply::Ticked`].
    Tick {
        /// The most jobs to look at.
        limit: u32,
    },
    /// The host `node` has started and none of its earlier cells and connections is left: each
    /// lease that it granted and that a connection holds is lost with [`Loss::HostRestarted`].
    /// Leases of other nodes and leases by TTL stay. Answered by [`Reply::Ticked`].
    Recover {
        /// The host that has started.
        node: NodeId,
    },
    /// Keep what was executed for another orchestrator. Answered by [`Reply::Moved`].
    Record(Box<Foreign>),
    /// Claims skip the queue from now on, or no longer. Answered by [`Reply::Done`]; a queue that
    /// has never had a job may be paused too.
    SetPaused {
        /// Which queue.
        queue: Name,
        /// Whether claims skip it.
        paused: bool,
    },
    /// Add a revision of a component and make it current; its `revision` number is given by the
    /// store. Answered by [`Reply::Deployed`].
    Deploy {
        /// What to add.
        revision: Box<Revision>,
        /// The component's bytes, kept under its digest.
        bytes: Vec<u8>,
    },
    /// Make an earlier revision current. Answered by [`Reply::Deployed`].
    Rollback {
        /// Of which component.
        component: Name,
        /// Which one.
        revision: u32,
    },
    /// Forget a component with all its revisions. Refused while jobs for its handlers have not
    /// ended. Answered by [`Reply::Done`].
    Remove {
        /// Which component.
        component: Name,
    },
}

/// What became of one job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The job that now stands for the request: the new one, or the one that has its unique key.
    pub id: JobId,
    /// That job's state.
    pub state: State,
    /// Whether it was there before.
    pub existing: bool,
}

/// A job whose lease was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The job, running.
    pub lifecycle: Lifecycle,
    /// What it is executed with.
    pub payload: Payload,
}

/// What a store answers to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Command::Enqueue`], in its order.
    Enqueued(Vec<Enqueued>),
    /// To [`Command::Claim`].
    Claimed(Vec<Claimed>),
    /// To commands about one job: how it is now.
    Moved(Box<Lifecycle>),
    /// To [`Command::Tick`] and [`Command::Recover`].
    Ticked {
        /// How many jobs were looked at; equal to the limit if more may be due.
        jobs: u32,
        /// When the next job is due, after this batch.
        next_wakeup: Option<Time>,
    },
    /// To [`Command::Deploy`] and [`Command::Rollback`].
    Deployed {
        /// The current revision now.
        revision: Box<Revision>,
        /// Whether it was current before: the same bytes and the same manifest.
        unchanged: bool,
    },
    /// To the commands that need no answer.
    Done,
}

/// One job entered, changed or left its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Which job.
    pub job: JobId,
    /// Its handler.
    pub handler: Name,
    /// The pool of foreign runners that has the handler.
    pub runner: Option<Name>,
    /// Its queue.
    pub queue: Name,
    /// What it was; `None` for a new one.
    pub from: Option<State>,
    /// What it is now; `None` for one that was purged.
    pub to: Option<State>,
    /// Its current or latest attempt.
    pub attempt: u32,
}

/// What a commit did, in the order of its commands. It is on disk when this is returned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    /// One answer for each command.
    pub replies: Vec<Result<Reply, crate::rejection::Rejection>>,
    /// Every change of state, in order.
    pub changes: Vec<Change>,
    /// What has to be done now, in order.
    pub effects: Vec<(JobId, Effect)>,
    /// When the next job is due, after this batch.
    pub next_wakeup: Option<Time>,
    /// How many jobs may be claimed for our cells: those of runners and of paused queues are not
    /// counted.
    pub available: u64,
}
