//! The worker of a running job acknowledges its lease or reports that it is alive.

use super::{Effect, Refusal};
use crate::job::Lifecycle;
use crate::lease::{Fence, Hold, Lease};
use crate::time::Time;

/// Acknowledges the lease, which extends a lease by TTL like a heartbeat. A repeated acknowledgement
/// changes nothing.
pub(super) fn ack(job: &mut Lifecycle, now: Time, fence: &Fence) -> Result<Vec<Effect>, Refusal> {
    job.check_fence(now, fence)?;
    if let Some(lease) = &mut job.lease
        && lease.ack_by.take().is_some()
    {
        extend(lease, now);
    }
    Ok(Vec::new())
}

/// Extends a lease by TTL. The returned job shows whether a cancel is requested.
pub(super) fn apply(job: &mut Lifecycle, now: Time, fence: &Fence) -> Result<Vec<Effect>, Refusal> {
    job.check_fence(now, fence)?;
    if let Some(lease) = &mut job.lease {
        if lease.ack_by.is_some() {
            return Err(Refusal::NotAcknowledged);
        }
        extend(lease, now);
    }
    Ok(Vec::new())
}

/// Records that the worker has uploaded a part of its log, which extends the lease like a heartbeat. Parts follow
/// each other: so each counts once, whichever host gets it.
pub(super) fn log(
    job: &mut Lifecycle,
    now: Time,
    fence: &Fence,
    offset: u64,
    bytes: u64,
) -> Result<Vec<Effect>, Refusal> {
    job.check_fence(now, fence)?;
    if let Some(lease) = &mut job.lease {
        if lease.ack_by.is_some() {
            return Err(Refusal::NotAcknowledged);
        }
        if offset != lease.logged {
            return Err(Refusal::LogOffset { next: lease.logged });
        }
        lease.logged = offset.saturating_add(bytes);
        extend(lease, now);
    }
    Ok(Vec::new())
}

/// Extends the current lease to `until` at least, even if its stored end has passed: no other worker can have
/// it while it is the current one. A worker that the host could not hear may also report the end until then.
pub(super) fn renew(
    job: &mut Lifecycle,
    fence: &Fence,
    until: Time,
    host_was_away: bool,
) -> Result<Vec<Effect>, Refusal> {
    job.check_current(fence)?;
    if let Some(lease) = &mut job.lease {
        let ends_by = lease.ends_by.as_mut().filter(|_| host_was_away);
        for end in lease.expires_at.as_mut().into_iter().chain(ends_by) {
            *end = until.max(*end);
        }
    }
    Ok(Vec::new())
}

fn extend(lease: &mut Lease, now: Time) {
    if let Hold::Ttl { ttl_ms } = lease.hold {
        lease.expires_at = Some(now.plus_ms(ttl_ms));
    }
}
