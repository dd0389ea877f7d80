//! A worker, a sandbox and a control plane for tests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_core::failure::FailureKind;
use host_core::outcome::{Meter, Outcome, Progress};
use host_core::port::{Clock as _, Stop};
use host_runtime::tasks::Tasks;
use host_testing::ExecuteAudit;
use host_testing::{FakeExecutor, Refusals, Run, TestClock};
use host_wire_kit::Ports;
use host_wire_kit::http_client::{Answer, BaseUrl, HttpClient, Post};
use host_wire_kit::session::Session as _;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::messages::Secret;
use crate::settings::WorkerConfig;
use crate::tests::peer::{BOUND, Incoming, Peer};
use crate::worker::Bound;
use crate::worker::host::WorkerHub;
use crate::worker::session::Worker;

/// A sandbox in memory: `hang` is halfway and runs until it is stopped, `fail` fails, `busy` finds no room, others
/// return their params.
fn sandbox() -> Arc<FakeExecutor> {
    FakeExecutor::new(|job, reply| match job.handler.as_str() {
        "hang" => {
            let message = "half".to_owned();
            reply.progressed(Progress {
                percent: Some(50.0),
                message,
            });
            Run::Hangs
        }
        "busy" => Run::Busy,
        "fail" => Run::fails(FailureKind::FuelExhausted, "no fuel left"),
        _ => {
            let result = Some(job.params.clone());
            let meter = Meter {
                fuel: 5,
                cpu_us: 2_000,
                peak_memory_bytes: 65_536,
            };
            Run::Ends(Outcome::Completed { result }, meter)
        }
    })
}

impl Incoming {
    /// Acknowledges a callback; the answer to a heartbeat says whether to stop.
    pub(crate) fn acknowledge(self, should_cancel: bool) {
        let body = json!({
            "acknowledged": true,
            "shouldCancel": should_cancel,
            "serverTime": "2027-01-15T08:00:00Z",
        });
        self.answer(200, &[], &body);
    }

    pub(crate) fn verb(&self) -> &str {
        self.path.rsplit('/').next().unwrap()
    }
}

impl Peer {
    /// Waits for a callback of this kind and returns it unanswered.
    pub(crate) async fn expect(&self, verb: &str) -> Incoming {
        let callback = self.next().await;
        assert_eq!(callback.verb(), verb, "{}", callback.body);
        callback
    }
}

/// A worker that serves.
pub(crate) struct World {
    pub(crate) plane: Arc<Peer>,
    pub(crate) sandbox: Arc<FakeExecutor>,
    pub(crate) refusals: Arc<Refusals>,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) url: BaseUrl,
    pub(crate) audit: Arc<ExecuteAudit>,
    hub: Arc<WorkerHub>,
    client: HttpClient,
    tasks: Tasks,
}

/// The answer to a dispatch, which comes later.
pub(crate) type DispatchReply = oneshot::Receiver<(u16, Option<Duration>, String)>;

impl World {
    pub(crate) async fn start() -> Self {
        Self::start_with(Arc::new(Peer::start().await), None, 2).await
    }

    pub(crate) async fn start_with(
        plane: Arc<Peer>,
        folder: Option<&Path>,
        concurrency: usize,
    ) -> Self {
        let origin = plane.address;
        Self::start_towards(plane, origin, folder, concurrency).await
    }

    /// Starts a worker whose callbacks may go to `origin`.
    pub(crate) async fn start_towards(
        plane: Arc<Peer>,
        origin: SocketAddr,
        folder: Option<&Path>,
        concurrency: usize,
    ) -> Self {
        let origin: BaseUrl = format!("http://{origin}").parse().unwrap();
        let config = WorkerConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            secret: Secret("dsecret".to_owned()),
            origins: vec![origin.origin().clone()],
            concurrency,
            logs_token: None,
            hosts: vec!["tasks.example".to_owned()],
        };
        Self::start_as(plane, folder.map(PathBuf::from), config).await
    }

    pub(crate) async fn start_as(
        plane: Arc<Peer>,
        folder: Option<PathBuf>,
        config: WorkerConfig,
    ) -> Self {
        let bound = Bound::bind(&config, folder).await.unwrap();
        let url = format!("http://{}", bound.address).parse().unwrap();
        let sandbox = sandbox();
        let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&sandbox));
        let execute = Arc::clone(&audit);
        let (refusals, clock) = (Refusals::of(crate::NAME), Arc::new(TestClock::default()));
        let tasks = Tasks::default();
        let ports = Ports {
            clock: Arc::<TestClock>::clone(&clock),
            counters: Arc::<Refusals>::clone(&refusals),
            execute: Arc::new(move || Arc::<ExecuteAudit>::clone(&execute)),
            leases: None,
            stopping: tasks.stopping().clone(),
        };
        let hub = bound.open(&ports).await;
        // Nothing else happens.
        let passing = pass_time(Arc::clone(&hub), Arc::clone(&clock), Worker::is_quiet);
        let stopping = tasks.stopping().clone();
        tasks.spawn(async move {
            stopping.run_until_cancelled(passing).await;
        });
        let stopping = tasks.stopping().clone();
        let served = Arc::clone(&hub);
        tasks.spawn(async move {
            let stopped = stopping.cancelled();
            bound.serve_on(&served, ports.counters, stopped).await;
        });
        Self {
            plane,
            sandbox,
            refusals,
            clock,
            url,
            audit,
            hub,
            client: HttpClient::default(),
            tasks,
        }
    }

    /// A dispatch as the document has it.
    pub(crate) fn envelope(&self, number: u32, handler: &str) -> Value {
        json!({
            "taskId": format!("task-{number}"),
            "runId": "run-1",
            "taskKey": handler,
            "tenantId": "t",
            "workspaceId": "w",
            "attempt": 1,
            "attemptId": format!("att-{number}"),
            "callbackBaseUrl": format!("http://{}", self.plane.address),
            "taskToken": "tok",
            "tokenExpiresAt": "2027-01-15T09:00:00Z",
            "deadline": "2027-01-15T08:10:00Z",
            "heartbeatIntervalMs": 50,
            "heartbeatTimeoutMs": 60_000,
            "cancelGracePeriodMs": 7_000,
            "payload": {"a": 1},
        })
    }

    /// Sends a dispatch and returns its answer once it comes.
    pub(crate) async fn dispatch(&self, envelope: &Value) -> Answer {
        let secret = [("x-arco-dispatch-secret", "dsecret")];
        self.send(&secret, envelope.to_string()).await
    }

    pub(crate) async fn send(&self, headers: &[(&'static str, &str)], body: String) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            let name = hyper::header::HeaderName::from_static(name);
            (name, value.parse().unwrap())
        });
        let post = Post {
            base: &self.url,
            path: "/dispatch",
            headers: &headers.collect::<Vec<_>>(),
            body: body.into(),
            timeout: BOUND,
        };
        self.client.post(post).await.unwrap()
    }

    /// Sends a dispatch whose answer comes later.
    pub(crate) fn begin(&self, envelope: &Value) -> DispatchReply {
        let (sender, answered) = oneshot::channel();
        let (client, url, body) = (self.client.clone(), self.url.clone(), envelope.to_string());
        self.tasks.spawn(async move {
            let secret = hyper::header::HeaderName::from_static("x-arco-dispatch-secret");
            let post = Post {
                base: &url,
                path: "/dispatch",
                headers: &[(secret, "dsecret".parse().unwrap())],
                body: body.into(),
                timeout: BOUND,
            };
            let Ok(answer) = client.post(post).await else {
                return;
            };
            let body = String::from_utf8_lossy(&answer.body).into_owned();
            let _ = sender.send((answer.status, answer.retry_after, body));
        });
        answered
    }

    pub(crate) async fn until_stopped(&self) -> (u64, Stop) {
        let mut stops = self.sandbox.stops.subscribe();
        let found = timeout(BOUND, stops.wait_for(|stops| !stops.is_empty())).await;
        let (_, grace_ms, why) = found.expect("a stop").unwrap()[0];
        (grace_ms, why)
    }

    /// Begins a dispatch of `hang` whose start is acknowledged.
    pub(crate) async fn hanging(&self, number: u32) -> DispatchReply {
        let answered = self.begin(&self.envelope(number, "hang"));
        self.plane.expect("started").await.acknowledge(false);
        answered
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.now().0
    }

    /// Stops the worker.
    pub(crate) async fn stop(self) {
        self.tasks.stop();
        timeout(BOUND, self.tasks.join()).await.unwrap();
        self.audit.assert_settled();
    }

    /// Stops the worker and the control plane, which does not answer any more.
    pub(crate) async fn stop_unanswered(self) {
        self.tasks.stop();
        let (hub, clock) = (Arc::clone(&self.hub), Arc::clone(&self.clock));
        let passing = pass_time(hub, clock, |worker| worker.load().2);
        let stopped = self.hub.until(|worker| worker.load().2 && worker.is_idle());
        tokio::select! {
            () = passing => {}
            () = stopped => {}
        }
        self.stop_all().await;
    }

    pub(crate) async fn stop_all(self) {
        let plane = Arc::clone(&self.plane);
        self.stop().await;
        plane.stop().await;
    }
}

/// Passes the time that tasks wait for when the worker is as `is_it` says.
async fn pass_time(hub: Arc<WorkerHub>, clock: Arc<TestClock>, is_it: fn(&Worker) -> bool) {
    loop {
        hub.until(|worker| is_it(worker) && worker.wakeup().is_some())
            .await;
        if let Some(due) = hub.inspect(Worker::wakeup) {
            clock.pass(due.0.saturating_sub(clock.now().0).max(0));
            hub.pass_time();
        }
        tokio::task::yield_now().await;
    }
}

/// Waits for the answer to a dispatch.
pub(crate) async fn answered(waiting: DispatchReply) -> (u16, String) {
    let (status, _, body) = timeout(BOUND, waiting).await.expect("an answer").unwrap();
    (status, body)
}
