//! A pool on a table: processes and connections are facts that the test states, time is told.

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};
use host_core::json::JsonText;
use host_core::time::Time;
use serde_json::{Value, json};

use super::super::{Assignment, End, Orchestrator, RunnerAsk, RunnerSaid};
use crate::rrq::config::{Dialect, Launch, RunnerConfig, Source};
use crate::rrq::frame::{Defect, Frames};
use crate::session::{Action, Actions, Framing, Link, Moment, Session};
use host_core::port::Tag;

pub(super) const START: Time = Time(1_763_000_000_000);

pub(super) struct Bench {
    pub(super) pool: Orchestrator,
    pub(super) now: Time,
    actions: Actions<crate::rrq::wire::Out, RunnerAsk>,
    written: BTreeMap<Link, BytesMut>,
    /// Whether connections open as soon as they are asked for.
    pub(super) listening: bool,
    /// Every decision but messages, in order, as text.
    pub(super) log: Vec<String>,
    pub(super) ended: Vec<(Tag, End)>,
    pub(super) counted: Vec<&'static str>,
    pub(super) room: usize,
    /// Connections in the order in which they were asked for.
    pub(super) links: Vec<(usize, Link)>,
}

pub(super) fn config(pool_size: usize, in_flight_max: usize, dialect: Dialect) -> RunnerConfig {
    RunnerConfig {
        name: "python".to_owned(),
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
    pub(super) fn new(config: &RunnerConfig) -> Self {
        Self {
            pool: Orchestrator::new(config, START),
            now: START,
            actions: Actions::default(),
            written: BTreeMap::new(),
            listening: true,
            log: Vec::new(),
            ended: Vec::new(),
            counted: Vec::new(),
            room: 0,
            links: Vec::new(),
        }
    }

    /// A bench whose runners are all up.
    pub(super) fn up(pool_size: usize, in_flight_max: usize, dialect: Dialect) -> Self {
        let mut bench = Self::new(&config(pool_size, in_flight_max, dialect));
        bench.pass_ms(0);
        for seat in 0..pool_size {
            bench.say(RunnerSaid::Launched { seat });
        }
        assert_eq!(bench.room, pool_size * in_flight_max);
        bench.log.clear();
        bench
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    pub(super) fn say(&mut self, said: RunnerSaid) {
        let moment = self.moment();
        self.pool.on_said(moment, said, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn start(&mut self, tag: u64, timeout_ms: u64) {
        let assignment = Box::new(assignment(tag, timeout_ms));
        self.say(RunnerSaid::Start(Tag(tag), assignment));
    }

    pub(super) fn cancel(&mut self, tag: u64, grace_ms: u64) {
        let tag = Tag(tag);
        self.say(RunnerSaid::Cancel { tag, grace_ms });
    }

    /// Says something as the runner at the other end of a connection.
    pub(super) fn hear(&mut self, link: Link, message: &Value) {
        self.hear_frame(link, message.to_string().as_bytes());
    }

    pub(super) fn hear_frame(&mut self, link: Link, payload: &[u8]) {
        self.hear_read(link, Ok(Bytes::copy_from_slice(payload)));
    }

    /// Hears a length that no frame has.
    pub(super) fn hear_defect(&mut self, link: Link, header: [u8; 4]) {
        self.hear_read(link, Err(Defect::TooLarge { header }));
    }

    fn hear_read(&mut self, link: Link, frame: Result<Bytes, Defect>) {
        let message = Orchestrator::read(frame);
        let moment = self.moment();
        self.pool
            .on_message(moment, link, message, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn hear_success(&mut self, link: Link, tag: u64) {
        self.hear(
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
                Action::Ask(RunnerAsk::Launch { seat }) => self.log.push(format!("launch {seat}")),
                Action::Ask(RunnerAsk::Kill { seat, grace_ms }) => {
                    self.log.push(format!("kill {seat} after {grace_ms}"));
                }
                Action::Ask(RunnerAsk::Connect { seat, link }) => {
                    self.log.push(format!("connect {seat} as {}", link.0));
                    self.links.push((seat, link));
                    opening.push(link);
                }
                Action::Ask(RunnerAsk::Room(room)) => {
                    assert_eq!(room.in_flight, self.pool.runs.len());
                    self.room = room.free;
                }
                Action::Ask(RunnerAsk::Ended { tag, end, .. }) => self.ended.push((tag, end)),
            }
        }
        for link in opening {
            if self.listening {
                self.pool.on_open(self.now, link, &mut self.actions);
            } else {
                let moment = self.moment();
                let said = RunnerSaid::ConnectFailed { link };
                self.pool.on_said(moment, said, &mut self.actions);
            }
            self.carry_out();
        }
    }

    /// Takes what was written to a connection.
    pub(super) fn written(&mut self, link: Link) -> Vec<Value> {
        let mut frames = Frames::default();
        let written = self.written.remove(&link).unwrap_or_default();
        frames.room().extend_from_slice(&written);
        let mut messages = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            messages.push(serde_json::from_slice(&frame).unwrap());
        }
        messages
    }

    /// Returns the connection that was asked for last.
    pub(super) fn last_link(&self) -> Link {
        self.links.last().expect("a connection").1
    }

    pub(super) fn check_quiet(&self) {
        assert!(self.pool.runs.is_empty());
        assert!(self.pool.by_request.is_empty());
        assert!(self.pool.seats.iter().all(|seat| seat.runs.is_empty()));
    }
}

pub(super) fn assignment(tag: u64, timeout_ms: u64) -> Assignment {
    Assignment {
        request_id: format!("r{tag}"),
        job_id: format!("j{tag}"),
        handler: "echo".to_owned(),
        params: JsonText(r#"{"a":1}"#.to_owned()),
        queue: "default".to_owned(),
        attempt: 1,
        enqueued_at: START,
        timeout_ms,
        deadline: None,
        attributes: Vec::new(),
        trace: Vec::new(),
        worker_id: "host".to_owned(),
    }
}

/// A response to the request of `tag`; `body` adds and overrides fields.
pub(super) fn response(tag: u64, body: &Value) -> Value {
    let mut payload = json!({"job_id": format!("j{tag}"), "request_id": format!("r{tag}")});
    for (key, value) in body.as_object().unwrap() {
        payload[key] = value.clone();
    }
    json!({"type": "response", "payload": payload})
}
