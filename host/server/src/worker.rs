//! `host worker`: runs the worker role of one wire for one foreign orchestrator, with cells only.
//! Needs no store and no API: a job that was not answered still belongs to the orchestrator.

mod job_lines;
mod refusals;

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use host_cells::compile::CompileError;
use host_cells::deploy::examine::{Examiner, Setup, StartError};
use host_cells::deploy::trust::Trust;
use host_cells::pool::executor::CellExecutor;
use host_cells::pool::{Isolation, Pool, Shape};
use host_cells::process::ProcessPort;
use host_cells::run::build::{Environment, RunBuilder};
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::broker::Reach;
use host_cells::sandbox::spawn::CellProgram;
use host_core::name::Name;
use host_core::port::spans::Spans;
use host_dispatch::dispatch_loop::EVENTS_MAX;
use host_dispatch::foreign::{Foreign, Wiring};
use host_dispatch::numbers::Numbers;
use host_engine::StoreError;
use host_runtime::clock::Clock;
use host_runtime::stops::{Hangup, Stops, StopsError};
use host_runtime::tasks::Tasks;
use host_store::sqlite::open_reader;
use host_wire_kit::{Configured, Mode, OpenError, Ports};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};
use thiserror::Error;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::job_lines::JobLines;
use self::refusals::LoggedRefusals;
use crate::folder::{self, FolderError};
use crate::metrics::Metrics;
use crate::serve::{OtherOwner, files, refuse_other_owner};
use crate::telemetry::{self, Collect, Settings, SettingsError};
use crate::{config, deploy};

/// Where a worker's handlers come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A folder of components, which are compiled into a cache.
    Folder { folder: PathBuf, cache: PathBuf },
    /// The data directory of a host. Only the deployed components are read.
    Data(PathBuf),
}

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Where its handlers come from.
    pub source: Source,
    /// How many cells execute jobs.
    pub cells: usize,
    /// How many jobs one cell runs concurrently.
    pub slots: u32,
    /// The memory for the guests of one cell, in MiB.
    pub memory_mib: u64,
    /// How many bytes of compiled components are kept.
    pub cache_bytes_max: u64,
    /// Which jobs share a cell.
    pub isolation: Isolation,
    /// The folder for files that are kept between starts.
    pub state: Option<PathBuf>,
    /// The names by which clients address proxies in front of the worker.
    pub allowed_hosts: Vec<String>,
    /// Whether the logs of guests go to standard output if the wire has no place for them.
    pub prints_logs: bool,
    /// The variables that guests may be granted.
    pub grantable: Environment,
    /// Whose components run here.
    pub trust: Trust,
    /// The servers that requests of guests may reach.
    pub reach: Reach,
    /// The environment.
    pub environment: Environment,
}

/// Why a worker could not start.
#[derive(Debug, Error)]
pub enum WorkerError {
    /// The wire cannot be opened, or cannot continue.
    #[error(transparent)]
    Wire(OpenError),
    /// The folder of components was rejected.
    #[error(transparent)]
    Folder(FolderError),
    /// The configuration grants too much.
    #[error("{0}")]
    Grants(String),
    /// No cell can be started.
    #[error(transparent)]
    Start(StartError),
    /// The compiled components cannot be used.
    #[error(transparent)]
    Cache(CompileError),
    /// A handler that the wire needs is missing.
    #[error("no component has the handler `{0}`; check --handlers or --data")]
    NoHandler(Name),
    /// The data directory belongs to another user than root, who runs the worker.
    #[error(transparent)]
    OtherOwner(#[from] OtherOwner),
    /// The data directory cannot be read.
    #[error("cannot read the handlers in {}: {error}", .path.display())]
    Data { path: PathBuf, error: StoreError },
    /// A variable for the export of spans and metrics is invalid.
    #[error(transparent)]
    Telemetry(#[from] SettingsError),
    /// The system cannot provide the signals that ask to stop.
    #[error(transparent)]
    Stops(#[from] StopsError),
    /// The system cannot provide a thread or a timer.
    #[error("cannot {operation}: {error}")]
    System {
        operation: &'static str,
        error: io::Error,
    },
}

/// Serves the orchestrator of `wire` until a signal to stop. If the wire asks for it, also
/// ends when the parent process is gone. Calls `ready` with the wire's part of the `ready` line
/// when the worker executes jobs.
pub fn run(
    config: &WorkerConfig,
    wire: &dyn Configured,
    program: CellProgram,
    ready: impl FnOnce(&[(&'static str, String)]),
) -> Result<(), WorkerError> {
    crate::serve::leave_no_core();
    crate::serve::raise_open_files();
    if let Source::Data(data) = &config.source {
        refuse_other_owner(data)?;
    }
    let clock = Clock::start();
    let runtime = runtime()?;
    let served = runtime.block_on(async {
        let stops = Stops::listen(None, crate::serve::END_TIMEOUT, Hangup::Reload)?;
        let stopping = stop_on_signals(stops);
        let mode = Mode::Worker {
            state: config.state.clone(),
            hosts: config.allowed_hosts.clone(),
        };
        let open = wire.open(&mode).await.map_err(WorkerError::Wire)?;
        if open.ends_with_parent {
            end_with_parent()?;
        }
        let lock = match open.cells_lock {
            Some(lock) => lock,
            // The kernel kills the cells with this process, and no later process waits for them.
            None => File::open("/dev/null").map_err(system("open /dev/null"))?,
        };
        let watched = Watched::start(config, clock)?;
        let job_lines = config
            .prints_logs
            .then(|| JobLines::start(clock))
            .transpose()
            .map_err(system("start the thread of job logs"))?;
        let with = (&watched, job_lines.as_ref());
        let workers = Workers::start(config, program, lock, clock, with).await?;
        let ports = workers.ports(clock, &watched.metrics, stopping.clone());
        let mut serving = open.active.run(ports);
        let loaded = if open.runs_early {
            // Compiling may take longer than an orchestrator waits. So requests are accepted before it has
            // finished, and always answered in time.
            tokio::select! {
                ended = &mut serving => return ended.map_err(WorkerError::Wire),
                loaded = workers.load(&config.source) => loaded,
            }
        } else {
            // Other workers may take jobs in the meantime.
            tokio::select! {
                loaded = workers.load(&config.source) => loaded,
                () = stopping.cancelled() => return Ok(()),
            }
        };
        loaded?;
        workers.check(&open.needed_handlers)?;
        ready(&open.ready);
        // The kernel kills the cells with this process, and with them everything that still runs.
        let served = serving.await.map_err(WorkerError::Wire);
        watched.end().await;
        if let Some(lines) = job_lines {
            lines.end();
        }
        served
    });
    // Work that still blocks a thread no longer has a receiver.
    runtime.shutdown_background();
    served
}

/// Makes a runtime with one thread: for small jobs, switching threads would be the main cost.
fn runtime() -> Result<Runtime, WorkerError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(system("start the runtime"))
}

/// A worker's spans and metrics, which are exported only if a collector is configured.
struct Watched {
    metrics: Metrics,
    numbers: Numbers,
    spans: Option<Arc<dyn Spans>>,
    tasks: Tasks,
}

impl Watched {
    fn start(config: &WorkerConfig, clock: Clock) -> Result<Self, WorkerError> {
        let mut watched = Self {
            metrics: Metrics::default(),
            numbers: Numbers::default(),
            spans: None,
            tasks: Tasks::default(),
        };
        let numbers = &watched.numbers;
        watched
            .metrics
            .register(|registry| numbers.register(registry));
        if let Some(settings) = Settings::read(&config.environment)? {
            let (export, spans) = telemetry::open(settings, clock, &watched.metrics)?;
            let metrics = watched.metrics.clone();
            let collect: Collect = Arc::new(move || -> BoxFuture<'static, String> {
                let metrics = metrics.clone();
                Box::pin(async move { metrics.encode() })
            });
            let stopping = watched.tasks.stopping().clone();
            watched.tasks.spawn(export.run(collect, stopping));
            watched.spans = spans;
        }
        Ok(watched)
    }

    /// Sends the remaining spans to the collector.
    async fn end(&self) {
        self.tasks.stop();
        self.tasks.join().await;
    }
}

/// The cells of a worker, and the parts that give them work.
struct Workers {
    examiner: Examiner,
    handlers: Handlers,
    foreign: Foreign,
    loaded: CancellationToken,
}

impl Workers {
    /// Starts cells, which inherit `lock`. Work waits until [`Workers::load`] has finished.
    async fn start(
        config: &WorkerConfig,
        program: CellProgram,
        lock: File,
        clock: Clock,
        (watched, job_lines): (&Watched, Option<&JobLines>),
    ) -> Result<Self, WorkerError> {
        let cache = match &config.source {
            Source::Folder { cache, .. } => cache.clone(),
            Source::Data(data) => data.join("cache"),
        };
        let setup = Setup {
            program,
            cache,
            lock,
            cache_bytes_max: config.cache_bytes_max,
            slots: config.slots,
            memory_mib: config.memory_mib,
            environment: config.grantable.clone(),
            reach: config.reach.clone(),
            trust: config.trust.clone(),
        };
        let private = match &config.source {
            Source::Data(data) => data,
            Source::Folder { cache, .. } => cache,
        };
        config::check_roots(&setup.program.confinement, private).map_err(WorkerError::Grants)?;
        let examiner = Examiner::start(setup, Tasks::default())
            .await
            .map_err(WorkerError::Start)?;
        let watch = watched.numbers.requests(watched.spans.clone());
        examiner.cells.watch_requests(watch);
        let followed = files::follow_reach(&examiner.cells, &watched.tasks);
        followed.map_err(system("listen for SIGHUP"))?;
        let handlers = Handlers::default();
        let runs = RunBuilder::new(
            handlers.clone(),
            config.grantable.clone(),
            host_wires::chain_handlers(),
        );
        let (cell_says, events) = mpsc::channel(EVENTS_MAX);
        let loaded = CancellationToken::new();
        let shape = Shape {
            name: "cell",
            cells: config.cells,
            slots: config.slots,
            memory_bytes: config.memory_mib << 20,
            isolation: config.isolation,
        };
        let port = ProcessPort::new(examiner.cells.clone(), cell_says);
        // Cells start while the handlers are loaded.
        let (foreign, work) = Foreign::new(Wiring {
            clock,
            cells: CellExecutor::new(Pool::new(port, shape), runs),
            events,
            logs: None,
            fallback_logs: job_lines.map(JobLines::sink),
            history: None,
            numbers: watched.numbers.clone(),
            spans: watched.spans.clone(),
            eager: true,
            loaded: loaded.clone(),
            stopping: CancellationToken::new(),
        });
        Tasks::default().spawn(work);
        Ok(Self {
            examiner,
            handlers,
            foreign,
            loaded,
        })
    }

    /// Loads the handlers, then starts the work that has waited.
    async fn load(&self, source: &Source) -> Result<(), WorkerError> {
        load(source, &self.examiner, &self.handlers).await?;
        self.loaded.cancel();
        Ok(())
    }

    /// Checks that all these handlers are loaded.
    fn check(&self, needed: &[Name]) -> Result<(), WorkerError> {
        let missing = needed.iter().find(|name| self.handlers.get(name).is_none());
        missing.map_or(Ok(()), |name| Err(WorkerError::NoHandler(name.clone())))
    }

    fn ports(&self, clock: Clock, metrics: &Metrics, stopping: CancellationToken) -> Ports {
        let foreign = self.foreign.clone();
        Ports {
            clock: Arc::new(clock),
            counters: Arc::new(LoggedRefusals::new(metrics.clone())),
            execute: Arc::new(move || foreign.session()),
            leases: None,
            stopping,
        }
    }
}

/// Loads the handlers.
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

/// Makes the kernel send this process a signal when its parent is gone.
fn end_with_parent() -> Result<(), WorkerError> {
    let parent = getppid();
    set_parent_process_death_signal(Some(Signal::TERM))
        .map_err(io::Error::from)
        .map_err(system("ask to end with the parent process"))?;
    // The parent may have ended before the signal was set.
    if getppid() == parent {
        return Ok(());
    }
    let gone = io::Error::other("it has exited");
    Err(system("end with the parent process")(gone))
}

/// Returns a token that is cancelled by the first signal to stop. The second ends the process.
fn stop_on_signals(mut stops: Stops) -> CancellationToken {
    let stopping = CancellationToken::new();
    let asked = stopping.clone();
    Tasks::default().spawn(async move {
        stops.wait_for_stop().await;
        asked.cancel();
        // The thread that receives signals lives as long as this.
        std::future::pending::<()>().await;
    });
    stopping
}

fn system(operation: &'static str) -> impl Fn(io::Error) -> WorkerError {
    move |error| WorkerError::System { operation, error }
}
