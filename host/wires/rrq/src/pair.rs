//! Our orchestrator against our workers over connections that delay and break but never reorder,
//! with processes that die. Each execution must end once and with its own outcome.

mod nodes;

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{Assignment, End, Tag};
use host_core::suspicion::Suspicion;
use host_core::time::Time;
use host_testing::histories;
use host_wire_kit::session::{Action, Actions, ActionsOf, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;
use proptest::prelude::*;

use super::config::{Dialect, Launch, PoolConfig, Source};
use super::orchestrator::{Orchestrator, PoolEffect, PoolEvent, slots};
use super::worker::{ExecutionEnd, Worker, WorkerEffect, WorkerEvent};

const RUNNERS: usize = 2;
const JOBS: u64 = 60;
const START: Time = Time(1_763_000_000_000);

/// Everything must be over by then: the longest timeout, its escalation and the slowest message.
const OVER_MS: u64 = 60_000;

#[derive(Debug)]
enum Event {
    Launched(usize),
    Exited(usize),
    Opened(Link, usize, u64),
    OpenedAtWorker(Link),
    ToWorker(Link, Vec<u8>),
    ToPool(Link, Vec<u8>),
    ClosedAtWorker(Link),
    ClosedAtPool(Link),
    GuestEnds(usize, u64, Tag, Outcome),
    Busy(usize, u64, Tag),
    Start(u64),
    Cancel(u64, u64),
}

struct Process {
    worker: Worker,
    /// Counts the starts of the process. Messages to an earlier start are lost.
    life: u64,
    alive: bool,
}

struct World {
    now: Time,
    pool: Orchestrator,
    processes: Vec<Process>,
    events: BTreeMap<(Time, u64), Event>,
    events_made: u64,
    /// The process at the end of each connection, and its `life`.
    links: BTreeMap<Link, (usize, u64)>,
    /// When the last byte of a direction arrives. The next byte arrives no earlier.
    arrives: BTreeMap<(Link, bool), Time>,
    ended: BTreeMap<u64, End>,
    started: BTreeSet<u64>,
    random: u64,
}

impl World {
    fn new(seed: u64, dialect: Dialect) -> Self {
        let config = PoolConfig {
            name: "r".parse().unwrap(),
            source: Source::Launched(Launch {
                command: vec!["r".to_owned()],
                pool_size: RUNNERS,
                tcp_port: None,
                cwd: None,
                env: BTreeMap::new(),
            }),
            in_flight_max: 8,
            dialect,
        };
        let process = || Process {
            worker: Worker::default(),
            life: 0,
            alive: false,
        };
        let mut world = Self {
            now: START,
            pool: Orchestrator::new(&config, START),
            processes: (0..slots(&config)).map(|_| process()).collect(),
            events: BTreeMap::new(),
            events_made: 0,
            links: BTreeMap::new(),
            arrives: BTreeMap::new(),
            ended: BTreeMap::new(),
            started: BTreeSet::new(),
            random: seed,
        };
        for tag in 0..JOBS {
            let at_ms = 500 + world.below(5_000);
            world.later(at_ms, Event::Start(tag));
            if world.below(4) == 0 {
                let grace_ms = [0, 500][usize::from(world.below(2) == 0)];
                let at_ms = at_ms + world.below(1_000);
                world.later(at_ms, Event::Cancel(tag, grace_ms));
            }
        }
        world
    }

    /// Returns a uniformly distributed number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % limit
    }

    /// Returns a random delay, which is usually short.
    fn delay_ms(&mut self) -> u64 {
        match self.below(20) {
            0 => self.below(3_000),
            1..5 => 0,
            _ => self.below(20),
        }
    }

    fn later(&mut self, ms: u64, event: Event) {
        self.at(self.now.plus_ms(ms), event);
    }

    fn at(&mut self, at: Time, event: Event) {
        self.events_made += 1;
        self.events.insert((at, self.events_made), event);
    }

    /// Puts an event on a connection, after those already on it.
    fn carry(&mut self, link: Link, to_worker: bool, event: Event) {
        let arrives = self.now.plus_ms(self.delay_ms());
        let before = self.arrives.get(&(link, to_worker)).copied();
        let arrives = before.map_or(arrives, |before| before.max(arrives));
        self.arrives.insert((link, to_worker), arrives);
        self.at(arrives, event);
    }

    fn moment(&self) -> Moment {
        Moment {
            now: self.now,
            wall: self.now,
        }
    }

    fn pool_does(&mut self, mut actions: ActionsOf<Orchestrator>) {
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            match action {
                Action::Send(link, message) => {
                    let bytes = framed::<Orchestrator>(&message);
                    self.send(link, true, Event::ToWorker(link, bytes));
                }
                Action::Close(link) => self.carry(link, true, Event::ClosedAtWorker(link)),
                Action::Count(_) | Action::Effect(PoolEffect::Capacity(_)) => {}
                Action::Effect(PoolEffect::Launch { runner }) => {
                    let ms = self.delay_ms();
                    let exits = self.below(10) == 0;
                    let event = if exits {
                        Event::Exited(runner)
                    } else {
                        Event::Launched(runner)
                    };
                    self.later(ms, event);
                }
                Action::Effect(PoolEffect::Kill { runner, .. }) => {
                    let ms = self.delay_ms();
                    self.later(ms, Event::Exited(runner));
                }
                Action::Effect(PoolEffect::Connect { runner, link }) => {
                    let life = self.processes[runner].life;
                    self.links.insert(link, (runner, life));
                    self.carry(link, true, Event::OpenedAtWorker(link));
                    self.carry(link, false, Event::Opened(link, runner, life));
                }
                Action::Effect(PoolEffect::Ended { tag, end, .. }) => {
                    let before = self.ended.insert(tag.0, end);
                    assert!(before.is_none(), "{tag:?} ended twice");
                }
            }
        }
    }

    /// Sends a message, or breaks its connection.
    fn send(&mut self, link: Link, to_worker: bool, event: Event) {
        if self.below(40) == 0 {
            self.carry(link, true, Event::ClosedAtWorker(link));
            self.carry(link, false, Event::ClosedAtPool(link));
        } else {
            self.carry(link, to_worker, event);
        }
    }

    fn worker_does(&mut self, runner: usize, mut actions: ActionsOf<Worker>) {
        let life = self.processes[runner].life;
        let actions: Vec<_> = actions.drain().collect();
        for action in actions {
            match action {
                Action::Send(link, message) => {
                    let bytes = framed::<Worker>(&message);
                    self.send(link, false, Event::ToPool(link, bytes));
                }
                Action::Close(link) => self.carry(link, false, Event::ClosedAtPool(link)),
                Action::Count(_) => {}
                Action::Effect(WorkerEffect::Start(tag, job)) => match self.below(10) {
                    0 => self.later(0, Event::Busy(runner, life, tag)),
                    1 | 2 => {}
                    _ => {
                        let result = Some(JsonText(format!("{:?}", job.external_id)));
                        let outcome = Outcome::Completed { result };
                        let ms = self.below(800);
                        self.later(ms, Event::GuestEnds(runner, life, tag, outcome));
                    }
                },
                Action::Effect(WorkerEffect::Stop { tag, grace_ms, .. }) => {
                    let ms = self.below(grace_ms + 200);
                    let outcome = Outcome::Cancelled { partial: None };
                    self.later(ms, Event::GuestEnds(runner, life, tag, outcome));
                }
            }
        }
    }

    fn pool_event(&mut self, event: PoolEvent) {
        let mut actions = Actions::default();
        self.pool.on_event(self.moment(), event, &mut actions);
        self.pool_does(actions);
    }

    fn worker_event(&mut self, runner: usize, life: u64, event: WorkerEvent) {
        if self.processes[runner].life != life {
            return;
        }
        let mut actions = Actions::default();
        let moment = self.moment();
        self.processes[runner]
            .worker
            .on_event(moment, event, &mut actions);
        self.worker_does(runner, actions);
    }

    /// Returns the process of a connection, unless it was started again since.
    fn process_of(&self, link: Link) -> Option<usize> {
        let (runner, life) = *self.links.get(&link)?;
        let process = &self.processes[runner];
        (process.alive && process.life == life).then_some(runner)
    }

    fn exit(&mut self, runner: usize) {
        let life = self.processes[runner].life;
        self.processes[runner] = Process {
            worker: Worker::default(),
            life: life + 1,
            alive: false,
        };
        let links: Vec<Link> = self
            .links
            .iter()
            .filter(|(_, to)| **to == (runner, life))
            .map(|(link, _)| *link)
            .collect();
        for link in links {
            self.carry(link, false, Event::ClosedAtPool(link));
        }
        self.pool_event(PoolEvent::Exited { runner });
    }

    fn handle(&mut self, event: Event) {
        let mut actions = Actions::default();
        match event {
            Event::Launched(runner) => {
                self.processes[runner].alive = true;
                self.pool_event(PoolEvent::Launched { runner });
            }
            Event::Exited(runner) => self.exit(runner),
            Event::Opened(link, runner, life) => {
                let process = &self.processes[runner];
                if process.alive && process.life == life {
                    self.pool.on_open(self.now, link, &mut actions);
                    self.pool_does(actions);
                } else {
                    self.pool_event(PoolEvent::ConnectFailed { link });
                }
            }
            Event::ToPool(link, bytes) => {
                let message = Orchestrator::read(Ok(bytes.into()));
                self.pool
                    .on_message(self.moment(), link, message, &mut actions);
                self.pool_does(actions);
            }
            Event::ClosedAtPool(link) => {
                self.pool.on_closed(self.now, link, &mut actions);
                self.pool_does(actions);
            }
            Event::GuestEnds(runner, life, tag, outcome) => {
                let event = WorkerEvent::Answer(tag, ExecutionEnd::Ended(outcome));
                self.worker_event(runner, life, event);
            }
            Event::Busy(runner, life, tag) => {
                self.worker_event(runner, life, WorkerEvent::Answer(tag, ExecutionEnd::Busy));
            }
            Event::Start(tag) => {
                self.started.insert(tag);
                let timeout_ms = 200 + self.below(3_000);
                let mut assignment = Box::new(assignment(tag, timeout_ms));
                let losses = [0, 0, 1, 2, 7][usize::try_from(tag % 5).unwrap()];
                assignment.suspicion =
                    (0..losses).fold(Suspicion::NONE, |suspicion, _| suspicion.after_loss(64));
                self.pool_event(PoolEvent::Start(Tag(tag), assignment));
            }
            Event::Cancel(tag, grace_ms) => {
                let tag = Tag(tag);
                self.pool_event(PoolEvent::Cancel { tag, grace_ms });
            }
            Event::OpenedAtWorker(link)
            | Event::ToWorker(link, _)
            | Event::ClosedAtWorker(link) => {
                if let Some(runner) = self.process_of(link) {
                    self.handle_at_worker(runner, link, event);
                }
            }
        }
    }

    fn handle_at_worker(&mut self, runner: usize, link: Link, event: Event) {
        let mut actions = Actions::default();
        let at = self.moment();
        let worker = &mut self.processes[runner].worker;
        match event {
            Event::OpenedAtWorker(_) => worker.on_open(at.now, link, &mut actions),
            Event::ToWorker(_, bytes) => {
                let message = Worker::read(Ok(bytes.into()));
                worker.on_message(at, link, message, &mut actions);
            }
            _ => worker.on_closed(at.now, link, &mut actions),
        }
        self.worker_does(runner, actions);
    }

    /// Runs the world until nothing more happens.
    fn run(&mut self) {
        let over = START.plus_ms(OVER_MS);
        while self.now < over {
            let workers = self.processes.iter().map(|process| &process.worker);
            let woken = workers
                .filter_map(Session::wakeup)
                // Idle connections are closed later than that.
                .filter(|at| *at < over)
                .chain(self.pool.wakeup())
                .min();
            let next = self.events.first_key_value().map(|((at, _), _)| *at);
            let Some(at) = [woken, next].into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(at);
            if woken.is_some_and(|woken| woken <= self.now) {
                self.wake();
            }
            while let Some(entry) = self.events.first_entry()
                && entry.key().0 <= self.now
            {
                let event = entry.remove();
                self.handle(event);
                self.check_sharing();
            }
            // Kill a process now and then.
            if self.now < START.plus_ms(8_000) && self.below(150) == 0 {
                let runners = self.processes.len() as u64;
                let runner = usize::try_from(self.below(runners)).unwrap();
                if self.processes[runner].alive {
                    self.exit(runner);
                }
            }
        }
    }

    fn wake(&mut self) {
        let mut actions = Actions::default();
        self.pool.on_wakeup(self.now, &mut actions);
        self.pool_does(actions);
        for runner in 0..self.processes.len() {
            let mut actions = Actions::default();
            self.processes[runner]
                .worker
                .on_wakeup(self.now, &mut actions);
            self.worker_does(runner, actions);
        }
    }

    /// Checks that a job that was lost twice is alone.
    fn check_sharing(&self) {
        for runner in 0..self.processes.len() {
            let runs = self.pool.in_flight(runner);
            let is_alone = runs.iter().any(|tag| tag.0 % 5 == 4);
            assert!(!is_alone || runs.len() == 1, "{runs:?}");
        }
    }

    fn check(&self) {
        assert_eq!(self.started.len() as u64, JOBS);
        let ended: BTreeSet<u64> = self.ended.keys().copied().collect();
        assert_eq!(ended, self.started, "each execution ends");
        for (tag, end) in &self.ended {
            if let End::Outcome(Outcome::Completed { result }) = end {
                let expected = Some(JsonText(format!("\"job {tag}\"")));
                assert_eq!(*result, expected, "each job gets its own outcome");
            }
        }
    }
}

fn framed<S: StreamSession>(message: &S::Out) -> Vec<u8> {
    let mut out = BytesMut::new();
    S::write(message, &mut out);
    out[4..].to_vec()
}

fn assignment(tag: u64, timeout_ms: u64) -> Assignment {
    Assignment {
        request_id: format!("request {tag}"),
        job_id: format!("job {tag}"),
        handler: "echo".to_owned(),
        params: JsonText("{}".to_owned()),
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(histories(50, 200)))]
    #[test]
    fn each_execution_ends_once_with_its_own_outcome(seed in any::<u64>(), documented in any::<bool>()) {
        let dialect = if documented { Dialect::Documented } else { Dialect::Current };
        let mut world = World::new(seed, dialect);
        world.run();
        world.check();
        prop_assert!(world.now < START.plus_ms(OVER_MS), "everything ends");
        for process in &world.processes {
            prop_assert!(process.worker.is_idle(), "no guest is forgotten");
        }
    }
}

/// Most executions must complete, so that the other tests are meaningful.
#[test]
fn most_executions_complete() {
    let mut completed = 0;
    for seed in 0..20 {
        let mut world = World::new(seed, Dialect::Current);
        world.run();
        let done = |end: &&End| matches!(end, End::Outcome(Outcome::Completed { .. }));
        completed += world.ended.values().filter(done).count();
    }
    assert!(completed > 400, "{completed} of 1200");
}
