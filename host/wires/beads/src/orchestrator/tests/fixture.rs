//! A session with a host that has jobs, and workers that a test controls.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use host_core::id::{JobId, LeaseId};
use host_core::port::lease::End;
use host_core::time::Time;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::EXECUTOR;
use crate::frame::text_of;
use crate::messages::Out;
use crate::orchestrator::{Ask, Effect, Event, GrantedTask, Orchestrator};
use crate::read::{In, Message};
use crate::settings::OrchestratorConfig;

pub(crate) const START: Time = Time(1_733_423_456_789);

/// How far the wall clock is ahead of host time.
pub(crate) const AHEAD_MS: u64 = 1_000;

pub(crate) const TIMEOUT_MS: u64 = 60_000;

pub(crate) fn config(hold_ms: u64) -> OrchestratorConfig {
    OrchestratorConfig {
        executor: EXECUTOR.parse().unwrap(),
        socket: "unused".to_owned(),
        workers_max: 256,
        wait_seconds: 30,
        hold_ms,
    }
}

pub(crate) fn job(number: u64) -> JobId {
    JobId(Uuid::from_u128(number.into()))
}

pub(crate) fn granted(number: u64, lease: u64) -> GrantedTask {
    GrantedTask {
        job: job(number),
        lease: LeaseId(Uuid::from_u128(u128::from(lease) << 64)),
        priority: 2,
        title: format!("issue {number}"),
        timeout_ms: TIMEOUT_MS,
    }
}

/// A session and its decisions so far.
pub(crate) struct Bench {
    pub(crate) session: Orchestrator,
    pub(crate) now: Time,
    /// Jobs that are available.
    pub(crate) jobs: VecDeque<u64>,
    /// Requests without an answer, with their wait.
    pub(crate) asks: VecDeque<(Ask, u64)>,
    /// The number of each lease's job.
    leases: BTreeMap<LeaseId, u64>,
    /// The messages to each worker.
    sent: BTreeMap<Link, Vec<Value>>,
    pub(crate) closed: Vec<Link>,
    pub(crate) counted: Vec<&'static str>,
    /// How many notes about workers were logged.
    pub(crate) notes: usize,
    /// The number of a job, and how its lease ended.
    pub(crate) reported: Vec<(u64, End)>,
}

impl Bench {
    pub(crate) fn new(hold_ms: u64) -> Self {
        let moment = Moment {
            now: START,
            wall: START.plus_ms(AHEAD_MS),
        };
        Self {
            session: Orchestrator::new(config(hold_ms), moment),
            now: START,
            jobs: VecDeque::new(),
            asks: VecDeque::new(),
            leases: BTreeMap::new(),
            sent: BTreeMap::new(),
            closed: Vec::new(),
            counted: Vec::new(),
            notes: 0,
            reported: Vec::new(),
        }
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now.plus_ms(AHEAD_MS),
        }
    }

    pub(crate) fn open(&mut self, link: u64) {
        self.step(|session, at, actions| session.on_open(at.now, Link(link), actions));
    }

    pub(crate) fn close(&mut self, link: u64) {
        self.step(|session, at, actions| session.on_closed(at.now, Link(link), actions));
    }

    pub(crate) fn receive(&mut self, link: u64, text: &str) {
        let input = Orchestrator::read(Ok(Bytes::copy_from_slice(text.as_bytes())));
        self.receive_in(link, input);
    }

    pub(crate) fn receive_in(&mut self, link: u64, input: In<Message>) {
        self.step(|session, at, actions| session.on_message(at, Link(link), input, actions));
    }

    pub(crate) fn say(&mut self, event: Event) {
        self.step(|session, at, actions| session.on_event(at, event, actions));
    }

    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        if self.session.wakeup().is_some_and(|due| due <= self.now) {
            self.step(|session, at, actions| session.on_wakeup(at.now, actions));
        }
    }

    /// Opens a connection and sends READY.
    pub(crate) fn ready(&mut self, link: u64) {
        if !self.session.workers.contains_key(&Link(link)) {
            self.open(link);
        }
        self.receive(link, &ready(link).to_string());
    }

    /// Sends DONE for a job.
    pub(crate) fn done(&mut self, link: u64, number: u64) {
        let done = json!({"type": "DONE", "worker_id": format!("W{link}"), "issue_id": job(number).to_string(), "duration_ms": 12});
        self.receive(link, &done.to_string());
    }

    /// Sends FAILED for a job.
    pub(crate) fn failed(&mut self, link: u64, number: u64, error: &str) {
        let failed = json!({"type": "FAILED", "worker_id": format!("W{link}"), "issue_id": job(number).to_string(), "error": error, "duration_ms": 12});
        self.receive(link, &failed.to_string());
    }

    /// Returns the messages to a worker since the last call.
    pub(crate) fn sent(&mut self, link: u64) -> Vec<Value> {
        self.sent.remove(&Link(link)).unwrap_or_default()
    }

    /// Returns the types of what a worker was sent since this was asked last.
    pub(crate) fn types(&mut self, link: u64) -> Vec<String> {
        let sent = self.sent(link);
        let types = sent
            .iter()
            .map(|message| message["type"].as_str().unwrap().to_owned());
        types.collect()
    }

    /// Answers the oldest request: with the next job, or with nothing.
    pub(crate) fn answer(&mut self) {
        let (ask, _) = self.asks.pop_front().expect("a request waits");
        let granted = self.jobs.pop_front().map(|number| {
            let granted = granted(number, self.leases.len() as u64);
            self.leases.insert(granted.lease, number);
            granted
        });
        self.say(Event::Answered(ask, granted));
    }

    /// Makes a job available and gives it to a worker.
    pub(crate) fn busy(&mut self, link: u64, number: u64) {
        self.jobs.push_back(number);
        self.ready(link);
        self.answer();
        assert_eq!(self.types(link), ["TASK"]);
    }

    /// Returns the lease of a job that was granted once.
    pub(crate) fn lease(&self, number: u64) -> LeaseId {
        let mut leases = self.leases.iter();
        *leases.find(|(_, job)| **job == number).unwrap().0
    }

    fn step(&mut self, act: impl FnOnce(&mut Orchestrator, Moment, &mut ActionsOf<Orchestrator>)) {
        let mut actions = Actions::default();
        let at = self.moment();
        act(&mut self.session, at, &mut actions);
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            self.carry_out(action);
        }
    }

    fn carry_out(&mut self, action: Action<Out, Effect>) {
        match action {
            Action::Send(link, message) => {
                let mut out = BytesMut::new();
                Orchestrator::write(&message, &mut out);
                let mut value: Value = serde_json::from_slice(text_of(&out)).unwrap();
                if let Some(payload) = value.get_mut("payload") {
                    value = payload.take();
                }
                self.sent.entry(link).or_default().push(value);
            }
            Action::Close(link) => self.closed.push(link),
            Action::Count(code) => self.counted.push(code),
            Action::Effect(Effect::Ask { ask, wait_ms, .. }) => self.asks.push_back((ask, wait_ms)),
            Action::Effect(Effect::Withdraw(ask)) => self.asks.retain(|(asked, _)| *asked != ask),
            Action::Effect(Effect::End(ended)) => {
                // A lease that was granted too late for its worker is unknown here.
                let number = self.leases.get(&ended.lease).copied().unwrap_or(0);
                self.reported.push((number, ended.end));
            }
            Action::Effect(Effect::Note(..)) => self.notes += 1,
            Action::Effect(Effect::Warn(..)) => {}
        }
    }

    /// Checks that nothing is left: no request, no lease, no timer.
    pub(crate) fn check_quiet(&self) {
        assert!(self.asks.is_empty());
        let left = &self.session;
        assert!(left.asks.is_empty() && left.leases.is_empty() && left.due.is_empty());
        assert_eq!(left.numbers.len(), left.workers.len());
    }
}

pub(crate) fn ready(link: u64) -> Value {
    json!({"type": "READY", "worker_id": format!("W{link}"), "timestamp": 1.5})
}
