//! The worker: a foreign control plane dispatches tasks to us, and we execute them in our sandbox. This
//! file is what its parts share.

mod callbacks;
mod execution;
mod memory;
mod order;
mod outbox;
mod run;
mod server;

#[cfg(test)]
pub(super) mod tests;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_core::port::{Clock, Counters, Execute, Tag};
use host_runtime::tasks::Tasks;
use tokio::net::TcpListener;

use self::callbacks::Callbacks;
use self::memory::Memory;
use self::outbox::Outbox;
use super::refusals::Code;
use super::settings::WorkerConfig;
use crate::kit::backoff::Backoff;
use crate::wire::Ports;

pub(super) use self::server::serve;

/// The waits before a callback is sent again, unless its answer asks for a longer one.
const BACKOFF: Backoff = Backoff::new(200, 10_000);

/// A worker that serves.
struct Worker {
    config: WorkerConfig,
    /// Our name in callbacks.
    id: String,
    clock: Arc<dyn Clock>,
    counters: Arc<dyn Counters>,
    execute: Arc<dyn Execute>,
    callbacks: Callbacks,
    memory: Memory,
    /// Keeps the ends of tasks until the control plane has them; `None` in `host worker`.
    outbox: Option<Outbox>,
    tags_made: AtomicU64,
    /// Runs of tasks, and ends that are being sent.
    tasks: Tasks,
}

/// A worker whose socket is bound.
pub(super) struct Bound {
    pub(super) address: SocketAddr,
    listener: TcpListener,
    config: WorkerConfig,
    /// Where files are kept from one start to the next.
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
}

impl Worker {
    fn new(bound: &Bound, ports: &Ports, outbox: Option<Outbox>, finished: Vec<String>) -> Self {
        Self {
            config: bound.config.clone(),
            id: format!("host-{}", bound.address),
            clock: Arc::clone(&ports.clock),
            counters: Arc::clone(&ports.counters),
            execute: (ports.execute)(),
            callbacks: Callbacks::default(),
            memory: Memory::new(bound.config.concurrency, finished),
            outbox,
            tags_made: AtomicU64::new(0),
            tasks: Tasks::default(),
        }
    }

    fn tag(&self) -> Tag {
        Tag(self.tags_made.fetch_add(1, Ordering::Relaxed))
    }

    fn count(&self, code: Code) {
        self.counters.refused(super::NAME, code.as_str());
    }
}
