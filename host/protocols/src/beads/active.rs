//! The open wire: its socket is bound, so that workers wait for [`Active::run`].

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use host_core::port::lease::Leases;
use tokio::time::timeout;

use super::WIRE;
use super::executors::{Pulled, Serving};
use super::leases::{LeasePort, OrchestratorHub};
use super::orchestrator::{Event, Orchestrator};
use super::section::{BeadsConfig, OrchestratorConfig};
use super::socket::Bound;
use crate::stream::{Hub, Moment, Session as _, accept};
use crate::wire::executors::Executors;
use crate::wire::{Active, ExecutorPorts, OpenError, Place, Ports, STOP_TIME_MAX};

/// How long the last bytes may take when all connections are closed.
const FLUSH_TIME: Duration = Duration::from_millis(500);

pub(super) struct ActiveBeads {
    orchestrator: Option<Listening>,
}

/// The orchestrator role, not yet serving.
struct Listening {
    config: OrchestratorConfig,
    bound: Bound,
    serving: Serving,
}

/// Binds the socket, if the role is on.
pub(super) fn open(config: &BeadsConfig, place: &Place) -> Result<ActiveBeads, OpenError> {
    let listening = match (place, &config.orchestrator) {
        (Place::Serve { .. }, Some(config)) => Some(Listening::open(config)?),
        _ => None,
    };
    Ok(ActiveBeads {
        orchestrator: listening,
    })
}

impl Listening {
    fn open(config: &OrchestratorConfig) -> Result<Self, OpenError> {
        let bound = Bound::at(&config.path(std::process::id()));
        Ok(Self {
            config: config.clone(),
            bound: bound.map_err(|error| OpenError::failed(error.to_string()))?,
            serving: Serving::default(),
        })
    }

    /// Serves workers until the host stops. Then tells them to end, waits for that, closes all
    /// connections and removes the socket.
    async fn serve(self, leases: Arc<dyn Leases>, ports: Ports) {
        let moment = Moment {
            now: ports.clock.now(),
            wall: ports.clock.wall(),
        };
        let session = Orchestrator::new(self.config.clone(), moment);
        let port = LeasePort::new(&self.config, leases);
        let counters = Arc::clone(&ports.counters);
        let workers_max = self.config.workers_max;
        let hub = Hub::with_limit(session, port, ports.clock, ports.counters, workers_max);
        let _first = self.serving.set(Arc::clone(&hub)).is_ok();
        let path = self.bound.path().to_owned();
        let socket = self.bound.listen(counters);
        let serving = async {
            let mut open = accept(&hub, socket, &ports.stopping).await;
            stop(&hub).await;
            let flushed = async { while open.join_next().await.is_some() {} };
            let _flushed = timeout(FLUSH_TIME, flushed).await;
        };
        tracing::info!(path = %path.display(), "beads workers may connect");
        tokio::select! {
            () = serving => {}
            () = Arc::clone(&hub).keep_time() => {}
        }
    }
}

/// Tells all workers to end, and closes the connections that are left after a time.
async fn stop(hub: &Arc<OrchestratorHub>) {
    hub.report(Event::Stop);
    let ended = hub.until(Orchestrator::is_idle);
    if timeout(STOP_TIME_MAX, ended).await.is_err() {
        hub.report(Event::Cut);
        let _late = timeout(FLUSH_TIME, hub.until(Orchestrator::is_idle)).await;
    }
}

impl Active for ActiveBeads {
    fn ready(&self) -> Vec<(&'static str, String)> {
        let path = |listening: &Listening| listening.bound.path().display().to_string();
        let listening = self.orchestrator.iter();
        listening.map(|listening| (WIRE, path(listening))).collect()
    }

    fn executors(&mut self, _ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        let listening = self.orchestrator.as_ref()?;
        Some(Arc::new(Pulled {
            name: listening.config.executor.clone(),
            serving: Arc::clone(&listening.serving),
        }))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        Box::pin(async move {
            match (self.orchestrator, ports.leases.clone()) {
                (Some(listening), Some(leases)) => listening.serve(leases, ports).await,
                _ => ports.stopping.cancelled().await,
            }
            Ok(())
        })
    }
}
