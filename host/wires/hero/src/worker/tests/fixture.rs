//! One session with its Redis and its guests. Nothing happens unless a test asks for it.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::time::Time;
use host_wire_kit::session::Moment;

use crate::messages::{Call, Command, Via};
use crate::settings::worker::WorkerConfig;
use crate::tests::redis::FakeRedis;
use crate::transport::driver::RedisSession as _;
use crate::worker::ExecutionAnswer;
use crate::worker::{Worker, WorkerAct};
use host_core::port::{ForeignJob, Stop, Tag};

/// Returns the id of job `n`.
pub(super) fn id(n: u32) -> String {
    format!("3f2b8a1c-0000-4000-8000-{n:012}")
}

pub(super) fn completed(result: &str) -> Outcome {
    Outcome::Completed {
        result: Some(JsonText(result.to_owned())),
    }
}

pub(super) fn failed(kind: FailureKind, message: &str) -> Outcome {
    Outcome::Failed(Failure::new(kind, message))
}

pub(super) struct Bench {
    pub(super) redis: FakeRedis,
    pub(super) worker: Worker,
    pub(super) now: Time,
    pub(super) guests: BTreeMap<Tag, ForeignJob>,
    /// Whether guests begin immediately.
    pub(super) has_room: bool,
    pub(super) stops: Vec<(Tag, u64, Stop)>,
    pub(super) counted: Vec<&'static str>,
    /// How many jobs waited and ran when that was last reported.
    pub(super) depth: (u64, u64),
    /// What Redis refused, and how often until then.
    pub(super) refused: Vec<(u32, String)>,
    /// Calls that Redis has not answered.
    pub(super) calls: Vec<Call>,
    /// All actions, as text.
    pub(super) written: Vec<String>,
}

impl Bench {
    pub(super) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(super) fn with(change: impl FnOnce(&mut WorkerConfig)) -> Self {
        let mut config = WorkerConfig::new("w1", "host-a");
        change(&mut config);
        let mut bench = Self::unconnected(Worker::new(config));
        bench.connect();
        bench
    }

    pub(super) fn unconnected(worker: Worker) -> Self {
        Self {
            redis: FakeRedis::default(),
            worker,
            now: Time(1_000),
            guests: BTreeMap::new(),
            has_room: true,
            stops: Vec::new(),
            counted: Vec::new(),
            depth: (0, 0),
            refused: Vec::new(),
            calls: Vec::new(),
            written: Vec::new(),
        }
    }

    pub(super) fn at(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    /// Hands in something and lets Redis answer everything that follows.
    pub(super) fn drive(&mut self, hand_in: impl FnOnce(&mut Worker, Moment, &mut Vec<WorkerAct>)) {
        self.hand_in(hand_in);
        self.settle();
    }

    pub(super) fn hand_in(
        &mut self,
        hand_in: impl FnOnce(&mut Worker, Moment, &mut Vec<WorkerAct>),
    ) {
        let mut todo = Vec::new();
        let at = self.at();
        hand_in(&mut self.worker, at, &mut todo);
        let mut began = Vec::new();
        for act in todo {
            match act {
                WorkerAct::Call(call) => {
                    self.written.extend(call.commands.iter().map(words));
                    self.calls.push(call);
                }
                WorkerAct::Start { tag, job, .. } => {
                    self.written
                        .push(format!("RUN {} attempt {}", job.handler, job.attempt));
                    self.guests.insert(tag, *job);
                    began.push(tag);
                }
                WorkerAct::Stop { tag, grace_ms, why } => {
                    self.written
                        .push(format!("STOP {why:?} within {grace_ms} ms"));
                    self.stops.push((tag, grace_ms, why));
                }
                WorkerAct::Count(code) => self.counted.push(code),
                WorkerAct::Depth { queued, in_flight } => self.depth = (queued, in_flight),
                WorkerAct::Refused { times, why } => self.refused.push((times, why)),
            }
        }
        if !self.has_room {
            return;
        }
        for tag in began {
            let begins = Box::new(move |worker: &mut Worker, at, todo: &mut Vec<WorkerAct>| {
                worker.on_began(at, tag, todo);
            });
            self.hand_in(begins as Box<dyn FnOnce(&mut Worker, Moment, &mut Vec<WorkerAct>)>);
        }
    }

    /// Lets Redis answer until no call is left. A blocking pop keeps waiting while the queue is
    /// empty.
    pub(super) fn settle(&mut self) {
        loop {
            let queue = format!("hero:work_queue:{}", "w1");
            let empty = self.redis.items(&queue).is_empty();
            let next = self
                .calls
                .iter()
                .position(|call| call.via != Via::Blocking || !empty);
            let Some(next) = next else { return };
            let call = self.calls.remove(next);
            self.answer(&call);
        }
    }

    /// Lets Redis answer all calls made so far, including blocking pops.
    pub(super) fn answer_all(&mut self) {
        for call in std::mem::take(&mut self.calls) {
            self.answer(&call);
        }
    }

    /// Returns how many pops went out.
    pub(super) fn pops(&self) -> usize {
        let pops = self.written.iter();
        pops.filter(|written| written.contains("LMOVE ")).count()
    }

    /// Lets Redis answer the calls on the shared connection.
    pub(super) fn answer_shared(&mut self) {
        while let Some(next) = self.calls.iter().position(|call| call.via != Via::Blocking) {
            let call = self.calls.remove(next);
            self.answer(&call);
        }
    }

    pub(super) fn answer(&mut self, call: &Call) {
        self.redis.now = self.now;
        let values = self.redis.answer(call);
        self.hand_in(|worker, at, todo| worker.on_reply(at, call.tag, &values, todo));
    }

    pub(super) fn connect(&mut self) {
        self.drive(Worker::on_connected);
    }

    pub(super) fn disconnect(&mut self) {
        self.calls.clear();
        self.worker.on_disconnected();
    }

    pub(super) fn enqueue(&mut self, n: u32, fields: &[(&str, &str)]) {
        let mut all = vec![("script", "40 + 2"), ("status", "dispatched")];
        for (name, value) in fields {
            all.retain(|(other, _)| other != name);
            all.push((name, value));
        }
        self.redis.enqueue("w1", &id(n), &all);
        self.settle();
    }

    /// Advances time and handles all timers that become due.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        while let Some(due) = self.worker.wakeup().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.drive(Worker::on_wakeup);
        }
        self.now = end;
    }

    /// Returns the guest of job `n`.
    pub(super) fn guest(&self, n: u32) -> Option<Tag> {
        let mut guests = self.guests.iter();
        guests
            .find(|(_, job)| job.external_id == id(n))
            .map(|(tag, _)| *tag)
    }

    /// Ends the guest of job `n`.
    pub(super) fn end(&mut self, n: u32, outcome: Outcome) {
        self.end_with(n, ExecutionAnswer::Ended(outcome));
    }

    pub(super) fn end_with(&mut self, n: u32, answer: ExecutionAnswer) {
        let tag = self
            .guest(n)
            .unwrap_or_else(|| panic!("job {n} does not run"));
        self.guests.remove(&tag);
        self.drive(|worker, at, todo| worker.on_answer(at, tag, answer, todo));
    }

    pub(super) fn running(&self) -> Vec<u32> {
        let numbers = self.guests.values().map(|job| {
            let (_, number) = job.external_id.rsplit_once('-').unwrap();
            number.parse().unwrap()
        });
        numbers.collect()
    }

    pub(super) fn status(&self, n: u32) -> String {
        self.redis.field(&id(n), "status").unwrap_or_default()
    }

    pub(super) fn error(&self, n: u32) -> String {
        self.redis.field(&id(n), "error").unwrap_or_default()
    }

    pub(super) fn reply(&self, n: u32) -> Vec<String> {
        self.redis.items(&format!("hero:reply:{}", id(n)))
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.redis.items(&format!("hero:{name}:w1"))
    }
}

/// Describes a command as text: for a script, its name and its job.
fn words(command: &Command) -> String {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    match command {
        Command::Plain(words) => words.iter().map(text).collect::<Vec<_>>().join(" "),
        Command::Script { script, keys, args } => {
            let shown = args.iter().take(12).map(text).collect::<Vec<_>>().join(" ");
            let name = format!("{script:?}").to_uppercase();
            format!("{name} {} : {shown}", keys.join(" "))
        }
    }
}
