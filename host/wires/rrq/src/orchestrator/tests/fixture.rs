//! A pool without I/O: the test itself reports what processes and connections do, and sets the
//! time.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use host_core::json::JsonText;
use host_core::port::{Assignment, End, Tag};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use host_wire_kit::session::{Action, Actions, Link, Moment, Session};
use host_wire_kit::stream::{Framing, Next, StreamSession as _};
use serde_json::{Value, json};

use super::super::{Orchestrator, PoolEffect, PoolEvent};
use crate::config::{Dialect, Launch, PoolConfig, Source};
use crate::frame::{Defect, Frames};

pub(super) const START: Time = Time(1_763_000_000_000);

pub(super) struct Bench {
    pub(super) pool: Orchestrator,
    pub(super) now: Time,
    actions: Actions<crate::messages::Out, PoolEffect>,
    written: BTreeMap<Link, BytesMut>,
    /// Whether connections open as soon as they are requested.
    pub(super) listening: bool,
    /// All actions except messages, in order, as text.
    pub(super) log: Vec<String>,
    pub(super) ended: Vec<(Tag, End)>,
    pub(super) counted: Vec<&'static str>,
    /// How many more executions the pool accepts.
    pub(super) free: usize,
    capacity: usize,
    /// The connections in the order in which they were requested.
    pub(super) links: Vec<(usize, Link)>,
}

pub(super) fn config(pool_size: usize, in_flight_max: usize, dialect: Dialect) -> PoolConfig {
    PoolConfig {
        name: "python".parse().unwrap(),
        source: Source::Launched(Launch {
            command: vec!["runner".to_owned()],
            pool_size,
            tcp_port: None,
            cwd: None,
            env: BTreeMap::new(),
        }),
        in_flight_max,
        dialect,
    }
}

impl Bench {
    pub(super) fn new(config: &PoolConfig) -> Self {
        Self {
            pool: Orchestrator::new(config, START),
            now: START,
            actions: Actions::default(),
            written: BTreeMap::new(),
            listening: true,
            log: Vec::new(),
            ended: Vec::new(),
            counted: Vec::new(),
            free: 0,
            capacity: 0,
            links: Vec::new(),
        }
    }

    /// Makes a bench whose runners are all up.
    pub(super) fn up(pool_size: usize, in_flight_max: usize, dialect: Dialect) -> Self {
        let mut bench = Self::new(&config(pool_size, in_flight_max, dialect));
        bench.pass_ms(0);
        for runner in 0..pool_size {
            bench.handle_event(PoolEvent::Launched { runner });
        }
        assert_eq!(bench.free, pool_size * in_flight_max);
        bench.log.clear();
        bench
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    pub(super) fn handle_event(&mut self, event: PoolEvent) {
        let moment = self.moment();
        self.pool.on_event(moment, event, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn start(&mut self, tag: u64, timeout_ms: u64) {
        let assignment = Box::new(assignment(tag, timeout_ms));
        self.handle_event(PoolEvent::Start(Tag(tag), assignment));
    }

    /// Starts a job against which this much is known.
    pub(super) fn start_suspect(&mut self, tag: u64, suspicion: Suspicion) {
        let mut assignment = assignment(tag, 3_600_000);
        assignment.suspicion = suspicion;
        self.handle_event(PoolEvent::Start(Tag(tag), Box::new(assignment)));
    }

    pub(super) fn cancel(&mut self, tag: u64, grace_ms: u64) {
        let tag = Tag(tag);
        self.handle_event(PoolEvent::Cancel { tag, grace_ms });
    }

    /// Sends a message as the runner at the other end of a connection.
    pub(super) fn handle_message(&mut self, link: Link, message: &Value) {
        self.handle_frame(link, message.to_string().as_bytes());
    }

    pub(super) fn handle_frame(&mut self, link: Link, payload: &[u8]) {
        self.handle_read(link, Ok(Bytes::copy_from_slice(payload)));
    }

    pub(super) fn handle_read(&mut self, link: Link, frame: Result<Bytes, Defect>) {
        let message = Orchestrator::read(frame);
        let moment = self.moment();
        self.pool
            .on_message(moment, link, message, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn handle_success(&mut self, link: Link, tag: u64) {
        self.handle_message(
            link,
            &response(tag, &json!({"status": "success", "result": tag})),
        );
    }

    pub(super) fn close(&mut self, link: Link) {
        self.pool.on_closed(self.now, link, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn pass_ms(&mut self, ms: u64) {
        let until = self.now.plus_ms(ms);
        while let Some(at) = self.pool.wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.pool.on_wakeup(self.now, &mut self.actions);
            self.carry_out();
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        let mut opening = Vec::new();
        let actions: Vec<_> = self.actions.drain().collect();
        for action in actions {
            match action {
                Action::Send(link, message) => {
                    Orchestrator::write(&message, self.written.entry(link).or_default());
                }
                Action::Close(link) => self.log.push(format!("close {}", link.0)),
                Action::Count(code) => self.counted.push(code),
                Action::Effect(PoolEffect::Launch { runner }) => {
                    self.log.push(format!("launch {runner}"));
                }
                Action::Effect(PoolEffect::Kill { runner, grace_ms }) => {
                    self.log.push(format!("kill {runner} after {grace_ms}"));
                }
                Action::Effect(PoolEffect::Connect { runner, link }) => {
                    self.log.push(format!("connect {runner} as {}", link.0));
                    self.links.push((runner, link));
                    opening.push(link);
                }
                Action::Effect(PoolEffect::Capacity(attempts)) => {
                    assert_ne!(attempts, self.capacity, "event only when it changes");
                    self.capacity = attempts;
                }
                Action::Effect(PoolEffect::Ended { tag, end, .. }) => self.ended.push((tag, end)),
            }
        }
        self.free = self.pool.free();
        let pool = &self.pool;
        assert_eq!(self.capacity, self.free + pool.runs.len() + pool.held.len());
        for link in opening {
            if self.listening {
                self.pool.on_open(self.now, link, &mut self.actions);
            } else {
                let moment = self.moment();
                let event = PoolEvent::ConnectFailed { link };
                self.pool.on_event(moment, event, &mut self.actions);
            }
            self.carry_out();
        }
    }

    /// Takes the messages written to a connection.
    pub(super) fn written(&mut self, link: Link) -> Vec<Value> {
        let mut frames = Frames::default();
        let written = self.written.remove(&link).unwrap_or_default();
        frames.room().extend_from_slice(&written);
        let mut messages = Vec::new();
        while let Next::Frame(frame) = frames.next() {
            messages.push(serde_json::from_slice(&frame).unwrap());
        }
        messages
    }

    /// Returns the connection that was requested last.
    pub(super) fn last_link(&self) -> Link {
        self.links.last().expect("a connection").1
    }

    pub(super) fn check_quiet(&self) {
        assert!(self.pool.runs.is_empty());
        assert!(self.pool.by_request.is_empty());
        assert!(self.pool.held.is_empty());
        assert!(
            self.pool
                .runners
                .iter()
                .all(|runner| runner.runs.is_empty())
        );
    }
}

pub(super) fn assignment(tag: u64, timeout_ms: u64) -> Assignment {
    Assignment {
        request_id: format!("r{tag}"),
        job_id: format!("j{tag}"),
        handler: "echo".to_owned(),
        params: JsonText(r#"{"a":1}"#.to_owned()),
        queue: "default".to_owned(),
        priority: 5,
        attempt: 1,
        enqueued_at: START,
        timeout_ms,
        deadline: None,
        attributes: Vec::new(),
        trace: Vec::new(),
        worker_id: "host".to_owned(),
        suspicion: Suspicion::NONE,
    }
}

/// Makes a response to the request of `tag`. `body` adds and overrides fields.
pub(super) fn response(tag: u64, body: &Value) -> Value {
    let mut payload = json!({"job_id": format!("j{tag}"), "request_id": format!("r{tag}")});
    for (key, value) in body.as_object().unwrap() {
        payload[key] = value.clone();
    }
    json!({"type": "response", "payload": payload})
}

/// What is known against a job that was in flight at two losses, of which the second leaves groups of this size.
pub(super) fn suspect(group_max: usize) -> Suspicion {
    Suspicion::NONE.after_loss(2).after_loss(2 * group_max)
}
