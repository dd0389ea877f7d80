//! Reads lifecycles of version 2, whose policy has one retention for all ends.

use host_core::failure::FailureKind;
use host_core::id::JobId;
use host_core::job::{Cancel, Lifecycle, State};
use host_core::lease::Lease;
use host_core::name::Name;
use host_core::policy::{Backoff, OnGraceExpired, Policy, Retention};
use host_core::time::Time;
use serde::Deserialize;

/// The fields of a lifecycle in the order of version 2. In version 1 only the lease differs.
#[derive(Deserialize)]
pub(super) struct LifecycleV2<L> {
    id: JobId,
    state: State,
    queue: Name,
    handler: Name,
    runner: Option<Name>,
    priority: u8,
    policy: PolicyV2,
    enqueued_at: Time,
    run_at: Option<Time>,
    deadline: Option<Time>,
    prerequisites_open: u32,
    attempt: u32,
    attempts_uncharged: u32,
    attempts_forgiven: u32,
    lease_epoch: u64,
    lease: Option<L>,
    cancel: Option<Cancel>,
    suspect: bool,
    deaths: u8,
    finished_at: Option<Time>,
    failure: Option<FailureKind>,
}

/// The fields of a policy in the order of versions 1 and 2.
#[derive(Deserialize)]
struct PolicyV2 {
    max_attempts: u32,
    timeout_ms: Option<u64>,
    cancel_grace_ms: Option<u64>,
    backoff: Backoff,
    retention_ms: u64,
    on_grace_expired: OnGraceExpired,
    lost_lease_costs_attempt: bool,
    ack_window_ms: Option<u64>,
}

/// Decodes a lifecycle. Its retention holds for discarded jobs too.
pub(super) fn lifecycle(body: &[u8]) -> postcard::Result<Lifecycle> {
    let old: LifecycleV2<Lease> = postcard::from_bytes(body)?;
    Ok(old.raise(|lease| lease))
}

impl<L> LifecycleV2<L> {
    /// Makes a lifecycle of today.
    pub(super) fn raise(self, lease: impl FnOnce(L) -> Lease) -> Lifecycle {
        Lifecycle {
            id: self.id,
            state: self.state,
            queue: self.queue,
            handler: self.handler,
            runner: self.runner,
            priority: self.priority,
            policy: self.policy.raise(),
            enqueued_at: self.enqueued_at,
            run_at: self.run_at,
            deadline: self.deadline,
            prerequisites_open: self.prerequisites_open,
            attempt: self.attempt,
            attempts_uncharged: self.attempts_uncharged,
            attempts_forgiven: self.attempts_forgiven,
            lease_epoch: self.lease_epoch,
            lease: self.lease.map(lease),
            cancel: self.cancel,
            suspect: self.suspect,
            deaths: self.deaths,
            finished_at: self.finished_at,
            failure: self.failure,
        }
    }
}

impl PolicyV2 {
    fn raise(self) -> Policy {
        Policy {
            max_attempts: self.max_attempts,
            timeout_ms: self.timeout_ms,
            cancel_grace_ms: self.cancel_grace_ms,
            backoff: self.backoff,
            retention: Retention::equal(self.retention_ms),
            on_grace_expired: self.on_grace_expired,
            lost_lease_costs_attempt: self.lost_lease_costs_attempt,
            ack_window_ms: self.ack_window_ms,
        }
    }
}
