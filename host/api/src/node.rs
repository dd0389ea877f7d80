//! A node as the API names it where it shows something else.

use std::fmt;

use host_core::id::NodeId;
use host_core::node::NodeRecord;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A node of those that share the store.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct NamedNode {
    /// Its id.
    pub id: String,
    /// The name of its machine, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl NamedNode {
    /// Names a node as it is among these.
    pub fn of(nodes: &[NodeRecord], id: NodeId) -> Self {
        let node = nodes.iter().find(|node| node.id == id);
        let info = node.and_then(|node| node.info.as_ref());
        let name = info.map(|info| info.name.clone());
        Self {
            id: id.to_string(),
            name: name.filter(|name| !name.is_empty()),
        }
    }

    /// Returns whether it is the node with this id.
    pub fn is(&self, id: NodeId) -> bool {
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
