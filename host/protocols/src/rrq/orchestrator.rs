//! The orchestrator role: foreign runners work for us. Decides which runner is given what, when it
//! is told to stop and when it is restarted; knows no socket, no process and no clock.

mod assign;
mod runs;
mod seat;
mod seats;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Bytes, BytesMut};
use host_core::time::Time;

use self::runs::Run;
use self::seat::{Seat, State};
use super::WIRE;
use super::config::{Dialect, RunnerConfig, Source};
use super::frame::{Defect, Frames};
use super::read::{self, Message};
use super::refusal::{About, Code, Refusal};
use super::wire::{self, Out};
use super::worker::IN_FLIGHT_MAX;
use crate::session::{Actions, Link, Moment, Session};
use crate::wire::executors::WorkerState as SeatState;
use host_core::port::Tag;
use host_core::port::{Assignment, End};

/// How a runner's process is given to end by itself, in milliseconds.
const TERM_GRACE_MS: u64 = 5_000;

/// The same when the host stops.
const STOP_GRACE_MS: u64 = 1_000;

/// What the session asks of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerAsk {
    /// Start the process of a seat. [`RunnerSaid::Launched`] or [`RunnerSaid::Exited`] follows.
    Launch {
        /// Which seat.
        seat: usize,
    },
    /// Connect to the runner of a seat. The link opens, or [`RunnerSaid::ConnectFailed`] follows.
    Connect {
        /// Which seat.
        seat: usize,
        /// How the connection is called.
        link: Link,
    },
    /// End the process of a seat, by force after the grace. [`RunnerSaid::Exited`] follows.
    Kill {
        /// Which seat.
        seat: usize,
        /// In milliseconds.
        grace_ms: u64,
    },
    /// How many more starts are taken from now on, and what of the earlier ones is in flight.
    Room(Room),
    /// An execution is over; nothing follows about it.
    Ended {
        /// Which one.
        tag: Tag,
        /// The seat of its runner, counted from 0.
        seat: Option<usize>,
        /// How.
        end: End,
    },
}

/// What the host says to the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunnerSaid {
    /// Execute this.
    Start(Tag, Box<Assignment>),
    /// Stop this; with a grace of 0 the runner is told to give none.
    Cancel {
        /// Which one.
        tag: Tag,
        /// In milliseconds.
        grace_ms: u64,
    },
    /// A process was started.
    Launched {
        /// In which seat.
        seat: usize,
    },
    /// A process has ended, or could not be started.
    Exited {
        /// Of which seat.
        seat: usize,
    },
    /// A connection could not be made.
    ConnectFailed {
        /// Which one.
        link: Link,
    },
    /// Restart the runner of a seat once its requests have ended.
    Restart {
        /// Which seat.
        seat: usize,
    },
    /// The host stops: everything in flight is lost and all runners end.
    Stop,
}

/// How much a pool can do: told whenever it changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// So many more starts are taken.
    pub free: usize,
    /// So many of those that were taken have not ended.
    pub in_flight: usize,
}

/// How one seat is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatView {
    /// Where its runner is in its life.
    pub state: SeatState,
    /// Requests in flight.
    pub in_flight: usize,
    /// How often in a row it ended without having answered anything.
    pub failures: u32,
}

/// What a connection is for.
#[derive(Clone, Debug)]
enum Purpose {
    /// All requests of a seat.
    Main { seat: usize },
    /// To see whether the runner listens.
    Probe { seat: usize },
    /// One request.
    Request { tag: Tag, request: Option<Out> },
    /// One cancel.
    Cancel(Option<Out>),
}

/// What a time is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Seat(usize),
    Run(Tag),
}

/// One named pool of foreign runners and what is in flight there.
#[derive(Debug)]
pub struct Orchestrator {
    name: String,
    dialect: Dialect,
    /// Whether we start the processes.
    managed: bool,
    in_flight_max: usize,
    seats: Vec<Seat>,
    links: BTreeMap<Link, Purpose>,
    runs: BTreeMap<Tag, Run>,
    by_request: BTreeMap<String, Tag>,
    due: BTreeSet<(Time, Timer)>,
    links_made: u64,
    room_told: Room,
    stopping: bool,
}

type Todo = Actions<Out, RunnerAsk>;

impl Session for Orchestrator {
    const WIRE: &'static str = WIRE;
    type Framing = Frames;
    type In = Result<Message, Refusal>;
    type Out = Out;
    type Ask = RunnerAsk;
    type Said = RunnerSaid;

    fn read(frame: Result<Bytes, Defect>) -> Self::In {
        read::read(frame.as_deref().map_err(|defect| *defect))
    }

    fn write(message: &Out, out: &mut BytesMut) {
        wire::put(message, out);
    }

    fn on_open(&mut self, _now: Time, link: Link, todo: &mut Todo) {
        match self.links.get_mut(&link) {
            Some(Purpose::Main { seat }) => {
                let seat = *seat;
                self.up(seat, Some(link));
            }
            Some(Purpose::Probe { seat }) => {
                let seat = *seat;
                todo.close(link);
                self.up(seat, None);
            }
            Some(Purpose::Request { request, .. }) => {
                if let Some(request) = request.take() {
                    todo.send(link, request);
                }
            }
            Some(Purpose::Cancel(cancel)) => {
                if let Some(cancel) = cancel.take() {
                    todo.send(link, cancel);
                }
                todo.close(link);
            }
            None => todo.close(link),
        }
        self.tell_room(todo);
    }

    fn on_message(&mut self, at: Moment, link: Link, message: Self::In, todo: &mut Todo) {
        if !self.links.contains_key(&link) {
            return;
        }
        match message {
            Ok(Message::Response(response)) => self.on_response(at.now, link, *response, todo),
            Ok(Message::Request(_) | Message::Cancel(_)) => todo.count(Code::Direction.as_str()),
            Err(refusal) => {
                todo.count(refusal.code.as_str());
                match &refusal.about {
                    About::Known(ids) => self.on_broken(at.now, link, &ids.request, &refusal, todo),
                    About::Cancel => {}
                    About::Unknown | About::Frame => {
                        todo.close(link);
                        self.on_link_gone(at.now, link, &refusal.message, todo);
                    }
                }
            }
        }
        self.tell_room(todo);
    }

    fn on_said(&mut self, at: Moment, said: RunnerSaid, todo: &mut Todo) {
        match said {
            RunnerSaid::Start(tag, assignment) => self.on_start(at, tag, *assignment, todo),
            RunnerSaid::Cancel { tag, grace_ms } => self.on_cancel(at.now, tag, grace_ms, todo),
            RunnerSaid::Launched { seat } => self.on_launched(at.now, seat, todo),
            RunnerSaid::Exited { seat } => self.on_exited(at.now, seat, todo),
            RunnerSaid::ConnectFailed { link } => self.on_connect_failed(at.now, link, todo),
            RunnerSaid::Restart { seat } => self.on_restart(at.now, seat, todo),
            RunnerSaid::Stop => self.on_stop(at.now, todo),
        }
        self.tell_room(todo);
    }

    fn on_closed(&mut self, now: Time, link: Link, todo: &mut Todo) {
        self.on_link_gone(now, link, "the runner closed its connection", todo);
        self.tell_room(todo);
    }

    fn wakeup(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    fn on_wakeup(&mut self, now: Time, todo: &mut Todo) {
        while let Some((at, timer)) = self.due.first().copied().filter(|(at, _)| *at <= now) {
            self.due.remove(&(at, timer));
            match timer {
                Timer::Seat(seat) => self.on_seat_due(now, seat, todo),
                Timer::Run(tag) => self.on_run_due(now, tag, todo),
            }
        }
        self.tell_room(todo);
    }

    fn is_idle(&self) -> bool {
        let down = |seat: &Seat| seat.state == State::Down;
        self.runs.is_empty() && self.seats.iter().all(down)
    }
}

impl Orchestrator {
    /// Makes a pool whose runners are started at `now`.
    pub fn new(config: &RunnerConfig, now: Time) -> Self {
        let seats: Vec<Seat> = (0..config.seats()).map(|_| Seat::new()).collect();
        let mut pool = Self {
            name: config.name.clone(),
            dialect: config.dialect,
            managed: matches!(config.source, Source::Launched(_)),
            in_flight_max: config.in_flight_max.clamp(1, IN_FLIGHT_MAX),
            seats,
            links: BTreeMap::new(),
            runs: BTreeMap::new(),
            by_request: BTreeMap::new(),
            due: BTreeSet::new(),
            links_made: 0,
            room_told: Room::default(),
            stopping: false,
        };
        for seat in 0..pool.seats.len() {
            pool.arm_seat(seat, now);
        }
        pool
    }

    /// Returns how each seat is, for people.
    pub fn seats(&self) -> Vec<SeatView> {
        let view = |seat: &Seat| SeatView {
            state: match seat.state {
                State::Up { .. } if seat.condemned => SeatState::Draining,
                State::Up { .. } => SeatState::Up,
                State::Down => SeatState::Down,
                State::Launching | State::Connecting { .. } => SeatState::Starting,
                State::Dying => SeatState::Ending,
            },
            in_flight: seat.runs.len(),
            failures: seat.failures,
        };
        self.seats.iter().map(view).collect()
    }

    /// Returns what is in flight at a seat.
    pub fn in_flight(&self, seat: usize) -> Vec<Tag> {
        let runs = self.seats.get(seat).map(|seat| &seat.runs);
        runs.into_iter().flatten().copied().collect()
    }

    fn make_link(&mut self, purpose: Purpose) -> Link {
        let link = Link(self.links_made);
        self.links_made += 1;
        self.links.insert(link, purpose);
        link
    }

    fn tell_room(&mut self, todo: &mut Todo) {
        let free = |seat: &Seat| seat.room(self.in_flight_max);
        let room = Room {
            free: if self.stopping {
                0
            } else {
                self.seats.iter().map(free).sum()
            },
            in_flight: self.runs.len(),
        };
        if room != self.room_told {
            self.room_told = room;
            todo.ask(RunnerAsk::Room(room));
        }
    }

    /// Takes note that nothing more comes over a connection; the first time only.
    fn on_link_gone(&mut self, now: Time, link: Link, why: &str, todo: &mut Todo) {
        match self.links.remove(&link) {
            Some(Purpose::Main { seat }) => {
                let tags: Vec<Tag> = self.seats[seat].runs.iter().copied().collect();
                for tag in tags {
                    self.lose(now, tag, why, todo);
                }
                self.reconnect(now, seat, todo);
            }
            Some(Purpose::Request { tag, .. }) => self.lose(now, tag, why, todo),
            Some(Purpose::Probe { .. } | Purpose::Cancel(_)) | None => {}
        }
    }

    fn on_stop(&mut self, now: Time, todo: &mut Todo) {
        self.stopping = true;
        let tags: Vec<Tag> = self.runs.keys().copied().collect();
        for tag in tags {
            self.lose(now, tag, "the host stops", todo);
        }
        for seat in 0..self.seats.len() {
            self.end_seat(seat, STOP_GRACE_MS, todo);
        }
    }
}
