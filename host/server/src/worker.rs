//! `host worker`: the worker role of one wire alone, for one foreign orchestrator: its cells and
//! nothing else. No store and no API: a job that was not answered is still the orchestrator's.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use host_cells::build::{Environment, RunBuilder};
use host_cells::compile::CompileError;
use host_cells::examine::{Examiner, Setup, StartError};
use host_cells::feed::Feed;
use host_cells::handlers::Handlers;
use host_cells::pool::{Pool, Shape};
use host_cells::process::ProcessPort;
use host_cells::spawn::CellProgram;
use host_core::port::Counters;
use host_dispatch::foreign::{Foreign, Wiring};
use host_dispatch::numbers::Numbers;
use host_dispatch::writer::EVENTS_MAX;
use host_protocols::wire::{self, Configured, OpenError, Place, Ports};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_store::StoreError;
use host_store::sqlite::open_reader;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::deploy;
use crate::folder::{self, FolderError};

/// Where a worker's handlers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of components, compiled into a cache.
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The cache.
        cache: PathBuf,
    },
    /// The data directory of a host, of which nothing else is read.
    Data(PathBuf),
}

/// How a worker works.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Where its handlers come from.
    pub source: Source,
    /// How many cells share the runs.
    pub cells: usize,
    /// Runs of one cell at once.
    pub slots: u32,
    /// Memory of the guests of one cell, in MiB.
    pub memory_mib: u64,
    /// Where it may keep files from one start to the next.
    pub state: Option<PathBuf>,
    /// What guests may be granted of it.
    pub environment: Environment,
}

/// Why a worker does not start.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The wire cannot be opened.
    #[error(transparent)]
    Wire(OpenError),
    /// The folder of components is not taken.
    #[error(transparent)]
    Folder(FolderError),
    /// The compiled components cannot be used.
    #[error(transparent)]
    Cache(CompileError),
    /// The data directory cannot be read.
    #[error("cannot read the handlers in {}: {error}", .path.display())]
    Data {
        /// Which.
        path: PathBuf,
        /// Why.
        error: StoreError,
    },
    /// The system gives no thread, timer or signal.
    #[error("cannot {operation}: {error}")]
    System {
        /// What was being done.
        operation: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// Serves the orchestrator of `wire` until `SIGTERM` or `SIGINT`; where the wire asks for it, until
/// the process that started this one is gone. Tells `ready` what the wire adds to the `ready` line
/// once jobs are executed.
pub fn run(
    config: &WorkerConfig,
    wire: &dyn Configured,
    program: CellProgram,
    ready: impl FnOnce(&[(&'static str, String)]),
) -> Result<(), WorkerError> {
    let clock = Clock::start();
    runtime()?.block_on(async {
        let stopping = stop_on_signals()?;
        let place = Place::Worker {
            state: config.state.clone(),
        };
        let mut active = wire.open(&place).await.map_err(WorkerError::Wire)?;
        if active.ends_with_parent() {
            end_with_parent()?;
        }
        let lock = match active.take_cells_lock() {
            Some(lock) => lock,
            // Cells are killed with this process; no later process waits for them.
            None => File::open("/dev/null").map_err(system("open /dev/null"))?,
        };
        let workers = Workers::start(config, program, lock, clock)?;
        let (words, early) = (active.ready(), active.runs_early());
        let mut serving = active.run(workers.ports(clock, stopping.clone()));
        let loaded = if early {
            // Compiling may take longer than an orchestrator waits: requests are taken before it is
            // over, and answered in time even if it is not.
            tokio::select! {
                () = &mut serving => return Ok(()),
                loaded = workers.load(&config.source) => loaded,
            }
        } else {
            // Jobs may be taken by other workers meanwhile.
            tokio::select! {
                loaded = workers.load(&config.source) => loaded,
                () = stopping.cancelled() => return Ok(()),
            }
        };
        loaded?;
        ready(&words);
        serving.await;
        workers.end();
        Ok(())
    })
}

/// Makes the one thread that does it all: small jobs cost mostly the ways between threads.
fn runtime() -> Result<Runtime, WorkerError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))
}

/// The cells of a worker and what feeds them.
struct Workers {
    examiner: Examiner,
    handlers: Handlers,
    foreign: Foreign,
    loaded: CancellationToken,
    stopping: CancellationToken,
}

impl Workers {
    /// Starts cells, which inherit `lock`; what they are given waits until [`Workers::load`] is
    /// through.
    fn start(
        config: &WorkerConfig,
        program: CellProgram,
        lock: File,
        clock: Clock,
    ) -> Result<Self, WorkerError> {
        let cache = match &config.source {
            Source::Folder { cache, .. } => cache.clone(),
            Source::Data(data) => data.join("cache"),
        };
        let setup = Setup {
            program,
            cache,
            lock,
            memory_mib: config.memory_mib,
            environment: config.environment.clone(),
        };
        let examiner = Examiner::start(setup, Tasks::default()).map_err(|error| match error {
            StartError::Cache(error) => WorkerError::Cache(error),
            StartError::Thread(error) => system("start the thread of cells")(error),
        })?;
        let handlers = Handlers::default();
        let runs = RunBuilder::new(
            handlers.clone(),
            config.environment.clone(),
            wire::chain_handlers(),
        );
        let (cell_says, events) = mpsc::channel(EVENTS_MAX);
        let (loaded, stopping) = (CancellationToken::new(), CancellationToken::new());
        let shape = Shape {
            name: "cell",
            cells: config.cells,
            slots: config.slots,
        };
        let port = ProcessPort::new(examiner.cells.clone(), cell_says);
        // Cells start while handlers are looked at.
        let (foreign, work) = Foreign::new(Wiring {
            clock,
            cells: Feed::new(Pool::new(port, shape), runs),
            events,
            logs: None,
            history: None,
            numbers: Numbers::default(),
            eager: true,
            loaded: loaded.clone(),
            stopping: stopping.clone(),
        });
        Tasks::default().spawn(work);
        Ok(Self {
            examiner,
            handlers,
            foreign,
            loaded,
            stopping,
        })
    }

    /// Makes the handlers known, and lets work begin that came before.
    async fn load(&self, source: &Source) -> Result<(), WorkerError> {
        load(source, &self.examiner, &self.handlers).await?;
        self.loaded.cancel();
        Ok(())
    }

    fn ports(&self, clock: Clock, stopping: CancellationToken) -> Ports {
        let foreign = self.foreign.clone();
        Ports {
            clock: Arc::new(clock),
            counters: Arc::new(LoggedRefusals::default()),
            execute: Arc::new(move || foreign.session()),
            leases: None,
            stopping,
        }
    }

    /// Kills what still runs; the kernel kills the cells with this process, if they are slower.
    fn end(self) {
        self.stopping.cancel();
    }
}

/// Makes the handlers known.
async fn load(
    source: &Source,
    examiner: &Examiner,
    handlers: &Handlers,
) -> Result<(), WorkerError> {
    match source {
        Source::Folder { folder, .. } => folder::load(folder, examiner, handlers)
            .await
            .map_err(WorkerError::Folder),
        Source::Data(data) => {
            let current = open_reader(&data.join("host.db"))
                .and_then(|reader| deploy::current(&*reader))
                .map_err(|error| WorkerError::Data {
                    path: data.clone(),
                    error,
                })?;
            let restored = deploy::restore(handlers, examiner, current).await;
            restored.map_err(WorkerError::Cache)
        }
    }
}

/// Lets this process be asked to stop when the one that started it is gone.
fn end_with_parent() -> Result<(), WorkerError> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(io::Error::from)
        .map_err(system("ask to end with the parent process"))?;
    // It may have gone before the line above.
    if getppid() == parent {
        return Ok(());
    }
    let gone = io::Error::other("it has gone");
    Err(system("end with the parent process")(gone))
}

/// Returns what is cancelled by the first signal to stop.
fn stop_on_signals() -> Result<CancellationToken, WorkerError> {
    let hear = |kind| signal(kind).map_err(system("listen to signals"));
    let (mut terminate, mut interrupt) = (
        hear(SignalKind::terminate())?,
        hear(SignalKind::interrupt())?,
    );
    let stopping = CancellationToken::new();
    let asked = stopping.clone();
    Tasks::default().spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        asked.cancel();
    });
    Ok(stopping)
}

/// Tells refusals in the log, for a worker has no metrics: those of one code the more rarely, the
/// more of them there were, so that no peer fills the log.
#[derive(Default)]
struct LoggedRefusals {
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters for LoggedRefusals {
    fn refused(&self, wire: &'static str, code: &'static str) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(code).or_default();
        *count += 1;
        if count.is_power_of_two() {
            tracing::warn!(wire, code, count, "messages are refused");
        }
    }
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> WorkerError {
    move |error| WorkerError::System { operation, error }
}
