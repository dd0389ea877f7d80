//! Why a well-formed request is refused by the state it meets.

use thiserror::Error;

use crate::id::JobId;
use crate::job::State;
use crate::name::Name;

/// A refusal. It changes nothing; the same request may succeed in another state.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    /// No job has this id.
    #[error("no job has the id {0}")]
    UnknownJob(JobId),
    /// The message is about another lease or attempt than the current one, or about none.
    #[error("the lease or attempt named is not the current one")]
    Stale,
    /// The lease named is the current one but its time is over.
    #[error("the lease has expired")]
    LeaseExpired,
    /// The worker must acknowledge its lease before it says more.
    #[error("the lease is not acknowledged yet")]
    NotAcknowledged,
    /// A worker says that it has stopped because of a cancel, but nobody has asked for one.
    #[error("no cancel of the job is requested: complete the attempt or give the lease back")]
    CancelNotRequested,
    /// The job has ended.
    #[error("the job is already {}", .0.as_str())]
    Terminal(State),
    /// The job is not in a state that takes this input.
    #[error("the job is {}, which does not allow this", .0.as_str())]
    WrongState(State),
    /// The job belongs to another orchestrator, which alone decides whether it runs again.
    #[error("the job belongs to another orchestrator, which alone decides whether it runs again")]
    Foreign,
    /// A job cannot depend on a job that does not exist.
    #[error("no job has the id {0} named in depends_on")]
    UnknownPrerequisite(JobId),
    /// Too many jobs wait for one.
    #[error("more than {limit} jobs depend on {job}")]
    TooManyDependents {
        /// The job they wait for.
        job: JobId,
        /// The most that may wait for one job.
        limit: u32,
    },
    /// No queue has this name.
    #[error("no queue is named {0}")]
    UnknownQueue(Name),
    /// No component has this name.
    #[error("no component is named {0}")]
    UnknownComponent(Name),
    /// The component has no such revision.
    #[error("component {component} has no revision {revision}")]
    UnknownRevision {
        /// The component.
        component: Name,
        /// The revision asked for.
        revision: u32,
    },
    /// Another component has a handler of this name.
    #[error("handler {handler} belongs to component {owner}")]
    HandlerOwned {
        /// The handler in question.
        handler: Name,
        /// The component that has it.
        owner: Name,
    },
    /// Jobs that have not ended need the component's handlers.
    #[error("component {component} has {jobs} jobs that have not ended")]
    ComponentInUse {
        /// The component.
        component: Name,
        /// How many such jobs there are.
        jobs: u64,
    },
}
