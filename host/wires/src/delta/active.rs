//! The open wire: connects the orchestrator with the host, and executes the jobs of others.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join, join_all};

use super::NAME;
use super::executors::Pools;
use super::launched::{self, LauncherDeps};
use super::orchestrator::{Host, Orchestrator};
use super::worker::{Opened, Peer};
use crate::wire::executors::Executors;
use crate::wire::{Active, ExecutorPorts, OpenError, Ports};

/// Both roles of a host.
pub(super) struct Serving {
    pub(super) orchestrator: Arc<Orchestrator>,
    /// The foreign orchestrators whose jobs we execute.
    pub(super) peers: Vec<Peer>,
    /// Where the files of the runners are that this host starts.
    pub(super) folder: PathBuf,
}

/// The runner role alone.
pub(super) struct Working {
    pub(super) peer: Peer,
    /// The one lease that is executed, if it was handed out in a file.
    pub(super) file: Option<Opened>,
}

impl Serving {
    fn has_pools(&self) -> bool {
        !self.orchestrator.config.pools.is_empty()
    }
}

impl Active for Serving {
    fn ready(&self) -> Vec<(&'static str, String)> {
        if !self.has_pools() {
            return Vec::new();
        }
        let pools = self.orchestrator.config.pools.iter();
        let pools: Vec<&str> = pools.map(|pool| pool.name.as_str()).collect();
        vec![(NAME, pools.join(","))]
    }

    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        self.orchestrator.keep_logs(Arc::clone(&ports.logs));
        self.has_pools()
            .then(|| Arc::new(Pools(Arc::clone(&self.orchestrator))) as Arc<dyn Executors>)
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            if let Some(leases) = &ports.leases {
                self.orchestrator.connect(Host {
                    leases: Arc::clone(leases),
                    clock: Arc::clone(&ports.clock),
                    counters: Arc::clone(&ports.counters),
                });
            }
            let working = self.peers.iter().map(|peer| peer.work(&ports));
            let launching = async {
                if let Some(leases) = &ports.leases {
                    let deps = LauncherDeps {
                        leases: Arc::clone(leases),
                        clock: Arc::clone(&ports.clock),
                        stopping: ports.stopping.clone(),
                        folder: self.folder.clone(),
                    };
                    launched::run(&self.orchestrator, deps).await;
                }
            };
            join(join_all(working), launching).await;
            ports.stopping.cancelled().await;
            Ok(())
        })
    }
}

impl Active for Working {
    fn ready(&self) -> Vec<(&'static str, String)> {
        vec![(NAME, self.peer.url.to_string())]
    }

    /// A lease in a file has to be acknowledged soon.
    fn runs_early(&self) -> bool {
        self.file.is_some()
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            if let Some(opened) = self.file {
                return self.peer.execute(opened, ports).await;
            }
            self.peer.work(&ports).await;
            Ok(())
        })
    }
}
