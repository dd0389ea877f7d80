//! The routes: `POST /dispatch`, and `GET /health`.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_core::access::Access;
use host_core::port::Counters;
use host_http::budget::ByteBudget;
use host_http::door::DOORS;
use host_http::gate::NoGate;
use host_http::guard::AllowedHosts;
use host_http::metrics::Uncounted;
use host_http::refusal::Refusal;
use host_http::route::{Group, Route};
use host_http::router::{Serving, router};
use host_http::serve::{self, Transport};
use host_runtime::tasks::Tasks;
use serde_json::json;

use super::Bound;
use super::host::WorkerHub;
use super::order::Order;
use super::session::{DispatchEnd, Worker};
use crate::NAME;
use crate::messages::Secret;
use crate::refusals::Code;
use crate::settings::WorkerConfig;

/// The largest dispatch, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

const SECRET: &str = "x-arco-dispatch-secret";

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    hub: Arc<WorkerHub>,
    config: Arc<WorkerConfig>,
    counters: Arc<dyn Counters>,
    bodies: ByteBudget,
}

/// Serves dispatches until `http` stops.
pub(super) async fn serve(
    bound: Bound,
    hub: Arc<WorkerHub>,
    counters: Arc<dyn Counters>,
    (http, own): (&Tasks, &Tasks),
) {
    let shared = Shared {
        hub,
        config: Arc::new(bound.config),
        counters,
        bodies: ByteBudget::default(),
    };
    let router = routes(&shared, bound.address, own);
    let (plain, uncounted) = (Transport::default(), Arc::new(Uncounted));
    let gate = Arc::new(NoGate::default());
    serve::serve(
        bound.listener,
        plain,
        router,
        gate,
        uncounted,
        http,
        &["/health"],
    )
    .await;
}

fn routes(shared: &Shared, address: SocketAddr, own: &Tasks) -> axum::Router {
    let serving = Serving {
        hosts: AllowedHosts::loopback_and(address).and_proxies(&shared.config.hosts),
        doors: DOORS.into(),
        answers: ByteBudget::default(),
        gate: Arc::new(NoGate::default()),
        metrics: Arc::new(Uncounted),
        tasks: own.clone(),
    };
    let routes: [Route<Shared>; 2] = [
        // A task that has begun continues without its requester.
        Route::post(Access::Proof, "/dispatch", dispatch)
            .long_running()
            .ends_with_client(),
        Route::get(Access::Open, "/health", health),
    ];
    let group = Group {
        prefix: "/",
        render,
        routes: routes.map(|it| it.with_state(shared.clone())).into(),
    };
    router(vec![group], &serving, render)
}

fn render(refusal: &Refusal) -> Response {
    text(refusal.status(), refusal.to_string())
}

fn text(status: StatusCode, words: impl Into<Body>) -> Response {
    (status, words.into()).into_response()
}

/// Asks the control plane to send the dispatch again.
fn again(words: &'static str) -> Response {
    let second = [(RETRY_AFTER, "1")];
    (second, text(StatusCode::SERVICE_UNAVAILABLE, words)).into_response()
}

async fn health(State(shared): State<Shared>) -> Response {
    let (running, most, is_stopping) = shared.hub.inspect(Worker::load);
    let status = if is_stopping { "stopping" } else { "ok" };
    let body = json!({"status": status, "running": running, "concurrency": most});
    let code = if is_stopping {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    };
    (code, Json(body)).into_response()
}

async fn dispatch(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = shared.bodies.read(&parts, body, BODY_BYTES_MAX).await;
    if !is_authorized(&parts.headers, &shared.config.secret) {
        shared.count(Code::DispatchAuth);
        return text(
            StatusCode::UNAUTHORIZED,
            "missing or invalid dispatch authorization",
        );
    }
    let body = match body {
        Ok(body) => body,
        Err(refusal) => {
            shared.count(Code::Envelope);
            return render(&refusal);
        }
    };
    let order = match Order::read(&body.bytes, &shared.config.origins) {
        Ok(order) => order,
        Err(refused) => {
            shared.count(refused.code);
            return text(StatusCode::BAD_REQUEST, refused.message);
        }
    };
    match shared.hub.request(order).await {
        Some(DispatchEnd::Over) => text(StatusCode::OK, "ok"),
        Some(DispatchEnd::Refused(status)) => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            format!("the control plane refused a callback: {status}"),
        ),
        Some(DispatchEnd::Stopping) => again("the worker is stopping"),
        Some(DispatchEnd::Running) => again("this dispatch is still running"),
        Some(DispatchEnd::Full) => again("the worker is at capacity"),
        Some(DispatchEnd::NotBegun) | None => again("the task could not be started"),
    }
}

impl Shared {
    fn count(&self, code: Code) {
        self.counters.refused(NAME, code.as_str());
    }
}

fn is_authorized(headers: &HeaderMap, secret: &Secret) -> bool {
    let one = |name: &str| {
        let mut all = headers.get_all(name).iter();
        let value = all.next()?.as_bytes();
        all.next().is_none().then_some(value)
    };
    let presented = one(SECRET).or_else(|| {
        let value = one(AUTHORIZATION.as_str())?;
        let (scheme, rest) = value.split_at_checked("bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
    });
    presented.is_some_and(|presented| secret.matches(presented))
}
