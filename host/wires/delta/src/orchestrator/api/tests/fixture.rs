//! The router over the model, and a runner that speaks to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use futures_util::FutureExt as _;
use host_core::id::{JobId, NodeId};
use host_core::policy::Policy;
use host_core::port::lease::Leases;
use host_http::budget::ByteBudget;
use host_http::door::DOORS;
use host_http::gate::NoGate;
use host_http::guard::AllowedHosts;
use host_http::metrics::Uncounted;
use host_http::problem;
use host_http::route::RoutePorts;
use host_http::router::{Serving, router};
use host_runtime::tasks::Tasks;
use host_testing::{LeaseHost, Refusals, TestClock};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::task::yield_now;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::orchestrator::api::routes;
use crate::orchestrator::{Pools, launched};
use crate::settings::Tokens;
use crate::settings::{DeltaConfig, PoolConfig, Times};

/// Nothing in a test takes as long.
pub(super) const BOUND: Duration = Duration::from_mins(1);

pub(super) const TIMES: Times = Times {
    lease_ttl: 120,
    heartbeat_interval: 20,
    ack: 30,
    cancel_deadline: 30,
    max_runtime: 30,
};

/// The first node of a pair.
const FIRST: NodeId = NodeId(Uuid::from_u128(1));

/// A host with the pools `ci` (os:linux) and `gpu`.
pub(super) struct Host {
    pub(super) model: Arc<LeaseHost>,
    refusals: Arc<Refusals>,
    pub(super) pools: Arc<Pools>,
    pub(super) router: Router,
    pub(super) stopping: CancellationToken,
}

/// An answer, with its body as JSON if it is some.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

pub(super) fn config() -> DeltaConfig {
    let pool = |name: &str, capabilities: &[&str]| PoolConfig {
        name: name.parse().unwrap(),
        origin: format!("host.toml: protocol.delta.runners.{name}"),
        capabilities: capabilities.iter().map(|tag| (*tag).to_owned()).collect(),
        launch: None,
    };
    let mut tokens = Tokens::default();
    for (token, pool) in [("ci-token", 0), ("ci-second", 0), ("gpu-token", 1)] {
        assert!(tokens.add(token, pool));
    }
    DeltaConfig {
        times: TIMES,
        pools: vec![pool("ci", &["os:linux"]), pool("gpu", &[])],
        tokens,
    }
}

impl Host {
    pub(super) fn start() -> Self {
        Self::on(LeaseHost::new(), config())
    }

    /// The host again, after a restart with the same store.
    pub(super) fn restart(self) -> Self {
        self.model.restart();
        Self::on(self.model, config())
    }

    pub(super) fn on(model: Arc<LeaseHost>, config: DeltaConfig) -> Self {
        let node = model.first();
        Self::at(model, &(node as _), config)
    }

    /// Two nodes with one store.
    pub(super) fn pair() -> [Self; 2] {
        Self::pair_on(config)
    }

    pub(super) fn pair_on(config: impl Fn() -> DeltaConfig) -> [Self; 2] {
        let model = LeaseHost::new();
        [FIRST, NodeId(Uuid::from_u128(2))].map(|id| {
            let node = model.node(id);
            Self::at(Arc::clone(&model), &(node as _), config())
        })
    }

    /// The first node of a pair again, after it was killed.
    pub(super) fn again(self) -> Self {
        let node = self.model.node(FIRST);
        Self::at(self.model, &(node as _), config())
    }

    fn at(model: Arc<LeaseHost>, node: &Arc<dyn Leases>, config: DeltaConfig) -> Self {
        let refusals = Refusals::of(crate::NAME);
        let pools = Pools::at(&model, node, &refusals, config);
        let taken_over = launched::take_over(&pools, node).now_or_never();
        taken_over.expect("the host in memory answers immediately");
        let stopping = CancellationToken::new();
        let listen = SocketAddr::from(([127, 0, 0, 1], 7700));
        let ports = RoutePorts {
            callbacks: Some(format!("http://{listen}")),
            bodies: ByteBudget::default(),
            clock: Arc::<TestClock>::clone(&model.clock),
            stopping: stopping.clone(),
        };
        let serving = Serving {
            hosts: AllowedHosts::loopback_and(listen),
            doors: DOORS.into(),
            answers: ByteBudget::default(),
            gate: Arc::new(NoGate::default()),
            metrics: Arc::new(Uncounted),
            tasks: Tasks::default(),
        };
        let groups = vec![routes(Arc::clone(&pools), ports)];
        Self {
            model,
            refusals,
            pools,
            router: router(groups, &serving, problem::render),
            stopping,
        }
    }

    pub(super) fn refused(&self) -> Vec<&'static str> {
        self.refusals.codes.borrow().clone()
    }

    /// Accepts a job of the pool `ci`.
    pub(super) fn enqueue(&self) -> JobId {
        self.enqueue_with(TIMES.policy())
    }

    /// Accepts a job of the pool `ci` with a time limit of an hour.
    pub(super) fn enqueue_long(&self) -> JobId {
        self.enqueue_with(Policy {
            timeout_ms: Some(3_600_000),
            ..TIMES.policy()
        })
    }

    fn enqueue_with(&self, policy: Policy) -> JobId {
        let params = r#"{"steps":["make"]}"#;
        self.model
            .enqueue(("ci", "unit-tests"), params, policy, &[])
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let body = Body::from(body.into());
        self.send_body(method, path, headers, body).await
    }

    pub(super) async fn send_body(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).unwrap();
        let service = TowerToHyperService::new(self.router.clone());
        let answered = timeout(BOUND, service.call(request)).await;
        let (parts, body) = answered.expect("an answer").unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Sends a message of a runner of the pool `ci`.
    pub(super) async fn post(&self, path: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.post_as("ci-token", path, body).await
    }

    pub(super) async fn post_as(
        &self,
        token: &str,
        path: &str,
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
        ];
        let path = format!("/api/v1/internal/{path}");
        self.send("POST", &path, &headers, body).await
    }

    /// Leases the next job of the pool `ci` and returns the lease id.
    pub(super) async fn lease(&self, runner: &str) -> String {
        let granted = self.ask(runner, &["os:linux"]).await.is(200);
        assert_eq!(granted["type"], "LeaseGranted");
        granted["lease_id"].as_str().unwrap().to_owned()
    }

    pub(super) async fn ask(&self, runner: &str, tags: &[&str]) -> Answer {
        let ask = json!({"runner_id": runner, "capabilities": tags, "wait_seconds": 0});
        self.post("lease", ask.to_string()).await
    }

    pub(super) async fn ack(&self, lease: &str, runner: &str) -> Answer {
        let ack = json!({"type": "AckLease", "lease_id": lease, "runner_id": runner});
        self.post("ack-lease", ack.to_string()).await
    }

    pub(super) async fn heartbeat(&self, lease: &str, runner: &str) -> Answer {
        let beat = json!({"type": "Heartbeat", "lease_id": lease, "runner_id": runner});
        self.post("heartbeat", beat.to_string()).await
    }

    pub(super) async fn complete(&self, lease: &str, runner: &str, status: &str) -> Answer {
        let end = json!({
            "type": "Complete", "lease_id": lease, "runner_id": runner, "status": status,
            "summary": "what happened",
        });
        self.post("complete", end.to_string()).await
    }

    pub(super) async fn cancel_ack(&self, lease: &str, runner: &str) -> Answer {
        let end = json!({
            "type": "CancelAck", "lease_id": lease, "runner_id": runner,
            "final_status": "CANCELED", "summary": "stopped",
        });
        self.post("cancel-ack", end.to_string()).await
    }

    pub(super) async fn log(&self, lease: &str, runner: &str, offset: u64, text: &str) -> Answer {
        let path = format!("/api/v1/internal/logs?runner_id={runner}&offset={offset}");
        let headers = [
            ("authorization", "Bearer ci-token"),
            ("x-delta-lease", lease),
            ("content-type", "text/plain"),
        ];
        self.send("PUT", &path, &headers, text).await
    }

    /// Waits until so many requests wait for a job.
    pub(super) async fn until_waiting(&self, requests: usize) {
        let waiting = async {
            while self.model.waiting() != requests {
                yield_now().await;
            }
        };
        timeout(BOUND, waiting).await.expect("they wait");
    }
}

impl Answer {
    /// Checks the status and returns the body.
    #[track_caller]
    pub(super) fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        self.body
    }

    /// Checks that it is a refusal with this code, and returns its message.
    #[track_caller]
    pub(super) fn refused(&self, status: u16, code: &str) -> &str {
        let found = (self.status, self.body["error"]["code"].as_str());
        assert_eq!(found, (status, Some(code)), "{self:?}");
        assert_eq!(self.body["type"], "Error");
        self.body["error"]["message"].as_str().unwrap()
    }

    /// Checks that it is the answer to a stale lease.
    #[track_caller]
    pub(super) fn stale(&self, lease: &str, reason: &str) {
        let expected = json!({
            "type": "StaleLease", "lease_id": lease, "reason": reason,
            "extend_lease": false, "stale": true,
            "error": {"code": "STALE_LEASE", "message": self.body["error"]["message"]},
        });
        assert_eq!((self.status, &self.body), (409, &expected), "{self:?}");
    }
}
