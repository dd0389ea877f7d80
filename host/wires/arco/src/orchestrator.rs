//! The orchestrator role: foreign workers execute our jobs. Attempts are leased by TTL, sent to their
//! workers, and ended by callbacks. This file connects the session with HTTP and the host.

mod answers;
mod attempts;
pub(super) mod envelope;
mod executors;
mod explain;
mod host;
mod logs;
mod read;
mod routes;
mod session;
mod workers;

#[cfg(test)]
pub(super) mod tests;

use std::sync::{Arc, OnceLock};

use host_core::port::JobLogs;
use host_core::port::lease::{Leases, Secret};
use host_http::route::{Description, Group, RoutePorts};
use host_wire_kit::Ports;
use host_wire_kit::driver::Hub;
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::session::Session as _;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::host::{Host, OrchestratorHub};
use self::session::{Event, Orchestrator};
use super::refusals::Code;
use super::settings::OrchestratorConfig;
use super::token::Tokens;
use super::token::key::Keys;

pub(super) use self::executors::Remote;

/// The orchestrator role of one host.
pub(super) struct Role {
    config: OrchestratorConfig,
    /// What workers call back, once it is known.
    public_url: watch::Sender<Option<BaseUrl>>,
    /// Set once the host runs.
    hub: OnceLock<Arc<OrchestratorHub>>,
}

impl Role {
    pub(super) fn new(config: &OrchestratorConfig) -> Self {
        Self {
            public_url: watch::Sender::new(config.public_url.clone()),
            hub: OnceLock::new(),
            config: config.clone(),
        }
    }

    /// Returns the keys of task tokens: the configured ones, else one that all nodes of the store share, and
    /// `own` before it. `None` if there is none, so that this host takes no callbacks.
    pub(super) fn keys(&self, own: Option<Keys>, secret: Option<Secret>) -> Option<Keys> {
        match secret {
            Some(secret) if self.config.keys.is_none() => Some(Keys::shared(&secret, own)),
            _ => own,
        }
    }

    /// Starts to accept callbacks.
    pub(super) fn start(
        &self,
        ports: &Ports,
        (leases, logs): (Arc<dyn Leases>, Option<Arc<dyn JobLogs>>),
        tokens: Tokens,
    ) {
        let (clock, counters) = (Arc::clone(&ports.clock), Arc::clone(&ports.counters));
        let host = Host::new(&self.config, ports, (leases, logs), tokens);
        let hub = Hub::new(Orchestrator::new(&self.config), host, clock, counters);
        let _ = self.hub.set(hub);
    }

    /// Makes the routes of callbacks.
    pub(super) fn routes(self: &Arc<Self>, ports: &RoutePorts) -> Vec<Group> {
        self.public_url.send_if_modified(|url| {
            if url.is_none() {
                let own = ports.callbacks.as_deref();
                *url = own.and_then(|own| own.parse().ok());
            }
            url.is_some()
        });
        routes::routes(self, ports)
    }

    /// Serves all workers until `stopping`, and then gives back what no worker has received.
    pub(super) async fn run(self: Arc<Self>, stopping: CancellationToken) {
        let Some(hub) = self.hub.get() else { return };
        let serving = async {
            let mut watched = self.public_url.subscribe();
            let known = stopping.run_until_cancelled(watched.wait_for(Option::is_some));
            let base = known.await.and_then(|url| url.ok()?.clone());
            if let Some(base) = base {
                hub.report(Event::Start(base));
                stopping.cancelled().await;
            }
            hub.report(Event::Stop);
            hub.until(Orchestrator::is_idle).await;
            hub.handler().dispatches.join().await;
        };
        tokio::select! {
            () = serving => {}
            () = Arc::clone(hub).keep_time() => {}
        }
    }

    fn count(&self, code: Code) {
        if let Some(hub) = self.hub.get() {
            hub.handler().counters.refused(super::NAME, code.as_str());
        }
    }
}

/// Describes the routes.
pub(super) fn description() -> Description {
    routes::description()
}
