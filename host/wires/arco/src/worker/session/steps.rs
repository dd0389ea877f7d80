//! The steps of a task: what follows the answer to a callback, and what follows when its time comes. Pure.

use host_core::port::Stop;
use host_wire_kit::session::Moment;

use super::task::Stage;
use super::{Actions, DispatchEnd, Effect, Id, Worker};
use crate::messages::TaskStarted;
use crate::worker::callbacks::CallbackAnswer;
use crate::worker::order::Skew;

impl Worker {
    /// Reports the start of a task.
    pub(super) fn begin(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let name = self.setup.name.clone();
        let Some(task) = self.task(id) else { return };
        let (Some(order), Stage::Starting { sent_wall, .. }) = (&task.order, &mut task.stage)
        else {
            return;
        };
        *sent_wall = at.wall;
        let message = TaskStarted {
            attempt: order.attempt.into(),
            attempt_id: Some(order.attempt_id.clone()),
            worker_id: Some(name),
            traceparent: order.traceparent.clone(),
            started_at: Some(at.wall.to_rfc3339()),
        };
        let callback = order.callback("started", &message);
        self.send(id, callback, actions);
    }

    /// Handles the answer to the callback of a task.
    pub(super) fn on_answered(
        &mut self,
        at: Moment,
        id: Id,
        answer: CallbackAnswer,
        actions: &mut Actions,
    ) {
        let is_stopping = self.is_stopping;
        let Some(task) = self.task(id) else { return };
        match (&mut task.stage, answer) {
            (Stage::Starting { sent_wall, .. }, CallbackAnswer::Accepted { server_time, .. }) => {
                task.skew = Skew::of(server_time, *sent_wall);
                task.backoff.reset();
                self.execute(at, id, actions);
            }
            (Stage::Starting { .. }, CallbackAnswer::Over(_)) => {
                self.finish(id, DispatchEnd::Over, actions);
            }
            (Stage::Starting { .. }, CallbackAnswer::Refused { status, .. }) => {
                self.finish(id, DispatchEnd::Refused(status), actions);
            }
            (Stage::Starting { .. }, CallbackAnswer::TooLarge) => {
                self.finish(id, DispatchEnd::Refused(413), actions);
            }
            (
                Stage::Starting {
                    give_up, again_at, ..
                },
                CallbackAnswer::Again { after_ms, .. },
            ) => {
                *again_at = at.now.plus_ms(task.backoff.next_ms().max(after_ms));
                if is_stopping || again_at >= give_up {
                    self.finish(id, DispatchEnd::NotBegun, actions);
                }
            }
            (Stage::Running(run), answer) => {
                let Some(order) = &task.order else { return };
                match answer {
                    CallbackAnswer::Accepted { should_cancel, .. } => {
                        task.backoff.reset();
                        run.silent_at = run.sent_at.plus_ms(order.timeout_ms);
                        run.next_at = at.now.plus_ms(order.interval_ms);
                        if should_cancel && !run.is_cancelled {
                            run.is_cancelled = true;
                            let stop = Effect::Stop(run.tag, order.grace_ms, Stop::Cancelled);
                            actions.effect(stop);
                        }
                    }
                    CallbackAnswer::Over(_) => self.give_up_run(id, actions),
                    // A refusal may be a mistake of something in between. If it lasts, the time without an
                    // accepted heartbeat ends the run.
                    CallbackAnswer::Refused { .. } | CallbackAnswer::TooLarge => {
                        let wait_ms = task.backoff.next_ms();
                        run.next_at = at.now.plus_ms(wait_ms.min(order.interval_ms));
                    }
                    CallbackAnswer::Again { after_ms, .. } => {
                        let wait_ms = task.backoff.next_ms().max(after_ms);
                        run.next_at = at.now.plus_ms(wait_ms.min(order.interval_ms));
                    }
                }
            }
            (Stage::Reporting(_), answer) => self.on_reported(at, id, answer, actions),
            (Stage::Logging, answer) => {
                if let Some(why) = answer.not_accepted() {
                    let name = task.order.as_ref().map(|order| order.task_id.clone());
                    actions.effect(Effect::WarnOfLog(name.unwrap_or_default(), why));
                }
                self.finish(id, DispatchEnd::Over, actions);
            }
        }
    }

    /// Continues a task whose time has come.
    pub(super) fn go_on(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let Some(task) = self.task(id) else { return };
        match &task.stage {
            Stage::Starting { .. } => self.begin(at, id, actions),
            Stage::Running(run) if at.now >= run.silent_at => {
                let name = task.order.as_ref().map(|order| format!("{order:?}"));
                let words = "no heartbeat was accepted in time; stopping the guest";
                actions.effect(Effect::Warn(name.unwrap_or_default(), words));
                self.abort(id, actions);
                self.give_up_run(id, actions);
            }
            Stage::Running(_) => self.beat(at, id, actions),
            // The end stays on disk and is sent after the next start.
            Stage::Reporting(report) if report.give_up.is_some_and(|end| at.now >= end) => {
                self.finish(id, DispatchEnd::Over, actions);
            }
            Stage::Reporting(report) => {
                let is_beat_due = report
                    .beats
                    .is_some_and(|it| it.request.is_none() && at.now >= it.next_at);
                let is_end_due =
                    task.request.is_none() && !report.is_storing && at.now >= report.again_at;
                if is_beat_due {
                    self.beat(at, id, actions);
                }
                if is_end_due {
                    self.send_end(at, id, actions);
                }
            }
            Stage::Logging => {}
        }
    }
}
