//! The nodes that share a store, as each sees the others.

use serde::{Deserialize, Serialize};

use crate::id::NodeId;
use crate::time::Time;

/// How a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has said that it lives, and not yet that it ends.
    Lives,
    /// It has ended in an orderly way. What it left may be taken.
    Left,
    /// It has ended, and another node has taken what it left.
    Taken,
}

/// What the store says of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: NodeId,
    /// How often a process has started as this node, or another node has fenced it.
    pub epoch: i64,
    /// How often it has said that it lives.
    pub beat: i64,
    pub life: Life,
    /// Whether its last heartbeat is recent, by the time of the database.
    pub is_fresh: bool,
    /// How far its host time is ahead of the time of the database, in milliseconds.
    pub ahead_ms: i64,
}

/// All nodes, as of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roll {
    /// The time of the database.
    pub at: Time,
    pub nodes: Vec<Seen>,
    pub pulse: Pulse,
}

/// What tells a node whether others have changed anything that concerns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The number of the next change of a job's state.
    pub next_change: u64,
    /// How often a queue was paused or resumed.
    pub pauses: i64,
    /// Differs if other revisions of components are current.
    pub components: String,
    /// Whether there are messages for this node.
    pub has_mail: bool,
}

/// A node that counts as dead since it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    pub node: NodeId,
    /// The epoch in which it was seen last.
    pub epoch: i64,
    /// Its last heartbeat. If it has had another since, it is not dead.
    pub beat: i64,
}
