//! A worker takes an available job.

use super::{Effect, Refusal};
use crate::id::{LeaseId, NodeId};
use crate::job::{Lifecycle, State};
use crate::lease::{Hold, Lease};
use crate::time::Time;

/// Grants `lease`, and the job runs its next attempt. If the job is past its deadline, the claim is
/// refused, and the next tick discards the job.
pub(super) fn apply(
    job: &mut Lifecycle,
    now: Time,
    node: NodeId,
    lease: LeaseId,
    worker: &str,
    hold: Hold,
) -> Result<Vec<Effect>, Refusal> {
    if job.state != State::Available || job.is_overdue(now) {
        return Err(Refusal::WrongState(job.state));
    }
    let expires_at = match hold {
        Hold::Connection => None,
        Hold::Ttl { ttl_ms } => Some(now.plus_ms(ttl_ms)),
    };
    job.state = State::Running;
    job.attempt += 1;
    job.lease_epoch += 1;
    job.lease = Some(Lease {
        id: lease,
        node,
        worker: worker.to_owned(),
        hold,
        granted_at: now,
        expires_at,
        ack_by: job.policy.ack_window_ms.map(|window| now.plus_ms(window)),
        ends_by: expires_at.and_then(|_| ends_by(job, now)),
        logged: 0,
    });
    Ok(Vec::new())
}

/// Returns when a worker that sends heartbeats must have reported the end of an attempt that is granted at `now`.
fn ends_by(job: &Lifecycle, now: Time) -> Option<Time> {
    let report_ms = job.policy.report_ms?;
    let limit = job.policy.timeout_ms.map(|limit_ms| now.plus_ms(limit_ms));
    let end = limit.into_iter().chain(job.deadline).min()?;
    Some(end.plus_ms(report_ms))
}
