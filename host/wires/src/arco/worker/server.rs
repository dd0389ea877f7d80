//! Where dispatches come in: `POST /dispatch`, and `GET /health` for those who want to know.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use host_http::budget::ByteBudget;
use host_http::guard::AllowedHosts;
use host_http::metrics::Metrics;
use host_http::refusal::Refusal;
use host_http::route::{Group, Route};
use host_http::router::{Serving, router};
use host_runtime::tasks::Tasks;
use serde_json::json;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::memory::Seen;
use super::order::{Order, Unread};
use super::outbox::{Left, Outbox};
use super::run::Done;
use super::{Bound, Worker};
use crate::arco::refusals::Code;
use crate::wire::Ports;

/// The largest dispatch, in bytes.
const BODY_BYTES_MAX: usize = 16 << 20;

/// How long runs may take to end when the worker stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(1_900);

const SECRET: &str = "x-arco-dispatch-secret";

/// What the handlers share.
#[derive(Clone)]
struct Shared {
    worker: Arc<Worker>,
    bodies: ByteBudget,
}

/// Metrics count callbacks and refusals; requests to this listener are not counted one by one.
struct Uncounted;

impl Metrics for Uncounted {
    fn answered(&self, _method: &'static str, _path: &'static str, _status: u16, _: Duration) {}
    fn connection_opened(&self) {}
    fn connection_closed(&self) {}
}

/// Serves dispatches until the host stops. What still runs is then stopped and reported.
pub(in crate::arco) async fn serve(bound: Bound, ports: Ports) {
    let (outbox, left) = match opened(&bound).await {
        Ok(opened) => opened,
        Err(error) => {
            tracing::error!(%error, "the ends of tasks cannot be kept on disk; a restart may lose them");
            (None, Left::default())
        }
    };
    // What is about to be reported is not executed again.
    let reported = left.pending.iter().map(|pending| pending.key.clone());
    let finished = left.finished.into_iter().chain(reported).collect();
    let worker = Arc::new(Worker::new(&bound, &ports, outbox, finished));
    for pending in left.pending {
        let sender = Arc::clone(&worker);
        worker
            .tasks
            .spawn(async move { sender.deliver(pending).await });
    }
    let http = Tasks::default();
    let serving = host_http::serve::serve(
        bound.listener,
        routes(&worker, bound.address),
        Arc::new(Uncounted),
        &http,
    );
    tokio::select! {
        () = serving => {}
        () = ports.stopping.cancelled() => {}
    }
    worker.tasks.stop();
    let ended = async {
        worker.tasks.join().await;
        http.stop();
        http.join().await;
    };
    if timeout(STOP_TIMEOUT, ended).await.is_err() {
        tracing::warn!("some tasks do not end; they are cut");
    }
}

/// Opens the folder for ends of tasks, if this worker has one.
async fn opened(bound: &Bound) -> io::Result<(Option<Outbox>, Left)> {
    let Some(folder) = bound.folder.clone() else {
        return Ok((None, Left::default()));
    };
    let opened = tokio::task::spawn_blocking(move || Outbox::open(&folder));
    let (outbox, left) = opened.await.map_err(io::Error::other)??;
    Ok((Some(outbox), left))
}

fn routes(worker: &Arc<Worker>, address: std::net::SocketAddr) -> axum::Router {
    let shared = Shared {
        worker: Arc::clone(worker),
        bodies: ByteBudget::default(),
    };
    let serving = Serving {
        hosts: AllowedHosts::loopback_and(address),
        answers: ByteBudget::default(),
        metrics: Arc::new(Uncounted),
        tasks: worker.tasks.clone(),
    };
    let routes: [Route<Shared>; 2] = [
        // A task that has begun is one of the worker's own, and goes on.
        Route::post("/dispatch", dispatch)
            .long_running()
            .ends_with_client(),
        Route::get("/health", health),
    ];
    let group = Group {
        prefix: "/",
        render,
        routes: routes.map(|it| it.with_state(shared.clone())).into(),
    };
    router(vec![group], &serving, render)
}

fn render(refusal: &Refusal) -> Response {
    text(refusal.status().as_u16(), refusal.to_string())
}

fn text(status: u16, words: impl Into<Body>) -> Response {
    let mut response = Response::new(words.into());
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response
}

fn again(words: &'static str) -> Response {
    let mut response = text(503, words);
    let second = HeaderValue::from_static("1");
    response.headers_mut().insert(RETRY_AFTER, second);
    response
}

async fn health(State(shared): State<Shared>) -> Response {
    let (running, most) = shared.worker.memory.load();
    let is_stopping = shared.worker.tasks.stopping().is_cancelled();
    let status = if is_stopping { "stopping" } else { "ok" };
    let body = json!({"status": status, "running": running, "concurrency": most});
    crate::arco::refusals::json(if is_stopping { 503 } else { 200 }, &body)
}

async fn dispatch(State(shared): State<Shared>, request: Request) -> Response {
    let worker = &shared.worker;
    let (parts, body) = request.into_parts();
    let body = match shared
        .bodies
        .read(&parts.headers, body, BODY_BYTES_MAX)
        .await
    {
        Ok(body) => body,
        Err(refusal) => {
            worker.count(Code::Envelope);
            return render(&refusal);
        }
    };
    if !is_authorized(&parts.headers, worker.config.secret.expose()) {
        worker.count(Code::DispatchAuth);
        return text(401, "missing or invalid dispatch authorization");
    }
    let order = match Order::read(&body.bytes, &worker.config.origins) {
        Ok(order) => order,
        Err(unread) => {
            let (code, words) = match unread {
                Unread::Envelope(words) => (Code::Envelope, words),
                Unread::Origin(words) => (Code::Origin, words),
            };
            worker.count(code);
            return text(400, words);
        }
    };
    if worker.tasks.stopping().is_cancelled() {
        return again("the worker is stopping");
    }
    match worker.memory.see(&order.key) {
        Seen::New => executed(worker, order).await,
        Seen::Finished => text(200, "ok"),
        Seen::Running => {
            worker.count(Code::Busy);
            again("this dispatch is still executing")
        }
        Seen::Full => {
            worker.count(Code::Busy);
            again("the worker has no room")
        }
    }
}

/// Executes a task and answers when it has ended. It goes on if the requester leaves.
async fn executed(worker: &Arc<Worker>, order: Order) -> Response {
    let (told, done) = oneshot::channel();
    let runner = Arc::clone(worker);
    worker.tasks.spawn(async move {
        let done = runner.run(&order).await;
        runner.memory.end(&order.key, done == Done::Over);
        // The requester may have gone.
        let _gone = told.send(done);
    });
    match done.await {
        Ok(Done::Over) => text(200, "ok"),
        Ok(Done::Refused(status)) => text(500, format!("the callbacks are refused: {status}")),
        Ok(Done::NotBegun) | Err(_) => again("the task did not begin"),
    }
}

/// Compares the secret in constant time: by digests.
fn is_authorized(headers: &HeaderMap, secret: &str) -> bool {
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
    presented.is_some_and(|presented| {
        let (ours, theirs) = (Sha256::digest(secret.as_bytes()), Sha256::digest(presented));
        bool::from(ours.as_slice().ct_eq(theirs.as_slice()))
    })
}
