//! Connects the session with the host's leases, and sends dispatches. Decides nothing.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host_core::cell::LogLine;
use host_core::id::JobId;
use host_core::lease::Hold;
use host_core::name::Name;
use host_core::port::lease::{JobQuery, LeaseError, LeaseRequest, Leases, StoredJob, WAIT_FOREVER};
use host_core::port::{Clock, Counters, JobLogs, Tag};
use host_core::time::Time;
use host_runtime::mailbox::respond;
use host_wire_kit::Ports;
use host_wire_kit::driver::{EffectHandler, Hub};
use host_wire_kit::http_client::{HttpClient, Post, Requests};
use host_wire_kit::leases::{LeaseRequests, lease_events};
use hyper::header::{HeaderName, HeaderValue};

use super::envelope::{self, Dispatch};
use super::session::{Effect, Event, Noted, Orchestrator};
use crate::messages::RunLogs;
use crate::settings::OrchestratorConfig;
use crate::token::{Scope, TTL_SECONDS_MAX, Tokens};

const SECRET: HeaderName = HeaderName::from_static("x-arco-dispatch-secret");

/// The session with what it needs.
pub(super) type OrchestratorHub = Hub<Orchestrator, Host>;

/// The host as the session sees it.
pub(super) struct Host {
    leases: Arc<dyn Leases>,
    asks: LeaseRequests,
    pub(super) counters: Arc<dyn Counters>,
    logs: Option<Arc<dyn JobLogs>>,
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
        ports: &Ports,
        (leases, logs): (Arc<dyn Leases>, Option<Arc<dyn JobLogs>>),
        tokens: Tokens,
    ) -> Self {
        Self {
            leases,
            asks: LeaseRequests::default(),
            counters: Arc::clone(&ports.counters),
            logs,
            dispatches: Requests::in_this_runtime(),
            sender: Arc::new(Sender {
                config: config.clone(),
                client: HttpClient::default(),
                clock: Arc::clone(&ports.clock),
                tokens,
            }),
        }
    }

    /// Returns what a token is about if it is valid now.
    pub(super) fn scope(&self, token: &str) -> Option<Scope> {
        let sender = &self.sender;
        sender.tokens.check(sender.clock.now(), token)
    }

    /// Returns the host time.
    pub(super) fn now(&self) -> Time {
        self.sender.clock.now()
    }

    /// Keeps lines of an attempt, if the host keeps logs.
    pub(super) fn keep_log(&self, job: JobId, attempt: u32, granted_at: Time, lines: Vec<LogLine>) {
        if let Some(logs) = &self.logs {
            logs.keep(job, attempt, granted_at, lines);
        }
    }

    /// Reads a job. Cancel safe.
    pub(super) async fn kept(&self, job: JobId) -> Result<Option<StoredJob>, LeaseError> {
        let (respond, answer) = respond();
        self.leases.read(job, respond);
        answer.await.unwrap_or(Err(LeaseError::Stopping))
    }

    /// Finds the job of an attempt with a run of its own, of which one of these executors has the task. Cancel safe.
    pub(super) async fn job_of_run(
        &self,
        executors: Vec<Name>,
        run: &str,
        log: &RunLogs,
    ) -> Result<Option<JobId>, LeaseError> {
        let Ok(handler) = log.task_key.parse::<Name>() else {
            return Ok(None);
        };
        for executor in executors {
            let wanted = JobQuery {
                executor,
                handler: handler.clone(),
                attribute: (envelope::RUN_ID.to_owned(), run.to_owned()),
                attempt: log.attempt,
            };
            let (respond, answer) = respond();
            self.leases.find(wanted, respond);
            let found = answer.await.unwrap_or(Err(LeaseError::Stopping))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn ask(&self, hub: &Arc<OrchestratorHub>, tag: Tag, name: Name, slots: usize) {
        let request = LeaseRequest {
            executors: vec![name.clone()],
            worker: format!("{name}/1"),
            slots,
            hold: Hold::Ttl {
                ttl_ms: self.sender.config.times.heartbeat_timeout_ms,
            },
            wait_ms: WAIT_FOREVER,
            events: Some(lease_events(hub)),
        };
        let event = move |granted| Event::Granted(tag, name, granted);
        let respond = self.asks.responder(hub, tag, event);
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
            Effect::Ask(tag, name, slots) => self.ask(hub, tag, name, slots),
            Effect::Withdraw(tag) => self.asks.withdraw(tag),
            Effect::Send {
                tag,
                job,
                fence,
                message,
            } => {
                let respond = hub.responder(move |it| Event::Answered(tag, it));
                self.leases.send(job, fence, *message, respond);
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
            Effect::Log(noted) => {
                let Noted {
                    job,
                    attempt,
                    granted_at,
                    line,
                } = *noted;
                self.keep_log(job, attempt, granted_at, vec![line]);
            }
        }
    }
}

impl Sender {
    async fn send(&self, hub: &Arc<OrchestratorHub>, tag: Tag, dispatch: &Dispatch) {
        let Some(worker) = self.config.workers.get(&dispatch.worker) else {
            return;
        };
        let secret = worker
            .secret
            .as_ref()
            .and_then(|secret| HeaderValue::from_str(secret.expose()).ok());
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

    /// Makes the dispatch with a new token, whose time counts from now.
    fn body(&self, dispatch: &Dispatch) -> Bytes {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        envelope::write(dispatch, &self.config.times, &self.tokens, (now, wall)).into()
    }
}
