//! The orchestrator role: foreign runners execute our jobs. Decides which runner gets which job,
//! and when runners are stopped and restarted. Knows no socket, no process and no clock.

mod assign;
mod lifecycle;
mod runner;
mod runs;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use host_core::port::{Assignment, End, Tag};
use host_core::time::Time;

use self::runner::{Runner, State};
use self::runs::Run;
use super::WIRE;
use super::config::{Dialect, PoolConfig, Source};
use super::frame::{Defect, Frames};
use super::read::{self, Message};
use super::refusal::{About, Code, Refusal};
use super::wire::{self, Out};
use super::worker::IN_FLIGHT_MAX;
use crate::stream::{Actions, Link, Moment, Session};
use crate::wire::executors::WorkerState;

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
    /// How many executions the pool accepts at once, including those in flight.
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
    /// The host stops: everything in flight is lost, and all runners end.
    Stop,
}

/// The status of one runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RunnerStatus {
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
}

/// One named pool of foreign runners and its executions.
#[derive(Debug)]
pub(super) struct Orchestrator {
    name: String,
    dialect: Dialect,
    /// Whether the host starts the processes.
    managed: bool,
    in_flight_max: usize,
    runners: Vec<Runner>,
    links: BTreeMap<Link, Purpose>,
    runs: BTreeMap<Tag, Run>,
    by_request: BTreeMap<String, Tag>,
    due: BTreeSet<(Time, Timer)>,
    links_made: u64,
    /// The capacity reported last.
    capacity: usize,
    stopping: bool,
}

type PoolActions = Actions<Out, PoolEffect>;

impl Session for Orchestrator {
    const WIRE: &'static str = WIRE;
    type Framing = Frames;
    type In = Result<Message, Refusal>;
    type Out = Out;
    type Effect = PoolEffect;
    type Event = PoolEvent;

    fn read(frame: Result<Bytes, Defect>) -> Self::In {
        read::read(frame.as_deref().map_err(|defect| *defect))
    }

    fn write(message: &Out, out: &mut BytesMut) {
        wire::put(message, out);
    }

    fn on_open(&mut self, _now: Time, link: Link, actions: &mut PoolActions) {
        match self.links.get_mut(&link) {
            Some(Purpose::Main { runner }) => {
                let runner = *runner;
                self.up(runner, Some(link));
            }
            Some(Purpose::Probe { runner }) => {
                let runner = *runner;
                actions.close(link);
                self.up(runner, None);
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
        self.report_capacity(actions);
    }

    fn on_message(&mut self, at: Moment, link: Link, message: Self::In, actions: &mut PoolActions) {
        if !self.links.contains_key(&link) {
            return;
        }
        match message {
            Ok(Message::Response(response)) => self.on_response(at.now, link, *response, actions),
            Ok(Message::Request(_) | Message::Cancel(_)) => actions.count(Code::Direction.as_str()),
            Err(refusal) => {
                actions.count(refusal.code.as_str());
                match &refusal.about {
                    About::Known(ids) => {
                        self.on_broken(at.now, link, &ids.request, &refusal, actions);
                    }
                    About::Cancel => {}
                    About::Unknown | About::Frame => {
                        actions.close(link);
                        self.on_link_gone(at.now, link, &refusal.message, actions);
                    }
                }
            }
        }
        self.report_capacity(actions);
    }

    fn on_event(&mut self, at: Moment, event: PoolEvent, actions: &mut PoolActions) {
        match event {
            PoolEvent::Start(tag, assignment) => self.on_start(at, tag, *assignment, actions),
            PoolEvent::Cancel { tag, grace_ms } => self.on_cancel(at.now, tag, grace_ms, actions),
            PoolEvent::Launched { runner } => self.on_launched(at.now, runner, actions),
            PoolEvent::Exited { runner } => self.on_exited(at.now, runner, actions),
            PoolEvent::ConnectFailed { link } => self.on_connect_failed(at.now, link, actions),
            PoolEvent::Restart { runner } => self.on_restart(at.now, runner, actions),
            PoolEvent::Stop => self.on_stop(at.now, actions),
        }
        self.report_capacity(actions);
    }

    fn on_closed(&mut self, now: Time, link: Link, actions: &mut PoolActions) {
        self.on_link_gone(now, link, "the runner closed its connection", actions);
        self.report_capacity(actions);
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
            }
        }
        self.report_capacity(actions);
    }

    fn is_idle(&self) -> bool {
        let down = |runner: &Runner| runner.state == State::Down;
        self.runs.is_empty() && self.runners.iter().all(down)
    }
}

impl Orchestrator {
    /// Makes a pool whose runners start at `now`.
    pub(super) fn new(config: &PoolConfig, now: Time) -> Self {
        let runners: Vec<Runner> = (0..config.runners()).map(|_| Runner::new()).collect();
        let mut pool = Self {
            name: config.name.to_string(),
            dialect: config.dialect,
            managed: matches!(config.source, Source::Launched(_)),
            in_flight_max: config.in_flight_max.clamp(1, IN_FLIGHT_MAX),
            runners,
            links: BTreeMap::new(),
            runs: BTreeMap::new(),
            by_request: BTreeMap::new(),
            due: BTreeSet::new(),
            links_made: 0,
            capacity: 0,
            stopping: false,
        };
        for runner in 0..pool.runners.len() {
            pool.arm_runner(runner, now);
        }
        pool
    }

    /// Returns the status of each runner.
    pub(super) fn runners(&self) -> Vec<RunnerStatus> {
        let view = |runner: &Runner| RunnerStatus {
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

    /// Returns how many more executions the pool accepts now.
    fn free(&self) -> usize {
        if self.stopping {
            return 0;
        }
        let free = |runner: &Runner| runner.free(self.in_flight_max);
        self.runners.iter().map(free).sum()
    }

    fn report_capacity(&mut self, actions: &mut PoolActions) {
        let capacity = self.free() + self.runs.len();
        if capacity != self.capacity {
            self.capacity = capacity;
            actions.effect(PoolEffect::Capacity(capacity));
        }
    }

    /// Handles the end of a connection. Further calls for the same connection do nothing.
    fn on_link_gone(&mut self, now: Time, link: Link, why: &str, actions: &mut PoolActions) {
        match self.links.remove(&link) {
            Some(Purpose::Main { runner }) => {
                let tags: Vec<Tag> = self.runners[runner].runs.iter().copied().collect();
                for tag in tags {
                    self.lose(now, tag, why, actions);
                }
                self.reconnect(now, runner, actions);
            }
            Some(Purpose::Request { tag, .. }) => self.lose(now, tag, why, actions),
            Some(Purpose::Probe { .. } | Purpose::Cancel(_)) | None => {}
        }
    }

    fn on_stop(&mut self, now: Time, actions: &mut PoolActions) {
        self.stopping = true;
        let tags: Vec<Tag> = self.runs.keys().copied().collect();
        for tag in tags {
            self.lose(now, tag, "the host stops", actions);
        }
        for runner in 0..self.runners.len() {
            self.end_runner(runner, STOP_GRACE_MS, actions);
        }
    }
}
