//! A loop with everything it needs, and functions that wait for what it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use host_cells::pool::executor::CellExecutor;
use host_cells::pool::{Isolation, Pool, Shape};
use host_cells::run::build::RunBuilder;
use host_core::id::{JobId, NodeId};
use host_core::job::{Lane, NewJob, Payload, State};
use host_core::json::JsonText;
use host_core::lease::Hold;
use host_core::outcome::Attempt;
use host_core::policy::{Backoff, Policy};
use host_core::port::spans::Spans;
use host_core::query::JobDetail;
use host_core::time::Time;
use host_engine::job::Enqueue;
use host_engine::lease::{Claim, Slot};
use host_engine::{Reader, Store, StoreError};
use host_runtime::clock::Clock;
use host_runtime::ids;
use host_testing::cells::{CellMessage, FakePort, Record, handlers};
use host_testing::store::MemoryStore;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::failing::{Disk, FailingStore};
use super::pushing::FakeExecutor;
use crate::dispatch_loop::{EVENTS_MAX, Phase, Wiring, spawn};
use crate::lease_mail::LeaseService;
use crate::logged::{Logs, PendingLog};
use crate::nodes::{CommitSignal, RemoteChange};
use crate::numbers::Numbers;
use crate::readers::Readers;
use crate::span::collected::Collected;
use crate::{Dispatch, REQUESTS_MAX, Shared};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// How long renewed leases are kept in memory only, in milliseconds.
const RENEWAL_MS_MAX: u64 = 20;

/// The node id of a bench's loop.
pub(crate) const NODE: NodeId = NodeId(uuid::Uuid::from_u128(7));

pub(crate) struct Bench {
    pub(crate) dispatch: Dispatch,
    pub(crate) record: Record,
    pub(crate) reader: Box<dyn Reader>,
    pub(crate) clock: Clock,
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) logged: mpsc::Receiver<PendingLog>,
    pub(crate) loop_ended: oneshot::Receiver<Result<(), StoreError>>,
    pub(crate) executor: FakeExecutor,
    pub(crate) leases: LeaseService,
    numbers: Numbers,
    stops: Stops,
}

/// Ends runs from outside.
type Stops = mpsc::Sender<host_cells::port::CellEvent>;

/// The most params in flight, in bytes.
pub(crate) const PARAMS_BYTES_MAX: usize = 1 << 20;

impl Bench {
    pub(crate) async fn start() -> Self {
        Self::start_with(Box::new(MemoryStore::default())).await
    }

    pub(crate) async fn start_on(disk: Disk) -> Self {
        let below = Box::new(MemoryStore::default());
        Self::start_with(Box::new(FailingStore { below, disk })).await
    }

    pub(crate) async fn start_with(store: Box<dyn Store>) -> Self {
        Self::start_as(NODE, store).await
    }

    pub(crate) async fn start_as(node: NodeId, store: Box<dyn Store>) -> Self {
        Self::start_whole(node, store, None, None).await
    }

    /// Starts the loop of a node that shares its store with others.
    pub(crate) async fn start_among_nodes() -> Self {
        let (_nobody, sent) = mpsc::channel(1);
        let others = Some((sent, CommitSignal::default()));
        let store = Box::new(MemoryStore::default());
        Self::start_whole(NODE, store, None, others).await
    }

    /// Starts a loop that collects spans.
    pub(crate) async fn start_traced() -> (Self, Arc<Collected>) {
        let spans = Arc::<Collected>::default();
        let port = Arc::<Collected>::clone(&spans);
        let store = Box::new(MemoryStore::default());
        (
            Self::start_whole(NODE, store, Some(port), None).await,
            spans,
        )
    }

    async fn start_whole(
        node: NodeId,
        store: Box<dyn Store>,
        spans: Option<Arc<dyn Spans>>,
        others: Option<(mpsc::Receiver<RemoteChange>, CommitSignal)>,
    ) -> Self {
        let (requests, asked) = mpsc::channel(REQUESTS_MAX);
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let (logs, logged) = Logs::channel();
        let (phase, watched) = watch::channel(Phase::Running);
        let (port, record) = FakePort::new(events.clone(), true);
        let reader = store.reader().unwrap();
        let readers = Readers::open(&*store, 1).unwrap();
        let shared = Arc::new(Shared::default());
        let clock = Clock::start();
        let shape = Shape {
            name: "cell",
            cells: 2,
            slots: 4,
            memory_bytes: 1 << 30,
            isolation: Isolation::Shared,
        };
        let runs = RunBuilder::new(handlers(), BTreeMap::new(), BTreeMap::new());
        let leases = LeaseService::new(clock, Arc::clone(&shared), RENEWAL_MS_MAX);
        let executor = FakeExecutor::of(&leases, "python");
        let numbers = Numbers::default();
        let loop_ended = spawn(Wiring {
            store,
            clock,
            shared: Arc::clone(&shared),
            cells: CellExecutor::new(Pool::new(port, shape), runs),
            is_configured: Box::new(|name| {
                ["python", "pulled", "pulled-too"].contains(&name.as_str())
            }),
            leases: leases.clone(),
            workers_end: executor.stopping.clone().drop_guard(),
            lifeline: None,
            others,
            node,
            living: Vec::new(),
            logs,
            requests: asked,
            events: received,
            phase: watched,
            stopping_ms: 10_000,
            params_bytes_max: PARAMS_BYTES_MAX,
            numbers: numbers.clone(),
            spans,
        })
        .unwrap();
        let dispatch = Dispatch::new(requests, readers.clone(), readers, shared);
        let reading = leases
            .clone()
            .read_jobs(dispatch.clone(), CancellationToken::new());
        #[expect(clippy::disallowed_methods, reason = "it ends with the test")]
        tokio::spawn(reading);
        let bench = Self {
            dispatch,
            record,
            reader,
            clock,
            phase,
            logged,
            loop_ended,
            executor,
            leases,
            numbers,
            stops: events,
        };
        bench
            .eventually("two cells", |sent| {
                *sent == CellMessage::Started("cell-2".to_owned())
            })
            .await;
        bench
    }

    pub(crate) async fn enqueue(&self, job: NewJob) -> JobId {
        let id = job.id;
        self.dispatch.submit(Enqueue(vec![job])).await.unwrap();
        id
    }

    pub(crate) async fn read(&self, id: JobId) -> JobDetail {
        self.dispatch
            .read(move |reader| reader.job(id))
            .await
            .unwrap()
            .unwrap()
    }

    pub(crate) async fn attempts(&self, id: JobId) -> Vec<Attempt> {
        self.dispatch
            .read(move |reader| reader.attempts(id, 0, u32::MAX))
            .await
            .unwrap()
    }

    /// Waits until a job is in a state.
    pub(crate) async fn until(&self, id: JobId, state: State) {
        let seen = async {
            while self.read(id).await.lifecycle.state != state {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, seen).await;
        assert!(ended.is_ok(), "{id} is not {state:?}");
    }

    /// Waits for the end of a job and returns it.
    pub(crate) async fn ended(&self, id: JobId) -> JobDetail {
        let waiter = self.dispatch.wait(id);
        let detail = self.read(id).await;
        if detail.lifecycle.state.is_terminal() {
            return detail;
        }
        let ended = tokio::time::timeout(PATIENCE, waiter.ended()).await;
        assert!(ended.is_ok(), "{detail:?} does not end");
        self.read(id).await
    }

    /// Waits until an attempt of a handler has begun.
    pub(crate) async fn began(&self, handler: &str, attempt: u32) {
        self.eventually("an attempt to begin", |sent| {
            matches!(sent, CellMessage::Start(_, began)
                if began.handler == handler && began.attempt == attempt)
        })
        .await;
    }

    /// Waits until a cell got a message.
    pub(crate) async fn eventually(&self, what: &str, is_it: impl Fn(&CellMessage) -> bool) {
        let seen = async {
            while !self.record.messages().iter().any(&is_it) {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, seen).await;
        assert!(ended.is_ok(), "{what}: {:?}", self.record.messages());
    }

    /// Returns the loop's metrics as text.
    pub(crate) fn metrics(&self) -> String {
        let (mut registry, mut text) = (Registry::default(), String::new());
        self.numbers.register(&mut registry);
        encode(&mut text, &registry).unwrap();
        text
    }

    /// Ends the run of a handler as if it had been asked to stop.
    pub(crate) fn stop_cells_of(&self, handler: &str) {
        let (cell, run) = self.record.run_of(handler);
        let ended = host_testing::cells::cancelled(cell, run);
        self.stops.try_send(ended).unwrap();
    }

    pub(crate) async fn stop(self) {
        self.phase.send(Phase::Killing).unwrap();
        let ended = tokio::time::timeout(PATIENCE, self.loop_ended).await;
        assert!(ended.unwrap().unwrap().is_ok());
        self.executor.audit.assert_kept();
    }
}

/// A job for a handler, retried immediately.
pub(crate) fn job(handler: &str) -> NewJob {
    NewJob {
        id: ids::job(Clock::start().now()),
        handler: handler.parse().unwrap(),
        executor: None,
        component: None,
        queue: "default".parse().unwrap(),
        priority: 5,
        run_at: None,
        deadline: None,
        policy: Policy {
            backoff: Backoff {
                base_ms: 1,
                max_ms: 1,
            },
            ..Policy::default()
        },
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText("{\"n\":1}".to_owned()),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }
}

/// A store as a host leaves it that was killed while a job ran.
pub(crate) fn store_with_running(handler: &str) -> (MemoryStore, JobId) {
    let mut store = MemoryStore::default();
    let new = job(handler);
    let id = new.id;
    let slots = vec![Slot {
        lease: ids::lease(),
        worker: "cell-1".to_owned(),
        lane: Lane::Shared,
        hold: Hold::Connection,
    }];
    let claim = Claim {
        node: NODE,
        slots,
        except: BTreeSet::new(),
        params_bytes_max: usize::MAX,
    };
    let batch = vec![Enqueue(vec![new]).into(), claim.into()];
    store.commit(Time(0), &batch).unwrap();
    (store, id)
}
