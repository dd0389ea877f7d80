//! Why workers' messages about their leases are refused.

use host_core::id::JobId;
use host_core::job::State;
use host_core::port::lease::LeaseError;
use host_core::transition::Refusal;

use crate::job::JobRefusal;
use crate::job::kinds::JOB_NOT_FOUND;
use crate::{Rejection, refusals};

refusals! {
    /// Why a message about a lease does not count.
    pub enum LeaseRefusal {
        /// The message does not name the current lease or attempt.
        #[error("the lease or attempt named is not the current one")]
        Stale = STALE_LEASE 409 "stale_lease", "Not the current lease",
            "The message is about a lease that is not the current one, is not acknowledged or is over.",
            "Stop the work: another worker does it or has done it.";
        /// The job is not there, or no longer.
        #[error("no job has the id {0}")]
        UnknownJob(JobId) = JOB_NOT_FOUND;
        /// The message names the current lease, but the lease has expired.
        #[error("the lease has expired")]
        Expired = STALE_LEASE;
        /// The worker must acknowledge its lease before it sends other messages.
        #[error("the lease is not acknowledged yet")]
        NotAcknowledged = STALE_LEASE;
        /// A worker acknowledges a cancel that was not requested.
        #[error("no cancel of the job is requested: complete the attempt or give the lease back")]
        CancelNotRequested = STALE_LEASE;
        /// The state of the job does not allow this message, such as a give-back of what the worker has begun.
        #[error("the job is {0}, which does not allow this")]
        WrongState(State) = STALE_LEASE;
        /// A part of a log begins elsewhere than where the log continues.
        #[error("the log was received up to byte {next}")]
        LogOffset { next: u64 } = STALE_LEASE;
    }
}

/// What a worker gets to know: whatever else the rules refuse, its message does not count for the current attempt.
impl From<Rejection> for LeaseRefusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Lease(refusal) => refusal,
            Rejection::Job(JobRefusal::Unknown(job)) => Self::UnknownJob(job),
            Rejection::Job(JobRefusal::WrongState(state)) => Self::WrongState(state),
            _ => Self::Stale,
        }
    }
}

impl From<Refusal> for Rejection {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Stale => LeaseRefusal::Stale.into(),
            Refusal::Expired => LeaseRefusal::Expired.into(),
            Refusal::NotAcknowledged => LeaseRefusal::NotAcknowledged.into(),
            Refusal::CancelNotRequested => LeaseRefusal::CancelNotRequested.into(),
            Refusal::LogOffset { next } => LeaseRefusal::LogOffset { next }.into(),
            Refusal::Terminal(state) => JobRefusal::Terminal(state).into(),
            Refusal::WrongState(state) => JobRefusal::WrongState(state).into(),
        }
    }
}

impl Rejection {
    /// Returns the answer to a worker whose message about a current lease the rules refuse. `None` if the lease is not
    /// current: then [`explain`](host_core::port::lease::explain) answers.
    pub fn current_lease_error(&self) -> Option<LeaseError> {
        let Self::Lease(refusal) = self else {
            return None;
        };
        match refusal {
            LeaseRefusal::NotAcknowledged => Some(LeaseError::NotAcknowledged),
            LeaseRefusal::CancelNotRequested => Some(LeaseError::CancelNotRequested),
            LeaseRefusal::LogOffset { next } => Some(LeaseError::LogOffset { next: *next }),
            LeaseRefusal::Stale
            | LeaseRefusal::Expired
            | LeaseRefusal::UnknownJob(_)
            | LeaseRefusal::WrongState(_) => None,
        }
    }
}
