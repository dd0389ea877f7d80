//! The worker role: a foreign control plane dispatches tasks, and our sandbox executes them. This file
//! connects the session with HTTP, the sandbox and the disk.

mod callbacks;
mod host;
mod log;
mod memory;
mod order;
mod outbox;
mod routes;
mod session;

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use host_core::port::Counters;
use host_runtime::tasks::Tasks;
use host_wire_kit::Ports;
use host_wire_kit::driver::Hub;
use host_wire_kit::session::Session as _;
use tokio::net::TcpListener;
use tokio::time::timeout;

use self::host::{Host, WorkerHub};
use self::memory::Memory;
use self::outbox::{Outbox, Restored};
use self::session::{Event, Setup, Worker};
use super::settings::WorkerConfig;

/// How long tasks may take to end when the worker stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(1_900);

/// A worker whose socket is bound.
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    listener: TcpListener,
    config: WorkerConfig,
    /// Where files are kept between starts.
    folder: Option<PathBuf>,
}

impl Bound {
    pub(super) async fn bind(config: &WorkerConfig, folder: Option<PathBuf>) -> io::Result<Self> {
        let listener = TcpListener::bind(config.listen).await?;
        Ok(Self {
            address: listener.local_addr()?,
            listener,
            config: config.clone(),
            folder,
        })
    }

    /// Opens the folder for ends of tasks, if this worker has one.
    async fn outbox(&self) -> io::Result<(Option<Outbox>, Restored)> {
        let Some(folder) = self.folder.clone() else {
            return Ok((None, Restored::default()));
        };
        let opened = tokio::task::spawn_blocking(move || Outbox::open(&folder));
        let (outbox, restored) = opened.await.map_err(io::Error::other)??;
        Ok((Some(outbox), restored))
    }

    /// Makes the session, which continues with what an earlier process left.
    async fn open(&self, ports: &Ports) -> Arc<WorkerHub> {
        let (outbox, restored) = self.outbox().await.unwrap_or_else(|error| {
            tracing::error!(%error, "cannot keep the ends of tasks on disk; a restart may lose them");
            (None, Restored::default())
        });
        // A task whose end is still to be reported is not executed again.
        let reported = restored.pending.iter().map(|pending| pending.key.clone());
        let finished = restored.finished.into_iter().chain(reported).collect();
        let setup = Setup {
            name: format!("host-{}", self.address),
            origins: self.config.origins.clone(),
            logs_token: self.config.logs_token.clone(),
        };
        let session = Worker::new(setup, Memory::new(self.config.concurrency, finished));
        let host = Host::new((ports.execute)(), outbox);
        let counters = Arc::clone(&ports.counters);
        let hub = Hub::new(session, host, Arc::clone(&ports.clock), counters);
        hub.report(Event::Restored(restored.pending));
        hub
    }

    /// Serves dispatches until the host stops. Tasks that still run are then stopped and reported.
    pub(super) async fn serve(self, ports: Ports) {
        let hub = self.open(&ports).await;
        self.serve_on(&hub, ports.counters, ports.stopping.cancelled())
            .await;
    }

    async fn serve_on(
        self,
        hub: &Arc<WorkerHub>,
        counters: Arc<dyn Counters>,
        stopping: impl Future<Output = ()>,
    ) {
        let (http, own) = (Tasks::default(), Tasks::default());
        let serving = routes::serve(self, Arc::clone(hub), counters, (&http, &own));
        let until_stopped = async {
            tokio::select! {
                () = serving => {}
                () = stopping => {}
            }
            hub.report(Event::Stop);
            let ended = async {
                hub.until(Worker::is_idle).await;
                hub.handler().join().await;
                own.stop();
                own.join().await;
                http.stop();
                http.join().await;
            };
            if timeout(STOP_TIMEOUT, ended).await.is_err() {
                tracing::warn!("some tasks did not end in time");
            }
        };
        tokio::select! {
            () = until_stopped => {}
            () = Arc::clone(hub).keep_time() => {}
        }
    }
}
