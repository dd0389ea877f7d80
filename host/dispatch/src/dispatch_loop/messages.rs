//! Foreign workers, in the loop: their messages become commands of the batch, and the answers are
//! sent after the commit.

use std::collections::HashMap;

use host_cells::port::CellPort;
use host_core::id::{JobId, LeaseId};
use host_core::job::{Lifecycle, State};
use host_core::lease::Fence;
use host_core::name::address;
use host_core::outcome::Progress;
use host_core::port::lease::{GrantedLease, LeaseError, LeaseMessage, Resumed, Standing};
use host_core::time::Time;
use host_engine::{Rejection, StoreError};

use super::DispatchLoop;
use super::batch::Batch;
use crate::SubmitError;
use crate::lease_mail::{LeaseMail, Resume};
use crate::workers::{WorkerMessage, assignment};

impl<P: CellPort> DispatchLoop<P> {
    /// Handles what wires say of their workers, except for the messages that it returns.
    pub(super) fn handle_lease_mail(&mut self, now: Time) -> Vec<WorkerMessage> {
        let mut messages = Vec::new();
        for mail in self.leases.take() {
            match mail {
                LeaseMail::Ask(request, respond) => {
                    self.workers.requests.add(now, request, respond);
                }
                LeaseMail::Ended(ended) => self.handle_ended(now, ended),
                LeaseMail::Resume(resume) => self.resume(now, resume),
                LeaseMail::Message(message) => messages.push(message),
            }
        }
        messages
    }

    /// Adds the commands of workers' messages to the batch.
    pub(super) fn plan_messages(&self, messages: Vec<WorkerMessage>, batch: &mut Batch) {
        // Progress in this batch, which is not committed yet.
        let mut reported: HashMap<JobId, (Fence, Progress)> = HashMap::new();
        for mut message in messages {
            message.attempt = self.workers.table.attempt(message.job);
            if let LeaseMessage::Heartbeat {
                progress: Some(progress),
                ..
            } = &message.body
            {
                reported.insert(message.job, (message.fence.clone(), progress.clone()));
            }
            let latest = reported
                .get(&message.job)
                .filter(|(by, _)| *by == message.fence)
                .map(|(_, progress)| progress.clone());
            let progress = latest.or_else(|| self.signals.shared.live.progress(message.job));
            let command = self.workers.command(&message, progress);
            batch.message(command, message);
        }
    }

    /// Answers a wire that takes over the leases of an executor.
    fn resume(&mut self, now: Time, resume: Resume) {
        let jobs = self.workers.table.resume(&resume.executor, &resume.events);
        let resumed = self.resumed(now, jobs).map_err(|error| {
            tracing::error!(%error, "cannot read the leases of the previous process");
            LeaseError::Stopping
        });
        // The requester may have gone.
        drop(resume.respond.respond(resumed));
    }

    fn resumed(&self, now: Time, jobs: Vec<(JobId, LeaseId)>) -> Result<Vec<Resumed>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let leases: HashMap<JobId, LeaseId> = jobs.iter().copied().collect();
        let ids: Vec<JobId> = jobs.into_iter().map(|(job, _)| job).collect();
        let mut resumed = Vec::new();
        for claimed in self.store.reader()?.running(&ids)? {
            let job = claimed.lifecycle.id;
            let held = claimed.lifecycle.lease.clone();
            let Some(lease) = held.filter(|lease| leases.get(&job) == Some(&lease.id)) else {
                continue;
            };
            let cancel = claimed.lifecycle.cancel.clone();
            resumed.push(Resumed {
                granted: GrantedLease {
                    job,
                    lease: lease.id,
                    expires_at: lease.expires_at,
                    ack_by: lease.ack_by,
                    assignment: assignment::make(now, lease.id, claimed),
                },
                granted_at: lease.granted_at,
                worker: lease.worker,
                cancel,
            });
        }
        Ok(resumed)
    }

    /// Answers a worker's message after it was committed or refused.
    pub(super) fn answer(
        &mut self,
        now: Time,
        message: WorkerMessage,
        reply: Result<Box<Lifecycle>, Rejection>,
    ) {
        match reply {
            Ok(job) => {
                self.noted(now, &message, &job);
                if message.attempt.is_none() && self.signals.is_shared() {
                    self.workers.table.adopt(now, &job);
                }
                let WorkerMessage {
                    job: id,
                    fence,
                    body,
                    respond,
                    ..
                } = message;
                let wait_ms = match body {
                    LeaseMessage::Heartbeat { wait_ms, .. } => wait_ms,
                    _ => 0,
                };
                let standing = Standing::from(&*job);
                self.leases
                    .answer_heartbeat(now, standing, wait_ms, id, fence, respond);
            }
            Err(rejection) => {
                tracing::debug!(job = %message.job, %rejection, "a worker's message was rejected");
                match rejection.current_lease_error() {
                    // The worker may have gone.
                    Some(error) => drop(message.respond.respond(Err(error))),
                    None => self.leases.explain(message),
                }
            }
        }
    }

    /// Publishes what a message reports.
    fn noted(&self, now: Time, message: &WorkerMessage, job: &Lifecycle) {
        let Some((attempt, granted_at)) = message.attempt else {
            return self.noted_for_another(now, message, job);
        };
        match &message.body {
            LeaseMessage::Heartbeat {
                progress: Some(progress),
                ..
            } => {
                self.signals
                    .shared
                    .progressed(now, message.job, attempt, progress.clone());
                // A later message of the same batch may have ended the lease.
                if self.workers.table.attempt(message.job) != message.attempt {
                    self.signals.shared.live.forget(message.job);
                }
            }
            LeaseMessage::Complete { outcome, .. } => {
                let handler = address(job.executor.as_ref(), &job.handler);
                self.signals
                    .numbers
                    .ended(now, &handler, outcome, now.since_ms(granted_at));
            }
            LeaseMessage::GiveBack { begun: true } | LeaseMessage::Exited(_) => {
                self.signals.numbers.lost();
            }
            _ => {}
        }
    }

    /// Publishes what a message reports about a lease that another node has granted.
    fn noted_for_another(&self, now: Time, message: &WorkerMessage, job: &Lifecycle) {
        if let LeaseMessage::Heartbeat {
            progress: Some(progress),
            ..
        } = &message.body
            && self.signals.is_shared()
            && job.state == State::Running
        {
            self.signals
                .shared
                .progressed(now, message.job, job.attempt, progress.clone());
        }
    }
}

impl From<SubmitError> for LeaseError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rejected(_) => Self::Unknown,
            SubmitError::StoreFull => Self::StoreFull,
            SubmitError::Busy
            | SubmitError::StoreMoved
            | SubmitError::StoreAway
            | SubmitError::Failed(_) => Self::Busy,
            SubmitError::OutcomeUnknown | SubmitError::Stopping => Self::Stopping,
        }
    }
}
