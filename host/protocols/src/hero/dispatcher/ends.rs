//! The ends of jobs that are out, and removing what they leave in Redis: also what an earlier life
//! of this host had out.

use std::collections::BTreeSet;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::time::Time;

use super::{Dispatcher, DispatcherAct, Due, Out, Purpose, REFUSED_PAUSE_MS, Todo};
use crate::hero::wire::{self, Command, Value};
use crate::port::Tag;
use crate::runner::End;
use crate::session::Moment;

/// How long after its end a job's traces are removed, in milliseconds: workers write the hash first
/// and the reply, which nobody else would remove, a moment later.
const TIDY_AFTER_MS: u64 = 2_000;

/// How a job that was taken back ends in its hash.
const WITHDRAWN: &str = "stopped_by_request";

impl Dispatcher {
    /// Asks which jobs Redis has as out.
    pub(super) fn reconcile(&mut self, todo: &mut Todo) {
        let list = wire::plain(&["HGETALL", &wire::out(&self.config.instance)]);
        self.call(Purpose::Reconcile, vec![list], todo);
    }

    /// Takes back the jobs that are out there and not here. Then there may be others.
    pub(super) fn reconciled(&mut self, at: Moment, value: Option<&Value>, todo: &mut Todo) {
        let Some(found @ Value::List(_)) = value else {
            self.refused(value.map_or(&[], std::slice::from_ref), todo);
            return self.arm(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Reconcile);
        };
        let ours: BTreeSet<&str> = self
            .out
            .values()
            .map(|out| out.execution.id.as_str())
            .chain(self.ended.iter().map(|(_, id, _)| id.as_str()))
            .collect();
        let texts = found.texts();
        let pairs = texts.chunks_exact(2);
        let foreign = pairs.filter(|pair| !ours.contains(pair[0].as_str()));
        let commands = foreign
            .map(|pair| self.take_back(at, &pair[0], &pair[1], Mode::Forget))
            .collect();
        self.call(Purpose::Told, commands, todo);
        todo.push(DispatcherAct::Ready);
    }

    /// Takes a job back that is still watched.
    pub(super) fn withdraw(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        let Some(out) = self.out.get(&tag) else {
            return;
        };
        let (id, worker) = (&out.execution.id, &out.execution.worker_id);
        let command = self.take_back(at, id, worker, Mode::Watch);
        self.call(Purpose::Told, vec![command], todo);
    }

    /// Takes back all jobs that nobody has taken.
    pub(super) fn recall(&mut self, at: Moment, todo: &mut Todo) {
        let waits = |out: &Out| out.started_at.is_none() && out.stop_by.is_none();
        let waiting = self.out.iter().filter(|(_, out)| waits(out));
        let (tags, commands) = waiting
            .map(|(tag, out)| {
                let (id, worker) = (&out.execution.id, &out.execution.worker_id);
                (*tag, self.take_back(at, id, worker, Mode::IfWaiting))
            })
            .unzip();
        self.call(Purpose::Recall(tags), commands, todo);
    }

    /// Takes in which jobs are back: nobody has begun them.
    pub(super) fn recalled(&mut self, at: Moment, tags: &[Tag], values: &[Value], todo: &mut Todo) {
        self.refused(values, todo);
        for (tag, value) in tags.iter().zip(values) {
            let is_back = matches!(value, Value::Data(said) if said == wire::WITHDRAWN);
            if !is_back {
                continue;
            }
            if let Some(out) = self.out.remove(tag) {
                self.tidy_later(at, out.execution.id, out.execution.worker_id);
                todo.push(DispatcherAct::Ended {
                    tag: *tag,
                    end: End::NoRoom,
                });
            }
        }
    }

    /// Ends an execution of which its worker has said how it ended.
    pub(super) fn said(&mut self, at: Moment, tag: Tag, outcome: Outcome, todo: &mut Todo) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        let (id, worker) = (out.execution.id, out.execution.worker_id);
        if out.requeues > 0 {
            let queue = wire::work_queue(&worker);
            let forget = wire::plain(&["LREM", &queue, "0", &id]);
            self.call(Purpose::Told, vec![forget], todo);
        }
        self.tidy_later(at, id, worker);
        let end = End::Outcome(outcome);
        todo.push(DispatcherAct::Ended { tag, end });
    }

    /// Ends an execution of which nobody has said how it ended: nobody is to run it any more.
    pub(super) fn give_up(&mut self, at: Moment, tag: Tag, end: End, todo: &mut Todo) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        let (id, worker) = (out.execution.id, out.execution.worker_id);
        let command = self.take_back(at, &id, &worker, Mode::Forget);
        self.call(Purpose::Told, vec![command], todo);
        todo.push(DispatcherAct::Ended { tag, end });
    }

    /// Gives a cancelled job up whose worker has not said that it has stopped.
    pub(super) fn cancel_timed_out(&mut self, at: Moment, tag: Tag, todo: &mut Todo) {
        let due = |stop_by: Time| stop_by <= at.now;
        if self
            .out
            .get(&tag)
            .is_some_and(|out| out.stop_by.is_some_and(due))
        {
            let message = "the worker did not say that it has stopped the job";
            let failure = Failure::new(FailureKind::CancelTimeout, message);
            let end = End::Outcome(Outcome::Failed(failure));
            self.give_up(at, tag, end, todo);
        }
    }

    fn tidy_later(&mut self, at: Moment, id: String, worker: String) {
        let tidy_at = at.now.plus_ms(TIDY_AFTER_MS);
        if self.ended.is_empty() {
            self.arm(tidy_at, Due::Tidy);
        }
        self.ended.push_back((tidy_at, id, worker));
    }

    /// Removes what jobs have left that had ended long enough before `until`.
    pub(super) fn tidy(&mut self, until: Time, at: Moment, todo: &mut Todo) {
        let mut commands = Vec::new();
        while let Some((due, id, worker)) = self.ended.pop_front() {
            if due > until {
                self.ended.push_front((due, id, worker));
                self.arm(due, Due::Tidy);
                break;
            }
            commands.push(self.take_back(at, &id, &worker, Mode::Forget));
        }
        self.call(Purpose::Told, commands, todo);
    }

    /// Makes the command that lets a job end if nobody has taken it.
    fn take_back(&self, at: Moment, id: &str, worker: &str, mode: Mode) -> Command {
        wire::withdraw(&wire::Withdrawal {
            id,
            worker,
            out: &wire::out(&self.config.instance),
            at: &at.wall.to_rfc3339(),
            error: WITHDRAWN,
            forget: mode == Mode::Forget,
            kept_seconds: self.config.job_ttl_seconds,
            if_waiting: mode == Mode::IfWaiting,
        })
    }
}

/// What becomes of a job that is taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Its worker, if one has it, is asked to stop it.
    Watch,
    /// The same, and its traces are removed.
    Forget,
    /// It is left to its worker, if one has it.
    IfWaiting,
}
