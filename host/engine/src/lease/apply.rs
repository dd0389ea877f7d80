//! Renews leases, ends attempts, and decides what is kept of each attempt and of the job.

use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::Lifecycle;
use host_core::lease::Fence;
use host_core::outcome::{Attempt, LOST, Meter, Outcome, Report};
use host_core::transition::Input;
use host_core::writes::Writes;

use super::{Ack, CancelAck, CancelReceived, Complete, Heartbeat, Log, Lose, Renew};
use crate::webhook::Ending;
use crate::{ATTEMPTS_KEPT, Batch, EndedAttempt, Rejection, Rows, Stop, StoreError};

impl<R: Rows> Batch<'_, R> {
    pub(super) fn ack(&mut self, ack: &Ack) -> Result<Box<Lifecycle>, Stop> {
        self.moved(ack.job, &Input::Ack(&ack.fence))
    }

    pub(super) fn heartbeat(&mut self, heartbeat: &Heartbeat) -> Result<Box<Lifecycle>, Stop> {
        self.moved(heartbeat.job, &Input::Heartbeat(&heartbeat.fence))
    }

    pub(super) fn cancel_received(
        &mut self,
        received: &CancelReceived,
    ) -> Result<Box<Lifecycle>, Stop> {
        let input = Input::CancelReceived(&received.fence, received.grace_ms);
        self.moved(received.job, &input)
    }

    pub(super) fn complete_attempt(&mut self, complete: &Complete) -> Result<Box<Lifecycle>, Stop> {
        let (report, writes) = (Report::clone(&complete.report), &complete.writes);
        self.complete(complete.job, &complete.fence, report, writes.as_deref())
    }

    pub(super) fn log(&mut self, log: &Log) -> Result<Box<Lifecycle>, Stop> {
        let input = Input::Log {
            fence: &log.fence,
            offset: log.offset,
            bytes: log.bytes,
        };
        self.moved(log.job, &input)
    }

    /// Stores that a lease was renewed.
    pub(super) fn renew(&mut self, Renew(renewal): &Renew) -> Result<Box<Lifecycle>, Stop> {
        let renew = Input::Renew {
            fence: &Fence::Lease(renewal.lease),
            until: renewal.until,
            host_was_away: renewal.host_was_away,
        };
        self.moved(renewal.job, &renew)
    }

    /// Records a worker's report and the attempt it ends, with what it writes if it completed.
    pub(crate) fn complete(
        &mut self,
        id: JobId,
        fence: &Fence,
        mut report: Report,
        writes: Option<&Writes>,
    ) -> Result<Box<Lifecycle>, Stop> {
        let before = self.get(id)?;
        let completed = matches!(report.outcome, Outcome::Completed { .. });
        if let Some(writes) = writes.filter(|_| completed) {
            // What a worker reports that no longer holds the lease is not written.
            let input = Input::Complete(fence, &report.outcome);
            before.clone().apply(self.now, &input)?;
            match self.write_inside(&before, writes) {
                Ok(()) => {}
                Err(Stop::Rejected(rejection)) => report.outcome = not_written(&rejection),
                Err(failed) => return Err(failed),
            }
        }
        if let Some(lease) = before.lease.as_ref().filter(|_| report.executor.is_empty()) {
            report.executor.clone_from(&lease.worker);
        }
        self.note_outcome(&before, || Ending::by(&report.outcome));
        let after = self.step(&before, &Input::Complete(fence, &report.outcome));
        self.ending = Ending::default();
        let after = after?;
        // Jobs that wait for it may get its result.
        self.attempt_reported(&before, &after, report, None)?;
        self.cascade_after(&before, &after)?;
        Ok(Box::new(after))
    }

    /// Writes what an attempt of a job leaves, all or nothing. It may add to the batch of the job.
    pub(crate) fn write_inside(&mut self, job: &Lifecycle, writes: &Writes) -> Result<(), Stop> {
        self.inside = job.batch;
        let written = self.write(job.id, writes);
        self.inside = None;
        written
    }

    fn write(&mut self, id: JobId, writes: &Writes) -> Result<(), Stop> {
        for changes in &writes.state {
            self.check_state(changes)?;
        }
        if !writes.jobs.is_empty() {
            self.enqueue(&writes.jobs)?;
        }
        for changes in &writes.state {
            self.set_state(changes)?;
        }
        for new in &writes.artifacts {
            self.keep_artifact(id, new.clone())?;
        }
        Ok(())
    }

    /// Records that a worker has stopped because the job was cancelled. The worker sends no other
    /// report.
    pub(super) fn cancel_ack(&mut self, ack: &CancelAck) -> Result<Box<Lifecycle>, Stop> {
        let before = self.get(ack.job)?;
        let after = self.apply(&before, &Input::CancelAck(&ack.fence))?;
        let executor = before.lease.as_ref().map(|lease| lease.worker.clone());
        let report = Report {
            outcome: Outcome::Cancelled {
                partial: ack.partial.clone(),
            },
            meter: Meter::default(),
            progress: None,
            executor: executor.unwrap_or_default(),
            revision: None,
            worker: None,
            requests: None,
        };
        self.attempt_reported(&before, &after, report, ack.message.clone())?;
        Ok(Box::new(after))
    }

    /// Adds the attempt that a worker has reported. `stopped` is the worker's message if it stopped because
    /// of a cancel.
    fn attempt_reported(
        &mut self,
        before: &Lifecycle,
        after: &Lifecycle,
        report: Report,
        stopped: Option<String>,
    ) -> Result<(), StoreError> {
        let started_at = before
            .lease
            .as_ref()
            .map_or(self.now, |lease| lease.granted_at);
        let outcome = report.outcome.as_str().to_owned();
        let (result, failure) = match report.outcome {
            Outcome::Completed { result } => (result, None),
            Outcome::Failed(failure) => (None, Some(failure)),
            Outcome::Retry { reason, .. } => {
                (None, Some(Failure::new(FailureKind::UserError, reason)))
            }
            Outcome::Cancelled { partial } => {
                let message =
                    stopped.unwrap_or_else(|| "the handler stopped on request".to_owned());
                (partial, Some(Failure::new(FailureKind::Cancelled, message)))
            }
        };
        let attempt = Attempt {
            number: after.attempt,
            executor: report.executor,
            revision: report.revision,
            started_at,
            finished_at: self.now,
            outcome,
            failure,
            meter: report.meter,
            requests: report.requests,
            worker: report.worker,
        };
        let ended = EndedAttempt {
            attempt,
            result,
            progress: report.progress,
        };
        self.add_attempt(after.id, &ended)
    }

    fn add_attempt(&mut self, id: JobId, ended: &EndedAttempt) -> Result<(), StoreError> {
        self.rows.add_attempt(id, ended)?;
        let number = ended.attempt.number;
        if number > ATTEMPTS_KEPT && number.is_multiple_of(ATTEMPTS_KEPT) {
            self.rows.forget_attempts(id, number - ATTEMPTS_KEPT + 1)?;
        }
        Ok(())
    }

    /// Releases a lease for the worker that holds it.
    pub(super) fn lose(&mut self, lose: &Lose) -> Result<Box<Lifecycle>, Stop> {
        let mut before = self.get(lose.job)?;
        if let Some(lease) = &mut before.lease
            && lose.fence == Fence::Lease(lease.id)
        {
            lease.worker.clone_from(&lose.executor);
        }
        self.lost_requests.clone_from(&lose.requests);
        let after = self.apply(&before, &Input::Lose(&lose.fence, lose.loss));
        self.lost_requests = None;
        Ok(Box::new(after?))
    }

    /// Records an attempt that ended without a report.
    pub(crate) fn attempt_lost(
        &mut self,
        before: &Lifecycle,
        after: &Lifecycle,
        failure: Failure,
    ) -> Result<(), StoreError> {
        let Some(lease) = &before.lease else {
            return Ok(());
        };
        let attempt = Attempt {
            number: after.attempt,
            executor: lease.worker.clone(),
            revision: None,
            started_at: lease.granted_at,
            finished_at: self.now,
            outcome: LOST.to_owned(),
            failure: Some(failure),
            meter: Meter::default(),
            requests: self.lost_requests.take(),
            worker: None,
        };
        let ended = EndedAttempt {
            attempt,
            result: None,
            progress: None,
        };
        self.add_attempt(after.id, &ended)
    }
}

/// Returns how an attempt ended that completed, but whose writes are refused.
fn not_written(rejection: &Rejection) -> Outcome {
    let message = format!("the handler returned, but what it wrote was refused: {rejection}");
    Outcome::Failed(Failure::new(FailureKind::WritesRefused, message))
}
