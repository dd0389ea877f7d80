//! Why the current state refuses a well-formed request.

use thiserror::Error;

use crate::access::token::TokenId;
use crate::id::{BatchId, JobId};
use crate::job::State;
use crate::name::Name;
use crate::schedule::Source;
use crate::state::Space;

/// What the rules do not allow in the current state. It changes nothing; in another state, the same request may succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    #[error("no job has the id {0}")]
    UnknownJob(JobId),
    /// The message does not name the current lease or attempt.
    #[error("the lease or attempt named is not the current one")]
    Stale,
    /// The message names the current lease, but the lease has expired.
    #[error("the lease has expired")]
    LeaseExpired,
    /// The worker must acknowledge its lease before it sends other messages.
    #[error("the lease is not acknowledged yet")]
    NotAcknowledged,
    /// A worker acknowledges a cancel that was not requested.
    #[error("no cancel of the job is requested: complete the attempt or give the lease back")]
    CancelNotRequested,
    /// A part of a log begins elsewhere than where the log goes on.
    #[error("the log was received up to byte {next}")]
    LogOffset { next: u64 },
    #[error("the job is already {}", .0.as_str())]
    Terminal(State),
    /// The state of the job does not allow this input.
    #[error("the job is {}, which does not allow this", .0.as_str())]
    WrongState(State),
    /// The handler's component was removed while the job was on its way.
    #[error("no handler is named {0}; its component was just removed")]
    HandlerRemoved(Name),
    /// The job belongs to another orchestrator, which alone decides whether it runs again.
    #[error("the job belongs to another orchestrator, which alone decides whether it runs again")]
    Foreign,
    /// The principal may not enqueue for this handler in this queue.
    #[error("{handler} cannot be enqueued here: the handler or the queue is out of scope")]
    OutOfScope { handler: String },
    /// A job cannot depend on a job that does not exist.
    #[error("no job has the id {0} named in depends_on")]
    UnknownPrerequisite(JobId),
    /// Jobs of one command wait for each other. Has their places in the command, the first repeated at the end.
    #[error("the jobs wait for each other: {}", crate::graph::path(.0))]
    DependencyCycle(Vec<usize>),
    /// Another job that has not ended has the same unique key.
    #[error("job {0} has the same unique key and has not ended")]
    UniqueKeyTaken(JobId),
    /// A job cannot wait again for a job that is no longer kept.
    #[error("the job {0} that it waits for is no longer kept")]
    PrerequisiteGone(JobId),
    /// A job waits for the failure of one that has completed, for good.
    #[error("the job {0} has completed, and this one waits for it to fail")]
    PrerequisiteCompleted(JobId),
    /// A handler or principal that may not read results of other jobs asks for one as an input.
    #[error("the result of job {0} cannot be an input here")]
    InputHidden(JobId),
    /// A job that runs again cannot have an input. Says which and why.
    #[error("{0}")]
    InputFailed(String),
    #[error(
        "the jobs ask for more than {results_max} results of jobs that have ended, or {bytes_max} bytes of them"
    )]
    TooManyInputs {
        results_max: usize,
        bytes_max: usize,
    },
    /// Jobs that wait for this one, which has ended, are still to be settled.
    #[error("the jobs that wait for {0} are still being settled")]
    CascadeUnfinished(JobId),
    /// A key does not have the value that a change of it expects.
    #[error("the key {key:?} of the state {space} has changed meanwhile")]
    StateChanged { space: Space, key: String },
    /// A change would make a space of state larger than its writer may.
    #[error(
        "the state {space} would have {bytes} bytes, more than the {quota_bytes} of state.quota_kib in the manifest"
    )]
    StateFull {
        space: Space,
        bytes: u64,
        quota_bytes: u64,
    },
    /// A new job would need a new queue.
    #[error("there are {limit} queues already, and none is named {queue}")]
    TooManyQueues { queue: Name, limit: u64 },
    /// Too many jobs have not ended.
    #[error("{jobs} jobs have not ended, and at most {limit} may wait or run")]
    TooManyWaiting {
        /// How many have not ended.
        jobs: u64,
        limit: u64,
    },
    /// The principal has reached its limit of waiting and running jobs.
    #[error("{jobs} jobs of this token wait or run, and at most {limit} may")]
    TooManyOwned { jobs: u64, limit: u64 },
    /// A new job asks for too many attempts.
    #[error("max_attempts: must be 1–{limit}, got {asked}")]
    TooManyAttempts { asked: u32, limit: u32 },
    #[error("there are {limit} components already, and none is named {component}")]
    TooManyComponents { component: Name, limit: u64 },
    #[error("no token has the id {0}")]
    UnknownToken(TokenId),
    #[error("there are {limit} tokens already; revoke some")]
    TooManyTokens { limit: u64 },
    #[error("no schedule is named {0}")]
    UnknownSchedule(Name),
    #[error("there are {limit} schedules already; remove some")]
    TooManySchedules { limit: u64 },
    /// The schedule belongs to the configuration or a component, and changes with it.
    #[error("the schedule {schedule} belongs to {}; change it there", .owner.in_words())]
    ScheduleOwned { schedule: Name, owner: Source },
    /// Another node was faster, or the schedule was changed.
    #[error("the schedule {0} has changed meanwhile")]
    ScheduleChanged(Name),
    #[error("no limit is named {0}")]
    UnknownLimit(Name),
    #[error("there are {limit} limits already; remove some")]
    TooManyLimits { limit: usize },
    /// The limit belongs to something else, with which it changes.
    #[error("the limit {limit} belongs to {}; change it there", .owner.in_words())]
    LimitOwned { limit: Name, owner: Source },
    /// A key of a limit is full, and the limit refuses new jobs then.
    #[error("the limit {limit} is full{}", of_key(key))]
    LimitFull { limit: Name, key: String },
    #[error("more than {limit} limits match the job")]
    TooManyLimitsOfJob { limit: usize },
    /// The key that a limit finds in a job is too long.
    #[error("the key of the limit {limit} has {bytes} bytes, more than {bytes_max}")]
    LimitKeyTooLong {
        limit: Name,
        bytes: usize,
        bytes_max: usize,
    },
    /// A handler holds a key of a limit that its job does not have.
    #[error("the job has no limit {0}")]
    NotLimited(Name),
    /// The units of a job are not a whole number, or more than the bucket ever holds.
    #[error(
        "the units of the limit {limit} must be a whole number, 0–{burst}: its bucket holds no more"
    )]
    LimitUnits { limit: Name, burst: u32 },
    #[error("no batch has the id {0}")]
    UnknownBatch(BatchId),
    /// It was closed, has ended or is cancelled.
    #[error("the batch {0} takes no more jobs")]
    BatchClosed(BatchId),
    #[error("the batch {batch} may have at most {limit} jobs")]
    BatchFull { batch: BatchId, limit: u64 },
    #[error("there are {limit} batches already that have not ended; close or cancel some")]
    TooManyBatches { limit: u64 },
    #[error("no queue is named {0}")]
    UnknownQueue(Name),
    #[error("no component is named {0}")]
    UnknownComponent(Name),
    #[error("component {component} has no revision {revision}")]
    UnknownRevision { component: Name, revision: u32 },
    /// Another component already has a handler with this name.
    #[error("handler {handler} belongs to component {owner}")]
    HandlerOwned {
        handler: Name,
        /// The component that has the handler.
        owner: Name,
    },
    /// Jobs that have not ended need the component's handlers.
    #[error("component {component} has {jobs} jobs that have not ended")]
    ComponentInUse {
        component: Name,
        /// How many jobs have not ended; of each handler at most 10,000 are counted.
        jobs: u64,
    },
}

/// Names the key that is full, if the limit has several.
fn of_key(key: &str) -> String {
    if key.is_empty() {
        return String::new();
    }
    format!(" for {key}")
}
