//! The worker role of a wire alone, for one foreign orchestrator: its cells and nothing else. No
//! store, no API; what the orchestrator has not been answered is its own to keep.

mod hero;
mod one_core;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use host_core::port::{Counters, Executor};
use host_protocols::rrq::{self, ListenError, WorkerPorts};
use host_store::StoreError;
use host_store::sqlite::open_reader;
use rustix::process::{Signal, getppid, set_parent_process_death_signal, setpriority_process};
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::one_core::{Counted, OneCore};
use host_cells::pool::{Pool, Shape};
use host_cells::process::{Cells, ProcessPort};
use host_cells::spawn::{CellProgram, Spawner};
use host_runtime::clock::Clock;
use host_dispatch::numbers::Numbers;
use host_dispatch::writer::{EVENTS_MAX, Environment};
use host_dispatch::foreign::{Foreign, Wiring};
use host_cells::handlers::Handlers;
use host_cells::compile::{Cache, CompileError};
use crate::deploy;
use host_cells::examine::Examiner;
use crate::folder::{self, FolderError};
use crate::hero_logs::LogFiles;
use host_runtime::tasks::Tasks;

pub use self::hero::hero;

/// How nice the thread is that answers: less than others.
const ANSWERING_NICE: i32 = -10;

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
    /// How long before a deadline an RRQ orchestrator is answered at least, in milliseconds.
    pub rrq_margin_ms: u64,
    /// What guests may be granted of it.
    pub environment: Environment,
}

/// Why a worker does not start.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(ListenError),
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
    /// The folder for log files cannot be used.
    #[error(
        "cannot use the folder {} for log files: {error}; give another one with HOST_HERO_LOG_DIR",
        .path.display()
    )]
    LogDir {
        /// Which.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
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

/// Serves RRQ orchestrators at `address` until `SIGTERM` or `SIGINT`, or until the process that
/// started this one is gone. Tells `ready` once requests are executed.
pub fn rrq(
    config: &WorkerConfig,
    program: CellProgram,
    address: &str,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), WorkerError> {
    end_with_parent()?;
    let clock = Clock::start();
    runtime()?.block_on(async {
        let stopping = stop_on_signals()?;
        let address = rrq::read_address(address).map_err(WorkerError::Listen)?;
        let listener = rrq::bind(address).await.map_err(WorkerError::Listen)?;
        let bound = listener.local_addr().map_err(system("look at a socket"))?;
        // Cells are killed with this process, and nobody waits for them.
        let workers = Workers::start(config, program, no_lock()?, clock, None)?;
        let ports = WorkerPorts {
            executor: workers.counted(clock),
            clock: Arc::new(clock),
            counters: Arc::new(Told::default()),
            deadline_margin_ms: config.rrq_margin_ms,
        };
        let mut serving = pin!(rrq::serve(listener, ports, stopping));
        // Compiling may take longer than an orchestrator waits: requests are taken before it is over,
        // and answered in time even if it is not.
        tokio::select! {
            () = &mut serving => {}
            loaded = workers.load(&config.source) => {
                loaded?;
                go_first();
                ready(bound);
                serving.await;
            }
        }
        workers.end();
        Ok(())
    })
}

/// Makes the one thread that does it all: small jobs cost mostly the ways between threads.
fn runtime() -> Result<Runtime, WorkerError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .on_thread_start(one_core::anywhere())
        .build()
        .map_err(system("start the runtime"))
}

/// Returns a lock that says nothing.
fn no_lock() -> Result<File, WorkerError> {
    File::open("/dev/null").map_err(system("open /dev/null"))
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
        log_files: Option<LogFiles>,
    ) -> Result<Self, WorkerError> {
        let cache = match &config.source {
            Source::Folder { cache, .. } => cache.clone(),
            Source::Data(data) => data.join("cache"),
        };
        let cache = Cache::open(cache, program.clone()).map_err(WorkerError::Cache)?;
        let spawner = Spawner::start(program, lock).map_err(system("start the thread of cells"))?;
        let cells = Cells::new(spawner, Tasks::default(), config.memory_mib);
        let examiner = Examiner {
            cache,
            cells: cells.clone(),
            environment: config.environment.clone(),
        };
        let handlers = Handlers::default();
        let (cell_says, events) = mpsc::channel(EVENTS_MAX);
        let (loaded, stopping) = (CancellationToken::new(), CancellationToken::new());
        let shape = Shape {
            name: "cell",
            cells: config.cells,
            slots: config.slots,
        };
        // Cells start while handlers are looked at.
        let (foreign, work) = Foreign::new(Wiring {
            clock,
            handlers: handlers.clone(),
            environment: config.environment.clone(),
            pool: Pool::new(ProcessPort::new(cells, cell_says), shape),
            events,
            logs: None,
            log_files,
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

    fn executor(&self) -> Arc<dyn Executor> {
        self.foreign.door()
    }

    /// Returns the executor of a stream that is watched, so that all keep to one core where that is
    /// best.
    fn counted(&self, clock: Clock) -> Arc<dyn Executor> {
        let executor = self.executor();
        let Some(one_core) = OneCore::find(clock, self.examiner.cells.clone()) else {
            return executor;
        };
        let one_core = Arc::new(one_core);
        Tasks::default().spawn(Arc::clone(&one_core).watch());
        Arc::new(Counted { executor, one_core })
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

/// Lets this thread go before others where the system allows it, as it does for root: an answer at a
/// deadline must not wait for a core, or the orchestrator kills this process. Cells and compilers are
/// not meant: cells have been started by a thread of their own.
fn go_first() {
    be_nice(ANSWERING_NICE);
}

/// Sets how nice this thread is, as far as that is allowed.
fn be_nice(nice: i32) {
    if let Err(error) = setpriority_process(None, nice) {
        tracing::debug!(%error, nice, "this thread stays as nice as it is");
    }
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
struct Told {
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters for Told {
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
