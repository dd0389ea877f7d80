//! The orchestrator role: foreign runners execute our jobs. Decides which runner gets which job,
//! and when runners are stopped and restarted. Knows no socket, no process and no clock.

mod apart;
mod assign;
mod lifecycle;
mod runner;
mod runs;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::{Bytes, BytesMut};
use host_core::port::{Assignment, End, Tag};
use host_core::time::Time;
use host_wire_kit::executors::WorkerState;
use host_wire_kit::session::{Actions, Link, Moment, Session};
use host_wire_kit::stream::StreamSession;

use self::apart::ApartRequest;
use self::runner::{Duty, Runner, State};
use self::runs::Run;
use super::WIRE;
use super::config::{Dialect, PoolConfig, Source};
use super::frame::{Defect, OutcomeFrames};
use super::messages::{self, Out};
use super::read::{self, Response};
use super::refusals::{About, Refusal};
use super::worker::IN_FLIGHT_MAX;

/// How long a runner's process may take to end by itself, in milliseconds.
const TERM_GRACE_MS: u64 = 5_000;

/// The same limit when the host stops.
const STOP_GRACE_MS: u64 = 1_000;

/// What the session asks the host to do. Runners are counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolEffect {
    /// Start the process of a runner. [`PoolEvent::Launched`] or [`PoolEvent::Exited`] follows.
    Launch { runner: usize },
    /// Connect to a runner. Either the link opens or [`PoolEvent::ConnectFailed`] follows.
    Connect { runner: usize, link: Link },
    /// End the process of a runner; kill it after the grace period. [`PoolEvent::Exited`] follows.
    Kill { runner: usize, grace_ms: u64 },
    /// How many executions the pool accepts, including those in flight.
    Capacity(usize),
    /// An execution is over. Nothing follows about it.
    Ended {
        tag: Tag,
        /// The runner that executed it, if any.
        runner: Option<usize>,
        end: End,
    },
}

/// What the host reports to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PoolEvent {
    /// Start an execution.
    Start(Tag, Box<Assignment>),
    /// Stop an execution. With a grace of 0, the runner also gives its guest none.
    Cancel { tag: Tag, grace_ms: u64 },
    /// A runner's process was started.
    Launched { runner: usize },
    /// A runner's process has ended, or could not be started.
    Exited { runner: usize },
    /// A connection could not be opened.
    ConnectFailed { link: Link },
    /// Restart a runner when its requests have ended.
    Restart { runner: usize },
    /// The host stops soon: what was not sent is given back.
    Drain,
    /// The host stops: everything in flight is lost, and all runners end.
    Stop,
}

/// The status of one runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunnerStatus {
    /// Whether it is one of those that always run, or runs now.
    pub(super) is_shown: bool,
    pub(super) state: WorkerState,
    /// The number of requests in flight.
    pub(super) in_flight: usize,
    /// How many times in a row the runner ended without having answered a request.
    pub(super) failures: u32,
}

/// What a connection is for.
#[derive(Clone, Debug)]
enum Purpose {
    /// All requests of a runner.
    Main { runner: usize },
    /// A check whether the runner listens.
    Probe { runner: usize },
    /// One request.
    Request { tag: Tag, request: Option<Out> },
    /// One cancel.
    Cancel(Option<Out>),
}

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Runner(usize),
    Run(Tag),
    /// The deadline of a request that was not sent.
    Held(Tag),
}

/// One named pool of foreign runners and its executions.
#[derive(Debug)]
pub(super) struct Orchestrator {
    name: String,
    dialect: Dialect,
    /// Whether the host starts the processes.
    managed: bool,
    in_flight_max: usize,
    /// How many runners always run.
    regular: usize,
    runners: Vec<Runner>,
    links: BTreeMap<Link, Purpose>,
    runs: BTreeMap<Tag, Run>,
    by_request: BTreeMap<String, Tag>,
    /// Suspects that wait for a runner.
    held: VecDeque<ApartRequest>,
    due: BTreeSet<(Time, Timer)>,
    links_made: u64,
    /// The capacity reported last.
    capacity: usize,
    stopping: bool,
}

type PoolActions = Actions<Out, PoolEffect>;

/// Returns how many runners a pool has at most: its regular ones, as many to take their places while they are stuck,
/// and as many for groups of suspects.
pub(super) fn slots(config: &PoolConfig) -> usize {
    3 * config.runners()
}

impl StreamSession for Orchestrator {
    type Framing = OutcomeFrames;

    fn read(frame: Result<Bytes, Defect>) -> Self::In {
        read::for_orchestrator(frame.as_deref().map_err(Clone::clone))
    }

    fn write(message: &Out, out: &mut BytesMut) {
        messages::put(message, out);
    }
}

impl Session for Orchestrator {
    const WIRE: &'static str = WIRE;
    type In = Result<Response, Refusal>;
    type Out = Out;
    type Effect = PoolEffect;
    type Event = PoolEvent;

    fn on_open(&mut self, now: Time, link: Link, actions: &mut PoolActions) {
        match self.links.get_mut(&link) {
            Some(Purpose::Main { runner }) => {
                let runner = *runner;
                self.up(now, runner, Some(link), actions);
            }
            Some(Purpose::Probe { runner }) => {
                let runner = *runner;
                actions.close(link);
                self.up(now, runner, None, actions);
            }
            Some(Purpose::Request { request, .. }) => {
                if let Some(request) = request.take() {
                    actions.send(link, request);
                }
            }
            Some(Purpose::Cancel(cancel)) => {
                if let Some(cancel) = cancel.take() {
                    actions.send(link, cancel);
                }
                actions.close(link);
            }
            None => actions.close(link),
        }
        self.settle(now, actions);
    }

    fn on_message(&mut self, at: Moment, link: Link, message: Self::In, actions: &mut PoolActions) {
        if !self.links.contains_key(&link) {
            return;
        }
        match message {
            Ok(response) => self.on_response(at.now, link, response, actions),
            Err(refusal) => {
                actions.count(refusal.code.as_str());
                match &refusal.about {
                    About::Ids(ids) => {
                        self.on_broken(at.now, link, &ids.request, &refusal, actions);
                    }
                    About::Aside => {}
                    About::Unknown | About::Frame => {
                        actions.close(link);
                        self.on_link_gone(at.now, link, &refusal.message, actions);
                    }
                }
            }
        }
        self.settle(at.now, actions);
    }

    fn on_event(&mut self, at: Moment, event: PoolEvent, actions: &mut PoolActions) {
        match event {
            PoolEvent::Start(tag, assignment) => self.on_start(at, tag, *assignment, actions),
            PoolEvent::Cancel { tag, grace_ms } => self.on_cancel(at.now, tag, grace_ms, actions),
            PoolEvent::Launched { runner } => self.on_launched(at.now, runner, actions),
            PoolEvent::Exited { runner } => self.on_exited(at.now, runner, actions),
            PoolEvent::ConnectFailed { link } => self.on_connect_failed(at.now, link, actions),
            PoolEvent::Restart { runner } => self.on_restart(at.now, runner, actions),
            PoolEvent::Drain => self.give_back_held(actions),
            PoolEvent::Stop => self.on_stop(at.now, actions),
        }
        self.settle(at.now, actions);
    }

    fn on_closed(&mut self, now: Time, link: Link, actions: &mut PoolActions) {
        self.on_link_gone(now, link, "the runner closed its connection", actions);
        self.settle(now, actions);
    }

    fn wakeup(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    fn on_wakeup(&mut self, now: Time, actions: &mut PoolActions) {
        while let Some((at, timer)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, timer));
            match timer {
                Timer::Runner(runner) => self.on_runner_due(now, runner, actions),
                Timer::Run(tag) => self.on_run_due(now, tag, actions),
                Timer::Held(tag) => self.on_held_due(now, tag, actions),
            }
        }
        self.settle(now, actions);
    }

    fn is_idle(&self) -> bool {
        let down = |runner: &Runner| runner.state == State::Down;
        self.runs.is_empty() && self.held.is_empty() && self.runners.iter().all(down)
    }
}

impl Orchestrator {
    /// Makes a pool whose runners start at `now`.
    pub(super) fn new(config: &PoolConfig, now: Time) -> Self {
        let duty = |runner| {
            if runner < config.runners() {
                Duty::Regular
            } else {
                Duty::Extra
            }
        };
        let runners = (0..slots(config)).map(|runner| Runner::new(duty(runner)));
        let mut pool = Self {
            name: config.name.to_string(),
            dialect: config.dialect,
            managed: matches!(config.source, Source::Launched(_)),
            in_flight_max: config.in_flight_max.clamp(1, IN_FLIGHT_MAX),
            regular: config.runners(),
            runners: runners.collect(),
            links: BTreeMap::new(),
            runs: BTreeMap::new(),
            by_request: BTreeMap::new(),
            held: VecDeque::new(),
            due: BTreeSet::new(),
            links_made: 0,
            capacity: 0,
            stopping: false,
        };
        for runner in 0..config.runners() {
            pool.arm_runner(runner, now);
        }
        pool
    }

    /// Returns the status of each runner.
    pub(super) fn runners(&self) -> Vec<RunnerStatus> {
        let view = |runner: &Runner| RunnerStatus {
            is_shown: !runner.is_spare(),
            state: match runner.state {
                State::Up { .. } if runner.draining => WorkerState::Draining,
                State::Up { .. } => WorkerState::Up,
                State::Down => WorkerState::Down,
                State::Launching | State::Connecting { .. } => WorkerState::Starting,
                State::Ending => WorkerState::Ending,
            },
            in_flight: runner.runs.len(),
            failures: runner.failures,
        };
        self.runners.iter().map(view).collect()
    }

    /// Returns the executions in flight at a runner.
    pub(super) fn in_flight(&self, runner: usize) -> Vec<Tag> {
        let runs = self.runners.get(runner).map(|runner| &runner.runs);
        runs.into_iter().flatten().copied().collect()
    }

    fn make_link(&mut self, purpose: Purpose) -> Link {
        let link = Link(self.links_made);
        self.links_made += 1;
        self.links.insert(link, purpose);
        link
    }

    /// Returns how many more executions the pool accepts now. Those that wait count as in flight.
    fn free(&self) -> usize {
        // A runner started elsewhere has to become idle for suspects.
        if self.stopping || (!self.managed && !self.held.is_empty()) {
            return 0;
        }
        let free_of = |runner: &Runner| runner.free(self.in_flight_max);
        let free: usize = self.runners.iter().map(free_of).sum();
        free.saturating_sub(self.held.len())
    }

    /// Does what has become possible or necessary, after each input.
    fn settle(&mut self, now: Time, actions: &mut PoolActions) {
        self.place_held(now, actions);
        self.replace_stuck(now, actions);
        self.use_extra(now, actions);
        let capacity = self.free() + self.runs.len() + self.held.len();
        if capacity != self.capacity {
            self.capacity = capacity;
            actions.effect(PoolEffect::Capacity(capacity));
        }
    }

    /// Handles the end of a connection. Further calls for the same connection do nothing.
    fn on_link_gone(&mut self, now: Time, link: Link, why: &str, actions: &mut PoolActions) {
        match self.links.remove(&link) {
            Some(Purpose::Main { runner }) => {
                self.lose_all(now, runner, why, actions);
                self.reconnect(now, runner, actions);
            }
            Some(Purpose::Request { tag, .. }) => self.lose_one(now, tag, why, actions),
            Some(Purpose::Probe { .. } | Purpose::Cancel(_)) | None => {}
        }
    }

    fn on_stop(&mut self, now: Time, actions: &mut PoolActions) {
        self.stopping = true;
        let tags: Vec<Tag> = self.runs.keys().copied().collect();
        for tag in tags {
            self.lose(now, tag, "the host stops", 1, actions);
        }
        self.give_back_held(actions);
        for runner in 0..self.runners.len() {
            self.end_runner(runner, STOP_GRACE_MS, actions);
        }
    }
}
