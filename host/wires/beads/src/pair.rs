//! Our workers under two of our orchestrators on one store. Connections break, and each node is stopped, killed and
//! started now and then. Every task ends, a worker has one at a time, and nothing stays occupied.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::State;
use host_core::lease::{Hold, Revocation};
use host_core::outcome::Outcome;
use host_core::policy::Policy;
use host_core::port::lease::{GrantedLease, LeaseEvents, LeaseRequest, Leases as _, Respond};
use host_core::port::{Clock as _, Tag};
use host_core::time::Time;
use host_testing::histories;
use host_testing::{LeaseHost, LeaseNode, Random};
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;
use parking_lot::Mutex;
use uuid::Uuid;

use super::frame::Dialect;
use super::leases::task;
use super::orchestrator::{self, Ask, Orchestrator};
use super::settings::OrchestratorConfig;
use super::worker::{self, Worker, WorkerSetup};

const TASKS: usize = 20;
const WORKERS: usize = 3;

/// How often a node ends or starts, and until when, in milliseconds.
const CHANGE_EACH_MS: u64 = 3_000;
const CHANGES_MS: u64 = 40_000;

/// When a worker connects again, in milliseconds.
const AGAIN_MS: u64 = 200;

/// When all must be over, in milliseconds.
const END_MS: u64 = 3_600_000;

/// What the host tells one life of an orchestrator.
#[derive(Default)]
struct LeaseEnds {
    events: Mutex<Vec<orchestrator::Event>>,
    is_over: AtomicBool,
}

impl LeaseEnds {
    fn push(&self, event: orchestrator::Event) {
        self.events.lock().push(event);
    }
}

impl LeaseEvents for LeaseEnds {
    fn cancelled(&self, _: JobId, lease: LeaseId, grace_ms: u64) {
        self.push(orchestrator::Event::Cancelled { lease, grace_ms });
    }

    fn revoked(&self, _: JobId, lease: LeaseId, _: Revocation) {
        self.push(orchestrator::Event::Revoked { lease });
    }
}

/// A request for a task.
struct TaskRequest {
    lease_ends: Arc<LeaseEnds>,
    ask: Ask,
    withdrawn: Arc<AtomicBool>,
}

impl Respond<Vec<GrantedLease>> for TaskRequest {
    fn is_gone(&self) -> bool {
        self.withdrawn.load(Ordering::Relaxed) || self.lease_ends.is_over.load(Ordering::Relaxed)
    }

    fn respond(self: Box<Self>, mut answer: Vec<GrantedLease>) -> Result<(), Vec<GrantedLease>> {
        if self.is_gone() {
            return Err(answer);
        }
        let granted = answer.pop().map(|it| task(it.job, it.lease, it.assignment));
        self.lease_ends
            .push(orchestrator::Event::Answered(self.ask, granted));
        Ok(())
    }
}

/// One life of a node.
struct Life {
    session: Orchestrator,
    leases: Arc<LeaseNode>,
    lease_ends: Arc<LeaseEnds>,
    asks: BTreeMap<Ask, Arc<AtomicBool>>,
}

/// A worker, and its connection to a life of a node.
struct Side {
    session: Worker,
    at: Option<(Link, usize)>,
    runs: Option<Tag>,
}

enum Event {
    Connects(usize),
    ToNode(usize, Link, Bytes),
    ToWorker(usize, Link, Bytes),
    ClosedAtNode(usize, Link),
    ClosedAtWorker(usize, Link),
    GuestEnds(usize, Tag, Outcome),
}

struct World {
    model: Arc<LeaseHost>,
    lives: Vec<Option<Life>>,
    /// The nodes, each with the number of its latest life.
    nodes: Vec<(NodeId, usize)>,
    workers: Vec<Side>,
    events: BTreeMap<(Time, u64), Event>,
    /// When the last message of a direction arrives.
    arrives: BTreeMap<(Link, bool), Time>,
    executed: BTreeMap<String, u32>,
    made: u64,
    random: Random,
}

impl World {
    fn new(seed: u64, dialect: Dialect) -> Self {
        let mut world = Self {
            model: LeaseHost::new(),
            lives: Vec::new(),
            nodes: Vec::new(),
            workers: Vec::new(),
            events: BTreeMap::new(),
            arrives: BTreeMap::new(),
            executed: BTreeMap::new(),
            made: 0,
            random: Random::new(seed),
        };
        for n in [1, 2] {
            world.nodes.push((NodeId(Uuid::from_u128(n)), 0));
            world.start(world.nodes.len() - 1);
        }
        for n in 0..WORKERS {
            let setup = WorkerSetup {
                worker_id: format!("W{n}"),
                handler: "tidy".parse().unwrap(),
                dialect,
                has_program: false,
            };
            world.workers.push(Side {
                session: Worker::new(setup, world.at()),
                at: None,
                runs: None,
            });
            world.later(0, Event::Connects(n));
        }
        world
    }

    fn at(&self) -> Moment {
        let now = self.model.clock.now();
        Moment { now, wall: now }
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.made += 1;
        let at = self.at().now.plus_ms(ms);
        self.events.insert((at, self.made), event);
    }

    /// Puts an event on a connection, after those already on it.
    fn carry(&mut self, link: Link, to_worker: bool, event: Event) {
        let delay_ms = self.random.below(20);
        let arrives = self.at().now.plus_ms(delay_ms);
        let before = self.arrives.get(&(link, to_worker)).copied();
        let arrives = before.map_or(arrives, |before| before.max(arrives));
        self.arrives.insert((link, to_worker), arrives);
        self.made += 1;
        self.events.insert((arrives, self.made), event);
    }

    /// Starts a node. It takes nothing from one that lives.
    fn start(&mut self, n: usize) {
        let node = self.nodes[n].0;
        let of_others = self.model.leases_of_others(node);
        let leases = self.model.node(node);
        let config = OrchestratorConfig {
            executor: "beads".parse().unwrap(),
            socket: String::new(),
            workers_max: 8,
            wait_seconds: 1,
            hold_ms: 2_000,
        };
        self.nodes[n].1 = self.lives.len();
        self.lives.push(Some(Life {
            session: Orchestrator::new(config, self.at()),
            leases,
            lease_ends: Arc::default(),
            asks: BTreeMap::new(),
        }));
        assert!(self.model.are_left(&of_others));
    }

    /// Ends a node that lives, or starts it again.
    fn change(&mut self) {
        let n = usize::try_from(self.random.below(self.nodes.len() as u64)).unwrap();
        let (node, life) = self.nodes[n];
        if self.lives[life].is_none() {
            return self.start(n);
        }
        if self.random.below(2) == 0 {
            self.say(life, orchestrator::Event::Stop);
            self.say(life, orchestrator::Event::Cut);
            self.collect();
        }
        self.model.kill(node);
        if let Some(life) = self.lives[life].take() {
            life.lease_ends.is_over.store(true, Ordering::Relaxed);
        }
        for n in 0..self.workers.len() {
            if let Some((link, _)) = self.workers[n].at.filter(|(_, of)| *of == life) {
                self.carry(link, true, Event::ClosedAtWorker(n, link));
            }
        }
    }

    fn say(&mut self, life: usize, event: orchestrator::Event) {
        let at = self.at();
        self.with_node(life, |session, actions| {
            session.on_event(at, event, actions);
        });
    }

    fn with_node(
        &mut self,
        n: usize,
        act: impl FnOnce(&mut Orchestrator, &mut ActionsOf<Orchestrator>),
    ) {
        let mut actions = Actions::default();
        if let Some(Some(life)) = self.lives.get_mut(n) {
            act(&mut life.session, &mut actions);
        }
        for action in actions.drain().collect::<Vec<_>>() {
            match action {
                Action::Send(link, message) => {
                    if let Some(worker) = self.worker_at(link) {
                        let message = framed::<Orchestrator>(&message);
                        self.send(link, (n, worker), true, message);
                    }
                }
                Action::Close(link) => {
                    if let Some(worker) = self.worker_at(link) {
                        self.carry(link, true, Event::ClosedAtWorker(worker, link));
                    }
                }
                Action::Count(_) => {}
                Action::Effect(effect) => self.node_does(n, effect),
            }
        }
    }

    fn node_does(&mut self, n: usize, effect: orchestrator::Effect) {
        use orchestrator::Effect;
        let Some(Some(life)) = self.lives.get_mut(n) else {
            return;
        };
        let lease_ends = Arc::clone(&life.lease_ends);
        match effect {
            Effect::Ask {
                ask,
                worker,
                wait_ms,
            } => {
                let withdrawn = Arc::<AtomicBool>::default();
                life.asks.insert(ask, Arc::clone(&withdrawn));
                let request = LeaseRequest {
                    executors: vec!["beads".parse().unwrap()],
                    worker,
                    slots: 1,
                    hold: Hold::Connection,
                    wait_ms,
                    events: Some(Arc::clone(&lease_ends) as Arc<dyn LeaseEvents>),
                };
                let asked = TaskRequest {
                    lease_ends,
                    ask,
                    withdrawn,
                };
                Arc::clone(&life.leases).lease(request, Box::new(asked));
            }
            Effect::Withdraw(ask) => {
                if let Some(withdrawn) = life.asks.remove(&ask) {
                    withdrawn.store(true, Ordering::Relaxed);
                }
            }
            Effect::End(ended) => Arc::clone(&life.leases).end(*ended),
            Effect::Warn(..) | Effect::Note(..) => {}
        }
    }

    fn worker_at(&self, link: Link) -> Option<usize> {
        let is_there = |side: &Side| side.at.is_some_and(|(at, _)| at == link);
        self.workers.iter().position(is_there)
    }

    /// Sends a message, or breaks its connection.
    fn send(&mut self, link: Link, (life, worker): (usize, usize), to_worker: bool, bytes: Bytes) {
        if self.random.below(60) == 0 {
            self.carry(link, true, Event::ClosedAtWorker(worker, link));
            self.carry(link, false, Event::ClosedAtNode(life, link));
        } else if to_worker {
            self.carry(link, true, Event::ToWorker(worker, link, bytes));
        } else {
            self.carry(link, false, Event::ToNode(life, link, bytes));
        }
    }

    fn with_worker(&mut self, n: usize, act: impl FnOnce(&mut Worker, &mut ActionsOf<Worker>)) {
        let mut actions = Actions::default();
        act(&mut self.workers[n].session, &mut actions);
        for action in actions.drain().collect::<Vec<_>>() {
            match action {
                Action::Send(link, message) => {
                    if let Some((at, life)) = self.workers[n].at.filter(|(at, _)| *at == link) {
                        self.send(at, (life, n), false, framed::<Worker>(&message));
                    }
                }
                Action::Close(link) => self.carry(link, true, Event::ClosedAtWorker(n, link)),
                Action::Effect(worker::Effect::Start(tag, job)) => {
                    let before = self.workers[n].runs.replace(tag);
                    assert!(before.is_none(), "a worker has one task at a time");
                    *self.executed.entry(job.external_id).or_default() += 1;
                    let ms = self.random.below(1_500);
                    let done = Outcome::Completed { result: None };
                    self.later(ms, Event::GuestEnds(n, tag, done));
                }
                Action::Effect(worker::Effect::Stop(tag, _)) => {
                    let ms = self.random.below(300);
                    let stopped = Outcome::Cancelled { partial: None };
                    self.later(ms, Event::GuestEnds(n, tag, stopped));
                }
                Action::Count(_)
                | Action::Effect(worker::Effect::Call(..) | worker::Effect::WarnOfFrames) => {}
            }
        }
    }

    /// Passes on what the host tells.
    fn collect(&mut self) {
        for n in 0..self.lives.len() {
            loop {
                let lease_ends = self.lives[n]
                    .as_ref()
                    .map(|life| Arc::clone(&life.lease_ends));
                let events =
                    lease_ends.map(|lease_ends| std::mem::take(&mut *lease_ends.events.lock()));
                let events = events.unwrap_or_default();
                if events.is_empty() {
                    break;
                }
                for event in events {
                    self.say(n, event);
                }
            }
        }
    }

    fn connect(&mut self, n: usize) {
        let living = |world: &Self| -> Vec<usize> {
            let lives = 0..world.lives.len();
            lives.filter(|life| world.lives[*life].is_some()).collect()
        };
        let living = living(self);
        let drawn = self.random.below(living.len().max(1) as u64);
        // A worker connects when the guest of its last connection has ended.
        let life = living.get(usize::try_from(drawn).unwrap()).copied();
        let Some(life) = life.filter(|_| self.workers[n].runs.is_none()) else {
            return self.later(AGAIN_MS, Event::Connects(n));
        };
        self.made += 1;
        let link = Link(self.made);
        self.workers[n].at = Some((link, life));
        let now = self.at().now;
        self.with_node(life, |session, actions| session.on_open(now, link, actions));
        self.with_worker(n, |session, actions| session.on_open(now, link, actions));
    }

    fn handle(&mut self, event: Event) {
        let at = self.at();
        match event {
            Event::Connects(n) => self.connect(n),
            Event::ToNode(life, link, bytes) => self.with_node(life, |session, actions| {
                session.on_message(at, link, Orchestrator::read(Ok(bytes)), actions);
            }),
            Event::ClosedAtNode(life, link) => {
                self.with_node(life, |session, actions| {
                    session.on_closed(at.now, link, actions);
                });
            }
            Event::ToWorker(n, link, bytes) => {
                if self.worker_at(link) == Some(n) {
                    self.with_worker(n, |session, actions| {
                        session.on_message(at, link, Worker::read(Ok(bytes)), actions);
                    });
                }
            }
            Event::ClosedAtWorker(n, link) => {
                if let Some((_, life)) = self.workers[n].at.take_if(|(at, _)| *at == link) {
                    self.carry(link, false, Event::ClosedAtNode(life, link));
                    self.with_worker(n, |session, actions| {
                        session.on_closed(at.now, link, actions);
                        session.on_event(at, worker::Event::Again, actions);
                    });
                    self.later(AGAIN_MS, Event::Connects(n));
                }
            }
            Event::GuestEnds(n, tag, outcome) => {
                if self.workers[n].runs.take_if(|runs| *runs == tag).is_some() {
                    let event = worker::Event::Ended(tag, Some(outcome));
                    self.with_worker(n, |session, actions| session.on_event(at, event, actions));
                }
            }
        }
    }

    /// Goes to the next instant at which something happens.
    fn step(&mut self) {
        self.collect();
        let lives = self.lives.iter().flatten();
        let nodes = lives.filter_map(|life| life.session.wakeup());
        let workers = self.workers.iter().filter_map(|side| side.session.wakeup());
        let next = self.events.keys().next().map(|(at, _)| *at);
        let due = nodes.chain(workers).chain(next).chain(self.model.due());
        let now = self.at().now;
        let ms = due.min().map_or(AGAIN_MS, |due| due.since_ms(now));
        self.model.advance(ms.min(AGAIN_MS));
        let now = self.at().now;
        for n in 0..self.lives.len() {
            self.with_node(n, |session, actions| {
                if session.wakeup().is_some_and(|at| at <= now) {
                    session.on_wakeup(now, actions);
                }
            });
        }
        for n in 0..self.workers.len() {
            self.with_worker(n, |session, actions| {
                if session.wakeup().is_some_and(|at| at <= now) {
                    session.on_wakeup(now, actions);
                }
            });
        }
        while let Some(entry) = self.events.first_entry()
            && entry.key().0 <= now
        {
            let event = entry.remove();
            self.handle(event);
        }
    }
}

/// Returns a message as the other side cuts it.
fn framed<S: StreamSession>(message: &S::Out) -> Bytes {
    let mut out = BytesMut::new();
    S::write(message, &mut out);
    if out.first() != Some(&0) && out.last() == Some(&b'\n') {
        out.truncate(out.len() - 1);
    }
    out.freeze()
}

/// Returns how many attempts there were beside the first of each job.
fn run(seed: u64, dialect: Dialect) -> u32 {
    let mut world = World::new(seed, dialect);
    let policy = Policy {
        max_attempts: 100,
        ..Policy::default()
    };
    let ids: Vec<JobId> = (0..TASKS)
        .map(|_| {
            let to = ("beads", "tidy");
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
        let runs = world.workers.iter().any(|side| side.runs.is_some());
        if is_calm && is_over(&world) && !runs {
            break;
        }
        world.step();
    }
    let leases = world.model.leases(|_| true);
    assert_eq!(leases, [], "seed {seed}: a lease outlives its task");
    for life in world.lives.iter().flatten() {
        let health = life.session.health();
        let busy: Vec<_> = health.iter().filter(|it| it.in_flight > 0).collect();
        assert!(busy.is_empty(), "seed {seed}: {busy:?}");
    }
    for id in &ids {
        let kept = world.model.kept(*id).unwrap();
        assert_eq!(kept.job.lifecycle.state, State::Completed, "seed {seed}");
        let attempts = kept.job.lifecycle.attempt;
        let executed = world.executed[&id.to_string()];
        assert!(
            (1..=attempts).contains(&executed),
            "seed {seed}: {attempts} attempts of {id} were executed {executed} times"
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
        again += run(seed, Dialect::Lines) + run(seed, Dialect::Framed);
    }
    assert!(
        again > 100,
        "{again}: the changes of nodes interrupt attempts"
    );
}
