//! A session with an orchestrator, guests and a program that a test controls.

use bytes::{Bytes, BytesMut};
use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession as _;
use serde_json::{Value, json};

use crate::frame::{Dialect, text_of};
use crate::messages::Out;
use crate::worker::{Call, Effect, Event, Worker, WorkerSetup};

pub(super) const START: Time = Time(1_733_423_456_789);

pub(super) fn setup(has_program: bool, dialect: Dialect) -> WorkerSetup {
    WorkerSetup {
        worker_id: "W1".to_owned(),
        handler: "tidy".parse().unwrap(),
        dialect,
        has_program,
    }
}

pub(super) fn done() -> Outcome {
    Outcome::Completed {
        result: Some(JsonText("1".to_owned())),
    }
}

pub(super) fn failed(message: &str) -> Outcome {
    let failure = Failure::new(FailureKind::UserError, message);
    Outcome::Failed(failure)
}

/// A session and its decisions so far.
pub(super) struct Bench {
    pub(super) session: Worker,
    pub(super) now: Time,
    sent: Vec<Value>,
    pub(super) started: Vec<(Tag, ForeignJob)>,
    pub(super) stopped: Vec<(Tag, Stop)>,
    pub(super) calls: Vec<(Call, String)>,
    pub(super) counted: Vec<&'static str>,
    pub(super) closed: usize,
    /// How often it announced that it tries frames.
    pub(super) tries: usize,
    links: u64,
}

impl Bench {
    /// Connects a worker with JSON lines, which has sent READY.
    pub(super) fn connected(has_program: bool) -> Self {
        Self::new(setup(has_program, Dialect::Lines))
    }

    pub(super) fn new(setup: WorkerSetup) -> Self {
        let at = Moment {
            now: START,
            wall: START,
        };
        let mut bench = Self {
            session: Worker::new(setup, at),
            now: START,
            sent: Vec::new(),
            started: Vec::new(),
            stopped: Vec::new(),
            calls: Vec::new(),
            counted: Vec::new(),
            closed: 0,
            tries: 0,
            links: 0,
        };
        bench.open();
        assert_eq!(bench.types(), ["READY"]);
        bench
    }

    pub(super) fn open(&mut self) {
        self.links += 1;
        let link = Link(self.links);
        self.step(|session, at, actions| session.on_open(at.now, link, actions));
    }

    pub(super) fn close(&mut self) {
        let link = Link(self.links);
        self.step(|session, at, actions| session.on_closed(at.now, link, actions));
    }

    pub(super) fn receive_frame(&mut self, frame: Bytes) {
        let link = Link(self.links);
        let input = Worker::read(Ok(frame));
        self.step(|session, at, actions| session.on_message(at, link, input, actions));
    }

    pub(super) fn receive(&mut self, message: &Value) {
        self.receive_frame(Bytes::from(message.to_string()));
    }

    /// Handles a message in a frame.
    pub(super) fn receive_framed(&mut self, payload: &Value) {
        let text = json!({"version": 1, "payload": payload}).to_string();
        let mut frame = u32::try_from(text.len()).unwrap().to_be_bytes().to_vec();
        frame.extend(text.bytes());
        self.receive_frame(frame.into());
    }

    pub(super) fn task(&mut self, issue_id: &str) {
        self.receive(&json!({"type": "TASK", "worker_id": "W1", "timestamp": 1.0, "issue_id": issue_id, "priority": 2, "title": "a title"}));
    }

    pub(super) fn say(&mut self, event: Event) {
        self.step(|session, at, actions| session.on_event(at, event, actions));
    }

    /// Ends the latest guest.
    pub(super) fn end(&mut self, outcome: impl Into<Option<Outcome>>) {
        let tag = self.started.last().unwrap().0;
        self.say(Event::Ended(tag, outcome.into()));
    }

    /// Ends the latest call.
    pub(super) fn called(&mut self, end: Result<(), &str>) -> (Call, String) {
        let call = self.calls.pop().expect("a call was made");
        assert!(self.calls.is_empty(), "one call at a time");
        self.say(Event::Called(end.map_err(str::to_owned)));
        call
    }

    pub(super) fn pass_ms(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        if self.session.wakeup().is_some_and(|due| due <= self.now) {
            self.step(|session, at, actions| session.on_wakeup(at.now, actions));
        }
    }

    pub(super) fn session_is_busy(&self) -> bool {
        !self.session.is_idle()
    }

    /// Returns the messages since the last call.
    pub(super) fn sent(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.sent)
    }

    pub(super) fn types(&mut self) -> Vec<String> {
        let sent = self.sent();
        let types = sent
            .iter()
            .map(|it| it["type"].as_str().unwrap().to_owned());
        types.collect()
    }

    fn step(&mut self, act: impl FnOnce(&mut Worker, Moment, &mut ActionsOf<Worker>)) {
        let at = Moment {
            now: self.now,
            wall: self.now,
        };
        let mut actions = Actions::default();
        act(&mut self.session, at, &mut actions);
        for action in actions.drain() {
            match action {
                Action::Send(_, message) => self.sent.push(shown(&message)),
                Action::Close(_) => self.closed += 1,
                Action::Count(code) => self.counted.push(code),
                Action::Effect(Effect::Start(tag, job)) => self.started.push((tag, *job)),
                Action::Effect(Effect::Stop(tag, why)) => self.stopped.push((tag, why)),
                Action::Effect(Effect::Call(call, issue)) => self.calls.push((call, issue)),
                Action::Effect(Effect::WarnOfFrames) => self.tries += 1,
            }
        }
    }
}

fn shown(message: &Out) -> Value {
    let mut out = BytesMut::new();
    Worker::write(message, &mut out);
    let mut value: Value = serde_json::from_slice(text_of(&out)).unwrap();
    match value.get_mut("payload") {
        Some(payload) => payload.take(),
        None => value,
    }
}
