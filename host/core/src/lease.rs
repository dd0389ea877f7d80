//! The right to execute one attempt, and how a message proves that it is about the current attempt.

use serde::{Deserialize, Serialize};

use crate::id::{JobId, LeaseId, NodeId};
use crate::time::Time;

/// What keeps a lease alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hold {
    /// The connection to the worker. The lease ends when the holder is known to be gone.
    Connection,
    /// Heartbeats. Each one extends the lease to `ttl_ms` from its receipt.
    Ttl {
        /// The time from a heartbeat to the end of the lease, in milliseconds.
        ttl_ms: u64,
    },
}

/// The exclusive right of one worker to execute the current attempt of one job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// A secret of the holder.
    pub id: LeaseId,
    /// The host that granted the lease.
    pub node: NodeId,
    /// The holder: a cell or a remote worker.
    pub worker: String,
    pub hold: Hold,
    pub granted_at: Time,
    /// When the lease ends unless it is extended; `None` if a connection holds it.
    pub expires_at: Option<Time>,
    /// When the worker must have acknowledged the lease; `None` if it has, or if it need not.
    pub ack_by: Option<Time>,
    /// When the worker must have reported the end of the attempt, however often it sends heartbeats. It counts
    /// once the lease is acknowledged.
    pub ends_by: Option<Time>,
    /// How much of its log the worker has uploaded, in bytes.
    pub logged: u64,
}

impl Lease {
    /// Returns whether the lease ends when the host `node` stops: `node` granted it, and a
    /// connection holds it. Leases of [`NodeId::NIL`] count as granted by every host.
    pub fn ends_with(&self, node: NodeId) -> bool {
        self.hold == Hold::Connection && (self.node == node || self.node == NodeId::NIL)
    }

    /// Returns when the worker last sent a heartbeat, or when the host started if that was later. `None`
    /// before the first one, and if a connection holds the lease.
    pub fn last_heartbeat_at(&self) -> Option<Time> {
        let Hold::Ttl { ttl_ms } = self.hold else {
            return None;
        };
        let ttl_ms = i64::try_from(ttl_ms).ok()?;
        let at = Time(self.expires_at?.0.checked_sub(ttl_ms)?);
        (at > self.granted_at).then_some(at)
    }

    /// Returns whether the lease has run out at `now`. It has run out at the exact instant of its
    /// end.
    pub fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
            || self.ack_by.is_some_and(|window| now >= window)
    }
}

/// A promise of the host to the holder of a lease by TTL: that it has the lease until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    pub job: JobId,
    pub lease: LeaseId,
    pub until: Time,
    /// Whether the holder gets this time because the host could not hear it: it may also report the end until then.
    pub host_was_away: bool,
}

/// Why the host has taken a lease away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Revocation {
    /// The worker has not acknowledged it in time.
    NotAcknowledged,
    /// No heartbeat came in time.
    Expired,
    /// The job was cancelled, and its worker has not stopped in time or has fallen silent.
    Cancelled,
    /// Its worker has not reported the end of the attempt, whose time is over.
    TimedOut,
    /// Its worker has sent the end of the attempt to another node.
    EndedElsewhere,
}

/// What a message presents to prove that it is about the current attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fence {
    /// The lease's id, or an id in its place. Cells present it.
    Lease(LeaseId),
    /// The number of the attempt, if the wire has no lease ids.
    Attempt(u32),
    /// The worker that holds the lease, if the wire names only the job and its worker.
    Worker(String),
    /// The lease's id and the worker that holds it, if messages name both.
    Holder(LeaseId, String),
    /// The same, but only for a lease by heartbeats: another node may have granted it, so this node does not
    /// know the holder.
    Remote(Box<Fence>),
}

impl Fence {
    /// Returns the lease that it names.
    pub fn lease(&self) -> Option<LeaseId> {
        match self {
            Self::Lease(lease) | Self::Holder(lease, _) => Some(*lease),
            Self::Remote(fence) => fence.lease(),
            Self::Attempt(_) | Self::Worker(_) => None,
        }
    }

    /// Returns the worker that it names.
    pub fn worker(&self) -> Option<&str> {
        match self {
            Self::Worker(worker) | Self::Holder(_, worker) => Some(worker),
            Self::Remote(fence) => fence.worker(),
            Self::Lease(_) | Self::Attempt(_) => None,
        }
    }

    /// Returns the number of the attempt that it names.
    pub fn attempt(&self) -> Option<u32> {
        match self {
            Self::Attempt(number) => Some(*number),
            Self::Remote(fence) => fence.attempt(),
            Self::Lease(_) | Self::Worker(_) | Self::Holder(..) => None,
        }
    }
}
