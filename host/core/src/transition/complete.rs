//! The worker of a running job reports how the attempt ended.

use super::{Effect, Refusal};
use crate::failure::{Failure, FailureKind};
use crate::job::{Lifecycle, State};
use crate::lease::Fence;
use crate::outcome::Outcome;
use crate::suspicion::Suspicion;
use crate::time::Time;

/// Records the outcome. A completed attempt counts even if a cancel was requested; any other
/// outcome then ends the job as cancelled instead of retrying it.
pub(super) fn apply(
    job: &mut Lifecycle,
    now: Time,
    fence: &Fence,
    outcome: &Outcome,
) -> Result<Vec<Effect>, Refusal> {
    job.check_holder(now, fence)?;
    job.suspicion = Suspicion::NONE;
    match outcome {
        Outcome::Completed { .. } => {
            job.failure = None;
            job.finish(now, State::Completed);
        }
        _ if job.cancel.is_some() => {
            job.failure = Some(FailureKind::Cancelled);
            job.finish(now, State::Cancelled);
        }
        Outcome::Cancelled { .. }
        | Outcome::Failed(Failure {
            kind: FailureKind::Cancelled,
            ..
        }) => {
            job.failure = Some(FailureKind::Cancelled);
            job.finish(now, State::Cancelled);
        }
        Outcome::Retry { after_ms, .. } => {
            job.failure = Some(FailureKind::UserError);
            let is_free = job.limits.held_in == job.attempt && job.attempt <= HELD_ATTEMPTS_MAX;
            if is_free {
                job.attempts_forgiven += 1;
            }
            let delay_ms = match *after_ms {
                // It does not count, and the key that it holds says when it may start.
                Some(after_ms) if is_free => after_ms,
                // What asks for another attempt soon, again and again, would use up all of them while the reason lasts.
                after_ms => job.backoff_ms().max(after_ms.unwrap_or_default()),
            };
            job.try_again(now, delay_ms);
        }
        Outcome::Failed(failure) => {
            job.failure = Some(failure.kind);
            if failure.is_retryable() {
                job.try_again(now, job.backoff_ms());
            } else {
                job.finish(now, State::Discarded);
            }
        }
    }
    Ok(Vec::new())
}

/// How many attempts do not count if they hold a key and ask for a retry. Every later one counts.
const HELD_ATTEMPTS_MAX: u32 = 1_000;

/// How many attempts may follow each other immediately, as far as the handler and its backoff want it.
const RESTLESS_ATTEMPTS: u32 = 10;

/// The least pause before each further attempt, in milliseconds.
const REST_MS: u64 = 1_000;

impl Lifecycle {
    /// Returns the pause before the next attempt, in milliseconds.
    pub(super) fn backoff_ms(&self) -> u64 {
        let charged = self.attempts_charged();
        self.policy.backoff.delay_ms(self.id, charged)
    }

    /// Requeues the job after `delay_ms`, and after many attempts not before it has rested.
    /// Discards it if no attempt is left, or if the next one could not start before the deadline.
    pub(super) fn try_again(&mut self, now: Time, delay_ms: u64) {
        let delay_ms = if self.attempt < RESTLESS_ATTEMPTS {
            delay_ms
        } else {
            delay_ms.max(REST_MS)
        };
        let too_late = self.is_overdue(now.plus_ms(delay_ms));
        if self.attempts_charged() >= self.policy.max_attempts || too_late {
            self.finish(now, State::Discarded);
        } else {
            self.requeue(now, delay_ms);
        }
    }
}
