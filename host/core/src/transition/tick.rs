//! Time has passed.

use super::Effect;
use super::lose::{self, Loss};
use crate::failure::{Failure, FailureKind};
use crate::job::{Lifecycle, State};
use crate::lease::Revocation;
use crate::policy::OnGraceExpired;
use crate::time::Time;

/// Does what is due at `now`. Does nothing if the job's wakeup is later.
pub(super) fn apply(job: &mut Lifecycle, now: Time) -> Vec<Effect> {
    if job.wakeup().is_none_or(|due| now < due) {
        return Vec::new();
    }
    match job.state {
        State::Completed | State::Cancelled | State::Discarded => vec![Effect::Purge],
        State::Running => running(job, now),
        _ if job.is_overdue(now) => job.discard_overdue(now),
        State::Pending | State::Available => Vec::new(),
        State::Scheduled | State::Retryable => {
            job.state = State::Available;
            job.run_at = None;
            Vec::new()
        }
    }
}

/// Ends a job whose cancel got no answer, or an attempt whose time is over, or revokes a lease that has expired.
fn running(job: &mut Lifecycle, now: Time) -> Vec<Effect> {
    let is_expired = job.lease.as_ref().is_some_and(|it| it.is_expired(now));
    let is_over = !is_expired && job.ends_by().is_some_and(|end| now >= end);
    let revoke = job.lease.as_ref().map(|lease| {
        let why = match (lease.ack_by, &job.cancel) {
            (Some(_), _) => Revocation::NotAcknowledged,
            (None, Some(_)) => Revocation::Cancelled,
            (None, None) if is_over => Revocation::TimedOut,
            (None, None) => Revocation::Expired,
        };
        let lease = lease.id;
        Effect::Revoke { lease, why }
    });
    let grace_over = job
        .cancel
        .as_ref()
        .and_then(|cancel| cancel.grace_ends_at)
        .is_some_and(|end| now >= end);
    let ended = if grace_over {
        grace_expired(job, now)
    } else if is_over {
        timed_out(job, now)
    } else {
        lose::lose(job, now, Loss::Expired)
    };
    revoke.into_iter().chain(ended).collect()
}

fn grace_expired(job: &mut Lifecycle, now: Time) -> Vec<Effect> {
    let (kind, state) = match job.policy.on_grace_expired {
        OnGraceExpired::Cancelled => (FailureKind::Cancelled, State::Cancelled),
        OnGraceExpired::Discarded => (FailureKind::CancelTimeout, State::Discarded),
    };
    job.failure = Some(kind);
    job.finish(now, state);
    vec![Effect::AttemptLost {
        failure: Failure::new(
            kind,
            "the worker did not stop within the grace of the cancel",
        ),
    }]
}

/// Ends an attempt that its worker keeps alive without an end.
fn timed_out(job: &mut Lifecycle, now: Time) -> Vec<Effect> {
    let report_s = job.policy.report_ms.unwrap_or_default() / 1_000;
    let message =
        format!("the worker did not end the attempt within {report_s} s after its time limit");
    let failure = Failure::new(FailureKind::TimedOut, message);
    job.failure = Some(failure.kind);
    job.try_again(now, job.backoff_ms());
    vec![Effect::AttemptLost { failure }]
}
