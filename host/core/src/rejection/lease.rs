//! Why workers' messages about their leases are refused.

use super::job::kinds::JOB_NOT_FOUND;
use super::{JobRefusal, Rejection, refusals};
use crate::id::JobId;
use crate::job::State;

refusals! {
    /// Why a message about a lease does not count.
    pub enum Refusal {
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
impl From<Rejection> for Refusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Lease(refusal) => refusal,
            Rejection::Job(JobRefusal::Unknown(job)) => Self::UnknownJob(job),
            Rejection::Job(JobRefusal::WrongState(state)) => Self::WrongState(state),
            _ => Self::Stale,
        }
    }
}
