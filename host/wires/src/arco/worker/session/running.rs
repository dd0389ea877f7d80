//! A task that runs in our sandbox while heartbeats are sent. Pure.

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Answer, Stop};

use super::task::{Run, Stage, Stopped, Task};
use super::{Actions, DispatchEnd, Effect, Id, Worker};
use crate::arco::messages::TaskHeartbeat;
use crate::kit::session::Moment;

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

    pub(super) fn beat(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let name = self.setup.name.clone();
        let Some(task) = self.task(id) else { return };
        let (Some(order), Stage::Running(run)) = (&task.order, &mut task.stage) else {
            return;
        };
        run.sent_at = at.now;
        let progress = run.progress.as_ref();
        #[expect(clippy::cast_possible_truncation, reason = "0 to 100")]
        let percent = |percent: f32| percent.clamp(0.0, 100.0).round() as i64;
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
        self.send(id, callback, actions);
    }

    /// Stops a guest at once, because the control plane has given the attempt up.
    pub(super) fn give_up_run(&mut self, id: Id, actions: &mut Actions) {
        if let Some(Task {
            stage: Stage::Running(run),
            ..
        }) = self.task(id)
        {
            run.ends = Some(Stopped::GivenUp);
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
            Some(Stopped::GivenUp) => self.finish(id, DispatchEnd::Over, actions),
            // A guest that was stopped with the worker has not failed; the task may be retried.
            Some(Stopped::ShutDown) => {
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
