//! A task that runs in our sandbox while heartbeats are sent. Pure.

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Answer, Stop, Tag};
use host_wire_kit::session::Moment;

use super::task::{Beats, Run, Stage, StopCause, Task};
use super::{Actions, DispatchEnd, Effect, Id, Worker};
use crate::messages::TaskHeartbeat;

impl Worker {
    pub(super) fn execute(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        if self.is_stopping {
            let (outcome, meter) = shutting_down();
            return self.report(at, id, &outcome, &meter, actions);
        }
        let wants_log = self.setup.logs_token.is_some();
        let Some(task) = self.task(id) else { return };
        let Some(order) = &task.order else { return };
        let Some(job) = order.job(at, task.skew, wants_log) else {
            let words = format!("{:?} is not a valid handler name", order.task_key);
            let failure = Failure::new(FailureKind::HandlerNotFound, words);
            let outcome = Outcome::Failed(failure);
            return self.report(at, id, &outcome, &Meter::default(), actions);
        };
        let (timeout_ms, interval_ms) = (order.timeout_ms, order.interval_ms);
        let tag = self.tag(id);
        if let Some(task) = self.task(id) {
            task.stage = Stage::Running(Run {
                tag,
                progress: None,
                next_at: at.now.plus_ms(interval_ms),
                sent_at: at.now,
                silent_at: at.now.plus_ms(timeout_ms),
                is_cancelled: false,
                ends: None,
            });
        }
        actions.effect(Effect::Start(tag, Box::new(job)));
    }

    /// Sends a heartbeat, beside the report of the end if the guest has ended.
    pub(super) fn beat(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let name = self.setup.name.clone();
        let tag = self.tag(id);
        let Some(task) = self.task(id) else { return };
        let Some(order) = &task.order else { return };
        let progress = match &mut task.stage {
            Stage::Running(run) => {
                run.sent_at = at.now;
                task.request = Some(tag);
                run.progress.as_ref()
            }
            Stage::Reporting(report) => {
                report.beats = Some(Beats {
                    next_at: at.now.plus_ms(order.interval_ms),
                    request: Some(tag),
                });
                None
            }
            Stage::Starting { .. } | Stage::Logging => return self.untag(tag),
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 100"
        )]
        let percent = |percent: f32| percent.clamp(0.0, 100.0).round() as u8;
        let text = progress.map(|it| it.message.clone());
        let message = TaskHeartbeat {
            attempt: order.attempt.into(),
            attempt_id: Some(order.attempt_id.clone()),
            worker_id: Some(name),
            traceparent: order.traceparent.clone(),
            heartbeat_at: Some(at.wall.to_rfc3339()),
            progress_pct: progress.and_then(|it| it.percent).map(percent),
            message: text.filter(|it| !it.is_empty()),
        };
        let callback = order.callback("heartbeat", &message);
        actions.effect(Effect::Send(tag, Box::new(callback)));
    }

    /// Handles the answer to a heartbeat beside the report of an end. Returns whether `tag` was one.
    pub(super) fn on_late_beat(&mut self, at: Moment, id: Id, tag: Tag, is_over: bool) -> bool {
        let Some(task) = self.task(id) else {
            return false;
        };
        let (Some(order), Stage::Reporting(report)) = (&task.order, &mut task.stage) else {
            return false;
        };
        if report.beats.is_none_or(|beats| beats.request != Some(tag)) {
            return false;
        }
        report.beats = (!is_over).then(|| Beats {
            next_at: at.now.plus_ms(order.interval_ms),
            request: None,
        });
        true
    }

    /// Stops a guest immediately, because the control plane has given the attempt up.
    pub(super) fn give_up_run(&mut self, id: Id, actions: &mut Actions) {
        if let Some(Task {
            stage: Stage::Running(run),
            ..
        }) = self.task(id)
        {
            run.ends = Some(StopCause::GivenUp);
            actions.effect(Effect::Stop(run.tag, 0, Stop::Disconnected));
        }
    }

    /// Handles an answer of a task's guest.
    pub(super) fn on_guest(&mut self, at: Moment, id: Id, answer: Answer, actions: &mut Actions) {
        let Some(task) = self.task(id) else { return };
        let Stage::Running(run) = &mut task.stage else {
            return;
        };
        let (outcome, meter) = match answer {
            Answer::Began => return,
            Answer::Progressed(progress) => {
                run.progress = Some(progress);
                return;
            }
            Answer::Logged { lines, .. } => {
                for line in &lines {
                    task.log.keep(line);
                }
                return;
            }
            Answer::Ended(outcome, meter) => (outcome, meter),
            Answer::Busy => lost("the worker was at capacity"),
        };
        let (tag, ends) = (run.tag, run.ends);
        self.untag(tag);
        self.abort(id, actions);
        match ends {
            None => self.report(at, id, &outcome, &meter, actions),
            Some(StopCause::GivenUp) => self.finish(id, DispatchEnd::Over, actions),
            // A guest that was stopped with the worker has not failed; the task may be retried.
            Some(StopCause::ShutDown) => {
                let is_completed = matches!(outcome, Outcome::Completed { .. });
                let (outcome, meter) = if is_completed {
                    (outcome, meter)
                } else {
                    shutting_down()
                };
                self.report(at, id, &outcome, &meter, actions);
            }
        }
    }
}

fn lost(words: &str) -> (Outcome, Meter) {
    let failure = Failure::new(FailureKind::CellLost, words);
    (Outcome::Failed(failure), Meter::default())
}

fn shutting_down() -> (Outcome, Meter) {
    lost("the worker is shutting down")
}
