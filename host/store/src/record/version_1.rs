//! Reads lifecycles of version 1, in which a lease does not name its node.

use host_core::id::{LeaseId, NodeId};
use host_core::job::Lifecycle;
use host_core::lease::{Hold, Lease};
use host_core::time::Time;
use serde::Deserialize;

use super::version_2::LifecycleV2;

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
    let old: LifecycleV2<LeaseV1> = postcard::from_bytes(body)?;
    Ok(old.raise(lease))
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
