//! The HTTP API under `/api/v1`: its routes and what they share. Decides nothing about jobs: it
//! reads requests, sends commands to the dispatch loop, and returns what the store has.

mod actor;
mod artifacts;
mod audit;
mod batches;
mod causes;
mod components;
mod deployer;
mod desk;
mod enqueue;
mod error;
mod events;
mod filter;
mod handlers;
mod health;
mod job_id;
mod jobs;
mod limits;
mod logs;
mod many;
mod nodes;
mod one_line;
mod openapi;
pub mod ports;
pub mod problem;
mod queues;
mod routes;
mod runners;
mod schedules;
mod scoped;
pub mod scrape;
mod sessions;
mod state;
mod tokens;
mod trends;
mod uploads;
mod waiting;
mod webhooks;
mod wire_routes;

#[cfg(test)]
mod tests;

use std::sync::{Arc, LazyLock};

use axum::Router;
use bytes::Bytes;
use host_cells::pool::Isolation;
use host_cells::process::DeskConnection;
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::broker::Secrets;
use host_core::cell::Protection;
use host_dispatch::numbers::Numbers;
use host_dispatch::{Dispatch, SubmitError};
use host_engine::audit::Note;
use host_engine::{Ask, Reader, StoreError};
use host_http::budget::ByteBudget;
use host_http::door::Door;
use host_http::guard::AllowedHosts;
use host_http::route::Group;
use host_http::router;
use host_http::serve::{Accept, Transport};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use self::ports::{Deployer, Logs, Nodes};
use self::scrape::Scrape;
use crate::artifacts::Artifacts;
use crate::auth::Auth;
use crate::executors::Executors;
use crate::metrics::Metrics;
use crate::outbox::ConfiguredOutbox;
use crate::retention::Retentions;
use crate::webhooks::Webhooks;

/// How many event streams may be open at a time.
const STREAMS_MAX: usize = 256;

/// The parts of the host that the API uses.
pub struct Api {
    /// Accepts commands and queries.
    pub dispatch: Dispatch,
    /// The deployed handlers.
    pub handlers: Handlers,
    /// Returns host time.
    pub clock: Clock,
    /// Changes the deployed components.
    pub deployer: Arc<dyn Deployer>,
    /// The executors of foreign workers, and which jobs go to them.
    pub executors: Executors,
    /// How long jobs of queues are kept.
    pub retentions: Retentions,
    /// Where webhooks may go, and the webhooks of queues.
    pub webhooks: Webhooks,
    /// The memory budget for request bodies.
    pub bodies: ByteBudget,
    /// The databases of applications whose jobs are accepted.
    pub outboxes: Vec<ConfiguredOutbox>,
    /// The routes of wires.
    pub wire_routes: Vec<Group>,
    /// The nodes that share the store.
    pub nodes: Arc<dyn Nodes>,
    /// The files of artifacts.
    pub artifacts: Artifacts,
    /// How many bytes the uploads of one token may have.
    pub token_upload_bytes_max: u64,
    /// Reads the logs of jobs.
    pub logs: Arc<dyn Logs>,
    /// Counts requests and renders the metrics of all parts.
    pub metrics: Metrics,
    /// The numbers of the dispatch loop, and what handlers have cost.
    pub numbers: Numbers,
    /// Who may use the API.
    pub auth: Auth,
    /// Whether new grants need another principal than the one that deploys.
    pub two_people_for_grants: bool,
    /// How this system confines cells.
    pub protection: Arc<Protection>,
    /// Which jobs share a cell.
    pub isolation: Isolation,
    /// Receives runs that ask the desk, if cells run here.
    pub desk: Option<mpsc::Receiver<DeskConnection>>,
    /// The secrets that handlers may see.
    pub secrets: Secrets,
    /// Cancelled when the host starts no more jobs. It still answers until the running jobs have
    /// ended.
    pub draining: CancellationToken,
    /// Ends requests that wait and open event streams.
    pub stopping: CancellationToken,
}

impl Api {
    fn scrape(&self) -> Scrape {
        Scrape {
            dispatch: self.dispatch.clone(),
            handlers: self.handlers.clone(),
            executors: self.executors.clone(),
            nodes: Arc::clone(&self.nodes),
            clock: self.clock,
            numbers: self.numbers.clone(),
            metrics: self.metrics.clone(),
        }
    }
}

/// The state that all requests share.
struct ApiState {
    api: Api,
    streams: Arc<Semaphore>,
    line_requests: Arc<Semaphore>,
    uploads: Arc<Semaphore>,
    long_checks: enqueue::LongChecks,
    deploys: components::Deploys,
    /// The OpenAPI document.
    document: LazyLock<Bytes>,
}

type Shared = Arc<ApiState>;

impl ApiState {
    /// Reads the store.
    async fn read<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.api.dispatch.read(question).await
    }

    /// Submits a command, which is recorded in the same commit.
    async fn submit<A: Ask>(&self, command: A, note: Note) -> Result<A::Reply, SubmitError> {
        self.api.dispatch.submit(command.noted(note)).await
    }
}

/// How a listener serves the API.
#[derive(Clone, Debug)]
pub struct Doorway {
    /// The allowed Host headers.
    pub hosts: AllowedHosts,
    /// What it serves.
    pub doors: Arc<[Door]>,
    /// TLS, and the proxies in front.
    pub transport: Transport,
}

/// All routes of a host, which each listener serves in its way. What they share has one limit.
#[derive(Clone)]
pub struct ServedApi {
    groups: Vec<Group>,
    answers: ByteBudget,
    auth: Auth,
    bodies: ByteBudget,
    clock: Clock,
    metrics: Metrics,
    tasks: Tasks,
}

impl ServedApi {
    pub fn new(api: Api, tasks: &Tasks) -> Self {
        let (metrics, auth, clock) = (api.metrics.clone(), api.auth.clone(), api.clock);
        let bodies = api.bodies.clone();
        Self {
            groups: groups(api, tasks),
            answers: ByteBudget::default(),
            auth,
            bodies,
            clock,
            metrics,
            tasks: tasks.clone(),
        }
    }

    /// Returns what one listener serves.
    pub fn router(&self, doorway: &Doorway) -> Router {
        let serving = router::Serving {
            hosts: doorway.hosts.clone(),
            doors: Arc::clone(&doorway.doors),
            answers: self.answers.clone(),
            gate: Arc::new(self.auth.clone()),
            metrics: Arc::new(self.metrics.clone()),
            tasks: self.tasks.clone(),
        };
        let (mut groups, render) = (self.groups.clone(), host_http::problem::render);
        if doorway.doors.contains(&Door::Pages) {
            // Pages ask the API also where no one else may.
            let inside = router::Serving {
                doors: Arc::new([Door::Api]),
                ..serving.clone()
            };
            let api = router::router(groups.clone(), &inside, render);
            groups.push(host_web::group(
                api,
                Arc::new(self.clock),
                self.bodies.clone(),
            ));
        }
        router::router(groups, &serving, render)
    }

    /// Answers requests until the host stops.
    ///
    /// Cancel safe: accepts no more connections; open ones continue.
    pub async fn serve(self, listener: impl Accept, doorway: Doorway) {
        let (router, gate) = (self.router(&doorway), Arc::new(self.auth));
        let metrics = Arc::new(self.metrics);
        let always = &[host_api::path::HEALTH, host_api::path::READY];
        let transport = doorway.transport;
        let tasks = &self.tasks;
        host_http::serve::serve(listener, transport, router, gate, metrics, tasks, always).await;
    }
}

fn groups(mut api: Api, tasks: &Tasks) -> Vec<Group> {
    let mut groups = std::mem::take(&mut api.wire_routes);
    let visits = api.desk.take();
    let outboxes = std::mem::take(&mut api.outboxes);
    let shared = Shared::new(ApiState {
        api,
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        line_requests: Arc::new(Semaphore::new(enqueue::LINE_REQUESTS_MAX)),
        uploads: Arc::new(Semaphore::new(uploads::UPLOADS_MAX)),
        long_checks: enqueue::LongChecks::default(),
        deploys: components::Deploys::default(),
        document: LazyLock::new(|| openapi::render(&routes::list())),
    });
    if let Some(visits) = visits {
        tasks.spawn(desk::serve(Shared::clone(&shared), visits, tasks.clone()));
    }
    let draining = shared.api.draining.clone();
    let outbox_numbers = host_outbox::Numbers::default();
    let registered = |registry: &mut _| outbox_numbers.register(registry);
    shared.api.metrics.register(registered);
    for ConfiguredOutbox { outbox, source } in outboxes {
        let offers = enqueue::Offers {
            shared: Shared::clone(&shared),
            source: Arc::new(source),
            tasks: tasks.clone(),
        };
        tasks.spawn(host_outbox::drain(
            outbox,
            Arc::new(offers),
            outbox_numbers.clone(),
            draining.clone(),
        ));
    }
    tasks.spawn(schedules::firing::run(Shared::clone(&shared), draining));
    let own = routes::list().into_iter();
    groups.push(Group {
        prefix: "/",
        render: host_http::problem::render,
        routes: own
            .map(|route| route.with_state(Shared::clone(&shared)))
            .collect(),
    });
    groups
}
