//! Ends jobs that are out and removes their data from Redis, including those of an earlier run of
//! this host.

use std::collections::{BTreeMap, BTreeSet};

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::{End, Tag};
use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::{Acts, Due, Orchestrator, OrchestratorAct, Out, Purpose, REFUSED_PAUSE_MS, Trace};
use crate::messages::{self, Command, Value};

/// How long after its end a job's data is removed, in milliseconds. Workers write the reply a
/// moment after the hash, and no one else removes it.
const TIDY_AFTER_MS: u64 = 2_000;

/// How long to wait before a job is checked again if its worker has not stopped it, in
/// milliseconds.
const AGAIN_AFTER_MS: u64 = 5_000;

/// How long after a start of the host its jobs may come again, in milliseconds, so that they continue where they are.
const LEFT_MS: u64 = 10_000;

/// How long the hash of an ended job is kept, in seconds.
const JOB_TTL_SECONDS: u64 = 3_600;

impl Orchestrator {
    /// Asks Redis for the jobs that it lists as out.
    pub(super) fn reconcile(&mut self, todo: &mut Acts) {
        let list = messages::plain(&["HGETALL", &messages::out(&self.instance)]);
        self.call(Purpose::Reconcile, vec![list], todo);
    }

    /// Takes back the jobs that are out only in Redis; those of an earlier life only if they do not come again soon.
    /// Then new jobs may be sent.
    pub(super) fn reconciled(&mut self, at: Moment, value: Option<&Value>, todo: &mut Acts) {
        let Some(found @ Value::List(_)) = value else {
            self.refused(value.map_or(&[], std::slice::from_ref), todo);
            return self
                .timers
                .arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Reconcile);
        };
        let ours: BTreeSet<&str> = self
            .out
            .values()
            .map(|out| out.execution.job.id.as_str())
            .chain(self.ended.iter().map(|(_, trace)| trace.id.as_str()))
            .collect();
        let texts = found.texts();
        let pairs = texts.chunks_exact(2);
        let others = pairs.filter(|pair| !ours.contains(pair[0].as_str()));
        let mut traces = Vec::new();
        let mut left = BTreeMap::new();
        for pair in others {
            let (worker, job) = pair[1].split_once(' ').unwrap_or((&pair[1], ""));
            let trace = Trace {
                id: pair[0].clone(),
                worker: worker.to_owned(),
            };
            // Two of one job are none: only one can be adopted.
            let later = if self.left.is_none() && !job.is_empty() {
                left.insert(job.to_owned(), trace)
            } else {
                Some(trace)
            };
            traces.extend(later);
        }
        if self.left.is_none() {
            self.left = Some(left);
            self.timers.arm(at.now.plus_ms(LEFT_MS), Due::Left);
        }
        self.forget(at, traces, todo);
        todo.push(OrchestratorAct::Ready);
    }

    /// Takes back what an earlier life had sent and whose jobs have not come again.
    pub(super) fn take_back_left(&mut self, at: Moment, todo: &mut Acts) {
        let left = self.left.replace(BTreeMap::new()).unwrap_or_default();
        self.forget(at, left.into_values().collect(), todo);
    }

    /// Takes a job back and continues to watch it.
    pub(super) fn withdraw(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let Some(out) = self.out.get(&tag) else {
            return;
        };
        let (id, worker) = (&out.execution.job.id, &out.execution.job.worker_id);
        let command = self.take_back(at, id, worker, Mode::Watch);
        self.call(Purpose::Withdraw(tag), vec![command], todo);
    }

    /// Handles the answer for a job that is taken back. Its hash tells how it ended, even if Redis
    /// never confirmed that it was queued.
    pub(super) fn withdrawn(&mut self, at: Moment, tag: Tag, values: &[Value], todo: &mut Acts) {
        let is_refused = self.refused(values, todo);
        if let Some(out) = self
            .out
            .get_mut(&tag)
            .filter(|out| !out.queued && !is_refused)
        {
            out.queued = true;
            self.read_soon(at.now, tag);
        }
    }

    /// Takes back all jobs that no worker has.
    pub(super) fn recall(&mut self, at: Moment, todo: &mut Acts) {
        let waits = |out: &Out| out.started_at.is_none() && out.stop_by.is_none();
        let waiting = self.out.iter().filter(|(_, out)| waits(out));
        let (tags, commands) = waiting
            .map(|(tag, out)| {
                let (id, worker) = (&out.execution.job.id, &out.execution.job.worker_id);
                (*tag, self.take_back(at, id, worker, Mode::IfWaiting))
            })
            .unzip();
        self.call(Purpose::Recall(tags), commands, todo);
    }

    /// Handles the list of jobs that were taken back. No worker has started them.
    pub(super) fn recalled(&mut self, at: Moment, tags: &[Tag], values: &[Value], todo: &mut Acts) {
        self.refused(values, todo);
        for (tag, value) in tags.iter().zip(values) {
            let is_back = matches!(value, Value::Data(word) if word == messages::WITHDRAWN);
            if !is_back {
                continue;
            }
            if let Some(out) = self.out.remove(tag) {
                self.tidy_at(at.now.plus_ms(TIDY_AFTER_MS), out.into());
                todo.push(OrchestratorAct::Ended {
                    tag: *tag,
                    end: End::NoRoom,
                });
            }
        }
    }

    /// Ends an execution with the outcome that its worker reported.
    pub(super) fn reported(&mut self, at: Moment, tag: Tag, outcome: Outcome, todo: &mut Acts) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        let requeued = out.requeues > 0;
        let trace = Trace::from(out);
        if requeued {
            let queue = messages::work_queue(&trace.worker);
            let forget = messages::plain(&["LREM", &queue, "0", &trace.id]);
            self.call(Purpose::NothingFollows, vec![forget], todo);
        }
        self.tidy_at(at.now.plus_ms(TIDY_AFTER_MS), trace);
        let end = End::Outcome(outcome);
        todo.push(OrchestratorAct::Ended { tag, end });
    }

    /// Ends an execution without a report of its worker, and makes sure that it is stopped.
    pub(super) fn give_up(&mut self, at: Moment, tag: Tag, end: End, todo: &mut Acts) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        self.forget(at, vec![out.into()], todo);
        todo.push(OrchestratorAct::Ended { tag, end });
    }

    /// Gives up a cancelled job whose worker has not reported that it stopped.
    pub(super) fn cancel_timed_out(&mut self, at: Moment, tag: Tag, todo: &mut Acts) {
        let due = |stop_by: Time| stop_by <= at.now;
        if self
            .out
            .get(&tag)
            .is_some_and(|out| out.stop_by.is_some_and(due))
        {
            let message = "the worker did not report that it stopped the job";
            let failure = Failure::new(FailureKind::CancelTimeout, message);
            let end = End::Outcome(Outcome::Failed(failure));
            self.give_up(at, tag, end, todo);
        }
    }

    fn tidy_at(&mut self, at: Time, trace: Trace) {
        self.ended.insert((at, trace));
        self.timers.arm(at, Due::Tidy);
    }

    /// Removes the data of jobs that is due before `until`.
    pub(super) fn tidy(&mut self, until: Time, at: Moment, todo: &mut Acts) {
        let mut traces = Vec::new();
        while self.ended.first().is_some_and(|(due, _)| *due <= until) {
            traces.extend(self.ended.pop_first().map(|(_, trace)| trace));
        }
        self.forget(at, traces, todo);
    }

    /// Takes back the jobs that have not ended, and removes the data of all.
    fn forget(&mut self, at: Moment, traces: Vec<Trace>, todo: &mut Acts) {
        let commands = traces
            .iter()
            .map(|trace| self.take_back(at, &trace.id, &trace.worker, Mode::Forget))
            .collect();
        self.call(Purpose::Forget(traces), commands, todo);
    }

    /// Schedules another check of the jobs that still run, to remove their data after their end.
    pub(super) fn forgotten(
        &mut self,
        at: Moment,
        traces: Vec<Trace>,
        values: &[Value],
        todo: &mut Acts,
    ) {
        self.refused(values, todo);
        for (trace, value) in traces.into_iter().zip(values) {
            let is_done = matches!(value, Value::Data(word) if word != messages::ASKED);
            if !is_done && !self.stopping {
                self.tidy_at(at.now.plus_ms(AGAIN_AFTER_MS), trace);
            }
        }
    }

    /// Makes the command that ends a job if no worker has it.
    fn take_back(&self, at: Moment, id: &str, worker: &str, mode: Mode) -> Command {
        messages::withdraw(&messages::Withdrawal {
            id,
            worker,
            out: &messages::out(&self.instance),
            at: &at.wall.to_rfc3339(),
            error: messages::STOPPED,
            forget: mode == Mode::Forget,
            kept_seconds: JOB_TTL_SECONDS,
            if_waiting: mode == Mode::IfWaiting,
        })
    }
}

impl From<Out> for Trace {
    fn from(out: Out) -> Self {
        Self {
            id: out.execution.job.id,
            worker: out.execution.job.worker_id,
        }
    }
}

/// How to take back a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Ask the worker that has the job to stop it.
    Watch,
    /// The same, and remove its data when it has ended.
    Forget,
    /// Leave the job to the worker that has it.
    IfWaiting,
}
