//! A control plane, and the worker `spark` that the test plays.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request};
use host_core::cell::LogLine;
use host_core::id::JobId;
use host_core::policy::Policy;
use host_core::port::JobLogs;
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
use host_testing::{KeptLogs, LeaseAudit, LeaseHost, Refusals, TestClock};
use host_wire_kit::Ports;
use host_wire_kit::executors::Executors as _;
use host_wire_kit::session::Session as _;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::messages::Secret;
use crate::orchestrator::session::Orchestrator;
use crate::orchestrator::workers::Answers;
use crate::orchestrator::{Remote, Role};
use crate::settings::{OrchestratorConfig, RemoteWorker, Times};
use crate::tests::peer::{BOUND, Incoming, Peer};
use crate::token::Tokens;
use crate::token::key::Keys;

pub(crate) const KEY: &[u8] = b"0123456789abcdef0123456789abcdef";

pub(crate) const TIMES: Times = Times {
    heartbeat_interval_ms: 30_000,
    heartbeat_timeout_ms: 90_000,
    cancel_grace_ms: 20_000,
    token_ttl_seconds: 3_600,
};

impl Incoming {
    pub(crate) fn text(&self, field: &str) -> String {
        self.body[field].as_str().unwrap().to_owned()
    }

    /// Returns the task of a dispatch.
    pub(crate) fn task(&self) -> Task {
        Task {
            id: self.text("taskId"),
            token: self.text("taskToken"),
            attempt: self.body["attempt"].as_u64().unwrap(),
        }
    }
}

impl Peer {
    /// Waits for a dispatch.
    pub(crate) async fn dispatched(&self) -> Incoming {
        let dispatch = self.next().await;
        assert_eq!(dispatch.path, "/dispatch");
        dispatch
    }
}

/// What a worker knows of a task.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) token: String,
    pub(crate) attempt: u64,
}

/// An answer to a callback.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// Checks a refusal and returns its body.
    pub(crate) fn refused(&self, status: u16, error: &str) -> &Value {
        let found = (self.status, self.body["error"].as_str());
        assert_eq!(found, (status, Some(error)), "{self:?}");
        let message = self.body["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("{error}: ")), "{message}");
        &self.body
    }

    pub(crate) fn ok(&self) -> &Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.body["acknowledged"], true);
        assert!(self.body["serverTime"].is_string(), "{self:?}");
        &self.body
    }
}

/// How a plane is set up.
pub(crate) struct Setup {
    pub(crate) url: String,
    pub(crate) in_flight_max: usize,
    pub(crate) keys: Keys,
    pub(crate) times: Times,
    pub(crate) secret: &'static str,
    /// What workers call back, if not this host.
    pub(crate) public_url: Option<String>,
}

impl Setup {
    pub(crate) fn to(worker: SocketAddr) -> Self {
        Self {
            url: format!("http://{worker}"),
            in_flight_max: 2,
            keys: Keys::new(KEY, None).unwrap(),
            times: TIMES,
            secret: "s3cret",
            public_url: None,
        }
    }

    /// A plane whose worker is not there.
    pub(crate) fn nowhere() -> Self {
        Self::to(SocketAddr::from(([127, 0, 0, 1], 9)))
    }
}

/// A control plane that runs.
pub(crate) struct Plane {
    pub(crate) model: Arc<LeaseHost>,
    pub(crate) role: Arc<Role>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) tokens: Tokens,
    audit: Arc<LeaseAudit>,
    pub(crate) router: Router,
    tasks: Tasks,
}

impl Plane {
    /// Starts a plane on a host that may have jobs already.
    pub(crate) fn start(setup: &Setup, model: &Arc<LeaseHost>) -> Self {
        let worker = RemoteWorker {
            url: setup.url.parse().unwrap(),
            secret: Some(Secret(setup.secret.to_owned())),
            in_flight_max: setup.in_flight_max,
        };
        let config = OrchestratorConfig {
            workers: BTreeMap::from([("spark".parse().unwrap(), worker)]),
            origins: Vec::new(),
            public_url: setup.public_url.as_ref().map(|url| url.parse().unwrap()),
            keys: None,
            times: setup.times,
        };
        let role = Arc::new(Role::new(&config));
        let listen = SocketAddr::from(([127, 0, 0, 1], 7_700));
        let clock: Arc<TestClock> = Arc::clone(&model.clock);
        let groups = role.routes(&RoutePorts {
            callbacks: Some(format!("http://{listen}")),
            bodies: ByteBudget::default(),
            clock: Arc::<TestClock>::clone(&clock),
            stopping: CancellationToken::new(),
        });
        let serving = Serving {
            hosts: AllowedHosts::loopback_and(listen),
            doors: DOORS.into(),
            answers: ByteBudget::default(),
            gate: Arc::new(NoGate::default()),
            metrics: Arc::new(Uncounted),
            tasks: Tasks::default(),
        };
        let audit = LeaseAudit::new(model.first());
        let refusals = Refusals::of(crate::NAME);
        let tasks = Tasks::default();
        let ports = Ports {
            clock,
            counters: Arc::<Refusals>::clone(&refusals),
            execute: Arc::new(|| unreachable!("the control plane executes nothing")),
            leases: None,
            stopping: tasks.stopping().clone(),
        };
        let tokens = Tokens::new(&setup.keys);
        let logs: Arc<dyn JobLogs> = Arc::<KeptLogs>::clone(&model.logs);
        let leases: Arc<dyn Leases> = Arc::<LeaseAudit>::clone(&audit);
        role.start(&ports, (leases, Some(logs)), tokens.clone());
        tasks.spawn(Arc::clone(&role).run(tasks.stopping().clone()));
        Self {
            model: Arc::clone(model),
            role,
            refusals,
            tokens,
            audit,
            router: router(groups, &serving, problem::render),
            tasks,
        }
    }

    /// Waits until `spark` is as `is_it` says.
    pub(super) async fn until(&self, is_it: impl Fn(&Answers) -> bool) {
        let spark = "spark".parse().unwrap();
        let hub = self.role.hub.get().unwrap();
        let reached = hub.until(|session| is_it(&session.worker(&spark).unwrap().0));
        timeout(BOUND, reached).await.unwrap();
    }

    /// Waits until all dispatches are answered.
    pub(super) async fn until_answered(&self) {
        let hub = self.role.hub.get().unwrap();
        let answered = hub.until(|session| session.dispatches.is_empty());
        timeout(BOUND, answered).await.unwrap();
    }

    /// Passes the time until a dispatch that failed is sent again.
    pub(crate) async fn pass_backoff(&self) {
        let hub = self.role.hub.get().unwrap();
        let waits =
            |session: &Orchestrator| session.dispatches.is_empty() && session.wakeup().is_some();
        timeout(BOUND, hub.until(waits)).await.unwrap();
        let due = hub.inspect(Orchestrator::wakeup).unwrap();
        let now = host_core::port::Clock::now(&*self.model.clock);
        self.model.clock.pass(due.0 - now.0);
        hub.pass_time();
    }

    /// The rules of a job for `spark` that sets a time limit of 30 s.
    pub(crate) fn policy(&self) -> Policy {
        Policy {
            timeout_ms: Some(30_000),
            ..Remote(Arc::clone(&self.role)).rules().policy
        }
    }

    pub(crate) fn enqueue(&self) -> JobId {
        self.enqueue_with(&[])
    }

    pub(crate) fn enqueue_with(&self, attributes: &[(&str, &str)]) -> JobId {
        let params = r#"{"partition":"date=2026-01-01"}"#;
        let to = ("spark", "analytics.daily_sales");
        self.model.enqueue(to, params, self.policy(), attributes)
    }

    pub(crate) async fn call(&self, task: &Task, verb: &str, body: &Value) -> Answer {
        let path = format!("/v1/tasks/{}/{verb}", task.id);
        self.send(
            &path,
            &[("authorization", &format!("Bearer {}", task.token))],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn started(&self, task: &Task) -> Answer {
        let body = json!({"attempt": task.attempt, "workerId": "w-1", "startedAt": "2020-01-01T00:00:00Z"});
        self.call(task, "started", &body).await
    }

    pub(crate) async fn heartbeat(&self, task: &Task) -> Answer {
        let body = json!({"attempt": task.attempt, "workerId": "w-1"});
        self.call(task, "heartbeat", &body).await
    }

    pub(crate) async fn completed(&self, task: &Task, more: Value) -> Answer {
        let mut body = json!({"attempt": task.attempt, "workerId": "w-1"});
        for (key, value) in more.as_object().unwrap() {
            body[key] = value.clone();
        }
        self.call(task, "completed", &body).await
    }

    pub(crate) async fn send(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Vec<u8>>,
    ) -> Answer {
        let mut request = Request::post(path).header("host", "127.0.0.1:7700");
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.into())).unwrap();
        let service = TowerToHyperService::new(self.router.clone());
        let (parts, body) = service.call(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: serde_json::from_slice(&bytes).unwrap_or_default(),
        }
    }

    /// Returns the log of a job.
    pub(super) fn logged(&self, id: JobId) -> Vec<LogLine> {
        self.model.logs.of(id)
    }

    /// Uploads the log of a task, as a worker does with its API key.
    pub(crate) async fn log(&self, run: &str, key: Option<&str>, body: &Value) -> Answer {
        let path = format!("/api/v1/workspaces/default/runs/{run}/logs");
        let bearer = key.map(|key| format!("Bearer {key}"));
        let headers: Vec<_> = bearer
            .iter()
            .map(|it| ("authorization", it.as_str()))
            .collect();
        self.send(&path, &headers, body.to_string()).await
    }

    /// Stops the plane. Tasks at workers continue.
    pub(crate) async fn stop(self) {
        self.tasks.stop();
        timeout(BOUND, self.tasks.join()).await.unwrap();
        self.audit.assert_kept();
    }
}

/// A plane with its worker.
pub(crate) struct World {
    pub(crate) plane: Plane,
    pub(crate) spark: Peer,
}

impl World {
    pub(crate) async fn start() -> Self {
        let spark = Peer::start().await;
        let model = LeaseHost::new();
        let plane = Plane::start(&Setup::to(spark.address), &model);
        Self { plane, spark }
    }

    /// Enqueues a job and takes its dispatch, which is answered immediately.
    pub(crate) async fn dispatched(&self) -> (JobId, Task) {
        let id = self.plane.enqueue();
        (id, self.taken().await)
    }

    /// Takes a dispatch and answers it.
    pub(crate) async fn taken(&self) -> Task {
        let dispatch = self.spark.dispatched().await;
        let task = dispatch.task();
        dispatch.answer(200, &[], "ok");
        task
    }

    /// Enqueues a job that its worker begins.
    pub(crate) async fn begun(&self) -> (JobId, Task) {
        let (id, task) = self.dispatched().await;
        self.plane.started(&task).await.ok();
        (id, task)
    }

    pub(crate) async fn stop(self) {
        self.plane.stop().await;
        self.spark.stop().await;
    }
}
