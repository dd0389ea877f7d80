//! Why the current state refuses a well-formed request. Each feature has its refusals in `refusal.rs`, one row for each:
//! its sentence about this request, and its kind, which says the same to every client. The API, `host explain`, its
//! document and `docs/errors.md` read these rows.

use host_core::job::State;
use host_core::problem::Kind;
use thiserror::Error;

use crate::batch::BatchRefusal;
use crate::component::ComponentRefusal;
use crate::job::JobRefusal;
use crate::lease::LeaseRefusal;
use crate::limit::LimitRefusal;
use crate::queue::QueueRefusal;
use crate::schedule::ScheduleRefusal;
use crate::state::StateRefusal;
use crate::token::TokenRefusal;
use crate::{batch, component, job, lease, limit, queue, schedule, state, token};

/// The kinds of all refusals.
pub mod kinds {
    pub use crate::batch::kinds::*;
    pub use crate::component::kinds::*;
    pub use crate::job::kinds::*;
    pub use crate::lease::kinds::*;
    pub use crate::limit::kinds::*;
    pub use crate::queue::kinds::*;
    pub use crate::schedule::kinds::*;
    pub use crate::state::kinds::*;
    pub use crate::token::kinds::*;
}

/// All of these kinds, by feature.
pub fn kinds() -> impl Iterator<Item = &'static Kind> {
    let of_features = [
        job::KINDS,
        queue::KINDS,
        lease::KINDS,
        limit::KINDS,
        schedule::KINDS,
        batch::KINDS,
        component::KINDS,
        token::KINDS,
        state::KINDS,
    ];
    of_features.into_iter().flatten().copied()
}

/// What the rules do not allow in the current state. It changes nothing; in another state, the same request may succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Rejection {
    #[error(transparent)]
    Job(#[from] JobRefusal),
    #[error(transparent)]
    Queue(#[from] QueueRefusal),
    #[error(transparent)]
    Lease(#[from] LeaseRefusal),
    #[error(transparent)]
    Limit(#[from] LimitRefusal),
    #[error(transparent)]
    Schedule(#[from] ScheduleRefusal),
    #[error(transparent)]
    Batch(#[from] BatchRefusal),
    #[error(transparent)]
    Component(#[from] ComponentRefusal),
    #[error(transparent)]
    Token(#[from] TokenRefusal),
    #[error(transparent)]
    State(#[from] StateRefusal),
}

impl Rejection {
    /// Returns its kind, which is the same for every request.
    pub fn kind(&self) -> &'static Kind {
        match self {
            Self::Job(refusal) => refusal.kind(),
            Self::Queue(refusal) => refusal.kind(),
            Self::Lease(refusal) => refusal.kind(),
            Self::Limit(refusal) => refusal.kind(),
            Self::Schedule(refusal) => refusal.kind(),
            Self::Batch(refusal) => refusal.kind(),
            Self::Component(refusal) => refusal.kind(),
            Self::Token(refusal) => refusal.kind(),
            Self::State(refusal) => refusal.kind(),
        }
    }

    /// Returns the state of the job, if that is the reason.
    pub const fn state(&self) -> Option<State> {
        match self {
            Self::Job(JobRefusal::Terminal(state) | JobRefusal::WrongState(state)) => Some(*state),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use host_core::id::JobId;

    #[test]
    fn each_code_is_declared_once() {
        let mut codes = BTreeSet::new();
        for kind in kinds() {
            assert!(codes.insert(kind.code), "{} is declared twice", kind.code);
        }
        let stale = Rejection::Lease(LeaseRefusal::Stale);
        assert!(codes.contains(stale.kind().code));
    }

    #[test]
    fn a_worker_gets_the_refusal_of_its_lease() {
        let job = JobId(uuid::Uuid::from_u128(7));
        for (rejection, refusal) in [
            (
                Rejection::Lease(LeaseRefusal::Expired),
                LeaseRefusal::Expired,
            ),
            (
                Rejection::Job(JobRefusal::Unknown(job)),
                LeaseRefusal::UnknownJob(job),
            ),
            (
                Rejection::Job(JobRefusal::WrongState(State::Running)),
                LeaseRefusal::WrongState(State::Running),
            ),
            (
                Rejection::Job(JobRefusal::Terminal(State::Completed)),
                LeaseRefusal::Stale,
            ),
        ] {
            assert_eq!(LeaseRefusal::from(rejection), refusal);
        }
    }
}
