//! Rules that always hold for a job. Tests and `host store check` check them, and debug builds check them
//! after each transition.

use crate::job::{Lifecycle, State};
use crate::lease::Hold;

/// A rule that a job breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation(pub &'static str);

/// Checks one job on its own.
pub fn check(job: &Lifecycle) -> Result<(), Violation> {
    let rules = [
        (
            job.lease.is_some() == (job.state == State::Running),
            "a job has a lease exactly while it is running",
        ),
        (
            job.lease.as_ref().is_none_or(|lease| {
                lease.expires_at.is_some() == matches!(lease.hold, Hold::Ttl { .. })
            }),
            "a lease has an end exactly if it is held by TTL",
        ),
        (
            job.finished_at.is_some() == job.state.is_terminal(),
            "a job has an end exactly while its state is terminal",
        ),
        (
            (job.prerequisites_open > 0)
                <= (job.state == State::Pending || job.state.is_terminal()),
            "a job with open prerequisites waits or has ended",
        ),
        (
            (job.state == State::Pending)
                == (job.waits_for_jobs() || job.limits.waits_for.is_some()),
            "a pending job waits for other jobs or for a limit",
        ),
        (
            job.waits_for_key().is_some() == job.limits.waits_for.is_some(),
            "a job waits for a limit that it has",
        ),
        (
            job.run_at.is_some() >= matches!(job.state, State::Scheduled | State::Retryable),
            "a scheduled or retryable job has a start time",
        ),
        (
            u64::from(job.attempt) == job.lease_epoch,
            "each lease is one attempt",
        ),
        (
            job.attempts_charged() <= job.policy.max_attempts,
            "no more attempts count than the policy allows",
        ),
        (
            job.attempt > 0
                || matches!(
                    job.state,
                    State::Pending
                        | State::Scheduled
                        | State::Available
                        | State::Cancelled
                        | State::Discarded
                ),
            "a job that ran has an attempt",
        ),
        (
            job.cancel.is_none() || job.state == State::Running || job.state.is_terminal(),
            "only a running job waits for its cancel",
        ),
        (job.priority <= 9, "a priority is 0 to 9"),
    ];
    match rules.iter().find(|(holds, _)| !holds) {
        Some((_, rule)) => Err(Violation(rule)),
        None => Ok(()),
    }
}
