//! Two of our orchestrators on one store and one Redis, with one worker. Each node loses Redis, is stopped, killed and
//! started now and then. No execution begins twice, every job ends with its own result, and nothing is left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::policy::Policy;
use host_core::port::lease::Leases;
use host_core::port::{Clock as _, ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_testing::histories;
use host_testing::{LeaseHost, Random};
use host_wire_kit::executors::{Executors as _, NameLookup, NamedBy};
use host_wire_kit::session::Moment;
use uuid::Uuid;

use crate::messages::{Call, CallTag, Value, Via};
use crate::orchestrator::executors::HeroExecutors;
use crate::orchestrator::{Orchestrator, OrchestratorAct};
use crate::settings::tests::parsed;
use crate::settings::worker::WorkerConfig;
use crate::tests::redis::FakeRedis;
use crate::transport::driver::{Host as _, RedisSession as _};
use crate::worker::{ExecutionAnswer, Worker, WorkerAct};

const EXECUTOR: &str = "hero-w1";
const JOBS: usize = 30;

/// How often a node ends or starts, and until when, in milliseconds.
const CHANGE_EACH_MS: u64 = 3_000;
const CHANGES_MS: u64 = 40_000;

/// When all must be over, in milliseconds.
const END_MS: u64 = 3_600_000;

/// How often a waiting pop looks again, and how soon a lost connection is opened anew, in milliseconds.
const POP_AGAIN_MS: u64 = 50;
const CONNECT_AGAIN_MS: u64 = 100;

/// One life of a node.
struct Life {
    executors: Arc<HeroExecutors>,
    session: Orchestrator,
    /// The number of its connection to Redis, if it has one.
    connection: Option<u64>,
}

/// What is on the way. Each life of a node has its own connection, of which there may be several in a row.
enum Event {
    Connect(usize),
    CallOfNode(usize, u64, Call),
    ReplyToNode(usize, u64, CallTag, Vec<Value>),
    CallOfWorker(Call),
    ReplyToWorker(CallTag, Vec<Value>),
    GuestEnds(Tag),
}

struct World {
    model: Arc<LeaseHost>,
    redis: FakeRedis,
    /// All lives, of which some are over.
    lives: Vec<Option<Life>>,
    /// The nodes, each with the number of its latest life.
    nodes: Vec<(NodeId, usize)>,
    worker: Worker,
    guests: BTreeMap<Tag, Box<ForeignJob>>,
    events: BTreeMap<(Time, u64), Event>,
    /// When the last message of a direction arrives: a node's life, or `None` for the worker.
    arrives: BTreeMap<(Option<usize>, bool), Time>,
    /// The executions that ever began, by their ids in Redis.
    began: BTreeSet<String>,
    made: u64,
    random: Random,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut world = Self {
            model: LeaseHost::new(),
            redis: FakeRedis::default(),
            lives: Vec::new(),
            nodes: Vec::new(),
            worker: Worker::new(WorkerConfig::new("w1", "worker-host")),
            guests: BTreeMap::new(),
            events: BTreeMap::new(),
            arrives: BTreeMap::new(),
            began: BTreeSet::new(),
            made: 0,
            random: Random::new(seed),
        };
        world.with_worker(Worker::on_connected);
        for n in [1, 2] {
            world.nodes.push((NodeId(Uuid::from_u128(n)), 0));
            world.start(world.nodes.len() - 1);
        }
        world
    }

    fn at(&self) -> Moment {
        let now = self.model.clock.now();
        Moment { now, wall: now }
    }

    /// Starts a node. It takes nothing from one that lives.
    fn start(&mut self, n: usize) {
        let node = self.nodes[n].0;
        let of_others = self.model.leases_of_others(node);
        let leases: Arc<dyn Leases> = self.model.node(node);
        let executors = HeroExecutors::new(
            &parsed(&[("url", "redis://127.0.0.1/"), ("dispatch_in_flight", "4")]),
            &leases,
        );
        let name: Name = EXECUTOR.parse().unwrap();
        assert_eq!(executors.find(&name, NamedBy::KeptJob), NameLookup::Here);
        assert!(self.model.are_left(&of_others));
        self.nodes[n].1 = self.lives.len();
        self.lives.push(Some(Life {
            executors,
            session: Orchestrator::new(format!("node-{n}")),
            connection: None,
        }));
        self.later(0, Event::Connect(self.lives.len() - 1));
    }

    /// Breaks a node's connection, ends a node that lives, or starts it again.
    fn change(&mut self) {
        let n = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let (node, life) = self.nodes[n];
        if self.lives[life].is_none() {
            return self.start(n);
        }
        match self.random.below(3) {
            0 => return self.cut(life),
            1 => self.with_node(life, Orchestrator::on_stop),
            _ => {}
        }
        self.model.kill(node);
        self.lives[life] = None;
    }

    fn cut(&mut self, n: usize) {
        if let Some(life) = &mut self.lives[n]
            && life.connection.take().is_some()
        {
            life.session.on_disconnected();
            life.executors.away(1, "the connection is cut");
            self.later(CONNECT_AGAIN_MS, Event::Connect(n));
        }
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.made += 1;
        let at = self.at().now.plus_ms(ms);
        self.events.insert((at, self.made), event);
    }

    /// Puts a message on the way to or from Redis, behind those already there.
    fn carry(&mut self, whose: Option<usize>, to_redis: bool, event: Event) {
        let delay_ms = self.random.below(20);
        let arrives = self.at().now.plus_ms(delay_ms);
        let before = self.arrives.get(&(whose, to_redis)).copied();
        let arrives = before.map_or(arrives, |before| before.max(arrives));
        self.arrives.insert((whose, to_redis), arrives);
        self.made += 1;
        self.events.insert((arrives, self.made), event);
    }

    fn with_node(
        &mut self,
        n: usize,
        act: impl FnOnce(&mut Orchestrator, Moment, &mut Vec<OrchestratorAct>),
    ) {
        let (at, mut todo) = (self.at(), Vec::new());
        let Some(Some(life)) = self.lives.get_mut(n) else {
            return;
        };
        act(&mut life.session, at, &mut todo);
        let (executors, connection) = (Arc::clone(&life.executors), life.connection);
        for act in todo {
            if let (Some(call), Some(connection)) = (executors.carry_out(act), connection) {
                self.carry(Some(n), true, Event::CallOfNode(n, connection, call));
            }
        }
    }

    fn with_worker(&mut self, act: impl FnOnce(&mut Worker, Moment, &mut Vec<WorkerAct>)) {
        let (at, mut todo) = (self.at(), Vec::new());
        act(&mut self.worker, at, &mut todo);
        while !todo.is_empty() {
            for act in std::mem::take(&mut todo) {
                match act {
                    WorkerAct::Call(call) => self.carry(None, true, Event::CallOfWorker(call)),
                    WorkerAct::Start { tag, job, .. } => {
                        let is_new = self.began.insert(job.external_id.clone());
                        assert!(is_new, "{job:?} begins twice");
                        self.guests.insert(tag, job);
                        let ms = self.random.below(2_000);
                        self.later(ms, Event::GuestEnds(tag));
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
                    WorkerAct::Count(_) | WorkerAct::Depth { .. } => {}
                    WorkerAct::Refused { why, .. } => panic!("{why}"),
                }
            }
        }
    }

    fn is_connected(&self, n: usize, connection: u64) -> bool {
        let life = self.lives[n].as_ref();
        life.is_some_and(|life| life.connection == Some(connection))
    }

    fn handle(&mut self, event: Event) {
        self.redis.now = self.at().now;
        match event {
            Event::Connect(n) => {
                if let Some(life) = &mut self.lives[n] {
                    life.connection = Some(self.made);
                    life.executors.connected();
                    self.with_node(n, Orchestrator::on_connected);
                }
            }
            Event::CallOfNode(n, connection, call) => {
                // Of the calls of a connection that has just broken, some arrive.
                if self.is_connected(n, connection) || self.random.below(2) == 0 {
                    let values = self.redis.answer(&call);
                    let reply = Event::ReplyToNode(n, connection, call.tag, values);
                    self.carry(Some(n), false, reply);
                }
            }
            Event::ReplyToNode(n, connection, call, values) => {
                if self.is_connected(n, connection) {
                    self.with_node(n, |node, at, todo| node.on_reply(at, call, &values, todo));
                }
            }
            Event::CallOfWorker(call) => {
                let values = self.redis.answer(&call);
                if call.via == Via::Blocking && values == [Value::Nil] {
                    return self.later(POP_AGAIN_MS, Event::CallOfWorker(call));
                }
                self.carry(None, false, Event::ReplyToWorker(call.tag, values));
            }
            Event::ReplyToWorker(call, values) => {
                self.with_worker(|worker, at, todo| worker.on_reply(at, call, &values, todo));
            }
            Event::GuestEnds(tag) => {
                if let Some(job) = self.guests.remove(&tag) {
                    let result = Some(job.params.clone());
                    let ended = ExecutionAnswer::Ended(Outcome::Completed { result });
                    self.with_worker(|worker, at, todo| worker.on_answer(at, tag, ended, todo));
                }
            }
        }
    }

    /// Goes to the next instant at which something happens.
    fn step(&mut self) {
        for n in 0..self.lives.len() {
            if let Some(executors) = self.lives[n].as_ref().map(|it| Arc::clone(&it.executors)) {
                self.with_node(n, |node, at, todo| executors.hand_in(node, at, todo));
            }
        }
        let lives = self.lives.iter().flatten();
        let woken = lives.filter_map(|life| life.session.wakeup()).min();
        let next = self.events.keys().next().map(|(at, _)| *at);
        let dues = [woken, next, self.worker.wakeup(), self.model.due()];
        let due = dues.into_iter().flatten().min();
        let now = self.at().now;
        let ms = due.map_or(CHANGE_EACH_MS, |due| due.since_ms(now));
        self.model.advance(ms.min(CHANGE_EACH_MS));
        let now = self.at().now;
        for n in 0..self.lives.len() {
            self.with_node(n, |node, at, todo| {
                if node.wakeup().is_some_and(|at| at <= now) {
                    node.on_wakeup(at, todo);
                }
            });
        }
        if self.worker.wakeup().is_some_and(|at| at <= now) {
            self.with_worker(Worker::on_wakeup);
        }
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now
        {
            let event = entry.remove();
            self.handle(event);
        }
    }

    fn is_idle(&self) -> bool {
        let nodes = || self.lives.iter().flatten();
        let traces = |n| self.redis.texts(&format!("hero:out:node-{n}"));
        self.guests.is_empty()
            && self.worker.is_idle()
            && nodes().all(|life| life.session.is_idle())
            && (0..self.nodes.len()).all(|n| traces(n).is_empty())
    }
}

/// Returns how many attempts there were beside the first of each job.
fn run(seed: u64) -> u32 {
    let mut world = World::new(seed);
    let ids: Vec<JobId> = (0..JOBS)
        .map(|n| {
            let policy = Policy {
                max_attempts: 100,
                timeout_ms: Some(30_000),
                ..Policy::default()
            };
            let params = format!("{{\"n\":{n}}}");
            world
                .model
                .enqueue((EXECUTOR, "echo"), &params, policy, &[])
        })
        .collect();
    let begin = world.at().now;
    let mut changed_at = begin;
    loop {
        let now = world.at().now;
        let states = ids.iter().map(|id| world.model.state(*id));
        let open = states.filter(|state| !state.is_terminal()).count();
        assert!(
            now.since_ms(begin) < END_MS,
            "seed {seed}: {open} jobs do not end; left: {:?}",
            world.redis.keys
        );
        let is_calm = now.since_ms(begin) > CHANGES_MS;
        if !is_calm && now.since_ms(changed_at) > CHANGE_EACH_MS {
            changed_at = now;
            world.change();
        }
        for n in 0..world.nodes.len() {
            if is_calm && world.lives[world.nodes[n].1].is_none() {
                world.start(n);
            }
        }
        if is_calm && open == 0 && world.is_idle() {
            break;
        }
        world.step();
    }
    for life in world.lives.iter().flatten() {
        let health = life.executors.health();
        let in_flight: usize = health.iter().map(|it| it.workers[0].in_flight).sum();
        assert_eq!(in_flight, 0, "seed {seed}: a slot stays occupied");
    }
    for list in ["work_queue", "processing", "stop_queue"] {
        let left = world.redis.items(&format!("hero:{list}:w1"));
        assert!(left.is_empty(), "seed {seed}: {list}: {left:?}");
    }
    for (n, id) in ids.iter().enumerate() {
        let kept = world.model.kept(*id).unwrap();
        assert_eq!(kept.job.lifecycle.state, State::Completed, "seed {seed}");
        let own = JsonText(format!("{{\"n\":{n}}}"));
        assert_eq!(kept.job.result, Some(own), "seed {seed}: its own result");
    }
    let again = ids
        .iter()
        .map(|id| world.model.look(*id, |job| job.lifecycle.attempt - 1));
    again.sum()
}

#[test]
fn two_nodes_begin_no_execution_twice() {
    let mut again = 0;
    for seed in 1..=histories(40, 10_000) {
        again += run(u64::from(seed) * 0x2545_f491);
    }
    assert!(
        again > 100,
        "{again}: the changes of nodes interrupt attempts"
    );
}
