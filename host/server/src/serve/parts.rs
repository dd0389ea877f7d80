//! The parts of a host and how they hang together: the dispatch loop over the store, the cells
//! below it, those of foreign work beside them, and what requests are answered from.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use host_core::handler::Digest;
use host_protocols::hero;
use host_protocols::rrq::WorkerPorts;
use host_store::logs::LogStore;
use host_store::sqlite::SqliteStore;
use host_store::{Store, StoreError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::hero::gate;
use super::{ServeError, system};
use crate::api::Api;
use crate::api::hero::Hero;
use host_cells::pool::{Pool, Shape};
use host_cells::process::{Cells, ProcessPort};
use host_cells::spawn::{CellProgram, Spawner};
use host_runtime::clock::Clock;
use crate::config::Config;
use host_dispatch::logged::Logs;
use host_dispatch::numbers::Numbers;
use host_dispatch::readers::{READERS, Readers};
use host_dispatch::runners::Crews;
use host_dispatch::writer::{self, EVENTS_MAX, PARAMS_BYTES_MAX, Phase};
use host_dispatch::{Dispatch, REQUESTS_MAX, Shared};
use host_dispatch::foreign::{Foreign, History, Wiring};
use host_cells::handlers::Handlers;
use host_cells::compile::Cache;
use crate::deploy::{self, Deployments};
use host_cells::examine::Examiner;
use crate::hero_logs::LogFiles;
use crate::logs::{self, JobLogs};
use crate::metrics::Metrics;
use crate::runners::{LanesConfig, Ports, Runners};
use host_runtime::tasks::Tasks;

/// How long connections and cells may take to be gone once no job runs any more.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// All parts of a running host.
pub(super) struct Parts {
    pub(super) tasks: Tasks,
    /// What takes work over other wires; it ends first.
    pub(super) wires: Tasks,
    pub(super) deployments: Deployments,
    base: Base,
    dispatch: Dispatch,
    runners: Runners,
    hero: Option<Hero>,
    job_logs: Arc<JobLogs>,
    phase: watch::Sender<Phase>,
    ended: oneshot::Receiver<Result<(), StoreError>>,
    foreign: Foreign,
    foreign_ended: oneshot::Receiver<()>,
    log_files: Option<LogFiles>,
    log_writer: JoinHandle<()>,
}

/// What the parts share.
struct Base {
    clock: Clock,
    handlers: Handlers,
    logs: Logs,
    metrics: Metrics,
    numbers: Numbers,
}

impl Parts {
    /// Opens the store and starts everything above and below it.
    pub(super) async fn start(
        config: &Config,
        lanes: Option<LanesConfig>,
        program: CellProgram,
        cells_lock: File,
    ) -> Result<Self, ServeError> {
        let tasks = Tasks::default();
        let store = SqliteStore::open(&config.data.join("host.db")).map_err(ServeError::Store)?;
        let log_store = LogStore::open_bounded(&config.data.join("logs.db"), config.log_bytes_max)
            .map_err(ServeError::Store)?;
        let examiner = examiner(config, program, cells_lock, &tasks)?;
        let (logs, logged) = Logs::channel();
        let (job_logs, log_writer) =
            logs::spawn(log_store, logged, logs.gaps()).map_err(ServeError::Store)?;
        let base = Base {
            clock: Clock::start(),
            handlers: Handlers::default(),
            logs,
            metrics: Metrics::default(),
            numbers: Numbers::default(),
        };
        base.metrics.register(|registry| {
            base.logs.register(registry);
            base.numbers.register(registry);
        });
        let reader = store.reader().map_err(ServeError::Store)?;
        let current = deploy::current(&*reader).map_err(ServeError::Store)?;
        sweep(
            &examiner,
            &deploy::kept(&*reader).map_err(ServeError::Store)?,
        );
        deploy::restore(&base.handlers, &examiner, current)
            .await
            .map_err(ServeError::Cache)?;

        let (phase, entered) = watch::channel(Phase::Running);
        let runners = runners(config, lanes, &base);
        let crews = crews(&runners, &tasks);
        let (dispatch, ended) = dispatch(config, store, &base, &examiner.cells, crews, entered)?;
        let history = History::start(dispatch.clone(), &tasks);
        base.metrics.register(|registry| history.register(registry));
        let log_files = log_files(config)?;
        let foreign = Wiring {
            history: Some(history),
            log_files: log_files.clone(),
            ..foreign(config, &base, &examiner.cells, &tasks)
        };
        let (foreign, foreign_ended) =
            Foreign::start(foreign).map_err(system("start the thread of foreign work"))?;
        let handlers = base.handlers.clone();
        Ok(Self {
            deployments: Deployments::new(dispatch.clone(), handlers, examiner, tasks.clone()),
            tasks,
            wires: Tasks::default(),
            base,
            dispatch,
            runners,
            hero: config.hero.as_ref().map(|hero| Hero {
                client: hero::client::live::Client::new(&hero.url),
                log_dir: hero.log_dir.clone(),
            }),
            job_logs: Arc::new(job_logs),
            phase,
            ended,
            foreign,
            foreign_ended,
            log_files,
            log_writer,
        })
    }

    /// Returns what the API at `listen` answers from.
    pub(super) fn api(&self, listen: SocketAddr) -> Api {
        Api {
            dispatch: self.dispatch.clone(),
            handlers: self.base.handlers.clone(),
            clock: self.base.clock,
            deployer: Arc::new(self.deployments.clone()),
            runners: self.runners.clone(),
            hero: self.hero.clone(),
            logs: Arc::clone(&self.job_logs) as _,
            metrics: self.base.metrics.clone(),
            listen,
            draining: self.wires.stopping().clone(),
            stopping: self.tasks.stopping().clone(),
        }
    }

    /// Lets jobs in Redis go on that wait for others, until wires take no work any more.
    pub(super) fn watch_gate(&self) {
        if let Some(Hero { client, .. }) = &self.hero {
            let stopping = self.wires.stopping().clone();
            let watched = gate::watch(client.clone(), self.base.clock, stopping);
            self.wires.spawn(watched);
        }
    }

    /// Returns what a wire's worker role needs.
    pub(super) fn worker_ports(&self, deadline_margin_ms: u64) -> WorkerPorts {
        WorkerPorts {
            executor: self.foreign.door(),
            clock: Arc::new(self.base.clock),
            counters: Arc::new(self.base.metrics.clone()),
            deadline_margin_ms,
        }
    }

    /// Returns what the worker role of Hero needs, for one worker id.
    pub(super) fn hero_ports(&self, news: Arc<dyn hero::News>) -> hero::WorkerPorts {
        hero::WorkerPorts {
            executor: self.foreign.door(),
            clock: Arc::new(self.base.clock),
            counters: Arc::new(self.base.metrics.clone()),
            news,
        }
    }

    /// Moves the dispatch loop on, and from the first step on lets wires take no work.
    pub(super) fn enter(&self, phase: Phase) {
        if phase > Phase::Running {
            self.wires.stop();
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
        let rest = async {
            self.wires.stop();
            self.wires.join().await;
            self.tasks.stop();
            // Gone without a word is gone too.
            let _gone = self.foreign_ended.await;
            self.tasks.join().await;
        };
        if tokio::time::timeout(JOIN_TIMEOUT, rest).await.is_err() {
            tracing::warn!("some connections do not end; they are cut");
        }
        if let Some(files) = &self.log_files {
            files.flush(JOIN_TIMEOUT).await;
        }
        self.runners.close_logs();
        drop(self.base.logs);
        let written = tokio::task::spawn_blocking(move || self.log_writer.join());
        if !matches!(written.await, Ok(Ok(()))) {
            tracing::error!("the thread that writes logs has panicked; lines of jobs are lost");
        }
    }
}

/// Starts the thread that starts cells, and opens the cache of what they execute.
fn examiner(
    config: &Config,
    program: CellProgram,
    cells_lock: File,
    tasks: &Tasks,
) -> Result<Examiner, ServeError> {
    let cache = config.data.join("cache");
    let cache = Cache::open(cache, program.clone()).map_err(ServeError::Cache)?;
    let spawner = Spawner::start(program, cells_lock).map_err(system("start the cells' thread"))?;
    Ok(Examiner {
        cache,
        cells: Cells::new(spawner, tasks.clone(), config.memory_mib),
        environment: config.environment.clone(),
    })
}

/// Removes compiled components that nobody needs; what cannot be removed stays.
fn sweep(examiner: &Examiner, kept: &BTreeSet<Digest>) {
    match examiner.cache.sweep(kept) {
        Ok(0) => {}
        Ok(files) => tracing::info!(files, "compiled components that nobody needs are removed"),
        Err(error) => tracing::warn!(%error, "the folder of compiled components is not swept"),
    }
}

/// The dispatch loop, and how it ended.
type Dispatching = (Dispatch, oneshot::Receiver<Result<(), StoreError>>);

/// Makes the pools of foreign runners and the lanes to workers.
fn runners(config: &Config, lanes: Option<LanesConfig>, base: &Base) -> Runners {
    let ports = Ports {
        clock: Arc::new(base.clock),
        counters: Arc::new(base.metrics.clone()),
        logs: base.logs.clone(),
    };
    let runners = Runners::new(config.runners.clone(), lanes, &ports);
    runners.register(&base.metrics);
    runners
}

/// Starts the foreign runners, for the dispatch loop to give them work and to end them.
fn crews(runners: &Runners, tasks: &Tasks) -> Crews {
    let stopping = CancellationToken::new();
    runners.run(tasks, &stopping);
    let inbox = Arc::clone(runners.inbox());
    Crews::new(runners.ports(), inbox, stopping).with(runners.more())
}

/// Starts the dispatch loop over the store.
fn dispatch(
    config: &Config,
    store: SqliteStore,
    base: &Base,
    cells: &Cells,
    runners: Crews,
    phase: watch::Receiver<Phase>,
) -> Result<Dispatching, ServeError> {
    let (cell_says, events) = mpsc::channel(EVENTS_MAX);
    let readers = (0..READERS).map(|_| store.reader());
    let readers = readers.collect::<Result<_, _>>();
    let readers = Readers::new(readers.map_err(ServeError::Store)?);
    let (requests, asked) = mpsc::channel(REQUESTS_MAX);
    let shared = Arc::new(Shared::default());
    let dispatch = Dispatch::new(requests, readers, Arc::clone(&shared));
    let ended = writer::spawn(writer::Wiring {
        store: Box::new(store),
        clock: base.clock,
        handlers: base.handlers.clone(),
        environment: config.environment.clone(),
        shared,
        pool: Pool::new(
            ProcessPort::new(cells.clone(), cell_says),
            shape(config, "cell"),
        ),
        runners,
        logs: base.logs.clone(),
        requests: asked,
        events,
        phase,
        drain_ms: config.drain_ms,
        params_bytes_max: PARAMS_BYTES_MAX,
        numbers: base.numbers.clone(),
    })
    .map_err(system("start the dispatch loop"))?;
    Ok((dispatch, ended))
}

/// Starts the thread that writes the log files of Hero's jobs, if there is a folder for them.
fn log_files(config: &Config) -> Result<Option<LogFiles>, ServeError> {
    let Some(path) = config.hero.as_ref().and_then(|hero| hero.log_dir.clone()) else {
        return Ok(None);
    };
    LogFiles::below(&path)
        .map(Some)
        .map_err(|error| ServeError::LogDir { path, error })
}

/// Says what foreign work takes; its cells start with the first of it.
fn foreign(config: &Config, base: &Base, cells: &Cells, tasks: &Tasks) -> Wiring<ProcessPort> {
    let (cell_says, events) = mpsc::channel(EVENTS_MAX);
    // Wires are served once all is deployed.
    let loaded = CancellationToken::new();
    loaded.cancel();
    Wiring {
        clock: base.clock,
        handlers: base.handlers.clone(),
        environment: config.environment.clone(),
        pool: Pool::new(
            ProcessPort::new(cells.clone(), cell_says),
            shape(config, "foreign"),
        ),
        events,
        logs: Some(base.logs.clone()),
        log_files: None,
        history: None,
        numbers: base.numbers.clone(),
        eager: false,
        loaded,
        stopping: tasks.stopping().clone(),
    }
}

fn shape(config: &Config, name: &'static str) -> Shape {
    Shape {
        name,
        cells: config.cells,
        slots: config.slots,
    }
}
