//! The parts of a host and how they are connected: the dispatch loop over the store, its cells, the
//! cells for foreign work, the executors of the wires, and the state of the API.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::future::BoxFuture;
use host_cells::pool::executor::CellExecutor;
use host_cells::pool::{Pool, Shape};
use host_cells::process::{Cells, DeskConnection, ProcessPort};
use host_cells::run::build::RunBuilder;
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::broker::Secrets;
use host_cells::sandbox::spawn::CellProgram;
use host_core::cell::Protection;
use host_core::id::NodeId;
use host_core::policy::Retention;
use host_core::port::spans::Spans;
use host_dispatch::dispatch_loop::{self, EVENTS_MAX, PARAMS_BYTES_MAX, Phase};
use host_dispatch::foreign::{Foreign, History, KeptFor, Wiring};
use host_dispatch::lease_mail::LeaseService;
use host_dispatch::logged::Logs;
use host_dispatch::nodes::Presence;
use host_dispatch::numbers::Numbers;
use host_dispatch::readers::{READERS, Readers, SCANS};
use host_dispatch::{Dispatch, REQUESTS_MAX, Shared};
use host_engine::{Store, StoreError};
use host_http::budget::ByteBudget;
use host_http::route::RoutePorts;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_wire_kit::{OpenWire, Ports, STOP_TIME_MAX};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::listeners::{Addresses, Listeners};
use super::node::{Node, loop_channels};
use super::opening::{artifacts, check_clock, examiner, log_store, restore, store};
use super::{ServeError, executors, files, node, supervisor, system};
use crate::api::scrape::Scrape;
use crate::api::{Api, ServedApi};
use crate::artifacts::Artifacts;
use crate::auth::{ADMIN_TOKEN, Auth};
use crate::config::Config;
use crate::deploy::{self, Deployments};
use crate::executors::Executors;
use crate::logs::{self, ForeignLogs, JobLogs};
use crate::metrics::Metrics;
use crate::nodes::{self, Nodes};
use crate::retention::Retentions;
use crate::telemetry::{self, Collect, Settings};
use crate::{audit, configured, trends};

/// How many runs may wait to be received by the desk: more than there are slots.
const VISITS_MAX: usize = 16_384;

/// How long connections and cells may take to end after the last job.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long wires may take to end: a moment longer than they wait for their peers.
const WIRES_TIMEOUT: Duration = STOP_TIME_MAX.saturating_add(Duration::from_secs(2));

/// How long the process may need to end after the last job: longer than all parts together.
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(20);

/// A running host.
pub(super) struct Host {
    pub(super) tasks: Tasks,
    pub(super) deployments: Deployments,
    /// The tasks that accept work over wires. They end first.
    wires: Tasks,
    shared: Base,
    protection: Arc<Protection>,
    dispatch: Dispatch,
    executors: Executors,
    leases: LeaseService,
    /// Receives log lines of foreign workers. Closed before the logs are.
    foreign_logs: Arc<ForeignLogs>,
    job_logs: Arc<JobLogs>,
    artifacts: Artifacts,
    token_upload_bytes_max: u64,
    phase: watch::Sender<Phase>,
    ended: oneshot::Receiver<Result<(), StoreError>>,
    foreign: Foreign,
    foreign_ended: oneshot::Receiver<()>,
    log_writer: JoinHandle<()>,
    nodes: Arc<Nodes>,
    /// The membership among the nodes, if others can share the store.
    node: Option<Node>,
    auth: Auth,
    /// Receives runs that ask the desk, until the API does.
    visits: Mutex<Option<mpsc::Receiver<DeskConnection>>>,
    secrets: Secrets,
    /// Whether the dispatch loop ended with an error.
    has_failed: bool,
}

/// Shared by all parts.
struct Base {
    clock: Clock,
    runs: RunBuilder,
    logs: Logs,
    metrics: Metrics,
    numbers: Numbers,
}

impl Base {
    fn new(config: &Config, clock: Clock, logs: Logs) -> Self {
        let grantable = config.grantable.clone();
        let base = Self {
            clock,
            runs: RunBuilder::new(Handlers::default(), grantable, host_wires::chain_handlers()),
            logs,
            metrics: Metrics::default(),
            numbers: Numbers::default(),
        };
        base.metrics.register(|registry| {
            base.logs.register(registry);
            base.numbers.register(registry);
        });
        base
    }

    fn scrape(&self, dispatch: &Dispatch, executors: &Executors, nodes: &Arc<Nodes>) -> Scrape {
        Scrape {
            dispatch: dispatch.clone(),
            handlers: self.runs.handlers().clone(),
            executors: executors.clone(),
            nodes: Arc::clone(nodes) as _,
            clock: self.clock,
            numbers: self.numbers.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

impl Host {
    /// Opens the store and starts the parts. No wire accepts work yet.
    pub(super) async fn start(
        config: &Config,
        wires: &mut [OpenWire],
        program: CellProgram,
        cells_lock: File,
    ) -> Result<Self, ServeError> {
        let tasks = Tasks::default();
        let presence = nodes::presence(config, Clock::start().now());
        let (mut store, own, mut node) = store(config, &presence)?;
        let log_store = log_store(config).map_err(ServeError::Store)?;
        let examiner = examiner(config, program, cells_lock, &tasks).await?;
        let (logs, logged) = Logs::channel();
        let (job_logs, log_writer) = logs::spawn(log_store, logged, (logs.gaps(), logs.progress()))
            .map_err(ServeError::Store)?;
        let artifacts = artifacts(config, &*store)?;
        let clock = node.as_ref().map_or_else(Clock::start, Node::clock);
        store.limit(config.capacity, Arc::new(clock));
        check_clock(&*store, clock.now());
        let base = Base::new(config, clock, logs);
        let settings = Settings::read(&config.environment).map_err(ServeError::Telemetry)?;
        let telemetry = settings
            .map(|settings| telemetry::open(settings, base.clock, &base.metrics))
            .transpose()
            .map_err(ServeError::Telemetry)?;
        let (export, spans) = telemetry.unzip();
        let spans = spans.flatten();
        reach(&base, spans.clone(), (&examiner.cells, &*presence), &tasks)?;
        restore(&*store, base.runs.handlers(), &examiner).await?;
        deploy::report_runnable(&presence, base.runs.handlers());

        let (phase, entered) = watch::channel(Phase::Running);
        let foreign_logs = Arc::new(ForeignLogs::new(base.logs.clone()));
        let among = node.as_ref().map(|node| (own, node.secret()));
        let (shared, leases) = loop_channels(base.clock, among, Arc::clone(&presence));
        let of_host = (base.clock, &base.metrics, &leases, &foreign_logs, &tasks);
        let broker = examiner.cells.broker();
        let (executors, workers_end) = executors::start(config, wires, of_host, broker);
        executors.publish_to(&presence);
        let loops = LoopPorts {
            executors: executors.clone(),
            workers_end,
            leases: leases.clone(),
            shared,
            phase: entered,
            spans: spans.clone(),
            membership: node.as_mut(),
        };
        let (dispatch, ended, visits) =
            dispatch(config, (store, own), &base, &examiner.cells, loops)?;
        read_store(&dispatch, &leases, &artifacts, clock, &tasks);
        count(&base, &dispatch, &tasks);
        let auth = auth(config, &dispatch, base.clock, &tasks).await?;
        let applied = configured::apply(&dispatch, config, base.clock);
        applied.await.map_err(ServeError::Store)?;
        let handlers = base.runs.handlers().clone();
        let kept_for = kept_for(config.retentions.clone(), handlers.clone());
        let history = History::start(dispatch.clone(), &tasks, kept_for);
        base.metrics.register(|registry| history.register(registry));
        let foreign = Wiring {
            history: Some(history),
            spans,
            ..foreign(config, &base, &examiner.cells, &tasks)
        };
        let (foreign, foreign_ended) =
            Foreign::start(foreign).map_err(system("start the thread of foreign work"))?;
        let protection = Arc::clone(&examiner.protection);
        let secrets = examiner.cells.secrets().clone();
        let sharing = node::sharing(config, node.as_ref());
        let nodes = Arc::new(Nodes::new(own, dispatch.clone(), sharing));
        let (has_others, compiling) = (node.is_some(), (tasks.clone(), base.clock));
        let deployments =
            Deployments::new(dispatch.clone(), handlers, examiner, compiling, has_others);
        deployments.repair();
        if let Some(node) = &mut node {
            node.follow(&dispatch, &deployments, &tasks);
        }
        if let Some(export) = export {
            let scrape = base.scrape(&dispatch, &executors, &nodes);
            tasks.spawn(export.run(collect(scrape), tasks.stopping().clone()));
        }
        Ok(Self {
            deployments,
            tasks,
            wires: Tasks::default(),
            shared: base,
            protection,
            dispatch,
            executors,
            leases,
            foreign_logs,
            job_logs: Arc::new(job_logs),
            artifacts,
            token_upload_bytes_max: config.token_upload_bytes_max,
            phase,
            ended,
            foreign,
            foreign_ended,
            log_writer,
            nodes,
            node,
            auth,
            visits: Mutex::new(Some(visits)),
            secrets,
            has_failed: false,
        })
    }

    /// Makes all wires accept work.
    pub(super) fn run(&self, wires: Vec<OpenWire>) {
        let foreign = self.foreign.clone();
        let ports = Ports {
            clock: Arc::new(self.shared.clock),
            counters: Arc::new(self.shared.metrics.clone()),
            execute: Arc::new(move || foreign.session()),
            leases: Some(Arc::new(self.leases.clone())),
            stopping: self.wires.stopping().clone(),
        };
        for wire in wires {
            let running = wire.active.run(ports.clone());
            self.wires.spawn(async move {
                if let Err(error) = running.await {
                    tracing::error!(%error, "a wire stopped; the host continues without it");
                }
            });
        }
    }

    /// Serves the API.
    pub(super) fn listen(
        &self,
        listeners: Listeners,
        config: &Config,
    ) -> Result<Addresses, ServeError> {
        if let Some(address) = listeners.address() {
            self.listens(address);
        }
        let api = ServedApi::new(self.api(listeners.callbacks(), config), &self.tasks);
        let shown = (&self.shared.metrics, self.shared.clock);
        listeners.serve(&api, config, shown, &self.tasks)
    }

    /// Returns the state of the API, whose workers report at `callbacks`.
    fn api(&self, callbacks: Option<String>, config: &Config) -> Api {
        let ports = RoutePorts {
            callbacks,
            bodies: ByteBudget::default(),
            clock: Arc::new(self.shared.clock),
            stopping: self.tasks.stopping().clone(),
        };
        Api {
            dispatch: self.dispatch.clone(),
            handlers: self.shared.runs.handlers().clone(),
            clock: self.shared.clock,
            deployer: Arc::new(self.deployments.clone()),
            executors: self.executors.clone(),
            retentions: config.retentions.clone(),
            webhooks: config.webhooks.clone(),
            bodies: ports.bodies.clone(),
            outboxes: config.outboxes.clone(),
            wire_routes: config
                .wires
                .iter()
                .flat_map(|wire| wire.configured.routes(&ports))
                .collect(),
            nodes: Arc::clone(&self.nodes) as _,
            artifacts: self.artifacts.clone(),
            token_upload_bytes_max: self.token_upload_bytes_max,
            logs: Arc::clone(&self.job_logs) as _,
            metrics: self.shared.metrics.clone(),
            numbers: self.shared.numbers.clone(),
            auth: self.auth.clone(),
            two_people_for_grants: config.auth.two_people_for_grants,
            protection: Arc::clone(&self.protection),
            isolation: config.isolation,
            desk: self.visits.lock().take(),
            secrets: self.secrets.clone(),
            draining: self.wires.stopping().clone(),
            stopping: self.tasks.stopping().clone(),
        }
    }

    /// Publishes the address of the API to the other nodes.
    fn listens(&self, address: SocketAddr) {
        let presence = &self.dispatch.shared().presence;
        presence.update(|info| info.address = Some(address.to_string()));
    }

    /// Publishes the wires, by what each adds to the `ready` line.
    pub(super) fn serves(&self, words: &[(&'static str, String)]) {
        let keys: BTreeSet<&str> = words.iter().map(|(key, _)| *key).collect();
        let wires = keys.into_iter().map(str::to_owned).collect();
        let presence = &self.dispatch.shared().presence;
        presence.update(|info| info.wires = wires);
    }

    /// Starts to notify the supervisor that the host is alive.
    pub(super) fn keep_alive(&self) {
        let stopping = self.tasks.stopping().clone();
        let beats = supervisor::keep_alive(self.dispatch.clone(), stopping);
        self.tasks.spawn(beats);
    }

    /// Stores what is usually stored later, before the host begins to stop.
    pub(super) async fn store_rest(&self) {
        self.auth.store_rest().await;
    }

    /// Moves the dispatch loop to `phase`. In any phase after `Running`, wires accept no more work.
    pub(super) fn enter(&self, phase: Phase) {
        if phase > Phase::Running {
            self.wires.stop();
            if let Some(node) = &self.node {
                node.stop();
            }
        }
        self.phase.send_replace(phase);
    }

    /// Waits until the dispatch loop has ended. May be called once. Cancel safe.
    pub(super) async fn wait_for_end(&mut self) -> Result<(), ServeError> {
        let ended = match (&mut self.ended).await {
            Ok(ended) => ended.map_err(ServeError::Store),
            Err(_) => Err(ServeError::Broken),
        };
        self.has_failed = ended.is_err();
        ended
    }

    /// Ends the other parts when the dispatch loop has ended.
    pub(super) async fn join(self) {
        self.wires.stop();
        let wires = tokio::time::timeout(WIRES_TIMEOUT, self.wires.join()).await;
        // Heartbeats continue until all cells have ended. Then nothing is published any more.
        let joining = async {
            self.tasks.stop();
            // If the sender is gone without a report, foreign work has ended as well.
            let _ = self.foreign_ended.await;
            self.tasks.join().await;
        };
        let rest = tokio::time::timeout(JOIN_TIMEOUT, joining).await;
        let has_ended = !self.has_failed && rest.is_ok();
        if let Some(node) = self.node.filter(|_| has_ended) {
            // It reports why it failed.
            let _ = tokio::task::spawn_blocking(|| node.leave()).await;
        }
        if wires.is_err() || rest.is_err() {
            tracing::warn!("closing connections that did not end in time");
        }
        self.foreign_logs.close();
        drop(self.shared.logs);
        let written = tokio::task::spawn_blocking(move || self.log_writer.join());
        if !matches!(written.await, Ok(Ok(()))) {
            tracing::error!("the thread that writes logs has panicked; lines of jobs are lost");
        }
    }
}

/// Counts the requests of handlers and the memory of cells, and follows the files that handlers need.
fn reach(
    base: &Base,
    spans: Option<Arc<dyn Spans>>,
    (cells, presence): (&Cells, &Presence),
    tasks: &Tasks,
) -> Result<(), ServeError> {
    let memory = cells.memory();
    presence.complete_by(move |info| info.cell_memory_bytes = memory.bytes());
    cells.watch_requests(base.numbers.requests(spans));
    files::follow_reach(cells, tasks).map_err(system("listen for SIGHUP"))
}

/// Reads the tokens, makes the first if no token could make one, and follows their changes.
async fn auth(
    config: &Config,
    dispatch: &Dispatch,
    clock: Clock,
    tasks: &Tasks,
) -> Result<Auth, ServeError> {
    let auth = Auth::new(config.auth.mode, dispatch.clone(), clock);
    let file = config
        .auth
        .admin_token_file
        .clone()
        .unwrap_or_else(|| config.data.join(ADMIN_TOKEN));
    auth.start(&file).await.map_err(ServeError::FirstToken)?;
    tasks.spawn(auth.clone().run(tasks.stopping().clone()));
    audit::record_start(dispatch, &config.keys).await;
    let audit = config.audit.clone();
    tasks.spawn(audit::run(
        audit,
        config.data.clone(),
        dispatch.clone(),
        clock,
        tasks.stopping().clone(),
    ));
    Ok(auth)
}

/// Returns the retention of the history of foreign work.
fn kept_for(retentions: Retentions, handlers: Handlers) -> KeptFor {
    Arc::new(move |queue, handler| {
        let handler = handlers.get(handler);
        let choice = retentions.choose(queue, handler.as_deref());
        choice.over(Retention::default())
    })
}

/// Returns a function that reads all metrics for an export.
fn collect(scrape: Scrape) -> Collect {
    Arc::new(move || -> BoxFuture<'static, String> {
        let scrape = scrape.clone();
        Box::pin(async move {
            let text = scrape.text().await;
            text.unwrap_or_else(|_| scrape.metrics.encode())
        })
    })
}

/// Starts what reads the store for workers, and what removes files of artifacts that no job has.
fn read_store(
    dispatch: &Dispatch,
    leases: &LeaseService,
    artifacts: &Artifacts,
    clock: Clock,
    tasks: &Tasks,
) {
    let leases = leases.clone();
    tasks.spawn(leases.read_jobs(dispatch.clone(), tasks.stopping().clone()));
    let artifacts = artifacts.clone();
    tasks.spawn(artifacts.sweep(dispatch.clone(), clock, tasks.stopping().clone()));
}

/// Starts to count what handlers cost and how many jobs wait.
fn count(base: &Base, dispatch: &Dispatch, tasks: &Tasks) {
    let costs = base.numbers.costs().clone();
    tasks.spawn(costs.reload(dispatch.clone(), base.clock.now()));
    let (numbers, stopping) = (base.numbers.clone(), tasks.stopping().clone());
    tasks.spawn(trends::run(dispatch.clone(), numbers, base.clock, stopping));
}

/// The dispatch loop, the receiver of its result, and that of the runs that ask the desk.
type Dispatching = (
    Dispatch,
    oneshot::Receiver<Result<(), StoreError>>,
    mpsc::Receiver<DeskConnection>,
);

/// The connections of the dispatch loop to the rest of the host.
struct LoopPorts<'a> {
    executors: Executors,
    workers_end: DropGuard,
    leases: LeaseService,
    shared: Arc<Shared>,
    phase: watch::Receiver<Phase>,
    spans: Option<Arc<dyn Spans>>,
    /// This host among the nodes, if others may share the store.
    membership: Option<&'a mut Node>,
}

/// Starts the dispatch loop over the store.
fn dispatch(
    config: &Config,
    (store, node): (Box<dyn Store>, NodeId),
    base: &Base,
    cells: &Cells,
    LoopPorts {
        executors,
        workers_end,
        leases,
        shared,
        phase,
        spans,
        membership,
    }: LoopPorts<'_>,
) -> Result<Dispatching, ServeError> {
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    let open = |count| Readers::open(&*store, count).map_err(ServeError::Store);
    let (readers, scanners) = (open(READERS)?, open(SCANS)?);
    let (requests, asked) = mpsc::channel(REQUESTS_MAX);
    let dispatch = Dispatch::new(requests, readers, scanners, Arc::clone(&shared));
    let lifeline = membership.as_deref().map(Node::lifeline);
    let living = membership.as_deref().map(Node::living);
    let cells = match &lifeline {
        Some(lifeline) => cells.clone().until(Arc::clone(lifeline)),
        None => cells.clone(),
    };
    let (visit, visits) = mpsc::channel(VISITS_MAX);
    let cells = cells.with_desk(visit);
    let ended = dispatch_loop::spawn(dispatch_loop::Wiring {
        store,
        clock: base.clock,
        shared,
        cells: executor(config, base, "cell", ProcessPort::new(cells, sender)),
        is_configured: Box::new(move |executor| executors.has_kept(executor)),
        workers_end,
        leases,
        node,
        living: living.unwrap_or_default(),
        lifeline,
        others: membership.and_then(Node::loop_end),
        logs: base.logs.clone(),
        requests: asked,
        events,
        phase,
        stopping_ms: config.drain_ms,
        params_bytes_max: PARAMS_BYTES_MAX,
        numbers: base.numbers.clone(),
        spans,
    })
    .map_err(system("start the dispatch loop"))?;
    Ok((dispatch, ended, visits))
}

/// Describes what foreign work needs. Its cells start with the first job.
fn foreign(config: &Config, base: &Base, cells: &Cells, tasks: &Tasks) -> Wiring<ProcessPort> {
    let (sender, events) = mpsc::channel(EVENTS_MAX);
    // Wires are served only after all components are loaded.
    let loaded = CancellationToken::new();
    loaded.cancel();
    Wiring {
        clock: base.clock,
        cells: executor(
            config,
            base,
            "foreign",
            ProcessPort::new(cells.clone(), sender),
        ),
        events,
        logs: Some(base.logs.clone()),
        fallback_logs: None,
        history: None,
        numbers: base.numbers.clone(),
        spans: None,
        eager: false,
        loaded,
        stopping: tasks.stopping().clone(),
    }
}

/// Makes a pool of cells with the name `name` and the deployed components.
fn executor(
    config: &Config,
    base: &Base,
    name: &'static str,
    port: ProcessPort,
) -> CellExecutor<ProcessPort> {
    let shape = Shape {
        name,
        cells: config.cells,
        slots: config.slots,
        memory_bytes: config.memory_mib << 20,
        isolation: config.isolation,
    };
    CellExecutor::new(Pool::new(port, shape), base.runs.clone())
}
