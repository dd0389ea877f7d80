//! The orchestrator with its host: requests go in, and effects go to the port for leases. Decides nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use host_core::id::{JobId, LeaseId, NodeId};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::port::lease::{GrantedLease, LeaseEvents, LeaseRequest, Leases};
use host_core::port::{Clock, Counters, JobLogs};
use host_runtime::mailbox::respond;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::executors::NameLookup;
use host_wire_kit::leases::{LeaseRequests, lease_events};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::slots::Slots;
use super::{Answer, Effect, Event, Orchestrator, Request, worker};
use crate::NAME;
use crate::messages::lease_id::LeaseText;
use crate::refusals::{Code, WireRefusal};
use crate::settings::{DeltaConfig, NODE_SEPARATOR, PoolConfig};

/// How many digits of a node's id stand in names.
const NODE_DIGITS: usize = 8;

pub(super) type OrchestratorHub = Hub<Orchestrator, Host>;

/// All pools.
pub(crate) struct Pools {
    pub(crate) config: Arc<DeltaConfig>,
    pub(super) hub: OnceLock<Arc<OrchestratorHub>>,
    /// The runners that this host starts.
    pub(super) slots: Slots,
    /// The node that stands in the names of those runners, if several share the store.
    node: OnceLock<String>,
    /// Where runners reach this host, once it listens.
    reached: watch::Sender<Option<String>>,
}

/// What the orchestrator needs of the host.
pub(super) struct Host {
    /// Set once the host can grant leases.
    leases: OnceLock<Arc<dyn Leases>>,
    events: OnceLock<Arc<dyn LeaseEvents>>,
    requests: LeaseRequests,
    logs: Arc<dyn JobLogs>,
    counters: Arc<dyn Counters>,
}

impl std::fmt::Debug for Pools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut pools = f.debug_struct("Pools");
        pools.field("config", &self.config).finish_non_exhaustive()
    }
}

impl Pools {
    pub(crate) fn new(config: DeltaConfig) -> Arc<Self> {
        Arc::new(Self {
            slots: Slots::new(&config.pools),
            config: Arc::new(config),
            hub: OnceLock::new(),
            node: OnceLock::new(),
            reached: watch::Sender::default(),
        })
    }

    /// Starts the orchestrator. Requests are refused until it is connected.
    pub(crate) fn start(
        &self,
        clock: Arc<dyn Clock>,
        counters: Arc<dyn Counters>,
        logs: Arc<dyn JobLogs>,
    ) {
        let session = Orchestrator::new(Arc::clone(&self.config));
        let host = Host {
            leases: OnceLock::new(),
            events: OnceLock::new(),
            requests: LeaseRequests::default(),
            logs,
            counters: Arc::clone(&counters),
        };
        let hub = Hub::new(session, host, clock, counters);
        let _ = self.hub.set(hub);
    }

    /// Connects it with the host that grants leases.
    pub(crate) fn connect(&self, leases: &Arc<dyn Leases>) {
        if let Some(hub) = self.hub.get() {
            let _ = hub.handler().leases.set(Arc::clone(leases));
            let node = leases.node();
            hub.note(|session| session.node = node);
        }
    }

    /// Keeps time until the host stops.
    pub(crate) async fn run(&self, stopping: &CancellationToken) {
        let Some(hub) = self.hub.get() else { return };
        tokio::select! {
            () = Arc::clone(hub).keep_time() => {}
            () = stopping.cancelled() => hub.report(Event::Stop),
        }
    }

    /// Notes the URL at which runners reach this host.
    pub(crate) fn reached_at(&self, url: String) {
        self.reached.send_replace(Some(url));
    }

    /// Waits until runners reach this host. Cancel safe.
    pub(super) async fn reached(&self) -> Option<String> {
        let mut reached = self.reached.subscribe();
        let known = reached.wait_for(Option::is_some).await;
        known.map_or(None, |known| known.clone())
    }

    /// Puts the node into the names of the runners that this host starts.
    pub(super) fn name_runners(&self, node: Option<NodeId>) {
        if let Some(NodeId(node)) = node {
            // The random end of the id.
            let id = node.simple().to_string();
            let short = id[id.len() - NODE_DIGITS..].to_owned();
            let _ = self.node.set(short);
        }
    }

    /// Returns the name of a runner that this host starts.
    pub(super) fn runner_id(&self, number: usize) -> String {
        match self.node.get() {
            Some(node) => format!("{number}{NODE_SEPARATOR}{node}"),
            None => number.to_string(),
        }
    }

    /// Makes a request and waits for its answer. Cancel safe: a lease that no runner takes is given back.
    pub(crate) async fn request(&self, request: Request) -> Result<Answer, WireRefusal> {
        let answer = self.connected()?.request(request).await;
        answer.unwrap_or_else(|| Err(stopping()))
    }

    /// Returns the orchestrator once its host can grant leases.
    fn connected(&self) -> Result<&Arc<OrchestratorHub>, WireRefusal> {
        self.hub
            .get()
            .filter(|hub| hub.handler().leases.get().is_some())
            .ok_or_else(|| WireRefusal::new(Code::Busy, "the host is starting; repeat this"))
    }

    /// Makes a request that waits no longer once the host stops.
    pub(super) async fn request_until(
        &self,
        request: Request,
        stopping: &CancellationToken,
    ) -> Result<Answer, WireRefusal> {
        let mut answer = std::pin::pin!(self.request(request));
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = stopping.cancelled() => self.report(Event::Stop),
        }
        answer.await
    }

    pub(super) fn report(&self, event: Event) {
        if let Some(hub) = self.hub.get() {
            hub.report(event);
        }
    }

    /// Returns what reports changes of leases.
    pub(super) fn lease_events(&self) -> Option<Arc<dyn LeaseEvents>> {
        self.hub.get().map(|hub| hub.handler().events(hub))
    }

    pub(super) fn logs(&self) -> Option<Arc<dyn JobLogs>> {
        self.hub.get().map(|hub| Arc::clone(&hub.handler().logs))
    }

    /// Counts a refusal.
    pub(super) fn count(&self, code: Code) {
        if let Some(hub) = self.hub.get() {
            hub.handler().counters.refused(NAME, code.as_str());
        }
    }

    /// Finds the executor of this name: a pool, or a lane of one.
    pub(super) fn find_lane(&self, name: &Name) -> NameLookup {
        let Some(hub) = self.hub.get() else {
            return NameLookup::Missing;
        };
        let (found, is_new) = hub.note(|session| session.find_lane(name));
        if is_new {
            hub.report(Event::LaneAdded(name.clone()));
        }
        found
    }

    /// Explains why the jobs of a pool or lane wait, if no runner has asked for one.
    pub(super) fn why_waiting(&self, executor: &Name) -> Option<String> {
        let hub = self.hub.get()?;
        hub.inspect(|session| session.waits_because(executor))
    }

    /// Returns the executors of a pool whose jobs its own runners can execute.
    pub(super) fn own_lanes(&self, pool: &PoolConfig) -> Vec<Name> {
        let of = |session: &Orchestrator| session.lanes.of(&pool.name, &pool.capabilities);
        self.hub
            .get()
            .map(|hub| hub.inspect(of))
            .unwrap_or_default()
    }

    /// Returns the pool of a lease that this node or another one has handed out in a file: its runner needs no token.
    /// Cancel safe.
    ///
    /// # Errors
    /// The host cannot look the lease up now.
    pub(super) async fn pool_of_file(
        &self,
        text: &LeaseText,
    ) -> Result<Option<&PoolConfig>, WireRefusal> {
        let Some((job, lease)) = text.parse() else {
            return Ok(None);
        };
        let worker = self.connected()?.handler().find_worker(job, lease).await?;
        Ok(worker.and_then(|worker| self.config.pool_of_started(&worker)))
    }

    /// Returns the workers of a pool, and how many leases each holds.
    pub(crate) fn workers(&self, pool: &Name) -> BTreeMap<String, usize> {
        let Some(hub) = self.hub.get() else {
            return BTreeMap::new();
        };
        let prefix = worker(pool, "");
        let leases = hub.handler().leases.get();
        let mut workers = leases.map(|it| it.workers(&prefix)).unwrap_or_default();
        hub.inspect(|session| {
            for waiting in session.waiting_workers(&prefix) {
                workers.entry(waiting.clone()).or_default();
            }
        });
        workers
    }
}

fn stopping() -> WireRefusal {
    WireRefusal::new(Code::Busy, "the host is stopping; repeat this")
}

impl Host {
    /// Returns the worker of a lease, which another node may have granted. Cancel safe.
    async fn find_worker(&self, job: JobId, lease: LeaseId) -> Result<Option<String>, WireRefusal> {
        let Some(leases) = self.leases.get() else {
            return Ok(None);
        };
        let (respond, answer) = respond();
        leases.find_worker(job, lease, respond);
        let found = answer.await.map_err(|_| stopping())?;
        found.map_err(|error| WireRefusal::new(Code::Busy, error.to_string()))
    }

    fn events(&self, hub: &Arc<OrchestratorHub>) -> Arc<dyn LeaseEvents> {
        Arc::clone(self.events.get_or_init(|| lease_events(hub)))
    }
}

impl EffectHandler<Orchestrator> for Host {
    fn handle(&self, hub: &Arc<OrchestratorHub>, effect: Effect) {
        let Some(leases) = self.leases.get() else {
            return;
        };
        match effect {
            Effect::Ask {
                asked,
                executors,
                hold,
                wait_ms,
            } => {
                let tag = asked.tag;
                let request = LeaseRequest {
                    executors,
                    worker: asked.worker.clone(),
                    slots: 1,
                    hold,
                    wait_ms,
                    events: Some(self.events(hub)),
                };
                let granted = |mut granted: Vec<GrantedLease>| {
                    Event::Granted(asked, granted.pop().map(Box::new))
                };
                leases.lease(request, self.requests.responder(hub, tag, granted));
            }
            Effect::Withdraw(tag) => self.requests.withdraw(tag),
            Effect::Send(message, sent) => {
                let named = &sent.named;
                let (job, fence) = (named.job, Fence::Holder(named.lease, named.worker.clone()));
                let answered = hub.responder(|answer| Event::Answered(sent, answer));
                leases.send(job, fence, message, answered);
            }
            Effect::KeepLog(job, attempt, began_at, lines) => {
                let _ = self.logs.keep(job, attempt, began_at, lines);
            }
            Effect::WarnOfTheft(named, holder) => tracing::warn!(
                event = "lease_theft_suspected",
                job = %named.job,
                lease = ?named.text,
                holder,
                sender = named.worker,
                "a runner names the lease of another one",
            ),
        }
    }
}
