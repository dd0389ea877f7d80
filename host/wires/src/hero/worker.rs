//! The worker role for one worker id: takes jobs from its queue, decides what runs when, and
//! records how each job ended. A pure function of the answers of Redis, the outcomes of executions,
//! and the time.

mod claims;
mod letters;
mod runs;
mod stops;
mod turns;
mod waiting;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host_core::time::Time;

use self::letters::Letter;
use self::stops::Stops;
use self::turns::Turns;
use self::waiting::Circles;
use super::config::WorkerConfig;
use super::convert::Ending;
use super::job::{HeroJob, Terms};
use super::messages::{self, Call, CallTag, Command, Lane, PopSide, Script, Value};
use super::refusals::{Code, Refusal};
use crate::kit::session::Moment;
use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};

/// How long a claim holds unless it is renewed, in milliseconds.
const CLAIM_MS: u64 = 15_000;

/// How often claims are renewed and the jobs of dead hosts are looked for, in milliseconds.
const RENEW_EVERY_MS: u64 = CLAIM_MS / 3;

/// How long one waiting pop waits, in seconds.
const POP_SECONDS: u32 = 5;

/// The most ids taken in one call.
const POPS_MAX: usize = 128;

/// The most jobs that wait for others, for their context or for their next attempt. At this limit, no more jobs are taken,
/// and jobs that wait for others are moved to the end of the queue.
const PARKED_MAX: usize = 1_024;

/// The wait before a refused command is sent again, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 1_000;

/// After how long without a refusal the count of refusals starts again, in milliseconds.
const CALM_MS: u64 = 10 * REFUSED_PAUSE_MS;

/// The last answer for an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The execution has ended.
    Ended(Outcome),
    /// There was no room for the execution.
    Busy,
    /// The execution did not start because its log file cannot be opened, with the reason.
    NoLog(String),
}

/// The actions the session decided on, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkerAct {
    /// Send this to Redis.
    Call(Call),
    /// Start an execution.
    Start {
        tag: Tag,
        job: Box<ForeignJob>,
        /// The path of an additional log file, below the configured folder.
        log_path: Option<String>,
    },
    /// Stop an execution.
    Stop {
        tag: Tag,
        /// How long the guest may take to stop by itself, in milliseconds.
        grace_ms: u64,
        why: Stop,
    },
    /// Count a refusal by its code.
    Count(&'static str),
    /// Report how many jobs wait in the queue, and how many run here.
    Depth { queued: u64, in_flight: u64 },
    /// Report to people that Redis refused a command. It is sent again later.
    Refused {
        /// How many commands in a row Redis has refused.
        times: u32,
        /// The error of Redis, without secrets.
        why: String,
    },
}

/// All jobs of one worker id that this host has.
#[derive(Debug)]
pub struct Worker {
    config: WorkerConfig,
    terms: Terms,
    jobs: BTreeMap<String, Held>,
    tags: BTreeMap<Tag, String>,
    calls: BTreeMap<CallTag, Purpose>,
    due: BTreeSet<(Time, Due)>,
    /// Jobs that run as soon as there is room, in order.
    ready: VecDeque<String>,
    contexts: BTreeMap<String, VecDeque<String>>,
    /// Jobs that wait for others.
    waiting: BTreeSet<String>,
    /// Jobs that wait for their next attempt.
    resting: BTreeSet<String>,
    turns: Turns,
    circles: Circles,
    /// Dead letters that Redis has not confirmed, by the call that adds each; the number is the
    /// order in which they came.
    letters: BTreeMap<u64, Letter>,
    letters_made: u64,
    stops: Stops,
    /// Jobs that were popped again while their end was being written: we returned them to the
    /// queue, or their senders queued them again.
    again: BTreeSet<String>,
    /// Ids in the processing list that no host had when first seen, and the time when they were
    /// seen.
    orphans: BTreeMap<String, Time>,
    connected: bool,
    stopping: bool,
    queue: Queue,
    /// How many pops without an answer there are. Each may return an id.
    pops_out: usize,
    /// How many commands in a row Redis has refused, and the time of the last refusal.
    refusals: (u32, Time),
    tags_made: u64,
    calls_made: u64,
}

/// The state of the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    MayHaveMore,
    WasEmpty,
    /// Redis refuses pops; the next one waits until [`Due::Fill`].
    Refused,
}

/// One job that this host has taken.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, in every phase"
)]
struct Held {
    phase: Phase,
    job: Option<Box<HeroJob>>,
    attempt: u32,
    losses: u32,
    /// When its attempt began, until Redis has confirmed that it knows.
    began: Option<Time>,
    /// Whether it has the turn of its context.
    has_turn: bool,
    /// Whether the job must stop.
    stop: bool,
    /// Whether it was found in the processing list. The answer to its pop may still follow.
    found: bool,
    /// Whether it is taken only if an earlier run of this host had it.
    only_own: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Claiming,
    /// Until these jobs have finished.
    Waiting(BTreeSet<String>),
    /// Until the jobs of its context that this host took before have ended.
    Parked,
    /// Until no other host has a job of its context running.
    Turn,
    Ready,
    Running {
        tag: Tag,
        guest: Guest,
    },
    /// Until there is room for it.
    Crowded,
    /// Until its next attempt.
    Backoff,
    Finishing(Ending),
    /// Being returned to this end of its queue.
    Releasing(PopSide),
}

/// What the guest of a running job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guest {
    /// It waits for room in a cell.
    Waits,
    /// It runs, and is stopped at this time if it has not ended.
    RunsUntil(Time),
    /// It was stopped because its time was over.
    Overran,
}

/// What a call is for.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    PopWaiting,
    Pop(usize),
    Recover,
    Depth,
    Claim(Vec<String>),
    Renew(Vec<String>),
    Statuses(Vec<String>),
    Stops,
    /// With the number of requests seen for each job.
    StopStatuses(Vec<(String, usize)>),
    Behind,
    Links(Vec<String>),
    Turns(Vec<String>),
    Letter(u64),
    Start(String),
    Finish(String),
    Release(String),
    NothingFollows,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Renew,
    Stops,
    Statuses,
    Fill,
    Claim(String),
    Retry(String),
    Start(String),
    Overrun(Tag),
    Finish(String),
    Circles,
    Turns,
    Letters,
}

type Todo = Vec<WorkerAct>;

impl Worker {
    /// Makes a session that takes no jobs until it is connected.
    pub fn new(config: WorkerConfig) -> Self {
        let terms = Terms {
            worker: config.worker_id.clone(),
            timeout_ms: config.timeout_ms,
            log_root: config.log_root.clone(),
        };
        Self {
            config,
            terms,
            jobs: BTreeMap::new(),
            tags: BTreeMap::new(),
            calls: BTreeMap::new(),
            due: BTreeSet::new(),
            ready: VecDeque::new(),
            contexts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            resting: BTreeSet::new(),
            turns: Turns::default(),
            circles: Circles::default(),
            letters: BTreeMap::new(),
            letters_made: 0,
            stops: Stops::default(),
            again: BTreeSet::new(),
            orphans: BTreeMap::new(),
            connected: false,
            stopping: false,
            queue: Queue::MayHaveMore,
            pops_out: 0,
            refusals: (0, Time(0)),
            tags_made: 0,
            calls_made: 0,
        }
    }

    /// Handles a new connection: sends unconfirmed commands again, and takes back the jobs of an
    /// earlier run of this host.
    pub fn on_connected(&mut self, at: Moment, todo: &mut Todo) {
        self.connected = true;
        self.queue = Queue::MayHaveMore;
        let mut claims = Vec::new();
        let mut endings = Vec::new();
        let mut begun = Vec::new();
        for (id, held) in &self.jobs {
            match held.phase {
                Phase::Claiming => claims.push(id.clone()),
                Phase::Finishing(_) | Phase::Releasing(_) => endings.push(id.clone()),
                Phase::Running { .. } if held.began.is_some() => begun.push(id.clone()),
                _ => {}
            }
        }
        self.send_letters(todo);
        for id in begun {
            self.write_start(&id, todo);
        }
        for id in endings {
            self.write_end(at, &id, todo);
        }
        self.renew(at, todo);
        self.claim(claims, todo);
        self.look_for_stops(at.now, todo);
        self.look_at_dependencies(at.now, todo);
        self.turns.ask_all();
        self.fill(at, todo);
    }

    /// Handles a lost connection. Calls in flight get no answer. Running jobs continue.
    pub fn on_disconnected(&mut self) {
        self.connected = false;
        self.calls.clear();
        self.pops_out = 0;
        self.orphans.clear();
        self.circles.give_up();
        self.due.retain(|(_, due)| {
            !matches!(
                due,
                Due::Renew
                    | Due::Stops
                    | Due::Statuses
                    | Due::Claim(_)
                    | Due::Start(_)
                    | Due::Finish(_)
                    | Due::Turns
                    | Due::Letters
            )
        });
    }

    /// Handles the answer to a call: one value for each command.
    pub fn on_reply(&mut self, at: Moment, call: CallTag, values: &[Value], todo: &mut Todo) {
        let Some(purpose) = self.calls.remove(&call) else {
            return;
        };
        match purpose {
            Purpose::PopWaiting => {
                self.popped(at, values, todo);
                if matches!(values.first(), Some(Value::Data(_))) {
                    self.queue = Queue::MayHaveMore;
                }
            }
            Purpose::Pop(count) => {
                self.pops_out -= count;
                let all = values.iter().all(|value| matches!(value, Value::Data(_)));
                self.queue = if all {
                    Queue::MayHaveMore
                } else {
                    Queue::WasEmpty
                };
                self.popped(at, values, todo);
            }
            Purpose::Depth => self.depth(values.first(), todo),
            Purpose::Recover => self.found(at.now, values.first(), todo),
            Purpose::Claim(ids) => {
                for (id, value) in ids.into_iter().zip(values) {
                    self.claimed(at, id, value, todo);
                }
            }
            Purpose::Renew(ids) => self.renewed(&ids, values.first(), todo),
            Purpose::Statuses(ids) => self.statuses(at, &ids, values, todo),
            Purpose::Stops => self.stops_listed(at, values.first(), todo),
            Purpose::StopStatuses(ids) => self.stop_statuses(at.now, &ids, values, todo),
            Purpose::Behind => self.make_room(at, values.first(), todo),
            Purpose::Links(ids) => self.linked(at, &ids, values.first(), todo),
            Purpose::Turns(ids) => self.turned(at, &ids, values, todo),
            Purpose::Letter(number) => self.buried(at, number, values.first(), todo),
            Purpose::Start(id) => self.started(at, &id, values.first(), todo),
            Purpose::Finish(id) => self.ended(at, &id, values.first(), todo),
            Purpose::Release(id) => self.released(at, &id, values.first(), todo),
            Purpose::NothingFollows => {}
        }
        self.fill(at, todo);
    }

    /// Handles that the guest of an execution runs now. Its time limit begins.
    pub fn on_began(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        self.began(at, tag, todo);
    }

    /// Handles the last answer for an execution.
    pub fn on_answer(&mut self, at: Moment, tag: Tag, answer: Answered, todo: &mut Todo) {
        self.answered(at, tag, answer, todo);
        self.fill(at, todo);
    }

    /// Stops: takes no more jobs, stops guests, and returns jobs that have not ended to the queue.
    /// Ends when [`Worker::is_idle`].
    pub fn on_stop(&mut self, at: Moment, todo: &mut Todo) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        self.ready.clear();
        let ids: Vec<String> = self.jobs.keys().cloned().collect();
        for id in ids {
            match self.jobs.get(&id).map(|held| &held.phase) {
                Some(Phase::Running { tag, .. }) => todo.push(WorkerAct::Stop {
                    tag: *tag,
                    grace_ms: self.config.grace_ms,
                    why: Stop::ShuttingDown,
                }),
                Some(Phase::Claiming | Phase::Finishing(_) | Phase::Releasing(_)) | None => {}
                Some(_) => self.give_back(at, &id, todo),
            }
        }
    }

    /// Returns when the next timer is due.
    pub fn wakeup(&self) -> Option<Time> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Handles all timers that are due.
    pub fn on_wakeup(&mut self, at: Moment, todo: &mut Todo) {
        while self.due.first().is_some_and(|(due, _)| *due <= at.now) {
            let Some((_, due)) = self.due.pop_first() else {
                break;
            };
            match due {
                Due::Renew => self.renew(at, todo),
                Due::Stops => self.look_for_stops(at.now, todo),
                Due::Statuses => {
                    self.look_at_dependencies(at.now, todo);
                    self.look_behind(todo);
                }
                Due::Fill => self.queue = Queue::WasEmpty,
                Due::Claim(id) => self.claim(vec![id], todo),
                Due::Retry(id) => self.retry(&id),
                Due::Start(id) => self.write_start(&id, todo),
                Due::Circles => self.look_for_circles(at, todo),
                Due::Turns => self.turns.ask_all(),
                Due::Letters => self.send_letters(todo),
                Due::Overrun(tag) => self.overrun(tag, todo),
                Due::Finish(id) => self.write_end(at, &id, todo),
            }
        }
        self.fill(at, todo);
    }

    /// Returns whether this host has no job of this worker id.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns how many jobs this host has, running or waiting.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Starts the jobs that can start, and takes more jobs if there is room.
    fn fill(&mut self, at: Moment, todo: &mut Todo) {
        if self.stopping {
            return;
        }
        self.ask_for_turns(todo);
        self.start_ready(at, todo);
        if !self.connected || self.queue == Queue::Refused {
            return;
        }
        let parked = self.parked();
        let active = self.jobs.len() - parked;
        let pop_waits = self.calls.values().any(|it| *it == Purpose::PopWaiting);
        let out = self.pops_out + usize::from(pop_waits);
        let room = self.config.concurrency.saturating_sub(active + out);
        if room == 0 || parked + out >= PARKED_MAX {
            return;
        }
        let (worker, side) = (&self.config.worker_id, self.config.pop_side);
        if self.queue == Queue::MayHaveMore && self.pops_out == 0 {
            let count = room.min(POPS_MAX);
            let pops = vec![messages::pop(worker, side); count];
            self.pops_out = count;
            self.call(Purpose::Pop(count), pops, todo);
        } else if self.queue == Queue::WasEmpty && !pop_waits {
            let pop = messages::pop_waiting(worker, side, POP_SECONDS);
            self.send(Purpose::PopWaiting, Lane::Blocking, vec![pop], todo);
        }
    }

    /// Returns how many jobs wait for others, for their context or for their next attempt.
    fn parked(&self) -> usize {
        let behind = self.contexts.values().map(|line| line.len() - 1);
        self.waiting.len() + self.resting.len() + self.turns.len() + behind.sum::<usize>()
    }

    fn depth(&self, queued: Option<&Value>, todo: &mut Todo) {
        if let Some(Value::Int(queued)) = queued {
            todo.push(WorkerAct::Depth {
                queued: u64::try_from(*queued).unwrap_or_default(),
                in_flight: self.tags.len() as u64,
            });
        }
    }

    fn call(&mut self, purpose: Purpose, commands: Vec<Command>, todo: &mut Todo) {
        self.send(purpose, Lane::Shared, commands, todo);
    }

    fn send(&mut self, purpose: Purpose, lane: Lane, commands: Vec<Command>, todo: &mut Todo) {
        if commands.is_empty() || !self.connected {
            return;
        }
        let tag = CallTag(self.calls_made);
        self.calls_made += 1;
        self.calls.insert(tag, purpose);
        todo.push(WorkerAct::Call(Call {
            tag,
            lane,
            commands,
        }));
    }

    fn arm(&mut self, at: Time, due: Due) {
        self.due.insert((at, due));
    }

    /// Arms a timer unless one of its kind is armed already.
    fn arm_once(&mut self, at: Time, due: Due) {
        if !self.due.iter().any(|(_, other)| *other == due) {
            self.arm(at, due);
        }
    }

    /// Reports that Redis refused a command that must succeed: Redis is out of memory or read-only,
    /// or a key has the wrong type.
    fn refused(&mut self, now: Time, value: Option<&Value>, todo: &mut Todo) {
        let (times, last) = self.refusals;
        let calm = now.since_ms(last) >= CALM_MS;
        let times = if calm { 1 } else { times.saturating_add(1) };
        self.refusals = (times, now);
        todo.push(WorkerAct::Count(Code::Reply.as_str()));
        let why = match value {
            Some(Value::Error(text)) => text.chars().take(256).collect(),
            _ => "an unknown answer".to_owned(),
        };
        todo.push(WorkerAct::Refused { times, why });
    }
}
