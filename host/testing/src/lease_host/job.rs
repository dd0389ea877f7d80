//! One job of the host in memory, and what is kept of its attempts.

use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::job::{Lifecycle, Payload};
use host_core::json::JsonText;
use host_core::outcome::{Attempt, Meter, Outcome, Progress};
use host_core::port::Assignment;
use host_core::port::lease::{GrantedLease, LeaseEvents, LeaseMessage, StoredJob};
use host_core::query::JobDetail;
use host_core::time::Time;

/// One job, with what is kept of its attempts.
pub struct Job {
    pub lifecycle: Lifecycle,
    pub(super) payload: Payload,
    pub attempts: Vec<Attempt>,
    pub result: Option<JsonText>,
    pub failure: Option<Failure>,
    pub progress: Option<Progress>,
    pub(super) events: Option<Arc<dyn LeaseEvents>>,
    /// Whether its lease was granted before the latest restart.
    pub(super) is_restored: bool,
}

impl Job {
    /// Keeps what a message that was accepted says.
    pub(super) fn keep(&mut self, before: &Lifecycle, now: Time, message: LeaseMessage) {
        let (mut stopped, mut worker) = (None, None);
        let (outcome, meter) = match message {
            LeaseMessage::Heartbeat { progress, .. } => {
                if progress.is_some() {
                    self.progress = progress;
                }
                return;
            }
            LeaseMessage::Complete {
                outcome,
                meter,
                worker: reported,
            } => {
                worker = reported;
                (outcome, meter)
            }
            LeaseMessage::CancelAck { partial, message } => {
                stopped = message;
                (Outcome::Cancelled { partial }, Meter::default())
            }
            LeaseMessage::Ack
            | LeaseMessage::Log { .. }
            | LeaseMessage::CancelReceived { .. }
            | LeaseMessage::GiveBack { .. }
            | LeaseMessage::Exited(_) => return,
        };
        let name = outcome.as_str();
        let (result, failure) = match outcome {
            Outcome::Completed { result } => (result, None),
            Outcome::Failed(failure) => (None, Some(failure)),
            Outcome::Retry { .. } => (None, None),
            Outcome::Cancelled { partial } => {
                let message = stopped.unwrap_or_else(|| "it was asked to stop".to_owned());
                (partial, Some(Failure::new(FailureKind::Cancelled, message)))
            }
        };
        self.end(before, now, name, failure.as_ref(), meter);
        if let Some(attempt) = self.attempts.last_mut() {
            attempt.worker = worker;
        }
        self.result = result;
        self.failure = failure;
    }

    /// Records the end of an attempt.
    pub(super) fn end(
        &mut self,
        before: &Lifecycle,
        now: Time,
        outcome: &str,
        failure: Option<&Failure>,
        meter: Meter,
    ) {
        let lease = before.lease.as_ref().unwrap();
        self.attempts.push(Attempt {
            number: before.attempt,
            executor: lease.worker.clone(),
            revision: None,
            started_at: lease.granted_at,
            finished_at: now,
            outcome: outcome.to_owned(),
            failure: failure.cloned(),
            meter,
            requests: None,
            worker: None,
        });
    }

    pub(super) fn granted(&self) -> GrantedLease {
        let (lifecycle, payload) = (&self.lifecycle, &self.payload);
        let lease = lifecycle.lease.as_ref().unwrap();
        GrantedLease {
            job: lifecycle.id,
            lease: lease.id,
            expires_at: lease.expires_at,
            ack_by: lease.ack_by,
            assignment: Assignment {
                request_id: lease.id.0.to_string(),
                job_id: lifecycle.id.to_string(),
                handler: lifecycle.handler.to_string(),
                params: payload.params.clone(),
                queue: lifecycle.queue.to_string(),
                priority: lifecycle.priority,
                attempt: lifecycle.attempt,
                enqueued_at: lifecycle.enqueued_at,
                timeout_ms: lifecycle.policy.timeout_ms.unwrap_or(30_000),
                deadline: lifecycle.deadline,
                trace: payload.trace_context.clone(),
                attributes: payload.attributes.clone(),
                worker_id: "host".to_owned(),
                suspicion: lifecycle.suspicion,
            },
        }
    }

    pub(super) fn kept(&self) -> StoredJob {
        StoredJob {
            job: JobDetail {
                lifecycle: self.lifecycle.clone(),
                payload: self.payload.clone(),
                unique_key: None,
                depends_on: Vec::new(),
                result: self.result.clone(),
                failure: self.failure.clone(),
                progress: self.progress.clone(),
            },
            attempts: self.attempts.clone(),
        }
    }
}
