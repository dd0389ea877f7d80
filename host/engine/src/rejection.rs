//! Why the current state refuses a well-formed request. Each feature has its refusals in `refusal.rs`, one row for each:
//! its sentence about this request, and its kind, which says the same to every client. The API, `host explain`, its
//! document and `docs/errors.md` read these rows.

use host_core::job::State;
use host_core::problem::Kind;
use thiserror::Error;

use crate::artifact::ArtifactRefusal;
use crate::batch::BatchRefusal;
use crate::component::ComponentRefusal;
use crate::job::JobRefusal;
use crate::lease::LeaseRefusal;
use crate::limit::LimitRefusal;
use crate::queue::QueueRefusal;
use crate::schedule::ScheduleRefusal;
use crate::state::StateRefusal;
use crate::step::StepRefusal;
use crate::token::TokenRefusal;

/// Lists the features that refuse.
macro_rules! rejections {
    ($($feature:ident($module:ident, $refusal:ident),)+) => {
        /// What the rules do not allow in the current state. It changes nothing; in another state, the same request may
        /// succeed.
        #[derive(Clone, Debug, PartialEq, Eq, Error)]
        pub enum Rejection {
            $(#[error(transparent)] $feature(#[from] $refusal),)+
        }

        impl Rejection {
            /// Returns its kind, which is the same for every request.
            pub fn kind(&self) -> &'static Kind {
                match self { $(Self::$feature(refusal) => refusal.kind(),)+ }
            }
        }

        /// The kinds of all refusals.
        pub mod kinds {
            $(pub use crate::$module::kinds::*;)+
        }

        /// All of these kinds, by feature.
        pub fn kinds() -> impl Iterator<Item = &'static Kind> {
            let of_features = [$(crate::$module::KINDS,)+];
            of_features.into_iter().flatten().copied()
        }
    };
}

rejections! {
    Job(job, JobRefusal),
    Queue(queue, QueueRefusal),
    Lease(lease, LeaseRefusal),
    Limit(limit, LimitRefusal),
    Schedule(schedule, ScheduleRefusal),
    Batch(batch, BatchRefusal),
    Component(component, ComponentRefusal),
    Token(token, TokenRefusal),
    State(state, StateRefusal),
    Artifact(artifact, ArtifactRefusal),
    Step(step, StepRefusal),
}

impl Rejection {
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
