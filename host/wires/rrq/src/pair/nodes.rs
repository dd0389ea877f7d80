//! Two of our orchestrators on one store, with one external runner. Nodes are stopped, killed and
//! started at random. No attempt is executed twice, every job ends, and nothing stays occupied.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::id::{JobId, NodeId};
use host_core::job::State;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::policy::Policy;
use host_core::port::lease::Assignment;
use host_core::port::{Clock as _, Tag};
use host_core::time::Time;
use host_runtime::slots::{Pusher, Slots};
use host_testing::histories;
use host_testing::{LeaseHost, Random};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;
use parking_lot::Mutex;
use uuid::Uuid;

use super::framed;
use crate::config::{self, Dialect, PoolConfig, Source};
use crate::orchestrator::{Orchestrator, PoolEffect, PoolEvent};
use crate::worker::{ExecutionEnd, Worker, WorkerEffect, WorkerEvent};

const JOBS: u64 = 30;
const IN_FLIGHT_MAX: usize = 4;

/// How often a node ends or starts, and until when, in milliseconds.
const CHANGE_EACH_MS: u64 = 3_000;
const CHANGES_MS: u64 = 40_000;

/// When all must be over, in milliseconds.
const END_MS: u64 = 3_600_000;

/// What a node's slots ask of its orchestrator.
#[derive(Default)]
struct PushedEvents(Mutex<Vec<PoolEvent>>);

impl Pusher for PushedEvents {
    fn start(self: Arc<Self>, tag: Tag, _: &Name, assignment: Assignment) {
        let start = PoolEvent::Start(tag, Box::new(assignment));
        self.0.lock().push(start);
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.0.lock().push(PoolEvent::Cancel { tag, grace_ms });
    }
}

/// One life of a node.
struct Life {
    pool: Orchestrator,
    slots: Arc<Slots>,
    asked: Arc<PushedEvents>,
}

/// What is on the way. A connection belongs to a life of a node.
enum Event {
    Opened(usize, Link),
    OpenedAtWorker(Link),
    ToWorker(Link, Vec<u8>),
    ToPool(usize, Link, Vec<u8>),
    ClosedAtWorker(Link),
    ClosedAtPool(usize, Link),
    GuestEnds(Tag, String),
}

struct World {
    model: Arc<LeaseHost>,
    config: PoolConfig,
    /// All lives, of which some are over.
    lives: Vec<Option<Life>>,
    /// The nodes, each with the number of its latest life.
    nodes: Vec<(NodeId, usize)>,
    worker: Worker,
    /// The runner's end of each connection.
    ends: BTreeMap<(usize, Link), Link>,
    events: BTreeMap<(Time, u64), Event>,
    /// When the last byte of a direction arrives.
    arrives: BTreeMap<(Link, bool), Time>,
    /// The attempts that were ever executed, by their requests.
    executed: BTreeSet<String>,
    made: u64,
    random: Random,
}

impl World {
    fn new(seed: u64, dialect: Dialect) -> Self {
        let config = PoolConfig {
            name: "r".parse().unwrap(),
            source: Source::External("127.0.0.1:9000".parse().unwrap()),
            in_flight_max: IN_FLIGHT_MAX,
            dialect,
        };
        let mut world = Self {
            model: LeaseHost::new(),
            config,
            lives: Vec::new(),
            nodes: Vec::new(),
            worker: Worker::default(),
            ends: BTreeMap::new(),
            events: BTreeMap::new(),
            arrives: BTreeMap::new(),
            executed: BTreeSet::new(),
            made: 0,
            random: Random::new(seed),
        };
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
        let leases = self.model.node(node);
        let slots = Slots::new(leases, config::CANCEL_GRACE_MS);
        let asked = Arc::<PushedEvents>::default();
        let pusher: Arc<dyn Pusher> = asked.clone();
        slots.connect(Arc::downgrade(&pusher));
        self.nodes[n].1 = self.lives.len();
        let pool = Orchestrator::new(&self.config, self.at().now);
        assert!(self.model.are_left(&of_others));
        self.lives.push(Some(Life { pool, slots, asked }));
    }

    /// Ends a node that lives, or starts it again.
    fn change(&mut self) {
        let n = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let (node, life) = self.nodes[n];
        if self.lives[life].is_none() {
            return self.start(n);
        }
        if self.random.below(2) == 0 {
            self.handle_event(life, PoolEvent::Stop);
            self.collect();
        }
        self.model.kill(node);
        self.lives[life] = None;
        let ends = self.ends.extract_if(.., |(of, _), _| *of == life);
        for (_, end) in ends.collect::<Vec<_>>() {
            self.carry(end, true, Event::ClosedAtWorker(end));
        }
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.made += 1;
        let at = self.at().now.plus_ms(ms);
        self.events.insert((at, self.made), event);
    }

    /// Puts an event on a connection, after those already on it.
    fn carry(&mut self, end: Link, to_worker: bool, event: Event) {
        let delay_ms = self.random.below(20);
        let arrives = self.at().now.plus_ms(delay_ms);
        let before = self.arrives.get(&(end, to_worker)).copied();
        let arrives = before.map_or(arrives, |before| before.max(arrives));
        self.arrives.insert((end, to_worker), arrives);
        self.made += 1;
        self.events.insert((arrives, self.made), event);
    }

    fn handle_event(&mut self, life: usize, event: PoolEvent) {
        let at = self.at();
        self.with_pool(life, |pool, actions| pool.on_event(at, event, actions));
    }

    fn with_pool(
        &mut self,
        life: usize,
        act: impl FnOnce(&mut Orchestrator, &mut ActionsOf<Orchestrator>),
    ) {
        let mut actions = Actions::default();
        if let Some(Some(life)) = self.lives.get_mut(life) {
            act(&mut life.pool, &mut actions);
        }
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            self.pool_does(life, action);
        }
    }

    fn pool_does(
        &mut self,
        life: usize,
        action: Action<<Orchestrator as Session>::Out, PoolEffect>,
    ) {
        match action {
            Action::Send(link, message) => {
                let bytes = framed::<Orchestrator>(&message);
                if let Some(end) = self.ends.get(&(life, link)).copied() {
                    self.send(life, link, true, Event::ToWorker(end, bytes));
                }
            }
            Action::Close(link) => {
                if let Some(end) = self.ends.get(&(life, link)).copied() {
                    self.carry(end, true, Event::ClosedAtWorker(end));
                }
            }
            Action::Effect(PoolEffect::Connect { link, .. }) => {
                self.made += 1;
                let end = Link(self.made);
                self.ends.insert((life, link), end);
                self.carry(end, true, Event::OpenedAtWorker(end));
                self.carry(end, false, Event::Opened(life, link));
            }
            Action::Effect(PoolEffect::Capacity(capacity)) => {
                let slots = self.lives[life].as_ref().map(|life| life.slots.clone());
                if let Some(slots) = slots {
                    slots.set_capacity(&self.config.name, capacity);
                }
            }
            Action::Effect(PoolEffect::Ended { tag, end, .. }) => {
                let slots = self.lives[life].as_ref().map(|life| life.slots.clone());
                if let Some(slots) = slots {
                    slots.end(tag, "r/1".to_owned(), end);
                }
            }
            Action::Count(_)
            | Action::Effect(PoolEffect::Launch { .. } | PoolEffect::Kill { .. }) => {}
        }
    }

    /// Sends a message, or breaks its connection.
    fn send(&mut self, life: usize, link: Link, to_worker: bool, event: Event) {
        let Some(end) = self.ends.get(&(life, link)).copied() else {
            return;
        };
        if self.random.below(60) == 0 {
            self.carry(end, true, Event::ClosedAtWorker(end));
            self.carry(end, false, Event::ClosedAtPool(life, link));
        } else {
            self.carry(end, to_worker, event);
        }
    }

    fn with_worker(&mut self, act: impl FnOnce(&mut Worker, &mut ActionsOf<Worker>)) {
        let mut actions = Actions::default();
        act(&mut self.worker, &mut actions);
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            self.worker_does(action);
        }
    }

    fn worker_does(&mut self, action: Action<<Worker as Session>::Out, WorkerEffect>) {
        let of = |world: &Self, end: Link| {
            let mut ends = world.ends.iter();
            ends.find(|(_, it)| **it == end).map(|(key, _)| *key)
        };
        match action {
            Action::Send(end, message) => {
                let bytes = framed::<Worker>(&message);
                if let Some((life, link)) = of(self, end) {
                    self.send(life, link, false, Event::ToPool(life, link, bytes));
                }
            }
            Action::Close(end) => {
                if let Some((life, link)) = of(self, end) {
                    self.carry(end, false, Event::ClosedAtPool(life, link));
                }
            }
            Action::Effect(WorkerEffect::Start(tag, job)) => {
                let is_new = self.executed.insert(job.request_id.clone());
                assert!(is_new, "{job:?} is executed twice");
                let ms = self.random.below(2_000);
                self.later(ms, Event::GuestEnds(tag, job.external_id));
            }
            // The guest runs to its end.
            Action::Count(_) | Action::Effect(WorkerEffect::Stop { .. }) => {}
        }
    }

    /// Passes on what slots ask.
    fn collect(&mut self) {
        for life in 0..self.lives.len() {
            loop {
                let life_asked = self.lives[life].as_ref().map(|life| life.asked.clone());
                let asked = life_asked
                    .map(|life_asked| std::mem::take(&mut *life_asked.0.lock()))
                    .unwrap_or_default();
                if asked.is_empty() {
                    break;
                }
                for asked in asked {
                    self.handle_event(life, asked);
                }
            }
        }
    }

    fn handle(&mut self, event: Event) {
        let at = self.at();
        match event {
            Event::Opened(life, link) => {
                self.with_pool(life, |pool, actions| pool.on_open(at.now, link, actions));
            }
            Event::ToPool(life, link, bytes) => self.with_pool(life, |pool, actions| {
                let message = Orchestrator::read(Ok(bytes.into()));
                pool.on_message(at, link, message, actions);
            }),
            Event::ClosedAtPool(life, link) => {
                self.with_pool(life, |pool, actions| pool.on_closed(at.now, link, actions));
            }
            Event::OpenedAtWorker(end) => {
                self.with_worker(|worker, actions| worker.on_open(at.now, end, actions));
            }
            Event::ToWorker(end, bytes) => self.with_worker(|worker, actions| {
                let message = Worker::read(Ok(bytes.into()));
                worker.on_message(at, end, message, actions);
            }),
            Event::ClosedAtWorker(end) => {
                self.with_worker(|worker, actions| worker.on_closed(at.now, end, actions));
            }
            Event::GuestEnds(tag, job) => {
                let result = Some(JsonText(format!("{job:?}")));
                let ended = ExecutionEnd::Ended(Outcome::Completed { result });
                let event = WorkerEvent::Answer(tag, ended);
                self.with_worker(|worker, actions| worker.on_event(at, event, actions));
            }
        }
    }

    /// Goes to the next instant at which something happens.
    fn step(&mut self) {
        self.collect();
        let lives = self.lives.iter().flatten();
        let woken = lives.filter_map(|life| life.pool.wakeup()).min();
        let next = self.events.keys().next().map(|(at, _)| *at);
        let dues = [woken, next, self.worker.wakeup(), self.model.due()];
        let due = dues.into_iter().flatten().min();
        let now = self.at().now;
        let ms = due.map_or(CHANGE_EACH_MS, |due| due.since_ms(now));
        self.model.advance(ms.min(CHANGE_EACH_MS));
        let now = self.at().now;
        for life in 0..self.lives.len() {
            self.with_pool(life, |pool, actions| {
                if pool.wakeup().is_some_and(|at| at <= now) {
                    pool.on_wakeup(now, actions);
                }
            });
        }
        if self.worker.wakeup().is_some_and(|at| at <= now) {
            self.with_worker(|worker, actions| worker.on_wakeup(now, actions));
        }
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now
        {
            let event = entry.remove();
            self.handle(event);
        }
    }
}

/// Returns how many attempts there were beside the first of each job.
fn run(seed: u64, dialect: Dialect) -> u32 {
    let mut world = World::new(seed, dialect);
    let policy = Policy {
        max_attempts: 100,
        ..config::policy()
    };
    let ids: Vec<JobId> = (0..JOBS)
        .map(|_| {
            let to = ("r", "echo");
            world.model.enqueue(to, "{}", policy.clone(), &[])
        })
        .collect();
    let begin = world.at().now;
    let mut changed_at = begin;
    let is_over = |world: &World| ids.iter().all(|id| world.model.state(*id).is_terminal());
    loop {
        let now = world.at().now;
        assert!(now.since_ms(begin) < END_MS, "seed {seed}: it does not end");
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
        if is_calm && is_over(&world) && world.events.is_empty() {
            break;
        }
        world.step();
    }
    for life in world.lives.iter().flatten() {
        let in_flight: usize = life.slots.in_flight().values().sum();
        assert_eq!(in_flight, 0, "seed {seed}: a slot stays occupied");
        assert_eq!(life.pool.in_flight(0), [], "seed {seed}");
    }
    for id in &ids {
        let kept = world.model.kept(*id).unwrap();
        assert_eq!(kept.job.lifecycle.state, State::Completed, "seed {seed}");
        let result = kept.job.result.unwrap();
        assert_eq!(
            result.as_str(),
            format!("\"{id}\""),
            "each job gets its own outcome"
        );
    }
    let again = ids
        .iter()
        .map(|id| world.model.look(*id, |job| job.lifecycle.attempt - 1));
    again.sum()
}

#[test]
fn two_nodes_execute_no_attempt_twice() {
    let mut again = 0;
    for seed in 1..=histories(40, 10_000) {
        let seed = u64::from(seed) * 0x2545_f491;
        again += run(seed, Dialect::Current) + run(seed, Dialect::Documented);
    }
    assert!(
        again > 100,
        "{again}: the changes of nodes interrupt attempts"
    );
}
