//! An HTTP server that a test plays: a worker, or a control plane.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_runtime::tasks::Tasks;
use http_body_util::BodyExt as _;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::timeout;

/// Nothing in a test takes as long.
pub(crate) const BOUND: Duration = Duration::from_mins(1);

/// A request that the test answers.
pub(crate) struct Incoming {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
    reply: oneshot::Sender<Response>,
}

impl Incoming {
    /// Returns whether its sender still waits for the answer.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    /// Answers the request. Its sender may not wait for it any more.
    pub(crate) fn answer(
        self,
        status: u16,
        headers: &[(&'static str, &str)],
        body: &(impl ToString + ?Sized),
    ) {
        let status = StatusCode::from_u16(status).unwrap();
        let mut response = (status, body.to_string()).into_response();
        for (name, value) in headers {
            response.headers_mut().insert(*name, value.parse().unwrap());
        }
        let _ = self.reply.send(response);
    }
}

/// The server.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    requests: Mutex<mpsc::Receiver<Incoming>>,
    tasks: Tasks,
}

async fn receive(State(sender): State<mpsc::Sender<Incoming>>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let (reply, answer) = oneshot::channel();
    let incoming = Incoming {
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: serde_json::from_slice(&body).unwrap(),
        reply,
    };
    let _ = sender.send(incoming).await;
    let unanswered = StatusCode::INTERNAL_SERVER_ERROR.into_response();
    answer.await.unwrap_or(unanswered)
}

impl Peer {
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    pub(crate) fn on(listener: TcpListener) -> Self {
        let address = listener.local_addr().unwrap();
        let (sender, requests) = mpsc::channel(64);
        let tasks = Tasks::default();
        let stopping = tasks.stopping().clone();
        tasks.spawn(async move {
            let serving = axum::serve(listener, Router::new().fallback(receive).with_state(sender));
            tokio::select! {
                _ = serving => {}
                () = stopping.cancelled() => {}
            }
        });
        Self {
            address,
            requests: Mutex::new(requests),
            tasks,
        }
    }

    /// Waits for a request.
    pub(crate) async fn next(&self) -> Incoming {
        let mut requests = self.requests.lock().await;
        let request = timeout(BOUND, requests.recv()).await;
        request.expect("a request").unwrap()
    }

    /// Returns whether a request has come.
    pub(crate) async fn has_more(&self) -> bool {
        self.requests.lock().await.try_recv().is_ok()
    }

    pub(crate) async fn stop(&self) {
        self.tasks.stop();
        self.tasks.join().await;
    }
}
