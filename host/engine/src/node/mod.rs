//! The nodes that share a store, as each sees the others.

mod apply;
mod command;

mod pools;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, NodeId};
use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::policy::Policy;
use host_core::time::Time;
use serde::{Deserialize, Serialize};

pub use self::command::*;
pub use self::pools::{Pool, PoolRunner, shorten};

/// How long a node may be silent before others take over its jobs.
pub const LEASE: Duration = Duration::from_secs(10);

/// The same in milliseconds.
pub const LEASE_MS: u64 = LEASE.as_secs() * 1_000;

/// How long without a heartbeat before a node is shown as silent: three heartbeats.
pub(crate) const SILENT: Duration = Duration::from_secs(3);

/// How long a node that is gone stays on the list, and how many of them at most.
pub const GONE_KEPT: Duration = Duration::from_hours(24);
pub const GONE_KEPT_MAX: u32 = 100;

/// The state of a node's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It has sent heartbeats and has not announced its end.
    Lives,
    /// It has ended in an orderly way. Others may take over its jobs.
    Left,
    /// It has ended, and another node has taken over its jobs.
    Taken,
}

/// The store's record of a node's heartbeats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRow {
    pub id: NodeId,
    /// How often a process has started as this node, or another node has fenced it.
    pub epoch: i64,
    /// The number of its heartbeats.
    pub beat: i64,
    pub life: Life,
    /// Whether its last heartbeat is recent, by the time of the database.
    pub is_fresh: bool,
    /// How far its host time is ahead of the time of the database, in milliseconds.
    pub ahead_ms: i64,
}

/// All nodes, as of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterView {
    /// The time of the database.
    pub at: Time,
    pub nodes: Vec<HeartbeatRow>,
    pub counters: ChangeCounters,
    /// Whether this node should start no more jobs.
    pub drain: bool,
}

/// What a node reports about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// The name of its machine.
    pub name: String,
    pub started_at: Time,
    /// Where its API listens, if it does.
    pub address: Option<String>,
    /// How many cells it keeps, and how many jobs each runs concurrently.
    pub cells: u32,
    pub slots: u32,
    /// How much memory the processes of its cells have, in bytes; 0 if unknown.
    pub cell_memory_bytes: u64,
    /// The wires that it is configured for.
    pub wires: Vec<String>,
    /// The executors that it is configured for.
    pub runners: Vec<Name>,
    /// The executors that accept jobs enqueued at other nodes.
    pub offers: Vec<Offer>,
    /// The state of its executors.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
    /// A digest of its configured retention of queues. Empty if unknown.
    pub retentions: String,
    /// Whether it is draining.
    #[serde(rename = "drains")]
    pub is_draining: bool,
    pub running: Running,
}

/// An executor of a node, or all executors whose names share a prefix.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its name, or the prefix of the names.
    pub name: String,
    pub is_family: bool,
    /// Attributes of jobs that only the node itself can check.
    pub placed_by: Vec<String>,
    /// The rules of its jobs.
    pub policy: Policy,
    /// The longest time limit of a job, in milliseconds; `None` if any is possible.
    pub timeout_ms_max: Option<u64>,
}

impl Offer {
    /// Returns whether this offer includes an executor.
    pub fn has(&self, executor: &Name) -> bool {
        let executor = executor.as_str();
        let is_in = self.is_family && executor.len() > self.name.len();
        executor == self.name || (is_in && executor.starts_with(&self.name))
    }
}

impl NodeInfo {
    /// Returns whether the node has an executor, or a lane of it whose name adds a job's requirements.
    pub fn has_executor(&self, executor: &Name) -> bool {
        self.offers.iter().any(|offer| {
            let rest = executor.as_str().strip_prefix(&offer.name);
            offer.has(executor) || rest.is_some_and(|rest| rest.starts_with('/'))
        })
    }
}

/// A node's report about deployed components: by name, the revision that it has loaded.
pub type Components = BTreeMap<Name, Component>;

/// A component that a node has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Component {
    pub revision: u32,
    /// Why the node cannot run it, if it cannot.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub flaw: Option<String>,
}

/// Whether a node can run a revision of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness<'a> {
    Ready,
    /// It does not know it yet, or has not compiled it yet.
    Compiling,
    /// It cannot, for this reason.
    Failed(&'a str),
}

impl Readiness<'_> {
    /// Returns the name that users see.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Compiling => "compiling",
            Self::Failed(_) => "failed",
        }
    }
}

/// How many attempts a node runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Running {
    /// In its cells.
    pub cells: u64,
    /// At each executor.
    pub runners: BTreeMap<Name, u64>,
}

impl Running {
    /// Returns the number of all attempts.
    pub fn all(&self) -> u64 {
        let runners: u64 = self.runners.values().sum();
        self.cells.saturating_add(runners)
    }
}

/// A node, as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    pub id: NodeId,
    pub version: String,
    pub life: Life,
    /// How long ago its last heartbeat was, by the time of the store.
    pub silent_ms: u64,
    /// How far its host time is ahead of the time of the store, in milliseconds.
    pub ahead_ms: i64,
    /// Whether it should start no more jobs.
    pub drain: bool,
    /// `None` if the current process has reported nothing. For a node that was taken over, only the name and
    /// the offers.
    pub info: Option<NodeInfo>,
    /// Empty if it has reported nothing.
    pub components: Arc<Components>,
}

/// The state of a node, for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Live,
    /// It starts no more jobs, or is about to, and some are running.
    Draining,
    /// It starts no more jobs, and none runs.
    Drained,
    /// Its last heartbeats are missing.
    Silent,
    /// It has ended, or others have taken over its jobs.
    Gone,
}

/// All of them, in the order in which they are shown.
pub const STANDINGS: [Standing; 5] = [
    Standing::Live,
    Standing::Draining,
    Standing::Drained,
    Standing::Silent,
    Standing::Gone,
];

impl Standing {
    /// Returns the name that users see.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Draining => "draining",
            Self::Drained => "drained",
            Self::Silent => "silent",
            Self::Gone => "gone",
        }
    }
}

impl NodeRecord {
    /// Returns whether the node can run a revision of a component.
    pub fn readiness(&self, component: &Name, revision: u32) -> Readiness<'_> {
        let known = self.components.get(component);
        match known.filter(|known| known.revision == revision) {
            None => Readiness::Compiling,
            Some(known) => known
                .flaw
                .as_deref()
                .map_or(Readiness::Ready, Readiness::Failed),
        }
    }

    /// Returns the state of the node.
    pub fn standing(&self) -> Standing {
        let silent = Duration::from_millis(self.silent_ms);
        if self.life != Life::Lives {
            return Standing::Gone;
        }
        if silent >= SILENT {
            return Standing::Silent;
        }
        let info = self.info.as_ref();
        let is_draining = info.is_some_and(|info| info.is_draining);
        if !is_draining && !self.drain {
            return Standing::Live;
        }
        let runs = info.map_or(0, |info| info.running.all());
        if is_draining && runs == 0 {
            Standing::Drained
        } else {
            Standing::Draining
        }
    }

    /// Returns the display name of the node: the name of its machine, or its id.
    pub fn called(&self) -> Cow<'_, str> {
        let name = self.info.as_ref().map(|info| info.name.as_str());
        match name.filter(|name| !name.is_empty()) {
            Some(name) => name.into(),
            None => self.id.to_string().into(),
        }
    }

    /// Returns whether the node counts as dead, or soon will.
    pub fn is_lost(&self) -> bool {
        self.life != Life::Lives || Duration::from_millis(self.silent_ms) >= LEASE
    }
}

/// Returns the gone node that had an executor last.
pub fn last_node_with<'a>(nodes: &'a [NodeRecord], executor: &Name) -> Option<&'a NodeRecord> {
    let is_last_home = |node: &&NodeRecord| {
        let info = node.info.as_ref();
        node.is_lost() && info.is_some_and(|info| info.has_executor(executor))
    };
    let had = nodes.iter().filter(is_last_home);
    had.min_by_key(|node| node.silent_ms)
}

/// The latest progress report of a running job.
#[derive(Clone, Debug, PartialEq)]
pub struct Reported {
    pub job: JobId,
    pub attempt: u32,
    pub at: Time,
    pub progress: Progress,
}

/// Counters that show a node whether others have changed anything that concerns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounters {
    /// The number of the next change of a job's state.
    pub next_change: u64,
    /// How often a queue was paused or resumed.
    pub pauses: i64,
    /// Differs if other revisions of components are current.
    pub components: String,
    /// Whether there are messages for this node.
    pub has_mail: bool,
}

/// A node that counts as dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    pub node: NodeId,
    /// The epoch in which it was seen last.
    pub epoch: i64,
    /// Its last heartbeat. If it has had another since, it is not dead.
    pub beat: i64,
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn which_revisions_a_node_can_run() {
        let component = |name: &str, revision, flaw: Option<&str>| {
            let flaw = flaw.map(str::to_owned);
            (name.parse().unwrap(), Component { revision, flaw })
        };
        let components = [
            component("a", 3, None),
            component("b", 2, Some("too large")),
        ];
        let node = NodeRecord {
            id: NodeId(Uuid::nil()),
            version: "1".to_owned(),
            life: Life::Lives,
            silent_ms: 0,
            ahead_ms: 0,
            drain: false,
            info: None,
            components: Arc::new(components.into()),
        };
        for (component, revision, expected) in [
            ("a", 3, Readiness::Ready),
            ("a", 2, Readiness::Compiling),
            ("a", 4, Readiness::Compiling),
            ("b", 2, Readiness::Failed("too large")),
            ("b", 3, Readiness::Compiling),
            ("c", 1, Readiness::Compiling),
        ] {
            let component: Name = component.parse().unwrap();
            assert_eq!(node.readiness(&component, revision), expected);
        }
    }

    #[test]
    fn how_a_node_stands() {
        let known = |life, silent_ms, drain, info: Option<(bool, u64)>| NodeRecord {
            id: NodeId(Uuid::nil()),
            version: "1".to_owned(),
            life,
            silent_ms,
            ahead_ms: 0,
            drain,
            info: info.map(|(is_draining, cells)| NodeInfo {
                is_draining,
                running: Running {
                    cells,
                    runners: BTreeMap::new(),
                },
                ..NodeInfo::default()
            }),
            components: Arc::default(),
        };
        for (node, expected, is_lost) in [
            (
                known(Life::Lives, 0, false, Some((false, 3))),
                "live",
                false,
            ),
            (known(Life::Lives, 0, false, None), "live", false),
            // It has not seen the request, or has not reported it.
            (
                known(Life::Lives, 0, true, Some((false, 0))),
                "draining",
                false,
            ),
            (known(Life::Lives, 0, true, None), "draining", false),
            (
                known(Life::Lives, 0, true, Some((true, 2))),
                "draining",
                false,
            ),
            (
                known(Life::Lives, 0, true, Some((true, 0))),
                "drained",
                false,
            ),
            // It stops.
            (
                known(Life::Lives, 0, false, Some((true, 1))),
                "draining",
                false,
            ),
            (
                known(Life::Lives, 2_999, false, Some((false, 0))),
                "live",
                false,
            ),
            (
                known(Life::Lives, 3_000, true, Some((true, 0))),
                "silent",
                false,
            ),
            (known(Life::Lives, 10_000, false, None), "silent", true),
            (known(Life::Left, 0, false, None), "gone", true),
            (known(Life::Taken, 0, true, Some((true, 0))), "gone", true),
        ] {
            assert_eq!(node.standing().as_str(), expected, "{node:?}");
            assert_eq!(node.is_lost(), is_lost, "{node:?}");
        }
    }
}
