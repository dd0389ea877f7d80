//! The dispatcher role: foreign workers execute our jobs. Stores and queues jobs, watches their
//! hashes until they end, stops jobs, and queues jobs again that a worker lost. Pure.

mod ends;
mod execution;
mod executors;
mod serve;
mod watch;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host_core::port::{End, Tag};
use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::job::is_id;
use super::messages::calls::{Calls, Timers};
use super::messages::{self, Call, CallTag, Command, Value, Via};
use super::transport::driver::RedisSession;

pub(super) use self::execution::Execution;
pub(super) use self::executors::is_executor;
pub(super) use self::serve::start;

/// The wait before a refused command is sent again, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 1_000;

/// How long after the grace period a worker may take to report a stopped job, in milliseconds.
const STOP_LATE_MS: u64 = 1_000;

/// The actions the session decided on, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrchestratorAct {
    /// Send this to Redis.
    Call(Call),
    /// The session accepts work from now on, until Redis cannot be reached.
    Ready,
    /// Report to people that Redis refused a command. It is sent again later.
    Refused {
        /// How many commands Redis has refused since the connection was opened.
        times: u32,
        /// The error of Redis, without secrets.
        why: String,
    },
    /// An execution is over. Nothing follows about it.
    Ended { tag: Tag, end: End },
}

/// All jobs sent to foreign workers of one Redis.
#[derive(Debug)]
pub(super) struct Orchestrator {
    /// The name of this host among those that share the Redis: unique for each host, and the same
    /// after a restart.
    instance: String,
    out: BTreeMap<Tag, Out>,
    /// What an earlier life of this host had sent, by our jobs, as long as these may come again. `None` before the
    /// first connection.
    left: Option<BTreeMap<String, Trace>>,
    /// Ended jobs whose traces must still be removed, with the time for that.
    ended: BTreeSet<(Time, Trace)>,
    calls: Calls<Purpose>,
    /// Ended jobs with long outputs, which are read one at a time.
    long: VecDeque<Tag>,
    timers: Timers<Due>,
    stopping: bool,
    /// How many commands Redis has refused since the connection was opened.
    refusals: u32,
}

/// One job that was sent out.
#[derive(Debug)]
struct Out {
    execution: Execution,
    /// Whether Redis has confirmed that the job is queued.
    queued: bool,
    queued_at: Time,
    started_at: Option<Time>,
    /// The `updated_at` of that start, and how many starts were seen.
    start_seen: (Option<String>, u32),
    /// Since when the job is in no list although no worker has started it.
    absent_since: Option<Time>,
    /// When its hash is read next; `None` while it is being read.
    read_at: Option<Time>,
    requeues: u32,
    /// When a cancelled job must have stopped.
    stop_by: Option<Time>,
    /// When the job was asked to stop because it exceeded its time limit.
    late_since: Option<Time>,
}

/// The data in Redis of a job that is no longer out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Trace {
    id: String,
    worker: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Purpose {
    Reconcile,
    Submit(Tag),
    Read(Vec<Tag>),
    Fetch(Tag),
    Absent(Vec<Tag>),
    Recall(Vec<Tag>),
    Withdraw(Tag),
    Forget(Vec<Trace>),
    NothingFollows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Reconcile,
    Read,
    /// Redis is away: time limits are checked without it.
    Away,
    Absent,
    Tidy,
    /// What an earlier life had sent comes no more.
    Left,
    Submit(Tag),
    GiveUp(Tag),
}

type Acts = Vec<OrchestratorAct>;

impl Orchestrator {
    /// Makes a session without jobs.
    pub(super) fn new(instance: impl Into<String>) -> Self {
        Self {
            instance: instance.into(),
            out: BTreeMap::new(),
            left: None,
            ended: BTreeSet::new(),
            calls: Calls::default(),
            long: VecDeque::new(),
            timers: Timers::default(),
            stopping: false,
            refusals: 0,
        }
    }

    /// Sends a job out. If Redis cannot be reached, answers that there is no room.
    pub(super) fn on_start(
        &mut self,
        at: Moment,
        tag: Tag,
        mut execution: Execution,
        todo: &mut Acts,
    ) {
        if self.stopping || !self.calls.is_connected() || !is_id(&execution.job.id) {
            let end = End::NoRoom;
            return todo.push(OrchestratorAct::Ended { tag, end });
        }
        let left = self.take_left(&execution);
        let is_adopted = left.is_some();
        if let Some(trace) = left {
            execution.job.id = trace.id;
        }
        let out = Out {
            execution,
            queued: is_adopted,
            queued_at: at.now,
            started_at: None,
            start_seen: (None, 0),
            absent_since: None,
            read_at: None,
            requeues: 0,
            stop_by: None,
            late_since: None,
        };
        self.out.insert(tag, out);
        if is_adopted {
            self.read_soon(at.now, tag);
        } else {
            self.submit(at, tag, todo);
        }
    }

    /// Takes what an earlier life of this host had sent for the same job to the same worker id.
    fn take_left(&mut self, execution: &Execution) -> Option<Trace> {
        let left = self.left.as_mut()?;
        let trace = left.get(&execution.host_job)?;
        let is_same = trace.worker == execution.job.worker_id;
        is_same.then(|| left.remove(&execution.host_job))?
    }

    /// Takes a job back if no worker has it; otherwise asks its worker to stop it. If the worker
    /// does not report the end within the grace period, the job is given up, even if Redis cannot
    /// be reached.
    pub(crate) fn on_cancel(&mut self, at: Moment, tag: Tag, grace_ms: u64, todo: &mut Acts) {
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        let stop_by = at.now.plus_ms(grace_ms).plus_ms(STOP_LATE_MS);
        let earlier = out.stop_by.replace(stop_by);
        if let Some(earlier) = earlier {
            out.stop_by = Some(earlier.min(stop_by));
        } else {
            self.withdraw(at, tag, todo);
        }
        self.timers.arm(stop_by, Due::GiveUp(tag));
        self.read_soon(at.now, tag);
    }

    /// Takes back the jobs that no worker has, because the host will stop soon. Jobs at workers
    /// continue.
    pub(crate) fn on_drain(&mut self, at: Moment, todo: &mut Acts) {
        self.recall(at, todo);
    }

    /// Stores and queues a job, unless it has been cancelled.
    fn submit(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let Some(out) = self.out.get(&tag).filter(|out| out.stop_by.is_none()) else {
            return;
        };
        let job = &out.execution.job;
        let (id, worker_id) = (&job.id, &job.worker_id);
        let whose = format!("{worker_id} {}", out.execution.host_job);
        let commands = vec![
            messages::plain(&["HSET", &messages::out(&self.instance), id, &whose]),
            messages::store_and_queue(id, worker_id, &job.fields(at.wall)),
        ];
        self.call(Purpose::Submit(tag), commands, todo);
    }

    fn submitted(&mut self, at: Moment, tag: Tag, values: &[Value], todo: &mut Acts) {
        let is_refused = self.refused(values, todo);
        let Some(out) = self.out.get_mut(&tag) else {
            return;
        };
        if is_refused {
            return self
                .timers
                .arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Submit(tag));
        }
        out.queued = true;
        out.queued_at = at.now;
        self.read_soon(at.now, tag);
    }

    /// Returns whether Redis refused one of the commands, and reports it.
    fn refused(&mut self, values: &[Value], todo: &mut Acts) -> bool {
        let refusal = values.iter().find_map(|value| match value {
            Value::Error(text) => Some(text),
            _ => None,
        });
        if let Some(text) = refusal {
            self.refusals = self.refusals.saturating_add(1);
            let (times, why) = (self.refusals, text.chars().take(256).collect());
            todo.push(OrchestratorAct::Refused { times, why });
        }
        refusal.is_some()
    }

    fn call(&mut self, purpose: Purpose, commands: Vec<Command>, todo: &mut Acts) {
        self.send(purpose, Via::Shared, commands, todo);
    }

    fn send(&mut self, purpose: Purpose, via: Via, commands: Vec<Command>, todo: &mut Acts) {
        let call = self.calls.make(purpose, via, commands);
        todo.extend(call.map(OrchestratorAct::Call));
    }
}

impl RedisSession for Orchestrator {
    type Act = OrchestratorAct;

    fn popping_worker(&self) -> Option<&str> {
        None
    }

    fn on_connected(&mut self, at: Moment, todo: &mut Acts) {
        self.calls.connect();
        self.timers.retain(|due| *due != Due::Away);
        self.refusals = 0;
        self.reconcile(todo);
        let mut unsent = Vec::new();
        let mut stopping = Vec::new();
        for (tag, out) in &mut self.out {
            out.read_at = Some(at.now);
            if out.stop_by.is_some() || out.late_since.is_some() {
                stopping.push(*tag);
            } else if !out.queued {
                unsent.push(*tag);
            }
        }
        for tag in unsent {
            self.submit(at, tag, todo);
        }
        for tag in stopping {
            self.withdraw(at, tag, todo);
        }
        self.read_hashes(at, todo);
        let next = at.now.plus_ms(watch::ABSENT_EVERY_MS);
        self.timers.arm(next, Due::Absent);
    }

    fn on_disconnected(&mut self) {
        self.calls.disconnect();
        self.long.clear();
        self.ended.clear();
        self.left = Some(BTreeMap::new());
        self.timers.retain(|due| matches!(due, Due::GiveUp(_)));
        // Immediately, and then as long as Redis is away.
        self.timers.arm(Time(0), Due::Away);
    }

    fn on_reply(&mut self, at: Moment, call: CallTag, values: &[Value], todo: &mut Acts) {
        match self.calls.answered(call) {
            Some(Purpose::Reconcile) => self.reconciled(at, values.first(), todo),
            Some(Purpose::Submit(tag)) => self.submitted(at, tag, values, todo),
            Some(Purpose::Read(tags)) => self.hashes_read(at, &tags, values, todo),
            Some(Purpose::Fetch(tag)) => self.fetched(at, tag, values, todo),
            Some(Purpose::Absent(tags)) => self.absent(at, &tags, values.first(), todo),
            Some(Purpose::Recall(tags)) => self.recalled(at, &tags, values, todo),
            Some(Purpose::Withdraw(tag)) => self.withdrawn(at, tag, values, todo),
            Some(Purpose::Forget(traces)) => self.forgotten(at, traces, values, todo),
            Some(Purpose::NothingFollows) => {
                self.refused(values, todo);
            }
            None => {}
        }
    }

    /// Takes back all jobs, which are lost. Jobs that cannot be taken back in Redis now are taken back
    /// at the next start.
    fn on_stop(&mut self, at: Moment, todo: &mut Acts) {
        self.stopping = true;
        let tags: Vec<Tag> = self.out.keys().copied().collect();
        for tag in tags {
            let end = End::Lost("the host stops".to_owned());
            self.give_up(at, tag, end, todo);
        }
        self.tidy(Time(i64::MAX), at, todo);
    }

    fn wakeup(&self) -> Option<Time> {
        self.timers.next()
    }

    fn on_wakeup(&mut self, at: Moment, todo: &mut Acts) {
        while let Some(due) = self.timers.take_due(at.now) {
            match due {
                Due::Reconcile => self.reconcile(todo),
                Due::Read => self.read_hashes(at, todo),
                Due::Away => self.watch_without_redis(at, todo),
                Due::Absent => self.read_lists(at, todo),
                Due::Tidy => self.tidy(at.now, at, todo),
                Due::Left => self.take_back_left(at, todo),
                Due::Submit(tag) => self.submit(at, tag, todo),
                Due::GiveUp(tag) => self.cancel_timed_out(at, tag, todo),
            }
        }
    }

    /// Returns whether no job is out and no call waits for an answer.
    fn is_idle(&self) -> bool {
        self.out.is_empty() && self.calls.purposes().next().is_none()
    }
}
