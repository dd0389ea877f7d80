//! Why the current state refuses a well-formed request. Each feature has its refusals in a file, one row for each: its
//! sentence about this request, and its kind, which says the same to every client. The API, `host explain`, its document
//! and `docs/errors.md` read these rows.

pub mod batch;
pub mod component;
pub mod job;
pub mod lease;
pub mod limit;
pub mod queue;
pub mod schedule;
pub mod state;
pub mod token;

use thiserror::Error;

use crate::job::State;

pub use self::batch::Refusal as BatchRefusal;
pub use self::component::Refusal as ComponentRefusal;
pub use self::job::Refusal as JobRefusal;
pub use self::lease::Refusal as LeaseRefusal;
pub use self::limit::Refusal as LimitRefusal;
pub use self::queue::Refusal as QueueRefusal;
pub use self::schedule::Refusal as ScheduleRefusal;
pub use self::state::Refusal as StateRefusal;
pub use self::token::Refusal as TokenRefusal;

/// One kind of problem. Codes are stable: the same cause always has the same code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The stable code.
    pub code: &'static str,
    /// The HTTP status, 400 to 599.
    pub status: u16,
    /// A short title, the same for every occurrence.
    pub title: &'static str,
    /// What the problem means.
    pub meaning: &'static str,
    /// What the client should do next.
    pub next: &'static str,
    /// The time after which the request may be repeated, in seconds.
    pub retry_after_seconds: Option<u32>,
}

/// Declares the refusals of a feature: `#[error(SENTENCE)] VARIANT = KIND status "code", "title", "meaning", "next";`.
/// Add `retry seconds` before the semicolon if the request may be repeated. A refusal of the kind of an earlier one ends
/// after the kind.
macro_rules! refusals {
    (
        $(#[$doc:meta])*
        pub enum Refusal {
            $(
                $(#[$meta:meta])*
                $variant:ident $(($($tuple:tt)*))? $({$($field:tt)*})? = $kind:ident $(
                    $status:literal $code:literal, $title:literal, $meaning:literal, $next:literal $(retry $retry:literal)?
                )?;
            )+
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
        pub enum Refusal {
            $($(#[$meta])* $variant $(($($tuple)*))? $({$($field)*})?,)+
        }

        impl Refusal {
            /// Returns its kind, which is the same for every request.
            pub fn kind(&self) -> &'static super::Kind {
                use self::kinds::*;
                match self {
                    $(Self::$variant { .. } => &$kind),+
                }
            }
        }

        /// The kinds of these refusals.
        pub mod kinds {
            $($(
                #[doc = $title]
                pub static $kind: super::super::Kind = {
                    let retry: &[u32] = &[$($retry)?];
                    super::super::Kind {
                        code: $code,
                        status: $status,
                        title: $title,
                        meaning: $meaning,
                        next: $next,
                        retry_after_seconds: retry.first().copied(),
                    }
                };
            )?)+
        }

        /// All of these kinds.
        pub static KINDS: &[&super::Kind] = &[$($({
            // The code makes this one entry for each kind that is declared.
            let _: &str = $code;
            &kinds::$kind
        },)?)+];
    };
}
use refusals;

/// The kinds of all refusals.
pub mod kinds {
    pub use crate::rejection::batch::kinds::*;
    pub use crate::rejection::component::kinds::*;
    pub use crate::rejection::job::kinds::*;
    pub use crate::rejection::lease::kinds::*;
    pub use crate::rejection::limit::kinds::*;
    pub use crate::rejection::queue::kinds::*;
    pub use crate::rejection::schedule::kinds::*;
    pub use crate::rejection::state::kinds::*;
    pub use crate::rejection::token::kinds::*;
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
    use crate::id::JobId;

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
