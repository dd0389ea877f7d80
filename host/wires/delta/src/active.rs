//! The open wire: connects the orchestrator with the host, and executes the jobs of others.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::{BoxFuture, join_all, join3};
use host_wire_kit::executors::Executors;
use host_wire_kit::{Active, ExecutorPorts, OpenError, OpenWire, Ports};

use super::NAME;
use super::orchestrator::Pools;
use super::orchestrator::launched::{self, LauncherDeps};
use super::worker::{OpenedLease, Peer};

/// Both roles of a host.
pub(super) struct Serving {
    pub(super) pools: Arc<Pools>,
    /// The foreign orchestrators whose jobs we execute.
    pub(super) peers: Vec<Peer>,
    /// Where the files of the runners are that this host starts.
    pub(super) folder: PathBuf,
}

/// The runner role alone.
pub(super) struct Working {
    pub(super) peer: Peer,
    /// The one lease that is executed, if it was handed out in a file.
    pub(super) file: Option<OpenedLease>,
}

impl Serving {
    pub(super) fn open(self) -> OpenWire {
        let pools: Vec<&str> = self
            .pools
            .config
            .pools
            .iter()
            .map(|pool| pool.name.as_str())
            .collect();
        let ready = (!pools.is_empty()).then(|| (NAME, pools.join(",")));
        OpenWire::new(self, ready.into_iter().collect())
    }

    fn has_pools(&self) -> bool {
        !self.pools.config.pools.is_empty()
    }
}

impl Working {
    pub(super) fn open(self) -> OpenWire {
        let ready = vec![(NAME, self.peer.url.to_string())];
        OpenWire {
            // A lease in a file has to be acknowledged soon.
            runs_early: self.file.is_some(),
            ..OpenWire::new(self, ready)
        }
    }
}

impl Active for Serving {
    fn executors(&mut self, ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        let (clock, counters) = (Arc::clone(&ports.clock), Arc::clone(&ports.counters));
        self.pools.start(clock, counters, Arc::clone(&ports.logs));
        self.has_pools()
            .then(|| Arc::clone(&self.pools) as Arc<dyn Executors>)
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            if let Some(leases) = &ports.leases {
                self.pools.connect(leases);
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
                    launched::run(&self.pools, deps).await;
                }
            };
            let keeping_time = self.pools.run(&ports.stopping);
            join3(keeping_time, join_all(working), launching).await;
            ports.stopping.cancelled().await;
            Ok(())
        })
    }
}

impl Active for Working {
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
