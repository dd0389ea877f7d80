//! Two groups of routes: one uses problem documents, the other has its own error format.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Request as HttpRequest};
use axum::response::{IntoResponse as _, Response};
use axum::{Extension, Router};
use futures_util::future::BoxFuture;
use host_core::access::Access;
use host_runtime::tasks::Tasks;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::Value;

use crate::budget::ByteBudget;
use crate::door::DOORS;
use crate::extract::{EmptyBody, InQuery, TextInPath, small_body_or_default};
use crate::gate::{AccessRecord, Caller, Gate, NoGate};
use crate::guard::AllowedHosts;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::places::Places;
use crate::problem::{self, Problem};
use crate::query::page_limit;
use crate::refusal::Refusal;
use crate::route;
use crate::route::{Group, Route};
use crate::router::{Serving, router};
use crate::serve::{Admitted, Served, Transport};

/// A timeout longer than any answer takes.
pub(super) const SOON: Duration = Duration::from_mins(1);

/// The largest body that `/api/echo` accepts, and the length of `/api/large`, in bytes.
pub(super) const ECHO_BYTES_MAX: usize = 1_000;
pub(super) const LARGE_BYTES: usize = 4 << 20;

/// The recorded counts.
#[derive(Debug, Default)]
pub(super) struct Counted {
    pub(super) answered: Mutex<Vec<(&'static str, &'static str, u16)>>,
    pub(super) open: Mutex<i32>,
    pub(super) failed_handshakes: Mutex<usize>,
}

impl Metrics for Counted {
    fn count_response(
        &self,
        method: &'static str,
        path: &'static str,
        status: u16,
        _took: Duration,
    ) {
        let mut answered = self.answered.lock().unwrap();
        answered.push((method, path, status));
    }

    fn connection_opened(&self) {
        *self.open.lock().unwrap() += 1;
    }

    fn connection_closed(&self) {
        *self.open.lock().unwrap() -= 1;
    }

    fn handshake_failed(&self) {
        *self.failed_handshakes.lock().unwrap() += 1;
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListQuery {
    limit: Option<u32>,
}

async fn echo(State(bodies): State<ByteBudget>, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let read = bodies.read(&parts, body, ECHO_BYTES_MAX).await?;
    Ok(read.bytes.into_response())
}

#[utoipa::path(post, path = "/api/touch/{name}", request_body = Option<EmptyBody>, responses())]
async fn touch(
    State(bodies): State<ByteBudget>,
    TextInPath(name): TextInPath,
    request: Request,
) -> Result<String, Problem> {
    let EmptyBody {} = small_body_or_default(&bodies, request).await?;
    Ok(name)
}

#[utoipa::path(put, path = "/api/file", request_body = String, responses())]
async fn keep() -> &'static str {
    "kept"
}

async fn list(InQuery(query): InQuery<ListQuery>) -> Result<String, Problem> {
    Ok(page_limit(query.limit)?.to_string())
}

async fn peer(Extension(peer): Extension<Peer>) -> String {
    format!("{peer:?}")
}

/// Renders a refusal in the format of the second group.
fn plain(refusal: &Refusal) -> Response {
    (refusal.status(), format!("plain: {refusal}")).into_response()
}

fn groups() -> Vec<Group> {
    let bodies = ByteBudget::default();
    let api = [
        Route::get(Access::Open, "/api/ping", || async { "pong" }),
        Route::get(Access::Open, "/api/peer", peer),
        Route::get(Access::Open, "/api/stuck", pending::<&str>),
        Route::get(Access::Open, "/api/wait", pending::<&str>).long_running(),
        Route::get(Access::Open, "/api/large", || async {
            "x".repeat(LARGE_BYTES)
        }),
        Route::get(Access::Open, "/api/list", list),
        Route::post(Access::Open, "/api/echo", echo),
        route!(Access::Open, self::touch),
        route!(Access::Open, self::keep).takes(&["application/wasm", "text/plain"]),
    ]
    .map(|route| route.with_state(bodies.clone()));
    let other = vec![
        Route::get(Access::Open, "/api/other/stuck", pending::<&str>),
        Route::post(Access::Open, "/api/other/any", || async { "taken" }).takes(&[]),
    ];
    vec![
        Group {
            prefix: "/api",
            render: problem::render,
            routes: api.into(),
        },
        Group {
            prefix: "/api/other",
            render: plain,
            routes: other,
        },
    ]
}

pub(super) fn serving(metrics: &Arc<Counted>) -> Serving {
    let listen = SocketAddr::from(([127, 0, 0, 9], 7700));
    Serving {
        hosts: AllowedHosts::loopback_and(listen).and_proxies(&["jobs.example".to_owned()]),
        doors: DOORS.into(),
        answers: ByteBudget::default(),
        gate: Arc::new(NoGate::default()),
        metrics: Arc::clone(metrics) as Arc<dyn Metrics>,
        tasks: Tasks::default(),
    }
}

/// Lets everybody in, and keeps what it is told of: of denials who, what, and the status; of requests to record what.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) everybody: NoGate,
    pub(super) denials: Mutex<Vec<(String, String, u16)>>,
    pub(super) requests: Mutex<Vec<String>>,
    /// Whether requests cannot be kept.
    pub(super) is_full: bool,
}

impl Gate for Recorded {
    fn admit(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal> {
        self.everybody.admit(peer, headers)
    }

    fn records_denials(&self) -> bool {
        true
    }

    fn denied(&self, asked: &AccessRecord<'_>, status: u16) {
        let address = asked.peer.address.map(|address| address.to_string());
        let who = asked.principal.map(|it| it.name.clone()).or(address);
        let what = format!("{} {}", asked.method, asked.path);
        let denial = (who.unwrap_or_default(), what, status);
        self.denials.lock().unwrap().push(denial);
    }

    fn record(&self, asked: &AccessRecord<'_>) -> BoxFuture<'static, bool> {
        let what = format!("{} {}", asked.method, asked.path);
        self.requests.lock().unwrap().push(what);
        let is_kept = !self.is_full;
        Box::pin(async move { is_kept })
    }
}

/// Serves all routes without TLS.
pub(super) fn served(metrics: &Arc<Counted>) -> Served {
    Served {
        transport: Transport::default(),
        router: app(metrics),
        gate: Arc::new(NoGate::default()),
        metrics: Arc::clone(metrics) as _,
        always: &["/api/list"],
    }
}

/// Admits a connection to a listener that has room.
pub(super) fn admitted() -> Admitted {
    Admitted {
        place: Arc::new(Places::new(1).take(None).unwrap()),
        is_reserved: false,
    }
}

pub(super) fn app(metrics: &Arc<Counted>) -> Router {
    router(groups(), &serving(metrics), problem::render)
}

/// An answer, with its body as JSON if it is JSON.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

/// Sends a request with these headers and reads the complete answer.
pub(super) async fn send(
    router: &Router,
    method: &str,
    uri: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Answer {
    let mut request = HttpRequest::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::from(body.to_owned())).unwrap();
    let service = TowerToHyperService::new(router.clone());
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let text = String::from_utf8(bytes.to_vec()).unwrap();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_str(&text).unwrap_or_default(),
        text,
    }
}

impl Answer {
    /// Checks that the answer is a problem document with this status and code, and returns its
    /// detail.
    pub(super) fn fails(&self, status: u16, code: &str) -> &str {
        assert_eq!(
            (self.status, self.body["code"].as_str()),
            (status, Some(code)),
            "{self:?}"
        );
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["type"], format!("urn:host:problem:{code}"));
        assert!(self.body["title"].is_string() && self.body["next"].is_string());
        self.body["detail"].as_str().unwrap()
    }
}
