//! The requests in flight: sends, completes, stops and loses them.

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::Tag;
use host_core::suspicion::Group;
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::session::{Link, Moment};

use super::super::convert;
use super::super::messages::{CancelOut, Out, VERSION};
use super::super::read::{Response, Verdict};
use super::super::refusals::{About, Code, Refusal};
use super::runner::State;
use super::{Assignment, End, Orchestrator, PoolActions, PoolEffect, Purpose, Timer};

/// How long a runner may take to answer after it was asked to stop a request, in milliseconds.
const STOP_MS_MAX: u64 = 1_000;

/// Within which time the connections of a runner end if it ends, in milliseconds.
const TOGETHER_MS: u64 = 1_000;

/// How long to wait before a cancel is sent again. It has its own connection, so it may arrive before
/// its request and have no effect.
const CANCEL_AGAIN: Backoff = Backoff::new(100, u64::MAX);

/// One request that was sent to a runner.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) runner: usize,
    job_id: String,
    request_id: String,
    link: Link,
    stopping: Option<Stopping>,
    /// When the runner must have answered.
    due_at: Time,
    cancel_again: Backoff,
    timer: Time,
}

/// Why a request is being stopped. The first reason is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopping {
    Timeout,
    Cancel { hard: bool },
}

impl Orchestrator {
    pub(super) fn on_start(
        &mut self,
        at: Moment,
        tag: Tag,
        assignment: Assignment,
        actions: &mut PoolActions,
    ) {
        let ended = |end| PoolEffect::Ended {
            tag,
            runner: None,
            end,
        };
        if self.free() == 0 {
            return actions.effect(ended(End::NoRoom));
        }
        match self.place(assignment.suspicion) {
            Some(runner) => self.send(at, runner, tag, assignment, actions),
            None if assignment.suspicion.is_apart() => self.hold(at, tag, assignment),
            None => actions.effect(ended(End::NoRoom)),
        }
    }

    /// Sends a request to a runner.
    pub(super) fn send(
        &mut self,
        at: Moment,
        runner: usize,
        tag: Tag,
        assignment: Assignment,
        actions: &mut PoolActions,
    ) {
        let suspicion = assignment.suspicion;
        let timer = at.now.plus_ms(assignment.timeout_ms);
        let request = match super::assign::request(assignment, at, self.dialect) {
            Ok(request) => request,
            Err(outcome) => {
                let end = End::Outcome(outcome);
                let runner = None;
                return actions.effect(PoolEffect::Ended { tag, runner, end });
            }
        };
        let (request_id, job_id) = (request.request_id.clone(), request.job_id.clone());
        let request = Out::Request(Box::new(request));
        let link = if let State::Up { main: Some(main) } = self.runners[runner].state {
            actions.send(main, request);
            main
        } else {
            let request = Some(request);
            let link = self.make_link(Purpose::Request { tag, request });
            actions.effect(PoolEffect::Connect { runner, link });
            link
        };
        self.by_request.insert(request_id.clone(), tag);
        let at_runner = &mut self.runners[runner];
        if at_runner.runs.is_empty() {
            at_runner.lost = None;
        }
        at_runner.runs.insert(tag);
        at_runner.group.add(suspicion);
        self.due.insert((timer, Timer::Run(tag)));
        let run = Run {
            runner,
            job_id,
            request_id,
            link,
            stopping: None,
            due_at: timer,
            cancel_again: CANCEL_AGAIN,
            timer,
        };
        self.runs.insert(tag, run);
    }

    pub(super) fn on_response(
        &mut self,
        now: Time,
        link: Link,
        response: Response,
        actions: &mut PoolActions,
    ) {
        let Some(tag) = self.find(link, &response.ids.request) else {
            // The answer is late, repeated, or for an unknown request.
            return actions.count(Code::OutcomeUnknown.as_str());
        };
        if self.runs[&tag].job_id != response.ids.job {
            let message = "job_id: expected the job_id of the request, found another";
            let about = About::Ids(response.ids.clone());
            let refusal = Refusal::new(Code::OutcomeJob, message, about);
            actions.count(refusal.code.as_str());
            return self.on_broken(now, link, &response.ids.request, &refusal, actions);
        }
        let run = &self.runs[&tag];
        self.runners[run.runner].failures = 0;
        let end = match (run.stopping, response.verdict) {
            (None, verdict) => convert::outcome(verdict),
            (Some(Stopping::Timeout), _) => convert::not_ended_in_time(),
            // Finished work is recorded as finished, even if it was cancelled.
            (Some(Stopping::Cancel { .. }), verdict @ Verdict::Success(_)) => {
                convert::outcome(verdict)
            }
            (Some(Stopping::Cancel { .. }), _) => Outcome::Cancelled { partial: None },
        };
        self.finish(now, tag, End::Outcome(end), actions);
    }

    /// Ends an execution whose runner sent something that is not an outcome.
    pub(super) fn on_broken(
        &mut self,
        now: Time,
        link: Link,
        request_id: &str,
        refusal: &Refusal,
        actions: &mut PoolActions,
    ) {
        let Some(tag) = self.find(link, request_id) else {
            return actions.count(Code::OutcomeUnknown.as_str());
        };
        let end = match self.runs[&tag].stopping {
            None => Outcome::Failed(convert::broken_answer(refusal)),
            Some(Stopping::Timeout) => convert::not_ended_in_time(),
            Some(Stopping::Cancel { .. }) => Outcome::Cancelled { partial: None },
        };
        self.finish(now, tag, End::Outcome(end), actions);
    }

    /// Finds the execution of a request that belongs to this connection.
    fn find(&self, link: Link, request_id: &str) -> Option<Tag> {
        let tag = self.by_request.get(request_id).copied()?;
        (self.runs.get(&tag)?.link == link).then_some(tag)
    }

    pub(super) fn on_cancel(
        &mut self,
        now: Time,
        tag: Tag,
        grace_ms: u64,
        actions: &mut PoolActions,
    ) {
        let hard = grace_ms == 0;
        let Some(run) = self.runs.get_mut(&tag) else {
            let cancelled = Outcome::Cancelled { partial: None };
            return self.end_held(tag, End::Outcome(cancelled), actions);
        };
        match run.stopping {
            None => {}
            Some(Stopping::Cancel { hard: false }) if hard => {}
            Some(_) => return,
        }
        run.stopping = Some(Stopping::Cancel { hard });
        if let Some(Purpose::Request { request, .. }) = self.links.get(&run.link)
            && request.is_some()
        {
            // The request has not been sent.
            let end = End::Outcome(Outcome::Cancelled { partial: None });
            return self.finish(now, tag, end, actions);
        }
        run.due_at = now.plus_ms(grace_ms.saturating_add(STOP_MS_MAX));
        self.send_cancel(now, tag, actions);
    }

    /// Sends a cancel on its own connection, because the runner may not read the other one until it
    /// has answered. Sets a timer to send it again.
    fn send_cancel(&mut self, now: Time, tag: Tag, actions: &mut PoolActions) {
        let Some(run) = self.runs.get_mut(&tag) else {
            return;
        };
        self.due.remove(&(run.timer, Timer::Run(tag)));
        run.timer = run.due_at.min(now.plus_ms(run.cancel_again.next_ms()));
        self.due.insert((run.timer, Timer::Run(tag)));
        let runner = run.runner;
        let cancel = Out::Cancel(CancelOut {
            protocol_version: VERSION,
            job_id: run.job_id.clone(),
            request_id: Some(run.request_id.clone()),
            hard_kill: run.stopping == Some(Stopping::Cancel { hard: true }),
        });
        let link = self.make_link(Purpose::Cancel(Some(cancel)));
        actions.effect(PoolEffect::Connect { runner, link });
    }

    pub(super) fn on_run_due(&mut self, now: Time, tag: Tag, actions: &mut PoolActions) {
        let Some(run) = self.runs.get_mut(&tag) else {
            return;
        };
        let runner = run.runner;
        let outcome = match run.stopping {
            None => {
                run.stopping = Some(Stopping::Timeout);
                run.due_at = now.plus_ms(STOP_MS_MAX);
                return self.send_cancel(now, tag, actions);
            }
            Some(_) if now < run.due_at => return self.send_cancel(now, tag, actions),
            Some(Stopping::Timeout) => convert::not_ended_in_time(),
            Some(Stopping::Cancel { .. }) => {
                let message = format!("runner {} did not stop when it was asked to", self.name);
                Outcome::Failed(Failure::new(FailureKind::CancelTimeout, message))
            }
        };
        // The runner is stuck: it gets no new requests, and is restarted when its other requests
        // have ended.
        self.runners[runner].draining = true;
        self.runners[runner].stuck_since.get_or_insert(now);
        self.finish(now, tag, End::Outcome(outcome), actions);
    }

    /// Ends all executions of a runner that is gone.
    pub(super) fn lose_all(
        &mut self,
        now: Time,
        runner: usize,
        why: &str,
        actions: &mut PoolActions,
    ) {
        let jobs = self.lost_together(now, runner);
        for tag in self.in_flight(runner) {
            self.lose(now, tag, why, jobs, actions);
        }
    }

    /// Returns how many requests a runner had that is gone, with those that were lost a moment ago.
    fn lost_together(&self, now: Time, runner: usize) -> usize {
        let runner = &self.runners[runner];
        let lost = runner
            .lost
            .filter(|(at, _)| now.since_ms(*at) < TOGETHER_MS);
        lost.map_or(0, |(_, jobs)| jobs).max(runner.runs.len())
    }

    /// Ends an execution whose own connection is gone. The runner may be, with all that it had: their
    /// connections end one after the other.
    pub(super) fn lose_one(&mut self, now: Time, tag: Tag, why: &str, actions: &mut PoolActions) {
        let Some(run) = self.runs.get(&tag) else {
            return;
        };
        let runner = run.runner;
        let jobs = self.lost_together(now, runner);
        if jobs > 1 {
            self.runners[runner].lost = Some((now, jobs));
        }
        self.lose(now, tag, why, jobs, actions);
        // If it is ending, it must not be given the next request.
        self.reconnect(now, runner, actions);
    }

    /// Ends an execution that was not sent, for its runner cannot be reached.
    pub(super) fn not_sent(&mut self, now: Time, tag: Tag, actions: &mut PoolActions) {
        let end = match self.runs.get(&tag).map(|run| run.stopping) {
            None => return,
            Some(None) => End::NoRoom,
            Some(Some(Stopping::Timeout)) => End::Outcome(convert::not_ended_in_time()),
            Some(Some(Stopping::Cancel { .. })) => {
                End::Outcome(Outcome::Cancelled { partial: None })
            }
        };
        self.finish(now, tag, end, actions);
    }

    /// Ends an execution whose runner is gone, which had `jobs` of them: any of these may be the cause.
    pub(super) fn lose(
        &mut self,
        now: Time,
        tag: Tag,
        why: &str,
        jobs: usize,
        actions: &mut PoolActions,
    ) {
        let Some(run) = self.runs.get(&tag) else {
            return;
        };
        let lost = || format!("runner {}/{}: {why}", self.name, run.runner + 1);
        let end = match run.stopping {
            None if jobs > 1 => End::LostWithOthers { why: lost(), jobs },
            None => End::Lost(lost()),
            Some(Stopping::Timeout) => End::Outcome(convert::not_ended_in_time()),
            Some(Stopping::Cancel { .. }) => End::Outcome(Outcome::Cancelled { partial: None }),
        };
        self.finish(now, tag, end, actions);
    }

    fn finish(&mut self, now: Time, tag: Tag, end: End, actions: &mut PoolActions) {
        let Some(run) = self.runs.remove(&tag) else {
            return;
        };
        self.by_request.remove(&run.request_id);
        self.due.remove(&(run.timer, Timer::Run(tag)));
        let runner = &mut self.runners[run.runner];
        runner.runs.remove(&tag);
        if runner.runs.is_empty() {
            runner.group = Group::default();
        }
        if let Some(Purpose::Request { .. }) = self.links.get(&run.link) {
            self.links.remove(&run.link);
            actions.close(run.link);
        }
        actions.effect(PoolEffect::Ended {
            tag,
            runner: Some(run.runner),
            end,
        });
        self.end_if_drained(now, run.runner, actions);
    }
}
