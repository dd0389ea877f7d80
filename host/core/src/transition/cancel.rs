//! A user cancels a job, or its worker reports that it has received the cancel or has stopped.

use super::{Effect, Refusal};
use crate::failure::FailureKind;
use crate::job::{Cancel, Lifecycle, State};
use crate::lease::{Fence, Hold};
use crate::suspicion::Suspicion;
use crate::time::Time;

/// The grace for a lease by TTL if neither the request nor the policy sets one, in milliseconds.
const GRACE_MS: u64 = 5_000;

/// Cancels a waiting job immediately. Asks the worker of a running job to stop. A repeated request can
/// only shorten the grace.
pub(super) fn apply(
    job: &mut Lifecycle,
    now: Time,
    reason: Option<&str>,
    grace_ms: Option<u64>,
) -> Result<Vec<Effect>, Refusal> {
    if job.state.is_terminal() {
        return Err(Refusal::Terminal(job.state));
    }
    let grace_ms = grace_ms.or(job.policy.cancel_grace_ms);
    let grace_ends_at = match &job.lease {
        Some(lease) if matches!(lease.hold, Hold::Ttl { .. }) => {
            Some(now.plus_ms(grace_ms.unwrap_or(GRACE_MS)))
        }
        _ => None,
    };
    if let Some(earlier) = &mut job.cancel {
        earlier.grace_ends_at = earlier.grace_ends_at.min(grace_ends_at);
    } else {
        job.cancel = Some(Cancel {
            requested_at: now,
            reason: reason.map(str::to_owned),
            grace_ends_at,
        });
    }
    if let Some(lease) = &job.lease {
        return Ok(vec![Effect::Stop {
            lease: lease.id,
            grace_ms,
            reason: reason.unwrap_or("cancelled").to_owned(),
        }]);
    }
    job.failure = Some(FailureKind::Cancelled);
    job.finish(now, State::Cancelled);
    Ok(Vec::new())
}

/// Shortens the grace of a cancel that the worker has received.
pub(super) fn received(
    job: &mut Lifecycle,
    now: Time,
    fence: &Fence,
    grace_ms: u64,
) -> Result<Vec<Effect>, Refusal> {
    job.check_fence(now, fence)?;
    let Some(cancel) = &mut job.cancel else {
        return Err(Refusal::CancelNotRequested);
    };
    let end = now.plus_ms(grace_ms);
    cancel.grace_ends_at = cancel.grace_ends_at.map(|earlier| earlier.min(end));
    Ok(Vec::new())
}

/// Ends a job whose worker has stopped because of the cancel. The worker need not have acknowledged
/// its lease before.
pub(super) fn acknowledge(
    job: &mut Lifecycle,
    now: Time,
    fence: &Fence,
) -> Result<Vec<Effect>, Refusal> {
    job.check_fence(now, fence)?;
    if job.cancel.is_none() {
        return Err(Refusal::CancelNotRequested);
    }
    job.suspicion = Suspicion::NONE;
    job.failure = Some(FailureKind::Cancelled);
    job.finish(now, State::Cancelled);
    Ok(Vec::new())
}
