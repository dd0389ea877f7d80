//! The commands of a store: the inputs of the rules for one job, and a few that concern many jobs.
//! Commands are plain data, so a batch can be logged and repeated.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::access::token::{NewSession, Token, TokenHash, TokenId};
use crate::audit::Note;
use crate::handler::Revision;
use crate::id::{BatchId, JobId, LeaseId, NodeId};
use crate::job::{Lane, Lifecycle, Payload, State};
use crate::job_batch::BatchPlan;
use crate::json::JsonText;
use crate::lease::{Fence, Hold, Renewal};
use crate::limit::Limit;
use crate::name::Name;
use crate::node::Dead;
use crate::outcome::Report;
use crate::requests::Requests;
use crate::schedule::{Firing, Schedule};
use crate::state::StateWrites;
use crate::time::Time;
use crate::transition::{Effect, Loss};
use crate::writes::Writes;

pub use crate::job::{DEPENDENCIES_MAX, NewJob};

/// A job that was executed for another orchestrator and has ended. It is kept as history only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foreign {
    /// The job. Its payload holds the orchestrator's id, and its policy allows one attempt.
    pub job: NewJob,
    /// A new id for the lease of the execution.
    pub lease: LeaseId,
    pub started_at: Time,
    pub finished_at: Time,
    /// The outcome and what the execution used.
    pub report: Report,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// The id of the lease to grant.
    pub lease: LeaseId,
    /// The worker that will execute.
    pub worker: String,
    /// The jobs that may take this slot.
    pub lane: Lane,
    /// What keeps the lease alive.
    pub hold: Hold,
}

/// Lets a schedule fire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fire {
    pub schedule: Name,
    /// The version of the schedule that was looked at. If it has changed since, nothing happens.
    pub version: u64,
    /// The jobs of the schedule that had not ended: named here so that a store can look all of them up at once.
    pub open: Vec<JobId>,
    /// What the wall clock shows.
    pub wall: Time,
    /// New ids, one for each job that it may enqueue.
    pub ids: Vec<JobId>,
    /// The template of these jobs, or why they are refused.
    pub job: Result<Box<NewJob>, String>,
    /// The nominal times to enqueue jobs for, regardless of running jobs; `None` for those that are due.
    pub nominals: Option<Vec<Time>>,
}

/// A batch to make.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewBatch {
    /// A new id.
    pub id: BatchId,
    pub plan: BatchPlan,
    /// Whether jobs may be added later.
    pub is_open: bool,
    /// Its first jobs, which name it.
    pub jobs: Vec<NewJob>,
}

/// A change that a store is asked to make.
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
        slots: Vec<Slot>,
        /// Handlers whose jobs stay where they are: the cells of this host cannot run them.
        except: BTreeSet<Name>,
        /// The claim ends with the job whose params bring the total to this many bytes.
        params_bytes_max: usize,
    },
    /// A worker acknowledges its lease. Answered by [`Reply::Moved`].
    Ack { job: JobId, fence: Fence },
    /// A worker is alive. If its lease is by TTL, it is extended. Answered by [`Reply::Moved`]: the
    /// job shows the new end of the lease and, if a cancel is requested, its reason and the end of
    /// its grace.
    Heartbeat { job: JobId, fence: Fence },
    /// A worker has uploaded a part of its log. Answered by [`Reply::Moved`].
    Log {
        job: JobId,
        fence: Fence,
        /// Where the part begins in the log, in bytes.
        offset: u64,
        bytes: u64,
    },
    /// Store that a lease was renewed. Answered by [`Reply::Moved`].
    Renew(Renewal),
    /// An attempt has ended. Answered by [`Reply::Moved`].
    Complete {
        job: JobId,
        fence: Fence,
        /// The outcome and what the attempt used.
        report: Box<Report>,
        /// What it writes, exactly if it completes. If that is refused, the attempt fails instead.
        writes: Option<Box<Writes>>,
    },
    /// A lease was lost without a report. Answered by [`Reply::Moved`].
    Lose {
        job: JobId,
        fence: Fence,
        /// How the lease was lost.
        loss: Loss,
        /// The display name of the executor.
        executor: String,
        /// The requests that it made to HTTP servers until then; `None` if it made none.
        requests: Option<Box<Requests>>,
    },
    /// A user wants the job stopped. Answered by [`Reply::Moved`].
    Cancel {
        job: JobId,
        /// The requester's reason.
        reason: Option<String>,
        /// Overrides the job's grace, in milliseconds.
        grace_ms: Option<u64>,
    },
    /// The handler of a running job holds the job's key of a limit. Refused if the job does not have the limit. Answered by
    /// [`Reply::Moved`].
    Hold(Box<KeyHold>),
    /// A worker has received the cancel: its grace ends after this time at the latest, in milliseconds. Refused
    /// if no cancel is requested. Answered by [`Reply::Moved`].
    CancelReceived {
        job: JobId,
        fence: Fence,
        grace_ms: u64,
    },
    /// A worker has stopped because of the cancel: the attempt and the job end as cancelled.
    /// Refused if no cancel is requested. Answered by [`Reply::Moved`].
    CancelAck {
        job: JobId,
        fence: Fence,
        /// The partial result.
        partial: Option<JsonText>,
        /// The worker's message about the stop.
        message: Option<String>,
    },
    /// An operator wants a cancelled or discarded job to run again. It waits again for the jobs it
    /// depends on that have not completed. Refused if one of them is no longer kept. With `force`, a
    /// pending one is started too. Answered by [`Reply::Moved`].
    Retry {
        job: JobId,
        /// Whether the job starts without waiting for the jobs it depends on.
        force: bool,
    },
    /// An operator wants a job that has not ended to have another priority. Answered by
    /// [`Reply::Moved`].
    SetPriority { job: JobId, priority: u8 },
    /// An operator wants a waiting job to start at this instant, or at once if it has passed.
    /// Answered by [`Reply::Moved`].
    Reschedule { job: JobId, run_at: Time },
    /// An operator wants a job that has ended to be forgotten now. Answered by [`Reply::Moved`].
    Purge { job: JobId },
    /// Time has passed: apply it to at most `limit` jobs whose wakeup is due, oldest first, and to fewer if
    /// that takes long.
    /// Answered by [`Reply::Ticked`].
    Tick { limit: u32 },
    /// The host `node` has started, and its earlier cells and connections are gone. Each lease that it
    /// granted and that a connection holds is lost with [`Loss::HostRestarted`]; those of other nodes stay.
    /// Its leases by TTL, and those of nodes that do not live, which become its own, get a whole new TTL,
    /// because the host could not receive heartbeats and may not have stored the latest. Looks at a number of
    /// running jobs. Answered by [`Reply::TakenBack`].
    Recover {
        /// The host that has started.
        node: NodeId,
        /// The other nodes that live.
        living: Vec<NodeId>,
        /// Where to go on: 0 at first, and then as the answer says.
        after: i64,
    },
    /// Another node of the store is dead. It can no longer write, and its leases are taken back as if it had
    /// started again, see [`Command::Recover`]. Does nothing if it is alive after all or another node was first. Until it has
    /// looked at all running jobs, the dead node counts as silent: if nobody goes on, another node begins anew. Answered by
    /// [`Reply::TakenBack`].
    TakeOver {
        dead: Dead,
        /// Where to go on: 0 at first, and then as the answer says.
        after: i64,
    },
    /// Keep the history of a job of another orchestrator. Answered by [`Reply::Moved`].
    Record(Box<Foreign>),
    /// Change state that handlers keep, all or none. Answered by [`Reply::Done`].
    SetState(Box<StateWrites>),
    /// Pause a queue, so that claims skip it, or resume it. A queue that has never had a job may be
    /// paused too. Answered by [`Reply::Done`].
    SetPaused { queue: Name, paused: bool },
    /// Add a revision of a component and make it current, with its schedules. The store sets its `revision` number.
    /// Answered by [`Reply::Deployed`].
    Deploy {
        revision: Box<Revision>,
        /// The component's bytes, which are stored under its digest.
        bytes: Vec<u8>,
        /// What the wall clock shows, for its schedules.
        wall: Time,
    },
    /// Make an earlier revision current, with its schedules. Answered by [`Reply::Deployed`].
    Rollback {
        component: Name,
        revision: u32,
        /// What the wall clock shows.
        wall: Time,
    },
    /// Remove a component with all its revisions and schedules. Refused while jobs for its handlers have not
    /// ended. Answered by [`Reply::Done`].
    Remove { component: Name },
    /// Set a schedule, new or in place of the one with its name, which must have the same source. Has what the wall
    /// clock shows. Answered by [`Reply::Done`].
    SetSchedule { schedule: Box<Schedule>, wall: Time },
    /// Forget a schedule. Its jobs stay. Answered by [`Reply::Done`].
    RemoveSchedule { schedule: Name },
    /// Enqueue the jobs of a schedule that are due, and record what becomes of each nominal time. Answered by
    /// [`Reply::Fired`].
    Fire(Box<Fire>),
    /// Set a limit, new or in place of the one with its name, which must have the same source. Jobs that were enqueued before
    /// keep their keys. Answered by [`Reply::Done`].
    SetLimit { limit: Box<Limit> },
    /// Forget a limit. Jobs no longer wait for it. Answered by [`Reply::Done`].
    RemoveLimit { limit: Name },
    /// Make a batch with its first jobs, all or nothing. Answered by [`Reply::Enqueued`].
    NewBatch(Box<NewBatch>),
    /// Let no more jobs be added to a batch from outside. Answered by [`Reply::Done`].
    CloseBatch { batch: BatchId },
    /// Close a batch and cancel its jobs, a slice with each tick. Answered by [`Reply::Done`].
    CancelBatch {
        batch: BatchId,
        /// The requester's reason.
        reason: Option<String>,
    },
    /// Keep a token: a new one, or one that was rotated and is still there. Answered by [`Reply::Done`].
    PutToken { token: Box<Token>, is_new: bool },
    /// Forget a token, which then lets nobody in. Answered by [`Reply::Done`].
    RevokeToken { token: TokenId },
    /// Start a session for a browser that has presented a token. Refused like [`Command::RevokeToken`] if the token
    /// is no longer what was presented. Answered by [`Reply::Done`].
    BeginSession(NewSession),
    /// End a session of a token, if it is there. Answered by [`Reply::Done`].
    EndSession { token: TokenId, session: TokenHash },
    /// Record when tokens were used last. Answered by [`Reply::Done`].
    UseTokens { used: Vec<(TokenId, Time)> },
    /// Execute a command, and record in the audit who requested it and its outcome. Answered like the command in it.
    Noted {
        command: Box<Command>,
        note: Box<Note>,
    },
    /// Record something in the audit that no command did. Answered by [`Reply::Done`].
    Note { note: Box<Note>, outcome: String },
    /// Forget entries of the audit before a time, some of the oldest. The last stays. Answered by [`Reply::Done`].
    ForgetAudit { before: Time },
}

impl Command {
    /// Returns the command itself, without the note about it.
    pub fn bare(&self) -> &Self {
        match self {
            Self::Noted { command, .. } => command.bare(),
            bare => bare,
        }
    }

    /// Adds a note for the audit.
    #[must_use]
    pub fn noted(self, note: Note) -> Self {
        Self::Noted {
            command: Box::new(self),
            note: Box::new(note),
        }
    }

    /// Returns the jobs that it enqueues.
    pub fn new_jobs(&self) -> &[NewJob] {
        match self {
            Self::Enqueue(jobs) => jobs,
            Self::NewBatch(new) => &new.jobs,
            Self::Noted { command, .. } => command.new_jobs(),
            Self::Complete {
                writes: Some(writes),
                ..
            } => &writes.jobs,
            _ => &[],
        }
    }

    /// Returns the batches that it looks up before others that it touches.
    pub fn batches(&self) -> impl Iterator<Item = BatchId> {
        let named = match self.bare() {
            Self::CloseBatch { batch } | Self::CancelBatch { batch, .. } => Some(*batch),
            _ => None,
        };
        let of_jobs = self.new_jobs().iter().filter_map(|job| job.batch);
        named.into_iter().chain(of_jobs)
    }

    /// Returns the runners of the jobs that it may enqueue: `None` for each job for cells.
    pub fn new_runners(&self) -> impl Iterator<Item = Option<&Name>> {
        let fired = match self.bare() {
            Self::Fire(fire) => fire.job.as_ref().ok().map(|job| (job, fire.ids.len())),
            _ => None,
        };
        let fired = fired.into_iter();
        let fired = fired.flat_map(|(job, jobs)| std::iter::repeat_n(&**job, jobs));
        self.new_jobs()
            .iter()
            .chain(fired)
            .map(|job| job.runner.as_ref())
    }

    /// Returns the state that it changes.
    pub fn state_writes(&self) -> &[StateWrites] {
        match self.bare() {
            Self::SetState(writes) => std::slice::from_ref(&**writes),
            Self::Complete {
                writes: Some(writes),
                ..
            } => &writes.state,
            _ => &[],
        }
    }

    /// Returns what the command is called in logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Enqueue(_) => "enqueue",
            Self::Claim { .. } => "claim",
            Self::Ack { .. } => "ack",
            Self::Heartbeat { .. } => "heartbeat",
            Self::Log { .. } => "log",
            Self::Renew(_) => "renew",
            Self::Complete { .. } => "complete",
            Self::Lose { .. } => "lose",
            Self::Cancel { .. } => "cancel",
            Self::Hold(_) => "hold",
            Self::CancelReceived { .. } => "cancel_received",
            Self::CancelAck { .. } => "cancel_ack",
            Self::Retry { .. } => "retry",
            Self::SetPriority { .. } => "set_priority",
            Self::Reschedule { .. } => "reschedule",
            Self::Purge { .. } => "purge",
            Self::Tick { .. } => "tick",
            Self::Recover { .. } => "recover",
            Self::TakeOver { .. } => "take_over",
            Self::Record(_) => "record",
            Self::SetState(_) => "set_state",
            Self::SetPaused { .. } => "set_paused",
            Self::Deploy { .. } => "deploy",
            Self::Rollback { .. } => "rollback",
            Self::Remove { .. } => "remove",
            Self::SetSchedule { .. } => "set_schedule",
            Self::RemoveSchedule { .. } => "remove_schedule",
            Self::Fire(_) => "fire",
            Self::SetLimit { .. } => "set_limit",
            Self::RemoveLimit { .. } => "remove_limit",
            Self::NewBatch(_) => "new_batch",
            Self::CloseBatch { .. } => "close_batch",
            Self::CancelBatch { .. } => "cancel_batch",
            Self::PutToken { .. } => "put_token",
            Self::RevokeToken { .. } => "revoke_token",
            Self::BeginSession(_) => "begin_session",
            Self::EndSession { .. } => "end_session",
            Self::UseTokens { .. } => "use_tokens",
            Self::Noted { command, .. } => command.kind(),
            Self::Note { .. } => "note",
            Self::ForgetAudit { .. } => "forget_audit",
        }
    }
}

/// A hold of the key that a running job has of a limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyHold {
    pub job: JobId,
    pub fence: Fence,
    pub limit: Name,
    /// How long no job of the key starts, in milliseconds.
    pub ms: u64,
}

/// The answer for one job of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Enqueued {
    /// The new job, or the existing job that has the same unique key.
    pub id: JobId,
    pub state: State,
    /// Whether the job existed before.
    pub existing: bool,
    /// Whether the job existed before, with other params than requested.
    pub params_differ: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claimed {
    /// The job, now running.
    pub lifecycle: Lifecycle,
    /// The params of the handler.
    pub payload: Payload,
}

/// A handler that is no longer deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovedHandler {
    pub handler: Name,
    /// How many jobs for it have not ended. They fail when they start, unless it is deployed again.
    pub jobs: u64,
}

/// The answer of a store to one command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// To [`Command::Enqueue`] and [`Command::NewBatch`], in the order of the jobs.
    Enqueued(Vec<Enqueued>),
    /// To [`Command::Claim`].
    Claimed(Vec<Claimed>),
    /// To commands about one job: the job after the command.
    Moved(Box<Lifecycle>),
    /// To [`Command::Recover`] and [`Command::TakeOver`].
    TakenBack {
        /// How many leases ended.
        jobs: u32,
        /// Where to go on, with the dead node of a [`Command::TakeOver`] as it is now; `None` at the end.
        next: Option<(i64, Option<Dead>)>,
    },
    /// To [`Command::Tick`].
    Ticked {
        /// How many jobs were handled. More may be due.
        jobs: u32,
    },
    /// To [`Command::Deploy`] and [`Command::Rollback`].
    Deployed {
        /// The revision that is current now.
        revision: Box<Revision>,
        /// Whether it was current already, with the same bytes and the same manifest.
        unchanged: bool,
        /// The handlers of the revision before that this one lacks.
        removed: Vec<RemovedHandler>,
    },
    /// To [`Command::Fire`].
    Fired(Vec<Firing>),
    /// To commands that return nothing.
    Done,
}

/// A job entered, changed or left its state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub job: JobId,
    pub handler: Name,
    /// The pool of foreign runners that has the handler; `None` for cells.
    pub runner: Option<Name>,
    pub queue: Name,
    /// The state before; `None` for a new job.
    pub from: Option<State>,
    /// The state after; `None` for a purged job.
    pub to: Option<State>,
    /// The number of the current or latest attempt.
    pub attempt: u32,
}

/// The result of a commit, in the order of its commands. When it is returned, everything is on disk.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Committed {
    /// One answer for each command.
    pub replies: Vec<Result<Reply, crate::rejection::Rejection>>,
    /// Every change of state, in order.
    pub changes: Vec<Change>,
    /// The number of the first of these changes. Numbers grow by one with each change that the store has ever made.
    /// `None` if the store numbers changes later, because other nodes make some as well.
    pub first_change: Option<u64>,
    /// The effects to carry out now, in order.
    pub effects: Vec<(JobId, Effect)>,
    /// When the next job is due, after this batch.
    pub next_wakeup: Option<Time>,
    /// How many jobs cells may claim. Jobs of runners and of paused queues are not counted.
    pub available: u64,
    /// Whether a claim has stopped before it had seen all jobs that it might take: the next one goes on from there.
    pub claim_goes_on: bool,
}
