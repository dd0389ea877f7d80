//! The commands that take back leases of nodes.

use host_core::id::NodeId;

use super::Dead;
use crate::commands;

/// The host `node` has started, and its earlier cells and connections are gone. Each lease that it granted and that a
/// connection holds is lost with [`Loss::HostRestarted`](host_core::transition::Loss::HostRestarted); those of other nodes
/// stay. Its leases by TTL, and those of nodes that do not live, which become its own, get a whole new TTL, because the
/// host could not receive heartbeats and may not have stored the latest. Looks at a number of running jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recover {
    /// The host that has started.
    pub node: NodeId,
    /// The other nodes that live.
    pub living: Vec<NodeId>,
    /// Where to continue: 0 at first, and then as the reply says.
    pub after: i64,
}

/// Another node of the store is dead. It can no longer write, and its leases are taken back as if it had started again,
/// see [`Recover`]. Does nothing if it is alive after all or another node was first. Until all running jobs were looked
/// at, the dead node counts as silent: if this node does not continue, another one begins anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakeOver {
    pub dead: Dead,
    /// Where to continue: 0 at first, and then as the reply says.
    pub after: i64,
}

/// What was taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    /// How many leases ended.
    pub jobs: u32,
    /// Where to continue, with the dead node of a [`TakeOver`] as it is now; `None` at the end.
    pub next: Option<(i64, Option<Dead>)>,
}

/// How many running jobs one command looks at to take leases back.
pub const TAKEN_BACK_MAX: usize = 512;

commands! {
    Node {
        Recover(Recover) "recover" -> TakenBack, recover, |_| TAKEN_BACK_MAX, "a number of running jobs";
        TakeOver(TakeOver) "take_over" -> TakenBack, take_over, |_| TAKEN_BACK_MAX, "a number of running jobs";
    }
}
