//! The ends of jobs that are out, and removing what they leave in Redis: also what an earlier life
//! of this host had out.

use std::collections::BTreeSet;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::time::Time;

use super::{Dispatcher, DispatcherAct, Due, Purpose, REFUSED_PAUSE_MS, Todo};
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
            .map(|pair| self.take_back(at, &pair[0], &pair[1], true))
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
        let command = self.take_back(at, id, worker, false);
        self.call(Purpose::Told, vec![command], todo);
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
        let tidy_at = at.now.plus_ms(TIDY_AFTER_MS);
        if self.ended.is_empty() {
            self.arm(tidy_at, Due::Tidy);
        }
        self.ended.push_back((tidy_at, id, worker));
        let end = End::Outcome(outcome);
        todo.push(DispatcherAct::Ended { tag, end });
    }

    /// Ends an execution of which nobody has said how it ended: nobody is to run it any more.
    pub(super) fn give_up(&mut self, at: Moment, tag: Tag, end: End, todo: &mut Todo) {
        let Some(out) = self.out.remove(&tag) else {
            return;
        };
        let (id, worker) = (out.execution.id, out.execution.worker_id);
        let command = self.take_back(at, &id, &worker, true);
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

    /// Removes what jobs have left that had ended long enough before `until`.
    pub(super) fn tidy(&mut self, until: Time, at: Moment, todo: &mut Todo) {
        let mut commands = Vec::new();
        while let Some((due, id, worker)) = self.ended.pop_front() {
            if due > until {
                self.ended.push_front((due, id, worker));
                self.arm(due, Due::Tidy);
                break;
            }
            commands.push(self.take_back(at, &id, &worker, true));
        }
        self.call(Purpose::Told, commands, todo);
    }

    /// Makes the command that lets a job end if nobody has taken it, and else asks its worker to stop
    /// it; with `forget`, its traces are removed too.
    fn take_back(&self, at: Moment, id: &str, worker: &str, forget: bool) -> Command {
        wire::withdraw(&wire::Withdrawal {
            id,
            worker,
            out: &wire::out(&self.config.instance),
            at: &at.wall.to_rfc3339(),
            error: WITHDRAWN,
            forget,
            kept_seconds: self.config.job_ttl_seconds,
        })
    }
}
