//! Why the rules refuse an input to a job.

use crate::job::State;

/// Why an input is refused. The job stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The message does not name the current lease or attempt.
    Stale,
    /// The message names the current lease, but the lease has expired.
    Expired,
    /// The worker must acknowledge its lease before it sends other messages.
    NotAcknowledged,
    /// A worker acknowledges a cancel that was not requested.
    CancelNotRequested,
    /// A part of a log begins elsewhere than at `next`, where the log continues.
    LogOffset { next: u64 },
    /// The job has ended in a way that does not allow this.
    Terminal(State),
    /// The state of the job does not allow this.
    WrongState(State),
}
