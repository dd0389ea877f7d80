//! The orchestrator alone over a host in memory, without sockets: what comes over the network is handed in,
//! and what goes out is returned.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use host_core::id::{JobId, LeaseId};
use host_core::lease::{Hold, Revocation};
use host_core::name::Name;
use host_core::port::lease::{GrantedLease, LeaseEvents, LeaseRequest, Leases, WAIT_FOREVER};
use host_core::port::{Clock as _, Tag};
use host_core::time::Time;
use host_runtime::mailbox::respond;
use host_testing::LeaseAudit;
use host_testing::LeaseHost;
use host_wire_kit::http_client::{Answer, RequestError};
use host_wire_kit::leases::LeaseEvent;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session as _};
use tokio::sync::oneshot::Receiver;

use super::fixture::{KEY, TIMES};
use crate::orchestrator::envelope;
use crate::orchestrator::read::{self, Callback};
use crate::orchestrator::session::{Effect, Event, Orchestrator};
use crate::settings::{OrchestratorConfig, RemoteWorker};
use crate::task_id::TaskId;
use crate::token::Tokens;
use crate::token::key::Keys;

/// What goes out.
pub(crate) enum Outgoing {
    Dispatch(u64, Vec<u8>),
    /// The answer to a callback.
    Answer(u64, u16, String),
}

/// Where workers call back.
pub(crate) const BASE: &str = "http://127.0.0.1:7700";

#[derive(Default)]
struct Changes(Mutex<Vec<LeaseEvent>>);

impl LeaseEvents for Changes {
    fn cancelled(&self, job: JobId, lease: LeaseId, grace_ms: u64) {
        let event = LeaseEvent::Cancelled {
            job,
            lease,
            grace_ms,
        };
        self.0.lock().unwrap().push(event);
    }

    fn revoked(&self, job: JobId, lease: LeaseId, why: Revocation) {
        let event = LeaseEvent::Revoked { job, lease, why };
        self.0.lock().unwrap().push(event);
    }
}

/// One life of an orchestrator.
pub(crate) struct Side {
    model: Arc<LeaseHost>,
    audit: Arc<LeaseAudit>,
    session: Orchestrator,
    tokens: Tokens,
    asks: BTreeMap<Tag, (Name, Receiver<Vec<GrantedLease>>)>,
    changes: Arc<Changes>,
    sent: Vec<Outgoing>,
}

impl Side {
    pub(crate) fn start(model: &Arc<LeaseHost>, in_flight_max: usize) -> Self {
        Self::at_node(model, model.first(), in_flight_max)
    }

    /// Starts one at a node of the host.
    pub(crate) fn at_node(
        model: &Arc<LeaseHost>,
        leases: Arc<dyn Leases>,
        in_flight_max: usize,
    ) -> Self {
        let worker = RemoteWorker {
            url: "http://127.0.0.1:9000".parse().unwrap(),
            secret: None,
            in_flight_max,
        };
        let config = OrchestratorConfig {
            workers: BTreeMap::from([("spark".parse().unwrap(), worker)]),
            origins: Vec::new(),
            public_url: None,
            keys: None,
            times: TIMES,
        };
        let mut side = Self {
            model: Arc::clone(model),
            audit: LeaseAudit::new(leases),
            session: Orchestrator::new(&config),
            tokens: Tokens::new(&Keys::new(KEY, None).unwrap()),
            asks: BTreeMap::new(),
            changes: Arc::default(),
            sent: Vec::new(),
        };
        side.event(Event::Start(BASE.parse().unwrap()));
        side
    }

    fn at(&self) -> Moment {
        Moment {
            now: self.model.clock.now(),
            wall: self.model.clock.wall(),
        }
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.session.wakeup()
    }

    /// A callback arrives.
    pub(crate) fn callback(&mut self, link: u64, path: &str, token: &str, body: &str) {
        let mut parts = path.rsplit('/');
        let (verb, id) = (parts.next().unwrap(), parts.next().unwrap());
        let read = match verb {
            "started" => read::started,
            "heartbeat" => read::heartbeat,
            _ => read::completed,
        };
        let callback = Callback {
            task: TaskId::read(id),
            scope: self.tokens.check(self.at().now, token),
            message: Ok(read(body.as_bytes()).unwrap()),
        };
        let mut actions = Actions::default();
        let at = self.at();
        self.session
            .on_message(at, Link(link), callback, &mut actions);
        self.carry_out(actions);
    }

    /// The answer to a dispatch arrives, or does not.
    pub(crate) fn dispatched(&mut self, tag: u64, status: Option<u16>) {
        let lost = || RequestError::Broken("reset".to_owned());
        let answer = status.ok_or_else(lost).map(|status| Answer {
            status,
            retry_after: None,
            body: "no".into(),
        });
        self.event(Event::Dispatched(Tag(tag), answer));
    }

    /// Does what is due, and what the host has for it; returns what went out since the last call.
    pub(crate) fn go_on(&mut self) -> Vec<Outgoing> {
        let now = self.at().now;
        if self.due().is_some_and(|due| due <= now) {
            let mut actions = Actions::default();
            self.session.on_wakeup(now, &mut actions);
            self.carry_out(actions);
        }
        loop {
            let changes = std::mem::take(&mut *self.changes.0.lock().unwrap());
            let mut events: Vec<Event> = changes.into_iter().map(Event::Lease).collect();
            self.asks.retain(|tag, (name, answer)| {
                let Ok(granted) = answer.try_recv() else {
                    return true;
                };
                events.push(Event::Granted(*tag, name.clone(), granted));
                false
            });
            if events.is_empty() {
                return std::mem::take(&mut self.sent);
            }
            for event in events {
                self.event(event);
            }
        }
    }

    /// Asks it to stop, as a host does that ends.
    pub(crate) fn stop(&mut self) {
        self.event(Event::Stop);
    }

    /// Returns how many attempts its worker has, as far as it knows.
    pub(crate) fn in_flight(&self) -> usize {
        let worker = self.session.worker(&"spark".parse().unwrap());
        worker.unwrap().1
    }

    /// Returns how many attempts it knows.
    pub(crate) fn known(&self) -> usize {
        self.session.attempts.jobs().len()
    }

    pub(crate) fn end(self) {
        self.audit.assert_kept();
    }

    fn event(&mut self, event: Event) {
        let mut actions = Actions::default();
        let at = self.at();
        self.session.on_event(at, event, &mut actions);
        self.carry_out(actions);
    }

    fn carry_out(&mut self, mut actions: ActionsOf<Orchestrator>) {
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            match action {
                Action::Send(link, answer) => {
                    let (status, body) = match answer {
                        Ok(answer) => (200, serde_json::to_string(&answer)),
                        Err(refused) => (refused.status, serde_json::to_string(&refused.body)),
                    };
                    self.sent
                        .push(Outgoing::Answer(link.0, status, body.unwrap()));
                }
                Action::Effect(effect) => self.effect(effect),
                Action::Close(_) | Action::Count(_) => {}
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Resume(name) => {
                let (respond, mut answer) = respond();
                let changes: Arc<dyn LeaseEvents> = Arc::<Changes>::clone(&self.changes);
                self.audit.resume(name.clone(), changes, respond);
                self.event(Event::Resumed(name, answer.try_recv().unwrap()));
            }
            Effect::Ask(tag, name, slots) => {
                let (respond, answer) = respond();
                let request = LeaseRequest {
                    executors: vec![name.clone()],
                    worker: format!("{name}/1"),
                    slots,
                    hold: Hold::Ttl {
                        ttl_ms: TIMES.heartbeat_timeout_ms,
                    },
                    wait_ms: WAIT_FOREVER,
                    events: Some(Arc::<Changes>::clone(&self.changes)),
                };
                self.audit.lease(request, respond);
                self.asks.insert(tag, (name, answer));
            }
            Effect::Withdraw(tag) => {
                if let Some((name, mut answer)) = self.asks.remove(&tag) {
                    answer.close();
                    if let Ok(granted) = answer.try_recv() {
                        self.event(Event::Granted(tag, name, granted));
                    }
                }
            }
            Effect::Send {
                tag,
                job,
                fence,
                message,
            } => {
                let (respond, mut answer) = respond();
                self.audit.send(job, fence, *message, respond);
                self.event(Event::Answered(tag, answer.try_recv().unwrap()));
            }
            Effect::Read(tag, job) => {
                let (respond, mut answer) = respond();
                self.audit.read(job, respond);
                let kept = answer.try_recv().unwrap();
                self.event(Event::Read(tag, kept.map(|kept| kept.map(Box::new))));
            }
            Effect::Dispatch(tag, dispatch) => {
                let at = self.at();
                let body = envelope::write(&dispatch, &TIMES, &self.tokens, (at.now, at.wall));
                self.sent.push(Outgoing::Dispatch(tag.0, body));
            }
            // What was sent may arrive all the same.
            Effect::Abort(_) | Effect::Log(_) => {}
        }
    }
}
