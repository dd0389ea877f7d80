//! A worker session without I/O: connections are numbers, and the test sets the time and answers
//! executions.

use std::collections::BTreeMap;

use bytes::BytesMut;
use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::session::{Action, Actions, Link, Moment, Session};
use host_wire_kit::stream::{Framing, Next, Peer, StreamSession as _};
use serde_json::{Value, json};

use crate::frame::Frames;
use crate::worker::{ExecutionEnd, Worker, WorkerEffect, WorkerEvent};

/// Host time at the start. The wall clock is a year ahead.
pub(super) const START: Time = Time(1_763_000_000_000);
pub(super) const WALL_AHEAD_MS: u64 = 365 * 24 * 3_600_000;

pub(super) struct Bench {
    pub(super) worker: Worker,
    pub(super) now: Time,
    actions: Actions<crate::messages::Out, WorkerEffect>,
    /// The bytes written to each connection, including their framing.
    written: BTreeMap<Link, BytesMut>,
    pub(super) closed: Vec<u64>,
    pub(super) started: Vec<(Tag, ForeignJob)>,
    pub(super) stopped: Vec<(Tag, u64, Stop)>,
    pub(super) counted: Vec<&'static str>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self {
            worker: Worker::default(),
            now: START,
            actions: Actions::default(),
            written: BTreeMap::new(),
            closed: Vec::new(),
            started: Vec::new(),
            stopped: Vec::new(),
            counted: Vec::new(),
        }
    }

    /// Makes a bench with connection 1 open.
    pub(super) fn connected() -> Self {
        let mut bench = Self::new();
        bench.open(1);
        bench
    }

    pub(super) fn wall(&self) -> Time {
        self.now.plus_ms(WALL_AHEAD_MS)
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.wall(),
        }
    }

    pub(super) fn open(&mut self, link: u64) {
        let link = Link(link);
        self.worker.on_open(self.now, link, &mut self.actions);
        self.carry_out();
    }

    /// Opens a connection of a user.
    pub(super) fn open_as(&mut self, link: u64, uid: u32) {
        self.worker.on_peer(Link(link), Peer { uid });
        self.open(link);
    }

    pub(super) fn close(&mut self, link: u64) {
        let link = Link(link);
        self.worker.on_closed(self.now, link, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn send(&mut self, link: u64, message: &Value) {
        self.send_bytes(link, message.to_string().as_bytes());
    }

    pub(super) fn send_bytes(&mut self, link: u64, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        self.send_stream(link, &[&length, payload].concat());
    }

    /// Hands in bytes as from a socket. Whole frames are handled.
    pub(super) fn send_stream(&mut self, link: u64, bytes: &[u8]) {
        let mut frames = Frames::default();
        frames.room().extend_from_slice(bytes);
        loop {
            let (frame, more) = match frames.next() {
                Next::Incomplete => return,
                Next::Frame(frame) => (Ok(frame), true),
                Next::Skipped(defect) => (Err(defect), true),
                Next::Broken(defect) => (Err(defect), false),
            };
            let message = Worker::read(frame);
            let moment = self.moment();
            self.worker
                .on_message(moment, Link(link), message, &mut self.actions);
            self.carry_out();
            if !more {
                return;
            }
        }
    }

    pub(super) fn answer(&mut self, tag: Tag, answer: ExecutionEnd) {
        let event = WorkerEvent::Answer(tag, answer);
        let moment = self.moment();
        self.worker.on_event(moment, event, &mut self.actions);
        self.carry_out();
    }

    pub(super) fn end(&mut self, tag: Tag, outcome: Outcome) {
        self.answer(tag, ExecutionEnd::Ended(outcome));
    }

    pub(super) fn stop_host(&mut self) {
        self.handle_event(WorkerEvent::Stop);
    }

    pub(super) fn handle_event(&mut self, event: WorkerEvent) {
        let moment = self.moment();
        self.worker.on_event(moment, event, &mut self.actions);
        self.carry_out();
    }

    /// Advances time, stopping at each wakeup.
    pub(super) fn pass_ms(&mut self, ms: u64) {
        let until = self.now.plus_ms(ms);
        while let Some(at) = self.worker.wakeup().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.worker.on_wakeup(self.now, &mut self.actions);
            self.carry_out();
        }
        self.now = until;
    }

    fn carry_out(&mut self) {
        for action in self.actions.drain() {
            match action {
                Action::Send(link, message) => {
                    Worker::write(&message, self.written.entry(link).or_default());
                }
                Action::Close(link) => self.closed.push(link.0),
                Action::Effect(WorkerEffect::Start(tag, job)) => self.started.push((tag, *job)),
                Action::Effect(WorkerEffect::Stop { tag, grace_ms, why }) => {
                    self.stopped.push((tag, grace_ms, why));
                }
                Action::Count(code) => self.counted.push(code),
            }
        }
    }

    /// Takes the payloads of all responses written to a connection.
    pub(super) fn answers(&mut self, link: u64) -> Vec<Value> {
        let mut frames = Frames::default();
        let written = self.written.remove(&Link(link)).unwrap_or_default();
        frames.room().extend_from_slice(&written);
        let mut answers = Vec::new();
        while let Next::Frame(frame) = frames.next() {
            let mut message: Value = serde_json::from_slice(&frame).unwrap();
            assert_eq!(message["type"], "response");
            answers.push(message["payload"].take());
        }
        assert_eq!(frames.pending_bytes(), 0, "whole frames only");
        answers
    }

    /// Takes the only response written to a connection.
    pub(super) fn answer_of(&mut self, link: u64) -> Value {
        let mut answers = self.answers(link);
        assert_eq!(answers.len(), 1, "{answers:?}");
        answers.remove(0)
    }

    /// Takes the tag of the execution started last.
    pub(super) fn tag(&self) -> Tag {
        self.started.last().expect("something was started").0
    }

    /// Checks that nothing is left.
    pub(super) fn check_empty(&mut self) {
        assert!(self.worker.is_idle());
        assert!(self.worker.due.is_empty());
        assert!(self.worker.by_request.is_empty());
        assert!(self.worker.by_job.is_empty());
        assert!(self.worker.links.values().all(|in_flight| *in_flight == 0));
        let unread: Vec<_> = self.written.keys().collect();
        assert!(unread.is_empty(), "unread: {unread:?}");
    }

    /// Makes a request with a deadline in one minute.
    pub(super) fn request(&self, request_id: &str, job_id: &str) -> Value {
        self.request_within(request_id, job_id, 60_000)
    }

    pub(super) fn request_within(&self, request_id: &str, job_id: &str, ms: i64) -> Value {
        let deadline = Time(self.wall().0 + ms).to_rfc3339();
        json!({"type": "request", "payload": {
            "protocol_version": "2", "request_id": request_id, "job_id": job_id,
            "function_name": "echo", "params": {"a": 1},
            "context": {
                "job_id": job_id, "attempt": 1, "enqueue_time": "2026-11-20T23:40:47.492469Z",
                "queue_name": "default", "deadline": deadline, "trace_context": null,
                "worker_id": "w"
            }
        }})
    }
}

pub(super) fn cancel(job_id: &str, request_id: Option<&str>, hard_kill: bool) -> Value {
    json!({"type": "cancel", "payload": {
        "protocol_version": "2", "job_id": job_id, "request_id": request_id, "hard_kill": hard_kill
    }})
}

pub(super) fn completed(result: &str) -> Outcome {
    Outcome::Completed {
        result: Some(JsonText(result.to_owned())),
    }
}

pub(super) fn stopped() -> Outcome {
    Outcome::Failed(Failure::new(FailureKind::Cancelled, "stopped"))
}
