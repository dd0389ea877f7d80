//! The end of a task: written to disk, reported until the control plane accepts it or its token expires,
//! then forgotten. Pure.

use host_core::outcome::{Meter, Outcome};
use host_core::time::Time;
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::session::Moment;

use super::task::{Beats, Report, Stage, Task};
use super::{Actions, DispatchEnd, Effect, Id, Worker};
use crate::convert;
use crate::messages::{RunLogs, TaskCompleted};
use crate::worker::callbacks::{Callback, CallbackAnswer};
use crate::worker::order::segment;
use crate::worker::outbox::Pending;

/// How long an end is sent if the dispatch does not say when its token expires, in milliseconds.
const TOKEN_TTL_MS: u64 = 3_600_000;

impl Worker {
    /// Keeps the end of a task, to send it once it is on disk.
    pub(super) fn report(
        &mut self,
        at: Moment,
        id: Id,
        outcome: &Outcome,
        meter: &Meter,
        actions: &mut Actions,
    ) {
        let (name, give_up) = (self.setup.name.clone(), self.give_up(at.now));
        let tag = self.tag(id);
        let Some(task) = self.task(id) else { return };
        let Some(order) = &task.order else { return };
        let mut message = convert::report(outcome, meter);
        message.attempt = order.attempt.into();
        message.attempt_id = Some(order.attempt_id.clone());
        message.worker_id = Some(name);
        message.traceparent.clone_from(&order.traceparent);
        message.completed_at = Some(at.wall.to_rfc3339());
        // They keep the attempt alive until its end is accepted, which may take longer than the timeout.
        let next_at = match &task.stage {
            Stage::Running(run) => run.next_at,
            _ => at.now.plus_ms(order.interval_ms),
        };
        let beats = Beats {
            next_at,
            request: None,
        };
        let end = order.token_expires_at.map(|end| task.skew.ours(end));
        let pending = Pending {
            key: order.key.clone(),
            base: order.base.to_string(),
            path: format!("{}/completed", order.path),
            token: order.token.clone(),
            body: serde_json::to_string(&message).unwrap_or_default(),
            until_ms: end.unwrap_or_else(|| at.wall.plus_ms(TOKEN_TTL_MS)).0,
        };
        actions.effect(Effect::Keep(tag, Box::new(pending.clone())));
        task.backoff.reset();
        task.stage = Stage::Reporting(Report {
            is_storing: true,
            beats: give_up.is_none().then_some(beats),
            ..Report::of(pending, give_up)
        });
    }

    /// Sends the end of a task. One of an earlier process may be for an origin that is no longer allowed: it
    /// stays on disk, in case that is a mistake.
    pub(super) fn send_end(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let Some(task) = self.tasks.get(&id) else {
            return;
        };
        let Stage::Reporting(report) = &task.stage else {
            return;
        };
        let base = report.pending.base.parse::<BaseUrl>().ok();
        match base.filter(|base| self.setup.origins.contains(base.origin())) {
            Some(base) => {
                let callback = Callback {
                    base,
                    path: report.pending.path.clone(),
                    token: report.pending.token.clone(),
                    body: report.pending.body.clone(),
                };
                self.send(id, callback, actions);
            }
            None if self.is_expired(at, id) => self.expire(id, actions),
            None => {
                let words =
                    "the end of a task is kept but not sent: its origin is not in callback_origins";
                actions.effect(Effect::Warn(report.pending.base.clone(), words));
                self.finish(id, DispatchEnd::Over, actions);
            }
        }
    }

    /// Handles the answer to the end of a task.
    pub(super) fn on_reported(
        &mut self,
        at: Moment,
        id: Id,
        answer: CallbackAnswer,
        actions: &mut Actions,
    ) {
        let is_expired = self.is_expired(at, id);
        let Some(task) = self.task(id) else { return };
        let Stage::Reporting(report) = &mut task.stage else {
            return;
        };
        let after_ms = match answer {
            CallbackAnswer::Accepted { .. } | CallbackAnswer::Over(_) => {
                return self.forget(id, actions);
            }
            CallbackAnswer::Refused { status, why } => {
                let message = convert::refused(&report.pending.body, status, &why);
                if let Some(message) = message.filter(|_| !report.is_replaced) {
                    return self.replace(id, &message, actions);
                }
                let words = "the control plane refuses the end of a task";
                actions.effect(Effect::Warn(report.pending.path.clone(), words));
                return self.forget(id, actions);
            }
            CallbackAnswer::TooLarge => {
                let message = convert::shortened(&report.pending.body);
                if let Some(message) = message.filter(|_| !report.is_replaced) {
                    return self.replace(id, &message, actions);
                }
                0
            }
            CallbackAnswer::Again { after_ms, .. } => after_ms,
        };
        if is_expired {
            self.expire(id, actions);
        } else {
            report.again_at = at.now.plus_ms(task.backoff.next_ms().max(after_ms));
        }
    }

    /// Sends `message` instead of an end whose body was refused, once it is on disk.
    fn replace(&mut self, id: Id, message: &TaskCompleted, actions: &mut Actions) {
        let tag = self.tag(id);
        let Some(task) = self.task(id) else { return };
        if let Stage::Reporting(report) = &mut task.stage {
            report.pending.body = serde_json::to_string(message).unwrap_or_default();
            (report.is_storing, report.is_replaced) = (true, true);
            task.backoff.reset();
            actions.effect(Effect::Keep(tag, Box::new(report.pending.clone())));
        }
    }

    fn is_expired(&self, at: Moment, id: Id) -> bool {
        let stage = self.tasks.get(&id).map(|task| &task.stage);
        matches!(stage, Some(Stage::Reporting(report)) if at.wall >= Time(report.pending.until_ms))
    }

    /// Forgets an end whose token has expired.
    fn expire(&mut self, id: Id, actions: &mut Actions) {
        if let Some(Task {
            stage: Stage::Reporting(report),
            ..
        }) = self.task(id)
        {
            let words = "the token of a task expired before its end was accepted";
            actions.effect(Effect::Warn(report.pending.path.clone(), words));
        }
        self.forget(id, actions);
    }

    /// Forgets the end of a task that the control plane has accepted or never will.
    pub(super) fn forget(&mut self, id: Id, actions: &mut Actions) {
        self.abort(id, actions);
        let tag = self.tag(id);
        let Some(task) = self.task(id) else { return };
        if let Stage::Reporting(report) = &mut task.stage {
            (report.is_storing, report.is_over) = (true, true);
            actions.effect(Effect::Forget(tag, report.pending.key.clone()));
        }
    }

    /// Continues once the end of a task was written to disk or removed from it.
    pub(super) fn on_stored(&mut self, at: Moment, id: Id, actions: &mut Actions) {
        let Some(task) = self.task(id) else { return };
        let Stage::Reporting(report) = &mut task.stage else {
            return;
        };
        report.is_storing = false;
        if report.is_over {
            self.send_log(id, actions);
        } else {
            self.send_end(at, id, actions);
        }
    }

    /// Sends the log of an execution, if that is configured, and ends the task.
    fn send_log(&mut self, id: Id, actions: &mut Actions) {
        let token = self.setup.logs_token.clone();
        let callback = self.task(id).and_then(|task| {
            let order = task.order.as_ref()?;
            let (workspace, run) = (order.workspace.as_ref()?, order.run.as_ref()?);
            let (stdout, stderr) = task.log.take();
            let log = RunLogs {
                task_key: order.task_key.clone(),
                attempt: order.attempt,
                stdout,
                stderr,
            };
            Some(Callback {
                base: order.base.clone(),
                path: format!(
                    "/api/v1/workspaces/{}/runs/{}/logs",
                    segment(workspace),
                    segment(run)
                ),
                token: token?,
                body: serde_json::to_string(&log).unwrap_or_default(),
            })
        });
        match callback {
            Some(callback) => {
                if let Some(task) = self.task(id) {
                    task.stage = Stage::Logging;
                }
                self.send(id, callback, actions);
            }
            None => self.finish(id, DispatchEnd::Over, actions),
        }
    }
}
