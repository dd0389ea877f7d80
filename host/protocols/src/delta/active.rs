//! The open wire in `host serve`: connects the orchestrator with the host.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::NAME;
use super::executors::Pools;
use super::orchestrator::{Host, Orchestrator};
use crate::wire::executors::Executors;
use crate::wire::{Active, ExecutorPorts, OpenError, Ports};

/// Both roles of a host.
pub(super) struct Serving {
    pub(super) orchestrator: Arc<Orchestrator>,
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
            if let Some(leases) = ports.leases {
                self.orchestrator.connect(Host {
                    leases,
                    clock: ports.clock,
                    counters: ports.counters,
                });
            }
            ports.stopping.cancelled().await;
            Ok(())
        })
    }
}
