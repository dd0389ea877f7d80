//! The routes behind their guards, over a Redis that is not there.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use host_http::budget::ByteBudget;
use host_http::door::DOORS;
use host_http::gate::NoGate;
use host_http::guard::AllowedHosts;
use host_http::metrics::Uncounted;
use host_http::problem;
use host_http::route::RoutePorts;
use host_http::router::{Serving, router};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::client::api::{Source, routes};
use crate::client::live::Client;
use crate::transport::url::RedisUrl;

/// A host that answers requests about Hero jobs.
pub(super) struct Host {
    pub(super) router: Router,
}

/// An answer, with its body as JSON if it is some.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Value,
}

impl Host {
    pub(super) fn without_redis() -> Self {
        Self::new(None)
    }

    pub(super) fn with_redis(url: &str, log_dir: Option<&Path>) -> Self {
        Self::new(Some(Source {
            client: Client::new(&RedisUrl::parse(url).unwrap()),
            log_dir: log_dir.map(Path::to_owned),
        }))
    }

    fn new(source: Option<Source>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 7700));
        let ports = RoutePorts {
            callbacks: Some(format!("http://{listen}")),
            bodies: ByteBudget::default(),
            clock: Arc::new(Clock::start()),
            stopping: CancellationToken::new(),
        };
        let serving = Serving {
            hosts: AllowedHosts::loopback_and(listen),
            doors: DOORS.into(),
            answers: ByteBudget::default(),
            gate: Arc::new(NoGate::default()),
            metrics: Arc::new(Uncounted),
            tasks: Tasks::default(),
        };
        let groups = vec![routes(source, ports)];
        Self {
            router: router(groups, &serving, problem::render),
        }
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).header("host", "localhost");
        call(&self.router, request.body(Body::empty()).unwrap()).await
    }

    pub(super) async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        let body = body.into().into_bytes();
        self.send("POST", path, "application/json", body).await
    }

    pub(super) async fn send(&self, method: &str, path: &str, kind: &str, body: Vec<u8>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost")
            .header("content-type", kind);
        call(&self.router, request.body(Body::from(body)).unwrap()).await
    }
}

/// Sends a request and reads all of the answer.
pub(super) async fn call(router: &Router, request: Request<Body>) -> Answer {
    let service = TowerToHyperService::new(router.clone());
    let (parts, body) = service.call(request).await.unwrap().into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    Answer {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    }
}

impl Answer {
    /// Checks that it is a problem document with this status and code, and returns its detail.
    pub(super) fn refused(&self, status: u16, code: &str) -> &str {
        let found = (self.status, self.body["code"].as_str());
        assert_eq!(found, (status, Some(code)), "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        self.body["detail"].as_str().unwrap()
    }
}
