//! Reads lifecycles of version 1, in which a lease does not name its node.

use host_core::failure::FailureKind;
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Cancel, Lifecycle, State};
use host_core::lease::{Hold, Lease};
use host_core::name::Name;
use host_core::policy::Policy;
use host_core::time::Time;
use serde::Deserialize;

/// The fields of a lifecycle in the order of version 1.
#[derive(Deserialize)]
struct LifecycleV1 {
    id: JobId,
    state: State,
    queue: Name,
    handler: Name,
    runner: Option<Name>,
    priority: u8,
    policy: Policy,
    enqueued_at: Time,
    run_at: Option<Time>,
    deadline: Option<Time>,
    prerequisites_open: u32,
    attempt: u32,
    attempts_uncharged: u32,
    attempts_forgiven: u32,
    lease_epoch: u64,
    lease: Option<LeaseV1>,
    cancel: Option<Cancel>,
    suspect: bool,
    deaths: u8,
    finished_at: Option<Time>,
    failure: Option<FailureKind>,
}

/// The fields of a lease in the order of version 1.
#[derive(Deserialize)]
struct LeaseV1 {
    id: LeaseId,
    worker: String,
    hold: Hold,
    granted_at: Time,
    expires_at: Option<Time>,
    ack_by: Option<Time>,
}

/// Decodes a lifecycle. Its lease gets the nil node.
pub(super) fn lifecycle(body: &[u8]) -> postcard::Result<Lifecycle> {
    let old: LifecycleV1 = postcard::from_bytes(body)?;
    Ok(Lifecycle {
        id: old.id,
        state: old.state,
        queue: old.queue,
        handler: old.handler,
        runner: old.runner,
        priority: old.priority,
        policy: old.policy,
        enqueued_at: old.enqueued_at,
        run_at: old.run_at,
        deadline: old.deadline,
        prerequisites_open: old.prerequisites_open,
        attempt: old.attempt,
        attempts_uncharged: old.attempts_uncharged,
        attempts_forgiven: old.attempts_forgiven,
        lease_epoch: old.lease_epoch,
        lease: old.lease.map(lease),
        cancel: old.cancel,
        suspect: old.suspect,
        deaths: old.deaths,
        finished_at: old.finished_at,
        failure: old.failure,
    })
}

fn lease(old: LeaseV1) -> Lease {
    Lease {
        id: old.id,
        node: NodeId::NIL,
        worker: old.worker,
        hold: old.hold,
        granted_at: old.granted_at,
        expires_at: old.expires_at,
        ack_by: old.ack_by,
    }
}
