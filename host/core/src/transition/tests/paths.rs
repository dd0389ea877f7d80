//! Random paths through the rules: what must hold after every step, whatever came before.

use proptest::prelude::*;

use super::fixture::{self, LEASE, NODE, NOW, OTHER_LEASE, error, job_id};
use crate::invariants::{Violation, check};
use crate::job::{Lifecycle, State};
use crate::lease::{Fence, Hold};
use crate::outcome::Outcome;
use crate::policy::{OnGraceExpired, Policy};
use crate::time::Time;
use crate::transition::{Exit, Input, Loss};

#[derive(Clone, Debug)]
enum Step {
    Claim(Hold),
    Ack(Fence),
    Heartbeat(Fence),
    Renew(Fence, u64, bool),
    Complete(Fence, Outcome),
    Lose(Fence, Loss),
    Cancel(Option<u64>),
    CancelReceived(Fence, u64),
    CancelAck(Fence),
    Tick,
    Retry(u32),
    PrerequisiteEnded(u128, State),
}

fn fence() -> impl Strategy<Value = Fence> {
    prop_oneof![
        4 => Just(Fence::Lease(LEASE)),
        1 => Just(Fence::Lease(OTHER_LEASE)),
        1 => (0_u32..4).prop_map(Fence::Attempt),
    ]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Completed { result: None }),
        any::<bool>().prop_map(error),
        proptest::option::of(0_u64..5_000).prop_map(|after_ms| Outcome::Retry {
            reason: String::new(),
            after_ms,
        }),
        Just(Outcome::Cancelled { partial: None }),
    ]
}

fn ended() -> impl Strategy<Value = State> {
    prop_oneof![
        Just(State::Completed),
        Just(State::Cancelled),
        Just(State::Discarded),
    ]
}

fn loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::WorkerGone),
        any::<i32>().prop_map(|status| Loss::Exited(Exit::Status(status))),
        (2..65_usize).prop_map(|jobs| Loss::SharedWorkerGone { jobs }),
        Just(Loss::Innocent),
        Just(Loss::NotBegun),
        Just(Loss::Unloaded),
        (1..65_usize).prop_map(|jobs| Loss::CellDied { jobs }),
        Just(Loss::HostRestarted),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => prop_oneof![Just(Hold::Connection), Just(Hold::Ttl { ttl_ms: 3_000 })]
            .prop_map(Step::Claim),
        1 => fence().prop_map(Step::Ack),
        1 => fence().prop_map(Step::Heartbeat),
        1 => (fence(), 0_u64..20_000, any::<bool>())
            .prop_map(|(fence, ms, host_was_away)| Step::Renew(fence, ms, host_was_away)),
        3 => (fence(), outcome()).prop_map(|(fence, outcome)| Step::Complete(fence, outcome)),
        2 => (fence(), loss()).prop_map(|(fence, loss)| Step::Lose(fence, loss)),
        1 => proptest::option::of(0_u64..4_000).prop_map(Step::Cancel),
        1 => (fence(), 0..20_000_u64).prop_map(|(fence, ms)| Step::CancelReceived(fence, ms)),
        1 => fence().prop_map(Step::CancelAck),
        4 => Just(Step::Tick),
        1 => (0_u32..2).prop_map(Step::Retry),
        2 => (2_u128..4, ended()).prop_map(|(of, state)| Step::PrerequisiteEnded(of, state)),
    ]
}

impl Step {
    fn input(&self) -> Input<'_> {
        match self {
            Self::Claim(hold) => Input::Claim {
                node: NODE,
                lease: LEASE,
                worker: "cell-1",
                hold: *hold,
            },
            Self::Ack(fence) => Input::Ack(fence),
            Self::Heartbeat(fence) => Input::Heartbeat(fence),
            Self::Renew(fence, ms, host_was_away) => Input::Renew {
                fence,
                until: NOW.plus_ms(*ms),
                host_was_away: *host_was_away,
            },
            Self::Complete(fence, outcome) => Input::Complete(fence, outcome),
            Self::Lose(fence, loss) => Input::Lose(fence, *loss),
            Self::Cancel(grace_ms) => Input::Cancel {
                reason: None,
                grace_ms: *grace_ms,
            },
            Self::CancelReceived(fence, ms) => Input::CancelReceived(fence, *ms),
            Self::CancelAck(fence) => Input::CancelAck(fence),
            Self::Tick => Input::Tick,
            Self::Retry(prerequisites_open) => Input::Retry {
                prerequisites_open: *prerequisites_open,
            },
            Self::PrerequisiteEnded(of, state) => Input::PrerequisiteEnded(job_id(*of), *state),
        }
    }
}

fn policy() -> impl Strategy<Value = Policy> {
    (
        1_u32..4,
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(
            |(max_attempts, lost_lease_costs_attempt, ack, discard, is_limited)| Policy {
                max_attempts,
                timeout_ms: is_limited.then_some(2_000),
                report_ms: is_limited.then_some(500),
                lost_lease_costs_attempt,
                ack_window_ms: ack.then_some(1_000),
                on_grace_expired: if discard {
                    OnGraceExpired::Discarded
                } else {
                    OnGraceExpired::Cancelled
                },
                ..Policy::default()
            },
        )
}

fn start() -> impl Strategy<Value = Lifecycle> {
    let offset = || proptest::option::of(1_u64..20_000);
    (policy(), offset(), offset(), 0_u32..3).prop_map(|(policy, run_at, deadline, open)| {
        let mut new = fixture::new_job(policy);
        new.conditions = fixture::waiting().conditions;
        new.run_at = run_at.map(|ms| NOW.plus_ms(ms));
        new.deadline = deadline.map(|ms| NOW.plus_ms(ms));
        Lifecycle::accept(NOW, &new, open)
    })
}

/// Checks that a step from one version of a job to the next is allowed. An operator's retry may
/// break these rules.
fn check_step(before: &Lifecycle, after: &Lifecycle) -> Result<(), Violation> {
    let rules = [
        (before.id == after.id, "a job keeps its id"),
        (
            !before.state.is_terminal() || before.state == after.state,
            "a terminal state is final",
        ),
        (
            after.attempt == before.attempt || after.attempt == before.attempt + 1,
            "attempts grow one by one",
        ),
        (
            after.lease_epoch >= before.lease_epoch,
            "the lease epoch never goes back",
        ),
        (
            before.cancel.is_none() || after.cancel.is_some(),
            "a cancel is never forgotten",
        ),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Violation(rule)),
        None => Ok(()),
    }
}

proptest! {
    #[test]
    fn invariants_hold_along_every_path(
        mut job in start(),
        steps in proptest::collection::vec((step(), 0_u64..2_000), 1..60),
    ) {
        let mut now = NOW;
        prop_assert_eq!(check(&job), Ok(()));
        for (step, wait_ms) in steps {
            now = now.plus_ms(wait_ms);
            let before = job.clone();
            let result = job.apply(now, &step.input());
            prop_assert_eq!(check(&job), Ok(()), "{:?} at {:?}", step, now);
            if result.is_err() {
                prop_assert_eq!(&job, &before, "a refused input changes nothing");
            } else if !matches!(step, Step::Retry(_)) {
                prop_assert_eq!(check_step(&before, &job), Ok(()), "{:?}", step);
            }
        }
    }

    #[test]
    fn a_job_left_to_itself_and_one_worker_ends(mut job in start(), outcomes in proptest::collection::vec(outcome(), 0..8)) {
        let mut now = NOW;
        let mut outcomes = outcomes.into_iter();
        for _ in 0..200 {
            match job.state {
                State::Pending => {
                    let completed = Input::PrerequisiteEnded(job_id(2), State::Completed);
                    job.apply(now, &completed).unwrap();
                }
                State::Available if !job.is_overdue(now) => fixture::claim(&mut job, now, Hold::Connection),
                State::Running => {
                    let fence = Fence::Lease(LEASE);
                    let outcome = outcomes.next().unwrap_or(Outcome::Completed { result: None });
                    if job.apply(now, &Input::Ack(&fence)).is_ok() {
                        job.apply(now, &Input::Complete(&fence, &outcome)).unwrap();
                    }
                }
                state if state.is_terminal() => break,
                _ => {
                    now = job.wakeup().unwrap_or(Time(now.0 + 1));
                    job.apply(now, &Input::Tick).unwrap();
                }
            }
        }
        prop_assert!(job.state.is_terminal(), "{:?}", job);
    }
}
