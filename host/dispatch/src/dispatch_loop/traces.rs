//! The spans of our own jobs, where spans are collected: one for the enqueue, and as its children one for
//! each attempt. What an attempt calls is a child of that.

use std::collections::HashMap;
use std::sync::Arc;

use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::job::{Lifecycle, State};
use host_core::name::{Name, address};
use host_core::port::lease::LeaseMessage;
use host_core::port::spans::{Attribute, Kind, Spans};
use host_core::query::Change;
use host_core::time::Time;
use host_core::transition::{Effect, Loss};
use host_engine::job::{Enqueue, EnqueueOnce};
use host_engine::lease::Claimed;
use host_engine::{Command, Committed, Rejection, Reply, job};

use super::batch::{End, Finished, Origin};
use super::settle::refused_writes;
use crate::span::{Enqueues, Open, SpanEnd};

const ENQUEUE: (&str, Kind, &str) = ("host.enqueue", Kind::Producer, "host");

const ATTEMPT: (&str, Kind, &str) = ("host.attempt", Kind::Consumer, "host");

/// The spans that have begun.
pub(super) struct Traces {
    spans: Arc<dyn Spans>,
    /// Of the attempts that run.
    attempts: HashMap<JobId, Attempt>,
}

struct Attempt {
    lease: LeaseId,
    open: Open,
    /// How it has ended, once that is known.
    ended: Option<SpanEnd>,
}

impl Traces {
    pub(super) fn new(spans: Arc<dyn Spans>) -> Self {
        Self {
            spans,
            attempts: HashMap::new(),
        }
    }

    /// Begins the span of each new job.
    pub(super) fn enqueues(now: Time, command: &mut Command) -> Enqueues {
        let jobs = match command {
            Command::Job(job::Command::Enqueue(Enqueue(jobs))) => &mut jobs[..],
            Command::Job(job::Command::EnqueueOnce(EnqueueOnce(job))) => {
                std::slice::from_mut(&mut **job)
            }
            _ => return Vec::new(),
        };
        let begin = |job: &mut host_core::job::NewJob| {
            let mut open = Open::begin(now, ENQUEUE, &mut job.payload.trace_context)?;
            describe(&mut open, job.executor.as_ref(), &job.handler, &job.queue);
            open.correlate(&job.payload.attributes);
            Some(open)
        };
        jobs.iter_mut().map(begin).collect()
    }

    /// Ends the spans of jobs that were accepted.
    pub(super) fn accepted(&self, now: Time, enqueues: Enqueues, reply: &Result<Reply, Rejection>) {
        let Ok(Reply::Enqueued(accepted)) = reply else {
            return;
        };
        for (open, job) in enqueues.into_iter().zip(accepted) {
            let Some(mut open) = open else { continue };
            open.add("job_id", Attribute::text(&job.id.to_string()));
            if job.existing {
                open.add("existing", Attribute::text("true"));
            }
            self.spans.ended(open.end(now, None));
        }
    }

    /// Begins the span of an attempt.
    pub(super) fn begun(
        &mut self,
        now: Time,
        lease: LeaseId,
        Claimed { lifecycle, payload }: &mut Claimed,
        worker: &str,
    ) {
        let Some(mut open) = Open::begin(now, ATTEMPT, &mut payload.trace_context) else {
            return;
        };
        let executor = lifecycle.executor.as_ref();
        describe(&mut open, executor, &lifecycle.handler, &lifecycle.queue);
        let waited_ms = lifecycle.waited_ms(now);
        open.add("job_id", Attribute::text(&lifecycle.id.to_string()));
        open.add("attempt", Attribute::number(lifecycle.attempt.into()));
        open.add("worker_id", Attribute::text(worker));
        open.add("queue_wait_ms", Attribute::number(waited_ms));
        open.correlate(&payload.attributes);
        let attempt = Attempt {
            lease,
            open,
            ended: None,
        };
        self.attempts.insert(lifecycle.id, attempt);
    }

    /// Notes how an attempt has ended. One that did not begin has no span.
    pub(super) fn finished(&mut self, finished: &Finished) {
        let held = self.attempts.get_mut(&finished.job);
        let Some(attempt) = held.filter(|attempt| attempt.lease == finished.lease) else {
            return;
        };
        match &finished.end {
            End::Reported(report) | End::Wrote(report, _) => {
                attempt.ended = Some(SpanEnd::from(&report.outcome));
            }
            End::Lost {
                loss: Loss::NotBegun,
                ..
            } => drop(self.attempts.remove(&finished.job)),
            End::Lost { loss, .. } => attempt.ended = Some(SpanEnd::lost(loss.failure())),
        }
    }

    /// Ends the spans of attempts that are over with a commit.
    pub(super) fn committed(&mut self, now: Time, origins: &[Origin], committed: &Committed) {
        for (origin, reply) in origins.iter().zip(&committed.replies) {
            match (origin, reply) {
                (Origin::Lease(message), Ok(_)) => self.record_message(message.job, &message.body),
                (Origin::Finished, Ok(Reply::Moved(job))) => self.record_writes(job),
                _ => {}
            }
        }
        for (job, effect) in &committed.effects {
            if let Effect::Revoke { lease, .. } = effect {
                self.revoked(*job, *lease);
            }
        }
        for change in &committed.changes {
            self.changed(now, change);
        }
    }

    /// Notes that what an attempt wrote was refused.
    fn record_writes(&mut self, job: &Lifecycle) {
        let ended = self.attempts.get_mut(&job.id);
        let ended = ended.and_then(|attempt| attempt.ended.as_mut());
        if let Some(ended) = ended.filter(|ended| ended.is_completed())
            && let Some(outcome) = refused_writes(job)
        {
            *ended = SpanEnd::from(&outcome);
        }
    }

    fn record_message(&mut self, job: JobId, message: &LeaseMessage) {
        let ended = match message {
            LeaseMessage::Complete { outcome, .. } => SpanEnd::from(outcome),
            LeaseMessage::Exited(exit) => SpanEnd::lost(Loss::Exited(*exit).failure()),
            LeaseMessage::GiveBack { begun: false } => return drop(self.attempts.remove(&job)),
            LeaseMessage::GiveBack { begun: true }
            | LeaseMessage::Ack
            | LeaseMessage::Heartbeat { .. }
            | LeaseMessage::Log { .. }
            | LeaseMessage::CancelAck { .. }
            | LeaseMessage::CancelReceived { .. } => return,
        };
        if let Some(attempt) = self.attempts.get_mut(&job) {
            attempt.ended = Some(ended);
        }
    }

    fn revoked(&mut self, job: JobId, lease: LeaseId) {
        let held = self.attempts.get_mut(&job);
        if let Some(attempt) = held.filter(|attempt| attempt.lease == lease) {
            let words = "its lease or the grace of its cancel ran out";
            let failure = Failure::new(FailureKind::LeaseLost, words);
            attempt.ended = Some(SpanEnd::lost(failure));
        }
    }

    fn changed(&mut self, now: Time, change: &Change) {
        if change.from != Some(State::Running) || change.to == Some(State::Running) {
            return;
        }
        let Some(Attempt { open, ended, .. }) = self.attempts.remove(&change.job) else {
            return;
        };
        let ended = ended.unwrap_or_else(|| match change.to {
            Some(State::Cancelled) => SpanEnd::well("cancelled"),
            _ => SpanEnd::lost(Loss::WorkerGone.failure()),
        });
        self.spans.ended(open.end_as(now, ended));
    }
}

fn describe(open: &mut Open, executor: Option<&Name>, handler: &Name, queue: &Name) {
    open.add("handler", Attribute::text(&address(executor, handler)));
    open.add("queue", Attribute::text(queue.as_str()));
}
