//! The parts of a host and how they hang together: the dispatch loop over the store, the cells
//! below it, and what requests are answered from.

use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use host_core::handler::Revision;
use host_store::logs::LogStore;
use host_store::sqlite::SqliteStore;
use host_store::{Reader, Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::{ServeError, system};
use crate::api::Api;
use crate::cells::pool::{Pool, Shape};
use crate::cells::process::{Cells, ProcessPort};
use crate::cells::spawn::{CellProgram, Spawner};
use crate::clock::Clock;
use crate::config::Config;
use crate::dispatch::logged::Logs;
use crate::dispatch::numbers::Numbers;
use crate::dispatch::readers::{READERS, Readers};
use crate::dispatch::writer::{self, EVENTS_MAX, Phase, Wiring};
use crate::dispatch::{Dispatch, REQUESTS_MAX, Shared};
use crate::handlers::Handlers;
use crate::handlers::compile::Cache;
use crate::handlers::deploy::{self, Deployments};
use crate::logs::{self, JobLogs};
use crate::metrics::Metrics;
use crate::tasks::Tasks;

/// How long connections and cells may take to be gone once no job runs any more.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// All parts of a running host.
pub(super) struct Parts {
    pub(super) tasks: Tasks,
    pub(super) deployments: Deployments,
    clock: Clock,
    dispatch: Dispatch,
    handlers: Handlers,
    job_logs: Arc<JobLogs>,
    metrics: Metrics,
    phase: watch::Sender<Phase>,
    draining: CancellationToken,
    ended: oneshot::Receiver<Result<(), StoreError>>,
    log_writer: JoinHandle<()>,
}

impl Parts {
    /// Opens the store and starts everything above and below it.
    pub(super) async fn start(
        config: &Config,
        program: CellProgram,
        cells_lock: File,
    ) -> Result<Self, ServeError> {
        let (tasks, clock, metrics) = (Tasks::default(), Clock::start(), Metrics::default());
        let store = SqliteStore::open(&config.data.join("host.db")).map_err(ServeError::Store)?;
        let log_store = LogStore::open_bounded(&config.data.join("logs.db"), config.log_bytes_max)
            .map_err(ServeError::Store)?;
        let cache =
            Cache::open(config.data.join("cache"), program.clone()).map_err(ServeError::Cache)?;
        let handlers = Handlers::default();
        let current = current(&*store.reader().map_err(ServeError::Store)?)?;
        deploy::restore(&handlers, &cache, current)
            .await
            .map_err(ServeError::Cache)?;

        let spawner =
            Spawner::start(program, cells_lock).map_err(system("start the thread of cells"))?;
        let cells = Cells::new(spawner, tasks.clone(), config.memory_mib);
        let (cell_says, events) = mpsc::channel(EVENTS_MAX);
        let shape = Shape {
            cells: config.cells,
            slots: config.slots,
        };
        let readers = (0..READERS)
            .map(|_| store.reader())
            .collect::<Result<_, _>>();
        let readers = Readers::new(readers.map_err(ServeError::Store)?);
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let shared = Arc::new(Shared::default());
        let dispatch = Dispatch::new(requests, readers, Arc::clone(&shared));
        let (phase, entered) = watch::channel(Phase::Running);
        let (logs, logged) = Logs::channel();
        let (job_logs, log_writer) = logs::spawn(log_store, logged).map_err(ServeError::Store)?;
        metrics.register(|registry| logs.register(registry));
        let numbers = Numbers::default();
        metrics.register(|registry| numbers.register(registry));
        let ended = writer::spawn(Wiring {
            store: Box::new(store),
            clock,
            handlers: handlers.clone(),
            environment: config.environment.clone(),
            shared,
            pool: Pool::new(ProcessPort::new(cells.clone(), cell_says), shape),
            logs,
            requests: asked,
            events,
            phase: entered,
            drain_ms: config.drain_ms,
            numbers,
        })
        .map_err(system("start the dispatch loop"))?;
        let deployments = Deployments::new(
            dispatch.clone(),
            handlers.clone(),
            cells,
            cache,
            config.environment.clone(),
            tasks.clone(),
        );
        Ok(Self {
            tasks,
            deployments,
            clock,
            dispatch,
            handlers,
            job_logs: Arc::new(job_logs),
            metrics,
            phase,
            draining: CancellationToken::new(),
            ended,
            log_writer,
        })
    }

    /// Returns what the API at `listen` answers from.
    pub(super) fn api(&self, listen: SocketAddr) -> Api {
        Api {
            dispatch: self.dispatch.clone(),
            handlers: self.handlers.clone(),
            clock: self.clock,
            deployer: Arc::new(self.deployments.clone()),
            logs: Arc::clone(&self.job_logs) as _,
            metrics: self.metrics.clone(),
            listen,
            draining: self.draining.clone(),
            stopping: self.tasks.stopping().clone(),
        }
    }

    /// Moves the dispatch loop on.
    pub(super) fn enter(&self, phase: Phase) {
        if phase > Phase::Running {
            self.draining.cancel();
        }
        self.phase.send_replace(phase);
    }

    /// Returns when the dispatch loop has ended, once. Cancel safe.
    pub(super) async fn ended(&mut self) -> Result<(), ServeError> {
        match (&mut self.ended).await {
            Ok(ended) => ended.map_err(ServeError::Store),
            Err(_) => Err(ServeError::Broken),
        }
    }

    /// Ends what is left once the dispatch loop has ended.
    pub(super) async fn join(self) {
        self.tasks.stop();
        if tokio::time::timeout(JOIN_TIMEOUT, self.tasks.join())
            .await
            .is_err()
        {
            tracing::warn!("some connections do not end; they are cut");
        }
        // The loop held the other end of its queue.
        let written = tokio::task::spawn_blocking(move || self.log_writer.join());
        if !matches!(written.await, Ok(Ok(()))) {
            tracing::error!("the thread that writes logs has panicked; lines of jobs are lost");
        }
    }
}

/// Reads what is deployed, with the bytes of its components.
fn current(reader: &dyn Reader) -> Result<Vec<(Revision, Vec<u8>)>, ServeError> {
    let revisions = reader.components().map_err(ServeError::Store)?;
    let with_bytes = revisions.into_iter().map(|revision| {
        let bytes = reader.component_bytes(revision.digest)?;
        Ok((revision, bytes.unwrap_or_default()))
    });
    with_bytes
        .collect::<Result<_, _>>()
        .map_err(ServeError::Store)
}
