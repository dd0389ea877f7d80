//! The nodes that share the store, as seen by this host, which may be the only one. Also drains and resumes
//! them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::id::NodeId;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_dispatch::nodes::Presence;
use host_engine::node::{Life, NodeInfo, NodeRecord};
use host_engine::{Others, StoreError};

use crate::api::ports;
use crate::config::Config;

/// The file in the data directory that marks a host with its own store as draining.
const DRAINING: &str = "draining";

/// The file with the name of the machine on Linux.
const NAME: &str = "/proc/sys/kernel/hostname";

/// How long the name of a machine may be. Linux allows 64 bytes.
const NAME_CHARS: usize = 64;

/// Returns the info of a starting host.
pub(crate) fn presence(config: &Config, started_at: Time) -> Arc<Presence> {
    let name = fs::read_to_string(NAME).unwrap_or_default();
    let presence = Presence::default();
    presence.update(|info| {
        *info = NodeInfo {
            name: name.trim().chars().take(NAME_CHARS).collect(),
            started_at,
            cells: u32::try_from(config.cells).unwrap_or(u32::MAX),
            slots: config.slots,
            retentions: config.retentions.digest(),
            ..NodeInfo::default()
        }
    });
    Arc::new(presence)
}

/// Warns once if other nodes have a different retention of queues than the node `own`.
pub(crate) async fn compare(dispatch: Dispatch, own: NodeId) {
    // Other nodes compare as well when they start.
    let Ok(nodes) = dispatch.read(|reader| reader.nodes()).await else {
        return;
    };
    let info = dispatch.shared().presence.info();
    let others = nodes_with_other_retention(&info.retentions, own, &nodes);
    if !others.is_empty() {
        let nodes = others.join(", ");
        tracing::warn!(
            nodes,
            "other nodes are configured with a different retention of queues; a job keeps the retention \
             of the node that accepted it"
        );
    }
}

/// Returns the live nodes with a different retention of queues.
fn nodes_with_other_retention(retentions: &str, own: NodeId, nodes: &[NodeRecord]) -> Vec<String> {
    let differs = |node: &&NodeRecord| {
        let theirs = node.info.as_ref().map_or("", |info| &info.retentions);
        node.id != own && !node.is_lost() && !theirs.is_empty() && theirs != retentions
    };
    let others = nodes.iter().filter(differs);
    others.map(|node| node.called().into_owned()).collect()
}

/// The nodes, as seen by one of them.
pub struct Nodes {
    own: NodeId,
    dispatch: Dispatch,
    sharing: Sharing,
}

/// Who else may use the store.
pub(crate) enum Sharing {
    Others(Arc<dyn Others>),
    /// No other node. A drain of this host is kept in this data directory.
    Alone(PathBuf),
}

impl Nodes {
    pub(crate) fn new(own: NodeId, dispatch: Dispatch, sharing: Sharing) -> Self {
        Self {
            own,
            dispatch,
            sharing,
        }
    }

    fn presence(&self) -> &Presence {
        &self.dispatch.shared().presence
    }

    async fn known(&self) -> Result<Vec<NodeRecord>, StoreError> {
        let info = Some(self.presence().info());
        if let Sharing::Alone(_) = self.sharing {
            return Ok(vec![NodeRecord {
                id: self.own,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                life: Life::Lives,
                silent_ms: 0,
                ahead_ms: 0,
                drain: self.presence().is_drain_requested(),
                info,
                components: self.presence().components(),
            }]);
        }
        let mut nodes = self.dispatch.read(|reader| reader.nodes()).await?;
        if let Some(own) = nodes.iter_mut().find(|node| node.id == self.own) {
            own.info = info;
            own.components = self.presence().components();
        }
        Ok(nodes)
    }
}

impl ports::Nodes for Nodes {
    fn own(&self) -> NodeId {
        self.own
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<NodeRecord>, StoreError>> {
        self.known().boxed()
    }

    fn set_drain(&self, node: NodeId, drain: bool) -> BoxFuture<'_, Result<(), StoreError>> {
        match &self.sharing {
            Sharing::Others(others) => others.set_drain(node, drain),
            Sharing::Alone(data) => {
                let kept = keep(data, drain).map_err(|error| StoreError::Broken {
                    operation: "record that this node is to drain",
                    message: error.to_string(),
                });
                if kept.is_ok() {
                    self.presence().request_drain(drain);
                }
                std::future::ready(kept).boxed()
            }
        }
    }
}

/// Returns whether the host of a data directory is draining.
pub(crate) fn is_draining(data: &Path) -> bool {
    data.join(DRAINING).exists()
}

/// Stores in a data directory whether its host is draining.
fn keep(data: &Path, drain: bool) -> io::Result<()> {
    let path = data.join(DRAINING);
    if drain {
        return fs::write(path, "");
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn nodes_that_keep_jobs_for_other_times_are_named() {
        let node = |id: u32, retentions: Option<&str>| NodeRecord {
            id: format!("{id:08x}-0000-0000-0000-000000000000")
                .parse()
                .unwrap(),
            version: "1".to_owned(),
            life: Life::Lives,
            silent_ms: 0,
            ahead_ms: 0,
            drain: false,
            info: retentions.map(|retentions| NodeInfo {
                name: format!("n{id}"),
                retentions: retentions.to_owned(),
                ..NodeInfo::default()
            }),
            components: Arc::default(),
        };
        let mut gone = node(6, Some("b"));
        gone.life = Life::Left;
        let nodes = [
            node(1, Some("b")),
            node(2, Some("a")),
            node(3, Some("b")),
            node(4, None),
            node(5, Some("")),
            gone,
        ];
        assert_eq!(nodes_with_other_retention("a", nodes[0].id, &nodes), ["n3"]);
        assert_eq!(nodes_with_other_retention("b", nodes[0].id, &nodes), ["n2"]);
    }

    #[test]
    fn a_data_directory_remembers_that_its_host_drains() {
        let data = TempDir::new().unwrap();
        let is_kept = || is_draining(data.path());
        for (drain, kept) in [(false, false), (true, true), (true, true), (false, false)] {
            keep(data.path(), drain).unwrap();
            assert_eq!(is_kept(), kept);
        }
    }
}
