//! Reports how a task ended, until the control plane has it or its token has ended.

use host_core::outcome::{Meter, Outcome};
use host_core::time::Time;
use tokio::time::{sleep, timeout};

use super::{LAST_WORDS, Skew};
use crate::arco::convert;
use crate::arco::messages::{RunLogs, Secret};
use crate::arco::worker::callbacks::{Heard, To};
use crate::arco::worker::execution::Execution;
use crate::arco::worker::order::{Order, segment};
use crate::arco::worker::outbox::Pending;
use crate::arco::worker::{BACKOFF, Worker};
use crate::kit::http_client::BaseUrl;

/// How long an end is sent if the dispatch does not say when its token ends, in milliseconds.
const TOKEN_TTL_MS: u64 = 3_600_000;

impl Worker {
    pub(super) async fn report(&self, order: &Order, skew: Skew, outcome: &Outcome, meter: &Meter) {
        let wall = self.clock.wall();
        let mut message = convert::report(outcome, meter);
        message.attempt = order.attempt.into();
        message.attempt_id = Some(order.attempt_id.clone());
        message.worker_id = Some(self.id.clone());
        message.traceparent.clone_from(&order.traceparent);
        message.completed_at = Some(wall.to_rfc3339());
        let end = order.token_expires_at.map(|end| skew.ours(end));
        let pending = Pending {
            key: order.key.clone(),
            base: order.base.to_string(),
            path: format!("{}/completed", order.path),
            token: order.token.clone(),
            body: serde_json::to_string(&message).unwrap_or_default(),
            until_ms: end.unwrap_or_else(|| wall.plus_ms(TOKEN_TTL_MS)).0,
        };
        self.keep(&pending).await;
        self.deliver(pending).await;
    }

    /// Keeps an end on disk. If that fails, it is sent all the same.
    async fn keep(&self, pending: &Pending) {
        let Some(outbox) = self.outbox.clone() else {
            return;
        };
        let pending = pending.clone();
        let kept = tokio::task::spawn_blocking(move || outbox.put(&pending)).await;
        if let Ok(Err(error)) = kept {
            tracing::warn!(%error, "the end of a task is not kept on disk");
        }
    }

    /// Sends an end until the control plane has it, or its token has ended.
    pub(in crate::arco::worker) async fn deliver(&self, pending: Pending) {
        if let Ok(base) = pending.base.parse::<BaseUrl>()
            && self.config.origins.contains(base.origin())
        {
            let sending = self.send_end(&base, &pending);
            tokio::pin!(sending);
            let is_over = tokio::select! {
                is_over = &mut sending => is_over,
                () = self.tasks.stopping().cancelled() => {
                    // What is kept on disk is sent after the next start.
                    timeout(LAST_WORDS, sending).await.unwrap_or(false)
                }
            };
            if !is_over {
                return;
            }
        }
        let Some(outbox) = self.outbox.clone() else {
            return;
        };
        let done = tokio::task::spawn_blocking(move || outbox.done(&pending.key)).await;
        if let Ok(Err(error)) = done {
            tracing::warn!(%error, "an end of a task that was delivered stays on disk");
        }
    }

    /// Returns true once the end need not be sent any more.
    async fn send_end(&self, base: &BaseUrl, pending: &Pending) -> bool {
        let to = To {
            base,
            path: &pending.path,
            token: &pending.token,
        };
        let mut backoff = BACKOFF;
        loop {
            let body = pending.body.clone().into_bytes();
            let wait = match self.callbacks.send_bytes(to, body).await {
                Heard::Taken { .. } => return true,
                Heard::Over(status) | Heard::Refused(status) => {
                    tracing::info!(status, "the end of a task is refused");
                    return true;
                }
                Heard::Again { after, why } => {
                    tracing::debug!(why, "the control plane refused the end of a task");
                    backoff.next_wait().max(after.unwrap_or_default())
                }
            };
            if self.clock.wall() >= Time(pending.until_ms) {
                tracing::warn!("the token of a task has ended before its end was taken");
                return true;
            }
            sleep(wait).await;
        }
    }

    /// Sends the log of an execution, if that is configured.
    pub(super) async fn send_log(&self, order: &Order, execution: &Execution) {
        let Some(token) = &self.config.logs_token else {
            return;
        };
        let (Some(workspace), Some(run)) = (&order.workspace, &order.run) else {
            return;
        };
        let (stdout, stderr) = execution.take_log();
        let path = format!(
            "/api/v1/workspaces/{}/runs/{}/logs",
            segment(workspace),
            segment(run)
        );
        let log = RunLogs {
            task_key: &order.task_key,
            attempt: order.attempt,
            stdout,
            stderr,
        };
        let heard = self.send_log_to(order, &path, token, &log).await;
        if let Heard::Refused(_) | Heard::Again { .. } = heard {
            tracing::info!(
                ?order,
                ?heard,
                "the control plane refused the log of a task"
            );
        }
    }

    async fn send_log_to(
        &self,
        order: &Order,
        path: &str,
        token: &Secret,
        log: &RunLogs<'_>,
    ) -> Heard {
        let base = &order.base;
        self.callbacks.send(To { base, path, token }, log).await
    }
}
