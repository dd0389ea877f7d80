//! The HTTP API under `/api/v1`: its routes and what they share. Decides nothing about jobs: it
//! reads requests, gives commands to the dispatch loop and shows what the store answers.

mod components;
mod deployer;
mod enqueue;
mod error;
mod events;
mod handlers;
mod health;
mod job_id;
mod jobs;
mod logs;
mod openapi;
pub mod ports;
pub mod problem;
mod queues;
mod routes;
mod runners;
mod view;
mod wire_routes;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use host_cells::handlers::Handlers;
use host_dispatch::Dispatch;
use host_http::budget::ByteBudget;
use host_http::guard::AllowedHosts;
use host_http::route::Group;
use host_http::router;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::ports::{Deployer, Logs};
use crate::executors::Executors;
use crate::metrics::Metrics;

/// How many streams of events may be open at once.
const STREAMS_MAX: usize = 256;

/// What the API answers from.
pub struct Api {
    /// Takes commands and questions.
    pub dispatch: Dispatch,
    /// What is deployed.
    pub handlers: Handlers,
    /// Tells host time.
    pub clock: Clock,
    /// Changes what is deployed.
    pub deployer: Arc<dyn Deployer>,
    /// Executors behind which foreign workers stand, and which jobs are theirs.
    pub executors: Executors,
    /// The memory for bodies of requests.
    pub bodies: ByteBudget,
    /// The routes of wires.
    pub wire_routes: Vec<Group>,
    /// Reads what jobs have logged.
    pub logs: Arc<dyn Logs>,
    /// Counts requests, and shows the numbers of all parts.
    pub metrics: Metrics,
    /// Where it listens: requests may name this address in their Host header.
    pub listen: SocketAddr,
    /// The host starts no jobs any more, though it answers until those that run have ended.
    pub draining: CancellationToken,
    /// Ends requests that wait or listen.
    pub stopping: CancellationToken,
}

/// What requests share.
#[derive(Clone)]
struct Shared {
    api: Arc<Api>,
    streams: Arc<Semaphore>,
}

/// Makes the API.
pub fn router(mut api: Api) -> Router {
    let serving = router::Serving {
        hosts: AllowedHosts::loopback_and(api.listen),
        answers: ByteBudget::default(),
        metrics: Arc::new(api.metrics.clone()),
    };
    let mut groups = std::mem::take(&mut api.wire_routes);
    let shared = Shared {
        api: Arc::new(api),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
    };
    let own = routes::all().into_iter();
    groups.push(Group {
        prefix: "/",
        render: host_http::problem::render,
        routes: own.map(|route| route.with_state(shared.clone())).collect(),
    });
    router::router(groups, &serving, host_http::problem::render)
}

/// Answers requests until the host stops.
///
/// Cancel safe: no further connection is accepted, those that are open go on.
pub async fn serve(listener: TcpListener, state: Api, tasks: &Tasks) {
    let metrics = Arc::new(state.metrics.clone());
    host_http::serve::serve(listener, router(state), metrics, tasks).await;
}
