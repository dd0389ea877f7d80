//! The HTTP API under `/api/v1`: its routes and what they share. Decides nothing about jobs: it
//! reads requests, gives commands to the dispatch loop and shows what the store answers.

mod body;
mod components;
mod deployer;
mod enqueue;
mod events;
mod extract;
mod guard;
mod handlers;
mod health;
pub mod hero;
mod jobs;
mod json;
mod logs;
mod openapi;
mod patient;
pub mod ports;
pub mod problem;
mod queues;
mod routes;
mod runners;
mod serve;
mod view;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::body::Room;
use self::guard::Gate;
use self::hero::Hero;
use self::ports::{Deployer, Logs};
use self::problem::{Code, Problem};
use crate::executors::Executors;
use crate::metrics::Metrics;
use host_cells::handlers::Handlers;
use host_dispatch::Dispatch;
use host_runtime::clock::Clock;

pub use self::body::{COMPONENT_BYTES_MAX, JOBS_BYTES_MAX, MANIFEST_BYTES_MAX};
pub use self::serve::serve;

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
    /// Jobs of Hero dispatchers, `None` if no Redis is configured.
    pub hero: Option<Hero>,
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
    room: Room,
    answers: Room,
    streams: Arc<Semaphore>,
    hosts: Arc<[String]>,
}

/// Makes the API.
pub fn router(state: Api) -> Router {
    let hosts = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned);
    let listen = match state.listen {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let shared = Shared {
        api: Arc::new(state),
        room: Room::default(),
        answers: Room::default(),
        streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        hosts: hosts.into_iter().chain([listen]).collect(),
    };
    let mut router = Router::new();
    for route in routes::all() {
        let gate = Gate::new(&shared, &route);
        let call = route
            .call
            .route_layer(from_fn_with_state(gate, guard::guard));
        router = router.route(route.path, call);
    }
    router
        .fallback(|| async { Problem::new(Code::NotFound, "the API has no such path") })
        .method_not_allowed_fallback(|method: Method| async move {
            let detail = format!("this path does not take the method {method}");
            Problem::new(Code::MethodNotAllowed, detail)
        })
        .with_state(shared)
}
