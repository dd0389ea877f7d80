//! The right to execute one attempt, and what a message must present to be current.

use serde::{Deserialize, Serialize};

use crate::id::{LeaseId, NodeId};
use crate::time::Time;

/// What keeps a lease alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// The connection to the worker: the lease ends when the holder is known to be gone.
    Connection,
    /// Heartbeats: each one extends the lease to this many milliseconds from its receipt.
    Ttl {
        /// The length of the lease after a heartbeat.
        ttl_ms: u64,
    },
}

/// The exclusive right of one worker to execute the current attempt of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The holder's secret.
    pub id: LeaseId,
    /// The host that granted it.
    pub node: NodeId,
    /// Who holds it: a cell or a remote party.
    pub worker: String,
    /// What keeps it alive.
    pub hold: Hold,
    /// When it was granted.
    pub granted_at: Time,
    /// When it ends unless it is extended; `None` while a connection holds it.
    pub expires_at: Option<Time>,
    /// Until when the worker must acknowledge it; `None` once it has, or if it need not.
    pub ack_by: Option<Time>,
}

impl Lease {
    /// Tells whether the lease ends with the process of the host `node`: it granted the lease, and a
    /// connection holds it. Leases of [`NodeId::NIL`] count as granted by every host.
    pub fn ends_with(&self, node: NodeId) -> bool {
        self.hold == Hold::Connection && (self.node == node || self.node == NodeId::NIL)
    }

    /// Tells whether the lease has run out at `now`; an instant equal to the end is too late.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
            || self.ack_by.is_some_and(|window| now >= window)
    }
}

/// What a message about an attempt presents to show that it means the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fence {
    /// The lease's id, or an id that stands for it. Our cells present it.
    Lease(LeaseId),
    /// The attempt's number, if the wire has no ids of leases.
    Attempt(u32),
    /// The worker that holds the lease, if the wire names nothing but the job and its worker.
    Worker(String),
}
