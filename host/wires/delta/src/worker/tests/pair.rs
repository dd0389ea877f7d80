//! Our runners against our orchestrator, with loss, delay, duplication and reordering of every message:
//! a job ends once, no lease is completed after its end, no two leases and no two guests of a job are
//! live concurrently, and a log has each line once and in order. The orchestrator is one node, or two, of which
//! any may get a message.

mod checks;
mod nodes;
mod random;
mod runs;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use host_core::cell::{Level, LogLine, LogSource};
use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::State;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Answer, Clock as _, Tag};
use host_core::time::Time;
use host_testing::LeaseHost;
use host_wire_kit::session::{Action, ActionsOf, Moment, Session as _};

use self::random::Random;
use crate::convert;
use crate::messages::LeaseGranted;
use crate::messages::lease_id::LeaseText;
use crate::messages::read;
use crate::orchestrator::{Answer as Answered, Extension, Message, NamedLease, Pools, Request};
use crate::refusals::WireRefusal;
use crate::settings::{PoolConfig, Times};
use crate::worker::exchange::{Kind, Response};
use crate::worker::lease;
use crate::worker::results::Results;
use crate::worker::session::{self, Done, Effect, LeaseSession, Mode};
use crate::worker::words::Dialect;

/// When faults stop, and when all must be over, in milliseconds.
const FAULTS_MS: u64 = 60_000;
const END_MS: u64 = 1_200_000;

/// How often time passes although nothing else happens, in milliseconds.
const TICK_MS: u64 = 1_000;

const TIMES: Times = Times {
    lease_ttl: 20,
    heartbeat_interval: 5,
    ack: 10,
    cancel_deadline: 8,
    max_runtime: 30,
};

/// How many lines each guest writes.
const LINES: u64 = 2;

/// How often a runner without a job asks for one, in milliseconds.
const POLL_MS: u64 = 4_000;

enum Event {
    /// A runner asks for a lease.
    Poll(usize),
    /// A lease reaches its runner.
    Granted(usize, Vec<u8>),
    /// A message reaches the orchestrator; the number of its request and until when an answer is
    /// wanted, unless it is a copy.
    Arrives(usize, u32, Kind, String, Option<(u64, Time)>),
    /// The answer to a request, by its number; the first one counts.
    Answered(usize, u32, u64, Kind, Response),
    Guest(usize, u32, Tag, Answer),
    Wakes(usize, u32),
    /// A user cancels the job.
    Cancel,
    /// A node of the orchestrator gets a signal to stop, or is killed.
    Stop,
    /// A node is gone.
    Kill(usize),
    /// A node starts with the same store.
    Start(usize),
    /// Time passes.
    Tick,
}

/// A message that the orchestrator has not answered yet.
struct Open {
    node: usize,
    runner: usize,
    epoch: u32,
    kind: Kind,
    body: String,
    until: Option<(u64, Time)>,
    answer: BoxFuture<'static, Result<Answered, WireRefusal>>,
}

#[derive(Default)]
struct Runner {
    /// The lease of its session, or of the last one.
    lease: Option<LeaseText>,
    session: Option<LeaseSession>,
    /// Counts its leases, so that what was meant for an earlier one is dropped.
    epoch: u32,
    guest: Option<Tag>,
}

struct Sim {
    model: Arc<LeaseHost>,
    /// The orchestrator at each node that lives.
    nodes: Vec<Option<Arc<Pools>>>,
    pool: PoolConfig,
    random: Random,
    queue: BTreeMap<(Time, u64), Event>,
    events: u64,
    runners: Vec<Runner>,
    job: JobId,
    start: Time,
    /// How often a runner was told that its end counts.
    reported: u32,
    /// What the orchestrator has not answered.
    waiting: Vec<Open>,
    /// The requests whose runners have no answer.
    open: std::collections::BTreeSet<u64>,
    /// The newest request that has arrived.
    newest: u64,
    /// The ends that were accepted.
    ended: std::cell::RefCell<std::collections::BTreeSet<String>>,
    faults: Faults,
    /// How often a node was asked to stop.
    stopped: u32,
    /// How often a message waited on for its answer.
    delayed: u32,
    seed: u64,
}

/// How often each fault has happened.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u32,
    late: u32,
    copied: u32,
    overtaken: u32,
}

fn written(message: String) -> LogLine {
    LogLine {
        at_ms: 0,
        level: Level::Info,
        source: LogSource::Stdout,
        message,
        fields: Vec::new(),
    }
}

impl Sim {
    fn new(seed: u64, nodes: usize) -> Self {
        let model = LeaseHost::new();
        let pool = PoolConfig {
            name: "ci".parse().unwrap(),
            origin: String::new(),
            capabilities: std::collections::BTreeSet::new(),
            launch: None,
        };
        let steps = r#"{"steps":["wasm:a","wasm:b"]}"#;
        let mut policy = TIMES.policy();
        policy.timeout_ms = Some(40_000);
        policy.max_attempts = 3;
        let job = model.enqueue(("ci", "unit-tests"), steps, policy, &[]);
        let start = model.clock.now();
        let mut sim = Self {
            nodes: vec![None; nodes],
            model,
            pool,
            random: Random(seed),
            queue: BTreeMap::new(),
            events: 0,
            runners: (0..3).map(|_| Runner::default()).collect(),
            job,
            start,
            reported: 0,
            waiting: Vec::new(),
            open: std::collections::BTreeSet::new(),
            newest: 0,
            ended: std::cell::RefCell::default(),
            faults: Faults::default(),
            stopped: 0,
            delayed: 0,
            seed,
        };
        for node in 0..nodes {
            sim.start_node(node);
        }
        for runner in 0..sim.runners.len() {
            sim.after(runner as u64, Event::Poll(runner));
        }
        if sim.random.is_one_in(3) {
            let at = sim.random.below(FAULTS_MS);
            sim.after(at, Event::Cancel);
        }
        if sim.random.is_one_in(3) {
            for _ in 0..nodes {
                let at = sim.random.below(FAULTS_MS);
                sim.after(at, Event::Stop);
            }
        }
        sim.after(TICK_MS, Event::Tick);
        sim
    }

    fn after(&mut self, ms: u64, event: Event) {
        self.events += 1;
        let at = self.model.clock.now().plus_ms(ms);
        self.queue.insert((at, self.events), event);
    }

    fn has_faults(&self) -> bool {
        self.model.clock.now().since_ms(self.start) < FAULTS_MS
    }

    /// Returns how long a message is on its way; `None` if it is lost.
    fn way(&mut self) -> Option<u64> {
        if !self.has_faults() {
            return Some(5);
        }
        match self.random.below(10) {
            0 => {
                self.faults.lost += 1;
                None
            }
            1 => {
                self.faults.late += 1;
                Some(self.random.below(40_000))
            }
            2..=4 => Some(self.random.below(4_000)),
            _ => Some(self.random.below(50)),
        }
    }

    /// Runs until the job has ended and no worker executes it.
    fn run(&mut self) {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            self.model.advance(at.since_ms(self.model.clock.now()));
            self.step(event);
            let is_over = self.model.state(self.job).is_terminal();
            if is_over && self.runners.iter().all(|it| it.session.is_none()) {
                return;
            }
        }
        unreachable!("time passes until the end");
    }

    fn step(&mut self, event: Event) {
        let now = self.model.clock.now();
        let (before, live) = (self.model.state(self.job), self.live_lease());
        match event {
            Event::Tick => {
                let passed = now.since_ms(self.start);
                assert!(passed < END_MS, "seed {}: the job has not ended", self.seed);
                self.wake();
                self.after(TICK_MS, Event::Tick);
            }
            Event::Cancel => {
                // The job may have ended.
                let _ = self.model.cancel(self.job, None);
            }
            Event::Stop => self.stop_node(),
            Event::Kill(n) => self.kill_node(n),
            Event::Start(n) => self.start_node(n),
            Event::Poll(runner) => self.poll(runner),
            Event::Granted(runner, body) => self.begin(now, runner, &body),
            Event::Arrives(runner, epoch, kind, body, until) => {
                if let Some((number, _)) = until {
                    self.faults.overtaken += u32::from(number < self.newest);
                    self.newest = self.newest.max(number);
                }
                let request = self.request(runner, kind, &body);
                let (node, orchestrator) = self.node();
                let answer = async move { orchestrator.request(request?).await };
                self.waiting.push(Open {
                    node,
                    runner,
                    epoch,
                    kind,
                    body,
                    until,
                    answer: answer.boxed(),
                });
            }
            Event::Answered(runner, epoch, number, kind, response) => {
                if !self.open.remove(&number) {
                    return;
                }
                self.report(runner, epoch, session::Event::Answered(kind, response));
            }
            Event::Guest(runner, epoch, tag, answer) => {
                if self.runners[runner].epoch == epoch && self.runners[runner].guest == Some(tag) {
                    if matches!(answer, Answer::Ended(..)) {
                        self.runners[runner].guest = None;
                    }
                    self.report(runner, epoch, session::Event::Guest(tag, answer));
                }
            }
            Event::Wakes(runner, epoch) => {
                self.with(runner, epoch, |session, todo| session.on_wakeup(now, todo));
            }
        }
        self.settle(before, live.as_ref());
    }

    /// Takes the answers of the orchestrator and sends them on their way. `before` and `live` are the job and its
    /// lease before they were made.
    fn settle(&mut self, before: State, live: Option<&LeaseText>) {
        // One request may make the orchestrator answer another one.
        let mut open = usize::MAX;
        while self.waiting.len() < open {
            open = self.waiting.len();
            self.take_answers(before, live);
        }
        self.delayed += u32::from(open > 0);
    }

    fn take_answers(&mut self, before: State, live: Option<&LeaseText>) {
        let now = self.model.clock.now();
        for mut open in std::mem::take(&mut self.waiting) {
            let Some(answer) = open.answer.as_mut().now_or_never() else {
                self.waiting.push(open);
                continue;
            };
            let after = self.model.state(self.job);
            let stays = !before.is_terminal() || before == after;
            let Open { runner, kind, .. } = open;
            assert!(
                stays,
                "{before:?} became {after:?} by {kind:?} of w{runner}"
            );
            self.check_lease(kind, &open.body, before.is_terminal(), live, &answer);
            let response = checks::response(kind, answer);
            if let (Some(back), Some((number, until))) = (self.way(), open.until)
                && now.plus_ms(back) < until
            {
                self.after(
                    back,
                    Event::Answered(runner, open.epoch, number, kind, response),
                );
            }
        }
    }

    fn poll(&mut self, runner: usize) {
        if self.runners[runner].session.is_some() {
            return;
        }
        let ask = read::Ask {
            runner_id: format!("w{runner}"),
            capabilities: std::collections::BTreeSet::new(),
            wait_seconds: 0,
        };
        if self.has_faults() && self.random.is_one_in(8) {
            // A copy comes first, and its answer finds no request.
            self.faults.copied += 1;
            drop(self.ask(&ask));
        }
        let granted = self.ask(&ask);
        let way = self.way();
        if let (Some(granted), Some(way)) = (granted, way) {
            let body = serde_json::to_vec(&granted).unwrap();
            return self.after(way, Event::Granted(runner, body));
        }
        self.after(POLL_MS, Event::Poll(runner));
    }

    fn ask(&mut self, ask: &read::Ask) -> Option<LeaseGranted> {
        let request = Request::Ask(self.pool.name.clone(), ask.clone());
        let answer = self.node().1.request(request).now_or_never();
        match answer.expect("an answer") {
            Ok(Answered::Granted(granted)) => {
                granted.map(|it| convert::granted_to_network(&it, TIMES))
            }
            other => panic!("{other:?}"),
        }
    }

    fn begin(&mut self, now: Time, runner: usize, body: &[u8]) {
        let lease = lease::read(body).unwrap();
        let id_of_lease = lease.id.clone();
        let id = format!("w{runner}");
        let results = Results::default();
        let mode = Mode {
            dialect: Dialect::Documented,
            is_network: true,
        };
        let session = LeaseSession::new(now, lease, &id, mode, results);
        let it = &mut self.runners[runner];
        it.epoch += 1;
        it.lease = Some(id_of_lease);
        it.session = Some(session);
        let epoch = it.epoch;
        self.report(runner, epoch, session::Event::Begin);
    }

    fn report(&mut self, runner: usize, epoch: u32, event: session::Event) {
        let now = self.model.clock.now();
        self.with(runner, epoch, |session, todo| {
            session.on_event(Moment { now, wall: now }, event, todo);
        });
    }

    fn with(
        &mut self,
        runner: usize,
        epoch: u32,
        step: impl FnOnce(&mut LeaseSession, &mut ActionsOf<LeaseSession>),
    ) {
        let it = &mut self.runners[runner];
        let Some(session) = it.session.as_mut().filter(|_| it.epoch == epoch) else {
            return;
        };
        let mut todo = ActionsOf::<LeaseSession>::default();
        step(session, &mut todo);
        self.act(runner, epoch, todo);
    }

    fn act(&mut self, runner: usize, epoch: u32, mut todo: ActionsOf<LeaseSession>) {
        for action in todo.drain() {
            let Action::Effect(effect) = action else {
                panic!("{action:?}");
            };
            match effect {
                Effect::Send {
                    kind,
                    body,
                    timeout_ms,
                } => self.send(runner, epoch, kind, body, timeout_ms),
                Effect::Start(tag, job) => self.start(runner, epoch, tag, job.deadline),
                Effect::Stop(tag, grace_ms, _) => {
                    if self.runners[runner].guest == Some(tag) {
                        let after = self.random.below(grace_ms + 1);
                        let outcome = Outcome::Cancelled { partial: None };
                        let answer = Answer::Ended(outcome, Meter::default());
                        if after == 0 {
                            self.runners[runner].guest = None;
                            self.report(runner, epoch, session::Event::Guest(tag, answer));
                        } else {
                            self.after(after, Event::Guest(runner, epoch, tag, answer));
                        }
                    }
                }
                Effect::Done(done) => {
                    self.reported += u32::from(matches!(done, Done::Reported(_)));
                    assert_eq!(self.runners[runner].guest, None, "its guest has stopped");
                    self.runners[runner].session = None;
                    self.after(1_000, Event::Poll(runner));
                }
                Effect::Upload {
                    offset,
                    text,
                    timeout_ms,
                } => {
                    let lease = self.runners[runner].lease.as_ref().unwrap();
                    let body = format!("{} {offset} {text}", lease.0);
                    self.send(runner, epoch, Kind::Log, body, timeout_ms);
                }
                Effect::Log(..) | Effect::Keep(..) | Effect::WarnOfLog(_) => {}
            }
        }
        let it = &self.runners[runner];
        if let Some(due) = it.session.as_ref().and_then(LeaseSession::wakeup) {
            let ms = due.since_ms(self.model.clock.now());
            self.after(ms, Event::Wakes(runner, epoch));
        }
    }

    fn send(&mut self, runner: usize, epoch: u32, kind: Kind, body: String, timeout_ms: u64) {
        let until = self.model.clock.now().plus_ms(timeout_ms);
        self.events += 1;
        let number = self.events;
        self.open.insert(number);
        if self.has_faults() && self.random.is_one_in(8) {
            let way = self.random.below(60_000);
            self.faults.copied += 1;
            self.after(way, Event::Arrives(runner, epoch, kind, body.clone(), None));
        }
        if let Some(way) = self.way() {
            self.after(
                way,
                Event::Arrives(runner, epoch, kind, body, Some((number, until))),
            );
        }
        // If no answer comes first, the session hears of it.
        self.after(
            timeout_ms,
            Event::Answered(runner, epoch, number, kind, Response::Again),
        );
    }

    fn start(&mut self, runner: usize, epoch: u32, tag: Tag, deadline: Option<Time>) {
        let others = self.runners.iter().filter(|it| it.guest.is_some());
        assert_eq!(
            others.count(),
            0,
            "seed {}: two guests of one job",
            self.seed
        );
        self.runners[runner].guest = Some(tag);
        let takes = self.random.below(30_000);
        let left = deadline.map_or(u64::MAX, |end| end.since_ms(self.model.clock.now()));
        let outcome = if takes >= left {
            Outcome::Failed(Failure::new(FailureKind::TimedOut, "too long"))
        } else if self.random.is_one_in(6) {
            Outcome::Failed(Failure::new(FailureKind::UserError, "no luck"))
        } else {
            Outcome::Completed {
                result: Some(JsonText("1".to_owned())),
            }
        };
        let answer = Answer::Ended(outcome, Meter::default());
        let takes = takes.min(left);
        for line in 0..LINES {
            let at = takes * line / LINES;
            let answer = Answer::Logged {
                started_at: self.start,
                lines: vec![written(format!("{}-{line}", tag.0))],
            };
            self.after(at, Event::Guest(runner, epoch, tag, answer));
        }
        self.after(takes, Event::Guest(runner, epoch, tag, answer));
    }

    fn request(&self, runner: usize, kind: Kind, body: &str) -> Result<Request, WireRefusal> {
        let bytes = body.as_bytes();
        let (about, message) = match kind {
            Kind::Ack => Message::ack(bytes)?,
            Kind::Heartbeat => Message::heartbeat(bytes)?,
            Kind::Complete => Message::complete(bytes)?,
            Kind::CancelAck => Message::cancel_ack(bytes)?,
            Kind::Log => {
                let parts: Vec<&str> = body.splitn(3, ' ').collect();
                let about = read::About {
                    lease_id: LeaseText(parts[0].to_owned()),
                    runner_id: format!("w{runner}"),
                };
                let (offset, bytes) = (parts[1].parse().unwrap(), parts[2].to_owned().into());
                (about, Message::Extension(Extension::Log { offset, bytes }))
            }
        };
        Ok(Request::Message(
            NamedLease::read(&self.pool, &about)?,
            message,
        ))
    }
}
