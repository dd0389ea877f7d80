//! A node as the API shows it, and as it names one elsewhere.

use std::collections::BTreeMap;
use std::fmt;

use host_core::id::NodeId;
use host_core::time::Time;
use host_engine::node::{NodeRecord, Running, Standing};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::seconds;
use crate::words::NodeState;

/// A node: one host of those that share the store.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Node)]
pub struct NodeView {
    /// Its id, which stays the same when it starts again.
    pub id: String,
    /// The name of its machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its state.
    #[serde(default)]
    #[schema(value_type = NodeState, required = true)]
    pub state: String,
    /// Whether it is the one that answers.
    #[serde(default)]
    #[schema(required = true)]
    pub answers: bool,
    /// The version of the host.
    #[serde(default)]
    #[schema(required = true)]
    pub version: String,
    /// When it started (RFC 3339).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<String>,
    /// Where its API listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How long ago its last heartbeat was.
    #[serde(default)]
    #[schema(required = true)]
    pub heartbeat_age_seconds: f64,
    /// How many cells it keeps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cells: Option<u32>,
    /// How many jobs each of them runs concurrently.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// How much memory the processes of its cells have, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cell_memory_bytes: Option<u64>,
    /// The wires that it is configured for.
    #[serde(default)]
    #[schema(required = true)]
    pub wires: Vec<String>,
    /// The foreign runners that it is configured for.
    #[serde(default)]
    #[schema(required = true)]
    pub runners: Vec<String>,
    /// What it runs.
    #[serde(default)]
    #[schema(required = true)]
    pub running: RunningView,
}

/// How many attempts a node runs. Those whose workers hold a lease by heartbeats may continue at any node, and
/// are not counted.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = NodeRunning)]
pub struct RunningView {
    /// All of them.
    pub all: u64,
    /// In its cells.
    pub cells: u64,
    /// At foreign runners, by pool.
    pub runners: BTreeMap<String, u64>,
}

/// A node that was asked to start no more jobs, or to start some again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = AskedNode)]
pub struct AskedView {
    #[serde(flatten)]
    pub node: NodeView,
    /// How many other nodes start jobs.
    #[serde(default)]
    #[schema(required = true)]
    pub others_live: usize,
    /// What that means for waiting jobs, if no node starts any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A node of those that share the store.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedNode {
    /// Its id.
    pub id: String,
    /// The name of its machine, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl NodeView {
    /// Shows a node; `answers` is the node that answers.
    pub fn new(node: NodeRecord, answers: NodeId) -> Self {
        let standing = node.standing();
        let info = node.info.unwrap_or_default();
        let is_known = info.started_at > Time::default();
        Self {
            id: node.id.to_string(),
            state: standing.as_str().to_owned(),
            answers: node.id == answers,
            version: node.version,
            name: Some(info.name).filter(|name| !name.is_empty()),
            started_at: is_known.then(|| info.started_at.to_rfc3339()),
            address: info.address,
            heartbeat_age_seconds: seconds(node.silent_ms),
            cells: is_known.then_some(info.cells),
            slots: is_known.then_some(info.slots),
            cell_memory_bytes: Some(info.cell_memory_bytes).filter(|bytes| *bytes > 0),
            wires: info.wires,
            runners: info.runners.into_iter().map(String::from).collect(),
            running: match standing {
                Standing::Gone => RunningView::default(),
                _ => info.running.into(),
            },
        }
    }
}

impl From<Running> for RunningView {
    fn from(running: Running) -> Self {
        let runners = running.runners.iter();
        Self {
            all: running.all(),
            cells: running.cells,
            runners: runners
                .map(|(name, runs)| (name.to_string(), *runs))
                .collect(),
        }
    }
}

impl NamedNode {
    /// Names a node as it is among these.
    pub fn find_in(nodes: &[NodeRecord], id: NodeId) -> Self {
        let node = nodes.iter().find(|node| node.id == id);
        let info = node.and_then(|node| node.info.as_ref());
        let name = info.map(|info| info.name.clone());
        Self {
            id: id.to_string(),
            name: name.filter(|name| !name.is_empty()),
        }
    }

    /// Returns whether it is the node with this id.
    pub fn has_id(&self, id: NodeId) -> bool {
        self.id == id.to_string()
    }
}

impl fmt::Display for NamedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.id),
            None => write!(f, "{}", self.id),
        }
    }
}
