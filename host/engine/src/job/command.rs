//! The commands about one job, and those that enqueue jobs.

use host_core::id::{JobId, LeaseId};
use host_core::job::{Lifecycle, NewJob, State};
use host_core::outcome::Report;
use host_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::commands;

/// Accept these jobs, all or none. The reply has one entry for each, in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Enqueue(pub Vec<NewJob>);

/// Accept a job whose id was given elsewhere, unless it was accepted before.
#[derive(Clone, Debug, PartialEq)]
pub struct EnqueueOnce(pub Box<NewJob>);

/// A user wants the job stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cancel {
    pub job: JobId,
    /// The requester's reason.
    pub reason: Option<String>,
    /// Overrides the job's grace, in milliseconds.
    pub grace_ms: Option<u64>,
}

/// An operator wants a cancelled or discarded job to run again. It waits again for the jobs it depends on that have not
/// completed. Refused if one of them is no longer kept. With `force`, a pending one is started too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retry {
    pub job: JobId,
    /// Whether the job starts without waiting for the jobs it depends on.
    pub force: bool,
}

/// An operator wants a job that has not ended to have another priority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPriority {
    pub job: JobId,
    pub priority: u8,
}

/// An operator wants a waiting job to start at this instant, or immediately if it has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reschedule {
    pub job: JobId,
    pub run_at: Time,
}

/// An operator wants a job that has ended to be forgotten now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purge {
    pub job: JobId,
}

/// Time has passed: apply it to at most `limit` jobs whose wakeup is due, oldest first, and to fewer if that takes long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tick {
    pub limit: u32,
}

/// Keep the history of a job of another orchestrator.
#[derive(Clone, Debug, PartialEq)]
pub struct Record(pub Box<Foreign>);

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

/// What a tick has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticked {
    /// How many jobs were handled. More may be due.
    pub jobs: u32,
}

commands! {
    Job {
        Enqueue(Enqueue) "enqueue" -> Vec<Enqueued>, enqueue_request, |enqueue| enqueue.0.len(), "the jobs and dependencies of a request, both limited";
        EnqueueOnce(EnqueueOnce) "enqueue_once" -> Vec<Enqueued>, enqueue_once, |it| 1 + it.0.depends_on.len(), "one job and its dependencies";
        Cancel(Cancel) "cancel" -> Box<Lifecycle>, cancel, |_| 1, "one job and a slice of its dependents";
        Retry(Retry) "retry" -> Box<Lifecycle>, retry, |_| 1, "one job and its prerequisites";
        SetPriority(SetPriority) "set_priority" -> Box<Lifecycle>, set_priority, |_| 1, "one job";
        Reschedule(Reschedule) "reschedule" -> Box<Lifecycle>, reschedule, |_| 1, "one job";
        Purge(Purge) "purge" -> Box<Lifecycle>, purge, |_| 1, "one job, its latest attempts and a slice of its dependents";
        Tick(Tick) "tick" -> Ticked, tick, |tick| tick.limit as usize, "its number of jobs and dependents, some keys of limits, some batches, and a time";
        Record(Record) "record" -> Box<Lifecycle>, record, |_| 1, "one job";
    }
}

impl Command {
    /// Returns the job that it names: that which is there already.
    pub const fn job(&self) -> Option<JobId> {
        match self {
            Self::Cancel(Cancel { job, .. })
            | Self::Retry(Retry { job, .. })
            | Self::SetPriority(SetPriority { job, .. })
            | Self::Reschedule(Reschedule { job, .. })
            | Self::Purge(Purge { job }) => Some(*job),
            Self::EnqueueOnce(EnqueueOnce(new)) => Some(new.id),
            Self::Enqueue(_) | Self::Tick(_) | Self::Record(_) => None,
        }
    }
}
