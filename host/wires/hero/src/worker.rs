//! The worker role for one worker id: takes jobs from its queue, decides what runs when, and
//! records how each job ended. A pure function of the answers of Redis, the outcomes of executions,
//! and the time.

mod claims;
mod executions;
pub(super) mod instance;
mod jobs;
mod letters;
mod runs;
mod serve;
mod stops;
mod turns;
mod waiting;

#[cfg(test)]
mod tests;

use host_core::outcome::Outcome;
use host_core::port::{ForeignJob, Stop, Tag};
use host_core::time::Time;
use host_wire_kit::session::Moment;

use self::claims::Intake;
use self::jobs::{HeldJob, Jobs, Phase};
use self::letters::Letters;
use self::stops::Stops;
use self::turns::Contexts;
use self::waiting::Circles;
use super::convert::Ending;
use super::job::Terms;
use super::messages::calls::{Calls, Timers};
use super::messages::{self, Call, CallTag, Command, PopSide, Script, Value, Via};
use super::refusals::{Code, Refusal};
use super::settings::worker::WorkerConfig;
use super::transport::driver::RedisSession;

pub(super) use self::serve::serve;

/// How long a claim holds unless it is renewed, in milliseconds.
const CLAIM_MS: u64 = 15_000;

/// How often claims are renewed and the jobs of dead hosts are searched, in milliseconds.
const RENEW_EVERY_MS: u64 = CLAIM_MS / 3;

/// How long one waiting pop waits, in seconds.
const POP_SECONDS: u32 = 5;

/// The most ids taken in one call.
const POPS_MAX: usize = 128;

/// The most jobs that wait for others, for their context or briefly for their next attempt. At this limit, no more jobs are taken,
/// and jobs that wait for others are moved to the end of the queue.
const PARKED_MAX: usize = 1_024;

/// How often the jobs whose rest is over are queued, in milliseconds.
const WAKE_EVERY_MS: u64 = 1_000;

/// How long a stopped guest may take to stop by itself, in milliseconds.
const GRACE_MS: u64 = 100;

/// The wait before a refused command is sent again, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 1_000;

/// After how long without a refusal the count of refusals starts again, in milliseconds.
const CALM_MS: u64 = 10 * REFUSED_PAUSE_MS;

/// The last answer for an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExecutionAnswer {
    /// The execution has ended.
    Ended(Outcome),
    /// There was no room for the execution.
    Busy,
    /// The execution did not start because its log file cannot be opened, with the reason.
    NoLog(String),
}

/// The actions the session decided on, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WorkerAct {
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
pub(super) struct Worker {
    config: WorkerConfig,
    terms: Terms,
    jobs: Jobs,
    intake: Intake,
    contexts: Contexts,
    circles: Circles,
    letters: Letters,
    stops: Stops,
    calls: Calls<Purpose>,
    timers: Timers<Due>,
    refusals: Refusals,
    stopping: bool,
}

/// How many commands in a row Redis has refused, and the time of the last refusal.
#[derive(Debug, Default)]
struct Refusals {
    times: u32,
    last: Time,
}

impl Refusals {
    /// Counts a refusal, and returns how many there were in a row.
    fn count(&mut self, now: Time) -> u32 {
        let is_calm = now.since_ms(self.last) >= CALM_MS;
        self.times = if is_calm {
            1
        } else {
            self.times.saturating_add(1)
        };
        self.last = now;
        self.times
    }
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
    Wake,
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
    Wake,
}

impl Due {
    /// Returns whether the timer is of use without a connection.
    const fn is_local(&self) -> bool {
        matches!(
            self,
            Self::Fill | Self::Retry(_) | Self::Overrun(_) | Self::Circles
        )
    }
}

type Acts = Vec<WorkerAct>;

impl Worker {
    /// Makes a session that takes no jobs until it is connected.
    pub(super) fn new(config: WorkerConfig) -> Self {
        let terms = Terms {
            worker: config.worker_id.clone(),
            log_root: config.log_root.clone(),
        };
        Self {
            config,
            terms,
            jobs: Jobs::default(),
            intake: Intake::default(),
            contexts: Contexts::default(),
            circles: Circles::default(),
            letters: Letters::default(),
            stops: Stops::default(),
            calls: Calls::default(),
            timers: Timers::default(),
            refusals: Refusals::default(),
            stopping: false,
        }
    }

    /// Handles that the guest of an execution runs now. Its time limit begins.
    pub(super) fn on_began(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        self.began(at, tag, todo);
    }

    /// Handles the last answer for an execution.
    pub(super) fn on_answer(
        &mut self,
        at: Moment,
        tag: Tag,
        answer: ExecutionAnswer,
        todo: &mut Acts,
    ) {
        self.answered(at, tag, answer, todo);
        self.fill(at, todo);
    }

    /// Starts the jobs that can start, and takes more jobs if there is room.
    fn fill(&mut self, at: Moment, todo: &mut Acts) {
        if self.stopping {
            return;
        }
        self.ask_for_turns(todo);
        self.start_ready(at, todo);
        self.pop(todo);
    }

    fn depth(&self, queued: Option<&Value>, todo: &mut Acts) {
        if let Some(Value::Int(queued)) = queued {
            todo.push(WorkerAct::Depth {
                queued: u64::try_from(*queued).unwrap_or_default(),
                in_flight: self.jobs.running() as u64,
            });
        }
    }

    /// Queues the jobs whose rest is over, whichever host has let them rest.
    fn wake(&mut self, at: Moment, todo: &mut Acts) {
        if !self.stopping {
            let wake = messages::wake(&self.config.worker_id, at.wall, POPS_MAX);
            self.call(Purpose::Wake, vec![wake], todo);
            self.timers
                .arm_once(at.now.plus_ms(WAKE_EVERY_MS), Due::Wake);
        }
    }

    /// A job that rests may have to be stopped: its host no longer looks for that.
    fn woken(&mut self, now: Time, resting: Option<&Value>) {
        if matches!(resting, Some(Value::Int(1..))) {
            self.read_stops_soon(now);
        }
    }

    fn call(&mut self, purpose: Purpose, commands: Vec<Command>, todo: &mut Acts) {
        self.send(purpose, Via::Shared, commands, todo);
    }

    fn send(&mut self, purpose: Purpose, via: Via, commands: Vec<Command>, todo: &mut Acts) {
        todo.extend(self.calls.make(purpose, via, commands).map(WorkerAct::Call));
    }

    /// Reports that Redis refused a command that must succeed: Redis is out of memory or read-only,
    /// or a key has the wrong type.
    fn refused(&mut self, now: Time, value: Option<&Value>, todo: &mut Acts) {
        let times = self.refusals.count(now);
        todo.push(WorkerAct::Count(Code::Reply.as_str()));
        let why = match value {
            Some(Value::Error(text)) => text.chars().take(256).collect(),
            _ => "an unexpected answer".to_owned(),
        };
        todo.push(WorkerAct::Refused { times, why });
    }

    /// Reports a refused command, and arms a timer to send it again.
    fn try_again(&mut self, now: Time, value: Option<&Value>, due: Due, todo: &mut Acts) {
        self.refused(now, value, todo);
        self.timers.arm_once(now.plus_ms(REFUSED_PAUSE_MS), due);
    }
}

impl RedisSession for Worker {
    type Act = WorkerAct;

    fn popping_worker(&self) -> Option<&str> {
        Some(&self.config.worker_id)
    }

    fn on_connected(&mut self, at: Moment, todo: &mut Acts) {
        self.calls.connect();
        self.intake.on_connected();
        let mut claims = Vec::new();
        let mut endings = Vec::new();
        let mut begun = Vec::new();
        for (id, held) in self.jobs.iter() {
            match held.phase() {
                Phase::Claiming { .. } => claims.push(id.clone()),
                Phase::Finishing(_) | Phase::Releasing(_) | Phase::Resting(_) => {
                    endings.push(id.clone());
                }
                Phase::Running(run) if run.began.is_some() => begun.push(id.clone()),
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
        self.read_stops(at.now, todo);
        self.read_dependencies(at.now, todo);
        self.ask_for_all_turns();
        self.wake(at, todo);
        self.fill(at, todo);
    }

    fn on_disconnected(&mut self) {
        self.calls.disconnect();
        self.intake.on_disconnected();
        self.circles.give_up();
        self.timers.retain(Due::is_local);
    }

    fn on_reply(&mut self, at: Moment, call: CallTag, values: &[Value], todo: &mut Acts) {
        let Some(purpose) = self.calls.answered(call) else {
            return;
        };
        match purpose {
            Purpose::PopWaiting => self.popped(at, None, values, todo),
            Purpose::Pop(count) => self.popped(at, Some(count), values, todo),
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
            Purpose::Finish(id) | Purpose::Release(id) => {
                self.ended(at, &id, values.first(), todo);
            }
            Purpose::Wake => self.woken(at.now, values.first()),
            Purpose::NothingFollows => {}
        }
        self.fill(at, todo);
    }

    /// Takes no more jobs, stops guests, and returns jobs that have not ended to the queue.
    fn on_stop(&mut self, at: Moment, todo: &mut Acts) {
        if self.stopping {
            return;
        }
        self.stopping = true;
        let ids: Vec<String> = self.jobs.iter().map(|(id, _)| id.clone()).collect();
        for id in ids {
            match self.jobs.phase(&id) {
                Some(Phase::Running(run)) => todo.push(WorkerAct::Stop {
                    tag: run.tag,
                    grace_ms: GRACE_MS,
                    why: Stop::ShuttingDown,
                }),
                Some(
                    Phase::Claiming { .. }
                    | Phase::Finishing(_)
                    | Phase::Releasing(_)
                    | Phase::Resting(_),
                )
                | None => {}
                Some(_) => self.give_back(at, &id, todo),
            }
        }
    }

    fn wakeup(&self) -> Option<Time> {
        self.timers.next()
    }

    fn on_wakeup(&mut self, at: Moment, todo: &mut Acts) {
        while let Some(due) = self.timers.take_due(at.now) {
            match due {
                Due::Renew => self.renew(at, todo),
                Due::Stops => self.read_stops(at.now, todo),
                Due::Statuses => {
                    self.read_dependencies(at.now, todo);
                    self.check_queue(todo);
                }
                Due::Fill => self.intake.pop_again(),
                Due::Claim(id) => self.claim(vec![id], todo),
                Due::Retry(id) => self.retry(&id),
                Due::Start(id) => self.write_start(&id, todo),
                Due::Circles => self.find_circles(at, todo),
                Due::Turns => self.ask_for_all_turns(),
                Due::Letters => self.send_letters(todo),
                Due::Overrun(tag) => self.overrun(tag, todo),
                Due::Wake => self.wake(at, todo),
                Due::Finish(id) => self.write_end(at, &id, todo),
            }
        }
        self.fill(at, todo);
    }

    fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }
}
