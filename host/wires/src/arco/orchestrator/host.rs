//! Between the session and the rest of the host: its leases, and requests to workers. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host_core::lease::{Fence, Hold};
use host_core::name::Name;
use host_core::port::lease::{LeaseRequest, Leases};
use host_core::port::{Clock, Tag};
use hyper::header::{HeaderName, HeaderValue};

use super::envelope::{self, Dispatch};
use super::session::{Effect, Event, Orchestrator};
use crate::arco::settings::OrchestratorConfig;
use crate::arco::token::{TTL_SECONDS_MAX, Tokens};
use crate::kit::driver::{EffectHandler, Hub};
use crate::kit::http_client::{HttpClient, Post, Requests};
use crate::kit::leases::{LeaseRequests, lease_events};

/// How long the host waits for an attempt before it says that there is none, in milliseconds.
const WAIT_MS: u64 = 60_000;

const SECRET: HeaderName = HeaderName::from_static("x-arco-dispatch-secret");

/// The session with what it needs.
pub(super) type OrchestratorHub = Hub<Orchestrator, Host>;

/// The host as the session sees it.
pub(super) struct Host {
    leases: Arc<dyn Leases>,
    asks: LeaseRequests,
    pub(super) dispatches: Requests,
    sender: Arc<Sender>,
}

/// Sends dispatches.
struct Sender {
    config: OrchestratorConfig,
    client: HttpClient,
    clock: Arc<dyn Clock>,
    tokens: Tokens,
}

impl Host {
    pub(super) fn new(
        config: &OrchestratorConfig,
        leases: Arc<dyn Leases>,
        clock: Arc<dyn Clock>,
        tokens: Tokens,
    ) -> Self {
        Self {
            leases,
            asks: LeaseRequests::default(),
            dispatches: Requests::in_this_runtime(),
            sender: Arc::new(Sender {
                config: config.clone(),
                client: HttpClient::default(),
                clock,
                tokens,
            }),
        }
    }

    fn ask(&self, hub: &Arc<OrchestratorHub>, tag: Tag, name: Name) {
        let request = LeaseRequest {
            executors: vec![name.clone()],
            worker: format!("{name}/1"),
            slots: 1,
            hold: Hold::Ttl {
                ttl_ms: self.sender.config.times.heartbeat_timeout_ms,
            },
            wait_ms: WAIT_MS,
            events: Some(lease_events(hub)),
        };
        let respond = self.asks.responder(hub, tag, move |mut granted: Vec<_>| {
            Event::Granted(tag, name, granted.pop().map(Box::new))
        });
        self.leases.lease(request, respond);
    }
}

impl EffectHandler<Orchestrator> for Host {
    fn handle(&self, hub: &Arc<OrchestratorHub>, effect: Effect) {
        match effect {
            Effect::Resume(name) => {
                let answer = name.clone();
                let respond = hub.responder(move |it| Event::Resumed(answer, it));
                self.leases.resume(name, lease_events(hub), respond);
            }
            Effect::Ask(tag, name) => self.ask(hub, tag, name),
            Effect::Withdraw(tag) => self.asks.withdraw(tag),
            Effect::Tell {
                tag,
                job,
                lease,
                message,
            } => {
                let respond = hub.responder(move |it| Event::Answered(tag, it));
                self.leases
                    .send(job, Fence::Lease(lease), *message, respond);
            }
            Effect::Read(tag, job) => {
                let event = move |kept: Result<Option<_>, _>| {
                    Event::Read(tag, kept.map(|kept| kept.map(Box::new)))
                };
                self.leases.read(job, hub.responder(event));
            }
            Effect::Dispatch(tag, dispatch) => {
                let (sender, hub) = (Arc::clone(&self.sender), Arc::clone(hub));
                self.dispatches.start(tag, async move {
                    sender.send(&hub, tag, &dispatch).await;
                });
            }
            Effect::Abort(tag) => self.dispatches.abort(tag),
        }
    }
}

impl Sender {
    async fn send(&self, hub: &Arc<OrchestratorHub>, tag: Tag, dispatch: &Dispatch) {
        let Some(worker) = self.config.workers.get(&dispatch.worker) else {
            return;
        };
        let secret = worker.secret.as_ref();
        let secret = secret.and_then(|secret| HeaderValue::from_str(secret.expose()).ok());
        let headers: Vec<_> = secret.map(|secret| (SECRET, secret)).into_iter().collect();
        let answer = self.client.post(Post {
            base: &worker.url,
            path: "/dispatch",
            headers: &headers,
            body: self.body(dispatch),
            timeout: Duration::from_secs(TTL_SECONDS_MAX),
        });
        hub.report(Event::Dispatched(tag, answer.await));
    }

    /// Makes the dispatch with a new token: its time counts from now.
    fn body(&self, dispatch: &Dispatch) -> Bytes {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        envelope::write(dispatch, &self.config.times, &self.tokens, (now, wall)).into()
    }
}
