//! Our dispatcher and our worker on one Redis, with late answers, lost connections and workers that
//! die. Each execution ends once, with the result of its own job.

use std::collections::{BTreeMap, BTreeSet};

use host_testing::histories;
use proptest::prelude::*;

use super::*;
use crate::settings::worker::WorkerConfig;
use crate::tests::redis::Entry;
use crate::worker::ExecutionAnswer;
use crate::worker::{Worker, WorkerAct};
use host_core::port::Stop;

#[derive(Clone, Debug)]
enum Step {
    Start,
    Cancel(u8),
    /// Redis answers the dispatcher, or the worker on one of its connections.
    Answer(u8),
    End(u8),
    /// The dispatcher or the worker loses its connection, before or after Redis has handled the
    /// calls in flight.
    Cut {
        worker: bool,
        done: bool,
    },
    Crash {
        done: bool,
    },
    Connect {
        worker: bool,
    },
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (worker, done) = (any::<bool>(), any::<bool>());
    let step = prop_oneof![
        4 => Just(Step::Start),
        1 => any::<u8>().prop_map(Step::Cancel),
        14 => any::<u8>().prop_map(Step::Answer),
        5 => any::<u8>().prop_map(Step::End),
        1 => (worker, done).prop_map(|(worker, done)| Step::Cut { worker, done }),
        1 => done.prop_map(|done| Step::Crash { done }),
        2 => worker.prop_map(|worker| Step::Connect { worker }),
        3 => (0..900_u16).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..120)
}

struct World {
    bench: Bench,
    worker: Worker,
    calls: Vec<Call>,
    guests: BTreeMap<Tag, String>,
    /// Jobs whose guest has returned.
    returned: BTreeSet<String>,
    cancelled: BTreeSet<u32>,
    /// Whether the dispatcher and the worker are connected.
    connected: [bool; 2],
    started: u32,
}

fn worker() -> Worker {
    Worker::new(WorkerConfig::new("w1", "host-b"))
}

impl World {
    fn new() -> Self {
        let mut world = Self {
            bench: Bench::new(),
            worker: worker(),
            calls: Vec::new(),
            guests: BTreeMap::new(),
            returned: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            connected: [true, false],
            started: 0,
        };
        world.connect(true);
        world
    }

    fn work(&mut self, hand_in: impl FnOnce(&mut Worker, Moment, &mut Vec<WorkerAct>)) {
        let (at, mut todo) = (self.bench.at(), Vec::new());
        hand_in(&mut self.worker, at, &mut todo);
        while !todo.is_empty() {
            for act in std::mem::take(&mut todo) {
                match act {
                    WorkerAct::Call(call) => self.calls.push(call),
                    WorkerAct::Start { tag, job, .. } => {
                        self.guests.insert(tag, job.external_id);
                        self.worker.on_began(at, tag, &mut todo);
                    }
                    WorkerAct::Stop { tag, why, .. } => {
                        let ran = self.guests.remove(&tag).is_some();
                        if ran && why != Stop::Disconnected {
                            let ended =
                                ExecutionAnswer::Ended(Outcome::Cancelled { partial: None });
                            self.worker.on_answer(at, tag, ended, &mut todo);
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    fn connect(&mut self, worker: bool) {
        if std::mem::replace(&mut self.connected[usize::from(worker)], true) {
            return;
        }
        if worker {
            self.work(Worker::on_connected);
        } else {
            self.bench.hand_in(Orchestrator::on_connected);
        }
    }

    fn cut(&mut self, worker: bool, done: bool) {
        let calls = if worker {
            &mut self.calls
        } else {
            &mut self.bench.calls
        };
        for call in std::mem::take(calls) {
            if done {
                self.bench.redis.now = self.bench.now;
                self.bench.redis.answer(&call);
            }
        }
        self.connected[usize::from(worker)] = false;
        if worker {
            self.worker.on_disconnected();
        } else {
            self.bench.dispatcher.on_disconnected();
        }
    }

    /// Answers the first call on a connection.
    fn answer(&mut self, to_worker: bool, lane: Via) {
        let calls = if to_worker {
            &mut self.calls
        } else {
            &mut self.bench.calls
        };
        let Some(first) = calls.iter().position(|call| call.via == lane) else {
            return;
        };
        let call = calls.remove(first);
        self.bench.redis.now = self.bench.now;
        let values = self.bench.redis.answer(&call);
        if to_worker {
            self.work(|it, at, todo| it.on_reply(at, call.tag, &values, todo));
        } else {
            self.bench
                .hand_in(|it, at, todo| it.on_reply(at, call.tag, &values, todo));
        }
    }

    /// Lets a guest return the id of its job.
    fn end(&mut self, which: usize) {
        let Some(tag) = self.guests.keys().nth(which % self.guests.len().max(1)) else {
            return;
        };
        let tag = *tag;
        let id = self.guests.remove(&tag).unwrap();
        let result = Some(JsonText(format!("\"{id}\"")));
        self.returned.insert(id);
        let ended = ExecutionAnswer::Ended(Outcome::Completed { result });
        self.work(|it, at, todo| it.on_answer(at, tag, ended, todo));
    }

    fn pass(&mut self, ms: u64) {
        self.bench.now = self.bench.now.plus_ms(ms);
        self.work(Worker::on_wakeup);
        self.bench.hand_in(Orchestrator::on_wakeup);
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Start => {
                self.started += 1;
                let (tag, work) = (Tag(self.started.into()), execution(self.started));
                self.bench
                    .hand_in(|it, at, todo| it.on_start(at, tag, work, todo));
            }
            Step::Cancel(which) if self.started > 0 => {
                let n = u32::from(which) % self.started + 1;
                self.cancelled.insert(n);
                self.bench
                    .hand_in(|it, at, todo| it.on_cancel(at, Tag(n.into()), 100, todo));
            }
            Step::Cancel(_) => {}
            Step::Answer(which) => match which % 5 {
                0 => self.answer(true, Via::Blocking),
                1 | 2 => self.answer(true, Via::Shared),
                _ => self.answer(false, Via::Shared),
            },
            Step::End(which) => self.end(which.into()),
            Step::Cut { worker, done } => self.cut(worker, done),
            Step::Crash { done } => {
                self.cut(true, done);
                self.worker = worker();
                self.guests.clear();
            }
            Step::Connect { worker } => self.connect(worker),
            Step::Pass(ms) => self.pass(ms.into()),
        }
    }

    /// Runs until nothing more happens.
    fn calm(&mut self) {
        for round in 0..1_000 {
            self.connect(false);
            self.connect(true);
            for _ in 0..100 {
                self.answer(true, Via::Shared);
                self.answer(false, Via::Shared);
            }
            self.answer(true, Via::Blocking);
            self.end(0);
            self.pass(100);
            let idle = self.bench.dispatcher.is_idle() && self.worker.is_idle();
            if idle && self.guests.is_empty() && round > 150 {
                return;
            }
        }
        panic!("it does not come to an end: {:?}", self.bench.dispatcher);
    }

    fn check(&self) {
        let mut ends: BTreeMap<u32, &End> = BTreeMap::new();
        for (tag, end) in &self.bench.ended {
            let n = u32::try_from(*tag).unwrap();
            assert!(ends.insert(n, end).is_none(), "{n} has ended twice");
        }
        for n in 1..=self.started {
            match ends.get(&n) {
                None => panic!("{n} has not ended"),
                Some(End::Outcome(Outcome::Completed { result })) => {
                    let own = JsonText(format!("\"{}\"", id(n)));
                    assert_eq!(*result, Some(own), "{n} has its own result");
                    assert!(self.returned.contains(&id(n)), "{n} has run");
                }
                Some(End::Outcome(Outcome::Cancelled { .. })) => {
                    assert!(self.cancelled.contains(&n), "{n} was not cancelled");
                }
                Some(_) => {}
            }
        }
        for list in ["work_queue", "processing", "stop_queue"] {
            let left = self.bench.redis.items(&format!("hero:{list}:w1"));
            assert!(left.is_empty(), "{list}: {left:?}");
        }
        let now = self.bench.now;
        let held = |entry: &&Entry| matches!(entry, Entry::Text(_, until) if *until > now);
        assert_eq!(self.bench.redis.keys.values().filter(held).count(), 0);
    }
}

#[test]
fn our_worker_and_our_dispatcher_understand_each_other() {
    let mut bench = Bench::new();
    let mut worker = Worker::new(WorkerConfig::new("w1", "host-a"));
    let mut todo = Vec::new();
    worker.on_connected(bench.at(), &mut todo);
    for n in 1..=20 {
        bench.send(n);
    }
    let mut guests = 0;
    while !todo.is_empty() {
        for act in std::mem::take(&mut todo) {
            match act {
                WorkerAct::Call(call) => {
                    let empty = bench.redis.items("hero:work_queue:w1").is_empty();
                    if call.via == Via::Shared || !empty {
                        let values = bench.redis.answer(&call);
                        worker.on_reply(bench.at(), call.tag, &values, &mut todo);
                    }
                }
                WorkerAct::Start { tag, job, .. } => {
                    guests += 1;
                    assert_eq!(job.handler.as_str(), "hero.rhai");
                    assert_eq!(job.timeout_ms, Some(2_000));
                    worker.on_began(bench.at(), tag, &mut todo);
                    let result = Some(JsonText(format!("{guests}")));
                    let answer = ExecutionAnswer::Ended(Outcome::Completed { result });
                    worker.on_answer(bench.at(), tag, answer, &mut todo);
                }
                WorkerAct::Depth { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    bench.pass(READ_MS);
    assert_eq!((guests, bench.ended.len()), (20, 20));
    assert!(bench.dispatcher.is_idle() && worker.is_idle());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: histories(100, 200), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_execution_ends_once_with_its_own_result(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
        }
        world.calm();
        world.check();
    }
}
