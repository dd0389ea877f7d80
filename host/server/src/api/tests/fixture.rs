//! A host without cells: the router, a loop over the memory store, a deployer that takes lists of
//! handlers for components, and logs in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request as HttpRequest, StatusCode};
use futures_util::future::BoxFuture;
use host_cells::deploy::examine::Component;
use host_cells::pool::Isolation;
use host_cells::run::handlers::Handlers;
use host_cells::sandbox::broker::Secrets;
use host_core::handler::HandlerInfo;
use host_core::id::{JobId, NodeId};
use host_core::job::{Lane, State};
use host_core::json::JsonText;
use host_core::lease::{Fence, Hold};
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome, Report};
use host_core::time::Time;
use host_dispatch::numbers::Numbers;
use host_dispatch::readers::{Readers, SCANS};
use host_dispatch::{Dispatch, Request, Shared};
use host_engine::audit::Note;
use host_engine::component::tables::read_deployed;
use host_engine::component::{Deploy, Digest, Manifest, RemoveComponent, Revision, Rollback};
use host_engine::lease::{Claim, Claimed, Complete, Slot};
use host_engine::{Ask, Store as _, StoreError, component};
use host_http::budget::ByteBudget;
use host_http::door::{DOORS, Door};
use host_http::guard::AllowedHosts;
use host_http::route::{Group, RoutePorts};
use host_http::serve::Transport;
use host_runtime::clock::Clock;
use host_runtime::ids;
use host_runtime::tasks::Tasks;
use host_store::logs::{LogEntry, LogPage};
use host_testing::store::MemoryStore;
use host_wire_kit::section::TestSources;
use host_wires::WIRES;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;

use super::nodes::Two;
use super::sample_executors::Sample;
use crate::api::ports::{Consent, DeployError, Deployed, DeployedBy, Deployer, Logs};
use crate::api::problem::kinds;
use crate::api::{Api, Doorway, ServedApi};
use crate::artifacts::Artifacts;
use crate::auth::{Auth, AuthMode};
use crate::executors::{Executors, Routes};
use crate::metrics::Metrics;
use crate::retention::Retentions;
use crate::webhooks::Webhooks;

/// A host whose handlers are `noop`, `a/b` and `typed`, which takes `{"n": integer}`.
pub(super) struct Host {
    pub(super) router: Router,
    pub(super) dispatch: Dispatch,
    pub(super) tasks: Tasks,
    pub(super) logs: Arc<Lines>,
}

/// An answer, with its body as JSON if it is some.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
    pub(super) body: Value,
}

pub(super) const HANDLERS: &str = r#"[
    {"name": "noop"},
    {"name": "a/b", "description": "Does little."},
    {"name": "typed", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
]"#;

/// Lines of logs in memory.
#[derive(Default)]
pub(super) struct Lines(pub(super) Mutex<Vec<LogEntry>>);

impl Logs for Lines {
    fn page(
        &self,
        job: JobId,
        after: Option<u64>,
        limit: u32,
    ) -> BoxFuture<'_, Result<LogPage, StoreError>> {
        let lines = self.0.lock();
        let numbered = (1..).zip(lines.iter());
        let mut items: Vec<_> = numbered
            .filter(|(n, line)| line.job == job && Some(*n) > after)
            .map(|(n, line)| (n, line.clone()))
            .collect();
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        let next = items.last().map(|(n, _)| *n).filter(|_| more);
        Box::pin(async move { Ok(LogPage { items, next }) })
    }
}

/// Deploys documents that list handlers.
struct Listed {
    dispatch: Dispatch,
    handlers: Handlers,
}

impl Listed {
    async fn deployed(
        &self,
        command: impl Ask<Reply = component::Deployed>,
    ) -> Result<Deployed, DeployError> {
        let component::Deployed {
            revision,
            unchanged,
            removed,
        } = self.dispatch.submit(command).await?;
        self.refresh().await;
        Ok(Deployed {
            grants_added: revision.manifest.defaults.env.clone().unwrap_or_default(),
            grants_removed: Vec::new(),
            limits_changed: Vec::new(),
            stubbed: Vec::new(),
            revision: *revision,
            unchanged,
            removed,
        })
    }

    async fn refresh(&self) {
        let components = self.dispatch.read(read_deployed).await;
        self.handlers.replace(components.unwrap());
    }
}

impl Deployer for Listed {
    fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        _consent: Consent,
        by: DeployedBy,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        Box::pin(async move {
            let bytes = component.bytes;
            if name.as_str() == "never-ends" {
                return std::future::pending().await;
            }
            let Ok(listed) = serde_json::from_slice::<Vec<Value>>(&bytes) else {
                let error = DeployError::new(&kinds::COMPONENT_INVALID, "these bytes are no list");
                return Err(error);
            };
            let handlers = listed.iter().map(|handler| HandlerInfo {
                name: handler["name"].as_str().unwrap().parse().unwrap(),
                description: handler["description"].as_str().map(str::to_owned),
                params_schema: handler
                    .get("schema")
                    .map(|schema| JsonText(schema.to_string())),
                result_schema: None,
            });
            let mut digest = [0; 32];
            for (place, byte) in bytes.iter().enumerate() {
                digest[place % 32] ^= byte.wrapping_add(u8::try_from(place % 251).unwrap());
            }
            let revision = Box::new(Revision {
                component: name,
                revision: 0,
                digest: Digest(digest),
                manifest,
                handlers: handlers.collect(),
                deployed_at: Time(0),
                signature: None,
                schedules: Vec::new(),
                release: host_engine::component::Release::default(),
            });
            let wall = Time(0);
            let deploy = Deploy {
                revision,
                bytes,
                wall,
            };
            self.deployed(deploy.noted(by.note)).await
        })
    }

    fn rollback(
        &self,
        component: Name,
        revision: u32,
        _consent: Consent,
        note: Note,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        let back = Rollback {
            component,
            revision,
            wall: Time(0),
        };
        Box::pin(self.deployed(back.noted(note)))
    }

    fn sync(&self) -> BoxFuture<'_, bool> {
        let is_among_nodes = self.dispatch.shared().live.is_among_nodes();
        Box::pin(std::future::ready(is_among_nodes))
    }

    fn remove(&self, component: Name, note: Note) -> BoxFuture<'_, Result<(), DeployError>> {
        Box::pin(async move {
            let remove = RemoveComponent { component };
            self.dispatch.submit(remove.noted(note)).await?;
            self.refresh().await;
            Ok(())
        })
    }
}

/// Commits each command by itself, then publishes what happened.
async fn run(
    mut requests: mpsc::Receiver<Request>,
    mut store: MemoryStore,
    shared: Arc<Shared>,
    clock: Clock,
) {
    while let Some(request) = requests.recv().await {
        let now = clock.now();
        let mut committed = store.commit(now, &[request.command]).unwrap();
        let ended = committed
            .changes
            .iter()
            .filter(|change| change.to.is_none_or(State::is_terminal));
        ended.for_each(|change| shared.waiters.ended(change.job));
        if let Some(first) = committed.first_change {
            shared.events.changed(now, first, &committed.changes);
        }
        let reply = committed.replies.remove(0).map_err(Into::into);
        let _ = request.reply.send(reply);
    }
}

/// Makes the executors of the sample wire; `python` has the queue `pythons`.
fn executors(default: Option<&str>, metrics: &Metrics) -> Executors {
    let routes = Routes {
        queues: [("pythons".parse().unwrap(), "python".parse().unwrap())].into(),
        default: default.map(|name| name.parse().unwrap()),
    };
    let executors = Executors::new(vec![Arc::new(Sample::default())], routes);
    executors.register(metrics);
    executors
}

/// Makes the routes of all wires, none of which is configured.
fn wire_routes(bodies: &ByteBudget, tasks: &Tasks, clock: Clock) -> Vec<Group> {
    let ports = RoutePorts {
        callbacks: Some("http://127.0.0.1:7700".to_owned()),
        bodies: bodies.clone(),
        clock: Arc::new(clock),
        stopping: tasks.stopping().clone(),
    };
    let configured = WIRES.iter().map(|wire| {
        let read = TestSources::default().read(wire, wire.configure);
        read.unwrap().wire
    });
    configured.flat_map(|wire| wire.routes(&ports)).collect()
}

/// A listener without TLS.
pub(super) fn doorway(doors: &[Door]) -> Doorway {
    Doorway {
        hosts: AllowedHosts::loopback_and(SocketAddr::from(([127, 0, 0, 9], 7700))),
        doors: doors.into(),
        transport: Transport::default(),
    }
}

/// Makes an API over any loop.
pub(super) fn api(dispatch: &Dispatch, logs: &Arc<Lines>, tasks: &Tasks, clock: Clock) -> Api {
    let (handlers, metrics) = (Handlers::default(), Metrics::default());
    let numbers = Numbers::default();
    metrics.register(|registry| numbers.register(registry));
    let bodies = ByteBudget::default();
    Api {
        dispatch: dispatch.clone(),
        deployer: Arc::new(Listed {
            dispatch: dispatch.clone(),
            handlers: handlers.clone(),
        }),
        handlers,
        clock,
        executors: executors(None, &metrics),
        retentions: Retentions::default(),
        webhooks: Webhooks::default(),
        outboxes: Vec::new(),
        wire_routes: wire_routes(&bodies, tasks, clock),
        bodies,
        nodes: Arc::new(Two::default()),
        artifacts: Artifacts::open(Path::new("/"), true, 0).unwrap(),
        token_upload_bytes_max: 1 << 20,
        logs: Arc::clone(logs) as Arc<dyn Logs>,
        metrics,
        numbers,
        auth: Auth::new(AuthMode::None, dispatch.clone(), clock),
        two_people_for_grants: false,
        protection: Arc::default(),
        isolation: Isolation::Shared,
        desk: None,
        secrets: Secrets::new(BTreeMap::new()),
        draining: tasks.stopping().clone(),
        stopping: tasks.stopping().clone(),
    }
}

impl Host {
    /// Starts a host with its handlers.
    pub(super) async fn start() -> Self {
        Self::start_as(|_| {}).await
    }

    /// Starts a host with its handlers and a default runner.
    pub(super) async fn start_with_default(runner: &str) -> Self {
        Self::start_as(|api| api.executors = executors(Some(runner), &api.metrics)).await
    }

    pub(super) async fn start_as(change: impl FnOnce(&mut Api)) -> Self {
        Self::start_with(Shared::default(), change).await
    }

    /// Starts a host whose store others may share.
    pub(super) async fn start_among_nodes(change: impl FnOnce(&mut Api)) -> Self {
        Self::start_with(Shared::among_nodes(Arc::default()), change).await
    }

    async fn start_with(shared: Shared, change: impl FnOnce(&mut Api)) -> Self {
        let (tasks, clock) = (Tasks::default(), Clock::start());
        let logs = Arc::new(Lines::default());
        let dispatch = Self::run_loop_with(&tasks, clock, shared);
        let mut api = api(&dispatch, &logs, &tasks, clock);
        change(&mut api);
        let manifest = Manifest::default();
        let component = Component {
            bytes: HANDLERS.as_bytes().to_vec(),
            signature: None,
        };
        let by = DeployedBy {
            note: Note::default(),
            origin: None,
            release: host_engine::component::Release::default(),
        };
        let deployed = api.deployer.deploy(
            "basics".parse().unwrap(),
            manifest,
            component,
            Consent::default(),
            by,
        );
        deployed.await.unwrap();
        Self {
            router: ServedApi::new(api, &tasks).router(&doorway(&DOORS)),
            dispatch,
            tasks,
            logs,
        }
    }

    /// Starts a loop over an empty store.
    pub(super) fn run_loop(tasks: &Tasks, clock: Clock) -> Dispatch {
        Self::run_loop_with(tasks, clock, Shared::default())
    }

    fn run_loop_with(tasks: &Tasks, clock: Clock, shared: Shared) -> Dispatch {
        let store = MemoryStore::default();
        let (sender, requests) = mpsc::channel(1_024);
        let shared = Arc::new(shared);
        let readers = Readers::open(&store, 2).unwrap();
        let scanners = Readers::open(&store, SCANS).unwrap();
        let dispatch = Dispatch::new(sender, readers, scanners, Arc::clone(&shared));
        tasks.spawn(run(requests, store, shared, clock));
        dispatch
    }

    /// Returns a loop that has ended: it takes no commands any more.
    pub(super) fn ended_loop() -> Dispatch {
        let store = MemoryStore::default();
        let (sender, _) = mpsc::channel(1);
        let readers = Readers::open(&store, 2).unwrap();
        let scanners = Readers::open(&store, SCANS).unwrap();
        Dispatch::new(sender, readers, scanners, Arc::default())
    }

    pub(super) async fn get(&self, path: &str) -> Answer {
        self.get_as("127.0.0.1:7700", path).await
    }

    /// Asks for a path of the host of this name.
    pub(super) async fn get_as(&self, name: &str, path: &str) -> Answer {
        let request = HttpRequest::get(path).header("host", name);
        call(&self.router, request.body(Body::empty()).unwrap()).await
    }

    pub(super) async fn post(&self, path: &str, body: impl Into<String>) -> Answer {
        let body = body.into();
        self.send("POST", path, "application/json", body.into_bytes())
            .await
    }

    pub(super) async fn delete(&self, path: &str) -> Answer {
        self.send("DELETE", path, "application/json", "").await
    }

    pub(super) async fn send(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: impl Into<Body>,
    ) -> Answer {
        let request = HttpRequest::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1:7700")
            .header("content-type", kind)
            .body(body.into())
            .unwrap();
        call(&self.router, request).await
    }

    /// Sends JSON with more headers.
    pub(super) async fn send_with(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Answer {
        let request = HttpRequest::builder().method(method).uri(path);
        let all = [
            ("host", "127.0.0.1:7700"),
            ("content-type", "application/json"),
        ];
        let request = all
            .iter()
            .chain(headers)
            .fold(request, |request, (name, value)| {
                request.header(*name, *value)
            });
        call(&self.router, request.body(Body::from(body)).unwrap()).await
    }

    /// Enqueues a job and returns its id.
    pub(super) async fn enqueue(&self, body: impl Into<String>) -> String {
        let answer = self.post("/api/v1/jobs", body).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        answer.body["id"].as_str().unwrap().to_owned()
    }

    /// Leases the next job to a cell.
    pub(super) async fn claim(&self) -> Claimed {
        self.claim_at(NodeId::NIL, Hold::Connection).await
    }

    /// Leases the next job to a worker of a node.
    pub(super) async fn claim_at(&self, node: NodeId, hold: Hold) -> Claimed {
        let slot = Slot {
            lease: ids::lease(),
            worker: "cell-1".to_owned(),
            lane: Lane::Shared,
            hold,
        };
        let claim = Claim {
            node,
            slots: vec![slot],
            except: BTreeSet::new(),
            params_bytes_max: usize::MAX,
        };
        match self.dispatch.submit(claim).await {
            Ok(mut claimed) => claimed.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// Ends an attempt.
    pub(super) async fn complete(&self, claimed: &Claimed, outcome: Outcome) {
        let lease = claimed.lifecycle.lease.as_ref().unwrap().id;
        let report = Report {
            outcome,
            meter: Meter {
                fuel: 7,
                cpu_us: 1_500,
                peak_memory_bytes: 65_536,
            },
            progress: None,
            executor: "cell-1".to_owned(),
            revision: Some(("basics".to_owned(), 1)),
            worker: None,
            requests: None,
        };
        let complete = Complete {
            job: claimed.lifecycle.id,
            fence: Fence::Lease(lease),
            report: Box::new(report),
            writes: None,
        };
        self.dispatch.submit(complete).await.unwrap();
    }
}

/// Sends a request to a router and reads all of the answer.
pub(super) async fn call(router: &Router, request: HttpRequest<Body>) -> Answer {
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
    /// Checks that it is a problem document with this status and code, and returns its detail.
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

    /// Checks its status.
    pub(super) fn is(self, status: StatusCode) -> Self {
        assert_eq!(self.status, status.as_u16(), "{self:?}");
        self
    }
}
