//! The end of a task: written to disk, reported until the control plane accepts it or its token expires,
//! then forgotten. Pure.

use host_core::outcome::{Meter, Outcome};

use super::task::{Report, Stage};
use super::{Actions, DispatchEnd, Effect, Id, Worker};
use crate::arco::convert;
use crate::arco::messages::RunLogs;
use crate::arco::worker::callbacks::Callback;
use crate::arco::worker::order::segment;
use crate::arco::worker::outbox::Pending;
use crate::kit::http_client::BaseUrl;
use crate::kit::session::Moment;

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
            ..Report::of(pending, give_up)
        });
    }

    /// Sends the end of a task. One of an earlier process may be for an origin that is no longer allowed.
    pub(super) fn send_end(&mut self, id: Id, actions: &mut Actions) {
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
            None => self.forget(id, actions),
        }
    }

    /// Forgets the end of a task that the control plane has accepted or never will.
    pub(super) fn forget(&mut self, id: Id, actions: &mut Actions) {
        let tag = self.tag(id);
        let Some(task) = self.task(id) else { return };
        if let Stage::Reporting(report) = &mut task.stage {
            (report.is_storing, report.is_over) = (true, true);
            actions.effect(Effect::Forget(tag, report.pending.key.clone()));
        }
    }

    /// Continues once the end of a task was written to disk or removed from it.
    pub(super) fn on_stored(&mut self, id: Id, actions: &mut Actions) {
        let Some(task) = self.task(id) else { return };
        let Stage::Reporting(report) = &mut task.stage else {
            return;
        };
        report.is_storing = false;
        if report.is_over {
            self.send_log(id, actions);
        } else {
            self.send_end(id, actions);
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
                task_key: &order.task_key,
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
