//! A minimal driver for the sessions: one thread, one connection, and fake guests.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use host_core::time::Time;
use host_tests::Redis;
pub(super) use host_tests::hero::ask;
use host_wires::hero::{
    Answered, Call, Command, Execution, Orchestrator, OrchestratorAct, RedisSession as _, Value,
    Via, Worker, WorkerAct, WorkerConfig,
};
use host_wires::kit::session::Moment;
use redis::Connection;

/// Returns the time.
pub(super) fn now() -> Time {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time(i64::try_from(now.as_millis()).unwrap())
}

fn at() -> Moment {
    Moment {
        now: now(),
        wall: now(),
    }
}

/// A worker with fake guests. They return 42 at the next turn; with the script `hang` they run until stopped.
pub(super) struct Host {
    redis: Connection,
    worker: Worker,
    waiting: Option<Call>,
    hanging: Vec<Tag>,
    returning: Vec<Tag>,
    /// How often the worker ran each job.
    pub(super) ran: BTreeMap<String, usize>,
    ahead_ms: u64,
}

impl Host {
    pub(super) fn new(server: &Redis, instance: &str) -> Self {
        let mut config = WorkerConfig::new("w1", instance);
        config.concurrency = 16;
        let mut host = Self {
            redis: server.connection(),
            worker: Worker::new(config),
            waiting: None,
            hanging: Vec::new(),
            returning: Vec::new(),
            ran: BTreeMap::new(),
            ahead_ms: 0,
        };
        let mut todo = Vec::new();
        host.worker.on_connected(at(), &mut todo);
        host.work(todo);
        host
    }

    /// Advances the worker's clock. The clock of Redis does not change.
    pub(super) fn pass(&mut self, ms: u64) {
        self.ahead_ms += ms;
        self.turn();
    }

    /// Lets hanging guests return.
    pub(super) fn let_go(&mut self) {
        self.returning.append(&mut self.hanging);
    }

    fn at(&self) -> Moment {
        let now = now().plus_ms(self.ahead_ms);
        Moment { now, wall: now }
    }

    /// Handles due timers and checks whether the pending pop has a result.
    pub(super) fn turn(&mut self) {
        let mut todo = Vec::new();
        for tag in std::mem::take(&mut self.returning) {
            let result = Some(JsonText("42".to_owned()));
            let answer = Answered::Ended(Outcome::Completed { result });
            self.worker.on_answer(self.at(), tag, answer, &mut todo);
        }
        if self.worker.wakeup().is_some_and(|due| due <= self.at().now) {
            self.worker.on_wakeup(self.at(), &mut todo);
        }
        if let Some(call) = &self.waiting {
            let Command::Plain(words) = &call.commands[0] else {
                panic!("only a pop waits: {call:?}")
            };
            // LMOVE instead of BLMOVE, so that it does not block.
            let mut words = words.clone();
            words[0] = b"LMOVE".to_vec();
            words.pop();
            let value = ask(&mut self.redis, &Command::Plain(words));
            if value != Value::Nil {
                let tag = call.tag;
                self.waiting = None;
                self.worker.on_reply(self.at(), tag, &[value], &mut todo);
            }
        }
        self.work(todo);
    }

    fn work(&mut self, mut todo: Vec<WorkerAct>) {
        while !todo.is_empty() {
            for act in std::mem::take(&mut todo) {
                self.act(act, &mut todo);
            }
        }
    }

    fn act(&mut self, act: WorkerAct, todo: &mut Vec<WorkerAct>) {
        match act {
            WorkerAct::Call(call) if call.via == Via::Blocking => self.waiting = Some(call),
            WorkerAct::Call(call) => {
                let redis = &mut self.redis;
                let commands = call.commands.iter();
                let values: Vec<Value> = commands.map(|command| ask(redis, command)).collect();
                self.worker.on_reply(self.at(), call.tag, &values, todo);
            }
            WorkerAct::Start { tag, job, .. } => {
                *self.ran.entry(job.external_id.clone()).or_default() += 1;
                self.worker.on_began(self.at(), tag, todo);
                if job.params.as_str().contains("hang") {
                    return self.hanging.push(tag);
                }
                self.returning.push(tag);
            }
            WorkerAct::Stop { tag, .. } => {
                self.hanging.retain(|other| *other != tag);
                let outcome = Outcome::Cancelled { partial: None };
                self.worker
                    .on_answer(self.at(), tag, Answered::Ended(outcome), todo);
            }
            WorkerAct::Count(_) | WorkerAct::Depth { .. } | WorkerAct::Refused { .. } => {}
        }
    }
}

/// A dispatcher and the outcomes of its jobs.
pub(super) struct Dispatching {
    redis: Connection,
    dispatcher: Orchestrator,
    started: u64,
    pub(super) ended: Vec<End>,
}

impl Dispatching {
    pub(super) fn new(server: &Redis, instance: &str) -> Self {
        let mut ours = Self {
            redis: server.connection(),
            dispatcher: Orchestrator::new(instance),
            started: 0,
            ended: Vec::new(),
        };
        let mut todo = Vec::new();
        ours.dispatcher.on_connected(at(), &mut todo);
        ours.work(todo);
        ours
    }

    pub(super) fn start(&mut self, execution: Execution) {
        self.started += 1;
        let (tag, mut todo) = (Tag(self.started), Vec::new());
        self.dispatcher.on_start(at(), tag, execution, &mut todo);
        self.work(todo);
    }

    pub(super) fn turn(&mut self) {
        let mut todo = Vec::new();
        if self.dispatcher.wakeup().is_some_and(|due| due <= now()) {
            self.dispatcher.on_wakeup(at(), &mut todo);
        }
        self.work(todo);
    }

    fn work(&mut self, mut todo: Vec<OrchestratorAct>) {
        while !todo.is_empty() {
            for act in std::mem::take(&mut todo) {
                match act {
                    OrchestratorAct::Call(call) => {
                        let redis = &mut self.redis;
                        let commands = call.commands.iter();
                        let values: Vec<Value> = commands.map(|it| ask(redis, it)).collect();
                        self.dispatcher.on_reply(at(), call.tag, &values, &mut todo);
                    }
                    OrchestratorAct::Ready => {}
                    OrchestratorAct::Refused { why, .. } => panic!("{why}"),
                    OrchestratorAct::Ended { end, .. } => self.ended.push(end),
                }
            }
        }
    }
}
