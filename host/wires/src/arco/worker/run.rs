//! The life of one task here: it is reported as started, executed while heartbeats go out, and its end
//! is reported until the control plane has it.

mod report;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::{Answers, ForeignJob, Reply, Stop, Tag};
use host_core::time::Time;
use host_core::trace::{Parent, TRACEPARENT};
use tokio::time::{Instant, sleep, timeout_at};

use super::callbacks::{Heard, To};
use super::execution::{End, Execution};
use super::order::Order;
use super::{BACKOFF, Worker};
use crate::arco::NAME;
use crate::arco::messages::{TaskHeartbeat, TaskStarted};

/// The largest result that is reported, in bytes.
const RESULT_BYTES_MAX: u64 = 16 << 20;

/// What became of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Done {
    /// It is over: reported, or nobody wants to hear of it.
    Over,
    /// The control plane refuses its callbacks.
    Refused(u16),
    /// It did not begin, and may come again.
    NotBegun,
}

/// How far the control plane's wall clock is ahead of ours, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Skew(i64);

impl Skew {
    fn of(server: Option<Time>, ours: Time) -> Self {
        Self(server.map_or(0, |server| server.0.saturating_sub(ours.0)))
    }

    /// Returns an instant of the control plane's clock by our wall clock.
    fn ours(self, theirs: Time) -> Time {
        Time(theirs.0.saturating_sub(self.0))
    }
}

impl Worker {
    /// Executes a task.
    pub(super) async fn run(self: &Arc<Self>, order: &Order) -> Done {
        let skew = match self.begin(order).await {
            Ok(skew) => skew,
            Err(done) => return done,
        };
        let execution = Arc::new(Execution::default());
        let Some((outcome, meter)) = self.execute(order, skew, &execution).await else {
            return Done::Over;
        };
        self.report(order, skew, &outcome, &meter).await;
        self.send_log(order, &execution).await;
        Done::Over
    }

    /// Reports the start until the control plane says whether it holds.
    async fn begin(&self, order: &Order) -> Result<Skew, Done> {
        let give_up = Instant::now() + order.timeout;
        let path = format!("{}/started", order.path);
        let mut backoff = BACKOFF;
        loop {
            let wall = self.clock.wall();
            let message = TaskStarted {
                attempt: order.attempt.into(),
                attempt_id: Some(order.attempt_id.clone()),
                worker_id: Some(self.id.clone()),
                traceparent: order.traceparent.clone(),
                started_at: Some(wall.to_rfc3339()),
            };
            let wait = match self.callbacks.send(order.to(&path), &message).await {
                Heard::Taken { server_time, .. } => return Ok(Skew::of(server_time, wall)),
                Heard::Over(_) => return Err(Done::Over),
                Heard::Refused(status) => return Err(Done::Refused(status)),
                Heard::Again { after, why } => {
                    tracing::debug!(?order, why, "the control plane refused the start of a task");
                    backoff.next_wait().max(after.unwrap_or_default())
                }
            };
            if Instant::now() + wait >= give_up {
                return Err(Done::NotBegun);
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.tasks.stopping().cancelled() => return Err(Done::NotBegun),
            }
        }
    }

    /// Executes it while heartbeats go out. Returns nothing if the control plane has given it up.
    async fn execute(
        &self,
        order: &Order,
        skew: Skew,
        execution: &Arc<Execution>,
    ) -> Option<(Outcome, Meter)> {
        let Some(job) = self.job(order, skew) else {
            let words = format!("{:?} is not a valid handler name", order.task_key);
            let failure = Failure::new(FailureKind::HandlerNotFound, words);
            return Some((Outcome::Failed(failure), Meter::default()));
        };
        let tag = self.tag();
        let answers: Arc<dyn Answers> = Arc::<Execution>::clone(execution);
        self.execute.start(job, Reply::new(tag, answers));
        let end = tokio::select! {
            biased;
            end = execution.end() => end,
            () = self.beat(order, execution, tag) => {
                self.execute.stop(tag, 0, Stop::Disconnected);
                execution.end().await;
                return None;
            }
            () = self.tasks.stopping().cancelled() => {
                self.execute.stop(tag, 0, Stop::ShuttingDown);
                shut_down(execution.end().await)
            }
        };
        Some(match end {
            End::Ended(outcome, meter) => (outcome, meter),
            End::Busy => lost("the worker had no room for it"),
        })
    }

    fn job(&self, order: &Order, skew: Skew) -> Option<ForeignJob> {
        let name = order.handler.clone()?;
        let deadline = order.deadline.map(|deadline| {
            let left_ms = skew.ours(deadline).since_ms(self.clock.wall());
            self.clock.now().plus_ms(left_ms)
        });
        let attribute = |name: &str, value: &Option<String>| {
            let value = value.as_ref()?;
            Some((format!("{NAME}.{name}"), value.chars().take(256).collect()))
        };
        let attributes = [
            attribute("tenant_id", &order.tenant),
            attribute("workspace_id", &order.workspace),
            attribute("run_id", &order.run),
        ];
        let trace = order.traceparent.iter();
        let job = ForeignJob::new(NAME, &order.task_id, name, order.params.clone());
        Some(ForeignJob {
            request_id: order.key.clone(),
            queue: order.queue.clone().unwrap_or(job.queue),
            attempt: order.attempt,
            enqueued_at: order.enqueued_at,
            deadline,
            trace: trace
                .filter(|it| Parent::read(it).is_some())
                .map(|it| (TRACEPARENT.to_owned(), it.clone()))
                .collect(),
            worker_id: Some(order.base.origin().to_string()),
            attributes: attributes.into_iter().flatten().collect(),
            wants_log: self.config.logs_token.is_some(),
            span: "arco.task",
            result_bytes_max: RESULT_BYTES_MAX,
            ..job
        })
    }

    /// Sends heartbeats. Returns when the guest must be stopped at once: the control plane has given
    /// the attempt up, or will have, because it has heard nothing for too long.
    async fn beat(&self, order: &Order, execution: &Execution, tag: Tag) {
        let path = format!("{}/heartbeat", order.path);
        let is_cancelled = AtomicBool::new(false);
        let mut silent_at = Instant::now() + order.timeout;
        let mut backoff = BACKOFF;
        let mut wait = order.interval;
        loop {
            let at = Instant::now() + wait;
            tokio::time::sleep_until(at.min(silent_at)).await;
            if Instant::now() >= silent_at {
                tracing::warn!(
                    ?order,
                    "no heartbeat was taken in time; the guest is stopped"
                );
                return;
            }
            let sent_at = Instant::now();
            let message = self.heartbeat(order, execution);
            let sending = self.callbacks.send(order.to(&path), &message);
            // One that takes too long counts as lost.
            let heard = timeout_at(silent_at, sending).await;
            let heard = heard.unwrap_or(Heard::Again {
                after: None,
                why: "it takes too long".to_owned(),
            });
            wait = match heard {
                Heard::Taken { should_cancel, .. } => {
                    backoff.reset();
                    silent_at = sent_at + order.timeout;
                    if should_cancel && !is_cancelled.swap(true, Ordering::Relaxed) {
                        self.execute.stop(tag, order.grace_ms, Stop::Cancelled);
                    }
                    order.interval
                }
                Heard::Over(status) | Heard::Refused(status) => {
                    tracing::info!(?order, status, "the control plane has given the attempt up");
                    return;
                }
                Heard::Again { after, why } => {
                    tracing::debug!(?order, why, "the control plane refused a heartbeat");
                    let wait = backoff.next_wait().max(after.unwrap_or_default());
                    wait.min(order.interval)
                }
            };
        }
    }

    fn heartbeat(&self, order: &Order, execution: &Execution) -> TaskHeartbeat {
        let progress = execution.progress();
        #[expect(clippy::cast_possible_truncation, reason = "0 to 100")]
        let percent = |percent: f32| percent.clamp(0.0, 100.0).round() as i64;
        TaskHeartbeat {
            attempt: order.attempt.into(),
            attempt_id: Some(order.attempt_id.clone()),
            worker_id: Some(self.id.clone()),
            traceparent: order.traceparent.clone(),
            heartbeat_at: Some(self.clock.wall().to_rfc3339()),
            progress_pct: progress.as_ref().and_then(|it| it.percent).map(percent),
            message: progress.map(|it| it.message).filter(|it| !it.is_empty()),
        }
    }
}

impl Order {
    fn to<'a>(&'a self, path: &'a str) -> To<'a> {
        To {
            base: &self.base,
            path,
            token: &self.token,
        }
    }
}

/// A guest that was stopped because we stop has not failed: the task may be tried again.
fn shut_down(end: End) -> End {
    if matches!(end, End::Ended(Outcome::Completed { .. }, _)) {
        return end;
    }
    let (outcome, meter) = lost("the worker is shutting down");
    End::Ended(outcome, meter)
}

fn lost(words: &str) -> (Outcome, Meter) {
    let failure = Failure::new(FailureKind::CellLost, words);
    (Outcome::Failed(failure), Meter::default())
}

/// How long the end of a task is sent while this worker stops.
const LAST_WORDS: Duration = Duration::from_millis(1_500);
