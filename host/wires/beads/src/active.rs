//! The open wire: its socket is bound, so that workers wait for [`Active::run`].

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use host_core::port::lease::Leases;
use host_runtime::socket::LocalListener;
use host_wire_kit::driver::Hub;
use host_wire_kit::executors::Executors;
use host_wire_kit::session::{Moment, Session as _};
use host_wire_kit::stream::accept;
use host_wire_kit::{Active, ExecutorPorts, Mode, OpenError, OpenWire, Ports, STOP_TIME_MAX};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::WIRE;
use super::connect::work;
use super::executors::{Pulled, Serving};
use super::leases::{LeasePort, OrchestratorHub};
use super::orchestrator::{Event, Orchestrator};
use super::settings::WorkerConfig;
use super::settings::{BeadsConfig, OrchestratorConfig};
use super::socket::{self, Guarded};

/// How long the last bytes may take when all connections are closed.
const FLUSH_TIME: Duration = Duration::from_millis(500);

struct ActiveBeads {
    orchestrator: Option<Listening>,
    worker: Option<WorkerConfig>,
    /// `host worker`: only this role.
    is_alone: bool,
}

/// The orchestrator role, not yet serving.
struct Listening {
    config: OrchestratorConfig,
    socket: LocalListener,
    serving: Serving,
}

/// Binds the socket, if the role is on.
pub(super) fn open(config: &BeadsConfig, mode: &Mode) -> Result<OpenWire, OpenError> {
    let listening = match (mode, &config.orchestrator) {
        (Mode::Serve { .. }, Some(config)) => Some(Listening::open(config)?),
        _ => None,
    };
    let is_alone = matches!(mode, Mode::Worker { .. });
    if is_alone && config.worker.is_none() {
        let message = "no orchestrator to work for; name its socket with --socket PATH";
        return Err(OpenError::usage(message));
    }
    let working = config.worker.as_ref().filter(|_| is_alone);
    let path = listening
        .as_ref()
        .map(|it| it.socket.path())
        .or_else(|| working.map(|worker| worker.socket.as_path()));
    let ready = path.map(|path| (WIRE, path.display().to_string()));
    Ok(OpenWire {
        needed_handlers: working.map(|it| it.handler.clone()).into_iter().collect(),
        ..OpenWire::new(
            ActiveBeads {
                orchestrator: listening,
                worker: config.worker.clone(),
                is_alone,
            },
            ready.into_iter().collect(),
        )
    })
}

impl Listening {
    fn open(config: &OrchestratorConfig) -> Result<Self, OpenError> {
        Ok(Self {
            config: config.clone(),
            socket: socket::bind(&config.path(std::process::id()))?,
            serving: Serving::default(),
        })
    }

    /// Serves workers until the host stops. Then sends them SHUTDOWN, waits until they have gone, closes the
    /// other connections and removes the socket.
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
        let _ = self.serving.set(Arc::clone(&hub)).is_ok();
        let path = self.socket.path().to_owned();
        let socket = Guarded::new(self.socket, counters);
        let serving = async {
            let have_gone = CancellationToken::new();
            let ending = async {
                ports.stopping.cancelled().await;
                stop(&hub).await;
                have_gone.cancel();
            };
            let (mut open, ()) = tokio::join!(accept(&hub, socket, &have_gone), ending);
            let flushed = async { while open.join_next().await.is_some() {} };
            let _ = timeout(FLUSH_TIME, flushed).await;
        };
        tracing::info!(path = %path.display(), "beads workers may connect");
        tokio::select! {
            () = serving => {}
            () = Arc::clone(&hub).keep_time() => {}
        }
    }
}

/// Sends all workers SHUTDOWN, and closes the remaining connections after a time.
async fn stop(hub: &Arc<OrchestratorHub>) {
    hub.report(Event::Stop);
    let ended = hub.until(Orchestrator::is_idle);
    if timeout(STOP_TIME_MAX, ended).await.is_err() {
        hub.report(Event::Cut);
        let _ = timeout(FLUSH_TIME, hub.until(Orchestrator::is_idle)).await;
    }
}

impl Active for ActiveBeads {
    fn executors(&mut self, _ports: &ExecutorPorts) -> Option<Arc<dyn Executors>> {
        let listening = self.orchestrator.as_ref()?;
        Some(Arc::new(Pulled {
            name: listening.config.executor.clone(),
            serving: Arc::clone(&listening.serving),
        }))
    }

    fn run(self: Box<Self>, ports: Ports) -> BoxFuture<'static, Result<(), OpenError>> {
        let Self {
            orchestrator,
            worker,
            is_alone,
        } = *self;
        Box::pin(async move {
            let serving = async {
                match (orchestrator, ports.leases.clone()) {
                    (Some(listening), Some(leases)) => listening.serve(leases, ports.clone()).await,
                    _ if is_alone => {}
                    _ => ports.stopping.cancelled().await,
                }
            };
            let working = async {
                match worker {
                    Some(worker) => work(worker, ports.clone(), !is_alone).await,
                    None => Ok(()),
                }
            };
            let ((), worked) = tokio::join!(serving, working);
            worked
        })
    }
}
