//! Messages to the host about leases, and what follows each answer. The host knows whether an attempt was
//! acknowledged and whether it is over. Pure.

use host_core::failure::{Category, Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::lease::Fence;
use host_core::outcome::{Meter, Outcome};
use host_core::port::Tag;
use host_core::port::lease::{LeaseError, LeaseMessage, Standing};
use host_wire_kit::session::Moment;

use super::{Actions, Effect, Orchestrator};
use crate::messages::CANCELLED;
use crate::orchestrator::answers::AnswerOut;
use crate::orchestrator::attempts::Call;
use crate::orchestrator::envelope;
use crate::orchestrator::explain::explain;
use crate::orchestrator::read::Report;
use crate::refusals::{Code, WireRefusal};

/// The cancellation of an attempt that has not begun.
pub(super) const CANCEL_UNBEGUN: LeaseMessage = LeaseMessage::CancelAck {
    partial: None,
    message: None,
};

/// Why a message is sent.
#[derive(Debug)]
pub(super) enum Cause {
    /// The attempt's worker called back.
    Callback(Box<Call>),
    /// No worker has the attempt.
    Undelivered(LeaseMessage),
    /// The worker refused the dispatch with these words.
    Refused(String),
    /// The attempt's worker has received the cancel.
    Warned,
}

/// What a message does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Acknowledges the lease, so that the message of the cause can follow.
    Acknowledge,
    Start,
    /// Turns away a worker that begins although the job is cancelled.
    TurnAway,
    Heartbeat,
    Complete,
    /// Shortens the grace of a cancel.
    Warn,
}

/// A message about a lease that the host has not answered.
#[derive(Debug)]
pub(super) struct PendingMessage {
    job: JobId,
    lease: LeaseId,
    cause: Cause,
    step: Step,
}

impl Orchestrator {
    /// Sends the message that `cause` calls for.
    pub(super) fn send_cause(
        &mut self,
        job: JobId,
        lease: LeaseId,
        cause: Cause,
        actions: &mut Actions,
    ) {
        let (message, step) = match &cause {
            Cause::Callback(call) => message_of(&call.report),
            Cause::Undelivered(message) => (message.clone(), Step::Complete),
            Cause::Refused(words) => (refused(words), Step::Complete),
            Cause::Warned => {
                let grace_ms = self.times.cancel_grace_ms + envelope::WARNED_MS;
                (LeaseMessage::CancelReceived { grace_ms }, Step::Warn)
            }
        };
        self.send(job, lease, cause, message, step, actions);
    }

    /// Acknowledges an attempt, and then sends the message that `cause` calls for.
    pub(super) fn acknowledge(
        &mut self,
        job: JobId,
        lease: LeaseId,
        cause: Cause,
        actions: &mut Actions,
    ) {
        let (message, step) = (LeaseMessage::Ack, Step::Acknowledge);
        self.send(job, lease, cause, message, step, actions);
    }

    fn send(
        &mut self,
        job: JobId,
        lease: LeaseId,
        cause: Cause,
        message: LeaseMessage,
        step: Step,
        actions: &mut Actions,
    ) {
        let tag = self.tag();
        let sent = PendingMessage {
            job,
            lease,
            cause,
            step,
        };
        self.sent.insert(tag, sent);
        actions.effect(Effect::Send {
            tag,
            job,
            fence: Fence::Lease(lease),
            message: Box::new(message),
        });
    }

    /// Sends the message of a callback whose attempt is not current here: the host knows what became of it.
    pub(super) fn send_past(&mut self, call: Box<Call>, actions: &mut Actions) {
        let tag = self.tag();
        actions.effect(Effect::Send {
            tag,
            job: call.scope.job,
            fence: Fence::Attempt(call.scope.attempt),
            message: Box::new(message_of(&call.report).0),
        });
        self.past.insert(tag, call);
    }

    /// Handles the answer to a message about a lease.
    pub(super) fn on_answer(
        &mut self,
        at: Moment,
        tag: Tag,
        answer: Result<Standing, LeaseError>,
        actions: &mut Actions,
    ) {
        if let Some(call) = self.past.remove(&tag) {
            return actions.send(call.link, answer_past(at, &call, answer));
        }
        let Some(sent) = self.sent.remove(&tag) else {
            return;
        };
        let (job, lease, cause) = (sent.job, sent.lease, sent.cause);
        match (&answer, sent.step) {
            // The worker's `started` was lost.
            (Err(LeaseError::NotAcknowledged), _) => {
                return self.acknowledge(job, lease, cause, actions);
            }
            (Ok(_), Step::Acknowledge) => {
                if matches!(cause, Cause::Callback(_)) {
                    self.on_begun(job, lease, actions);
                }
                return self.send_cause(job, lease, cause, actions);
            }
            _ => {}
        }
        let call = match cause {
            Cause::Callback(call) => call,
            // If the host has not accepted it, the longer grace holds.
            Cause::Warned => return,
            // If the host has not accepted the end, the lease runs out.
            Cause::Undelivered(_) | Cause::Refused(_) => return self.end(job, lease, actions),
        };
        match answer {
            Ok(standing) => {
                self.on_accepted(at, (job, lease), (call, sent.step), &standing, actions);
            }
            // It may know the attempt although it does not know the lease.
            Err(LeaseError::Unknown) => {
                self.end(job, lease, actions);
                self.send_past(call, actions);
            }
            Err(error) => {
                if matches!(error, LeaseError::Over(_)) {
                    self.end(job, lease, actions);
                }
                let refused = explain(error, call.scope.attempt, &call.report);
                actions.send(call.link, Err(refused));
            }
        }
    }

    /// Answers a callback whose message the host has accepted.
    fn on_accepted(
        &mut self,
        at: Moment,
        (job, lease): (JobId, LeaseId),
        (call, step): (Box<Call>, Step),
        standing: &Standing,
        actions: &mut Actions,
    ) {
        let answer = match step {
            Step::Acknowledge | Step::Start => {
                let attempt = self.attempts.with_lease(job, lease);
                if attempt.is_some_and(|attempt| !attempt.is_begun) {
                    self.note(at.now, &call, "the worker has begun", actions);
                }
                self.on_begun(job, lease, actions);
                if standing.cancel.is_some() {
                    let (message, step) = (CANCEL_UNBEGUN, Step::TurnAway);
                    let cause = Cause::Callback(call);
                    return self.send(job, lease, cause, message, step, actions);
                }
                Ok(AnswerOut::started(at.wall))
            }
            Step::TurnAway => Err(WireRefusal::terminal(CANCELLED)),
            Step::Heartbeat => {
                let attempt = self.attempts.with_lease(job, lease);
                let is_overdue = attempt.is_some_and(|it| it.overdue_ms(at.now).is_some());
                let cancel = standing.cancel.as_ref();
                Ok(AnswerOut::heartbeat(at.wall, cancel, is_overdue))
            }
            Step::Complete => Ok(AnswerOut::completed(at.wall, standing.state)),
            // It answers no callback.
            Step::Warn => return,
        };
        actions.send(call.link, answer);
        if matches!(step, Step::TurnAway | Step::Complete) {
            self.end_called(at.now, job, lease, actions);
        }
        let attempt = self.attempts.with_lease(job, lease);
        let warned = attempt.filter(|it| standing.cancel.is_some() && !it.is_warned);
        if let Some(attempt) = warned {
            attempt.is_warned = true;
            self.send_cause(job, lease, Cause::Warned, actions);
        }
    }

    /// Returns whether a message is under way that says that the worker of a job has begun.
    pub(super) fn is_acknowledging(&self, job: JobId) -> bool {
        let mut sent = self.sent.values();
        sent.any(|it| it.job == job && matches!(it.step, Step::Acknowledge | Step::Start))
    }
}

/// Returns the message of a callback, and what it does.
fn message_of(report: &Report) -> (LeaseMessage, Step) {
    match report {
        Report::Started => (LeaseMessage::Ack, Step::Start),
        Report::Heartbeat(progress) => {
            let heartbeat = LeaseMessage::Heartbeat {
                progress: progress.clone(),
                wait_ms: 0,
            };
            (heartbeat, Step::Heartbeat)
        }
        Report::Completed(ended) => {
            let complete = LeaseMessage::Complete {
                outcome: ended.outcome.clone(),
                meter: ended.meter,
                worker: ended.worker.clone().non_empty(),
            };
            (complete, Step::Complete)
        }
    }
}

/// Answers a callback about an attempt that is not current here.
fn answer_past(
    at: Moment,
    call: &Call,
    answer: Result<Standing, LeaseError>,
) -> Result<AnswerOut, WireRefusal> {
    let standing = answer.map_err(|error| explain(error, call.scope.attempt, &call.report))?;
    Ok(match call.report {
        Report::Started => AnswerOut::started(at.wall),
        Report::Heartbeat(_) => AnswerOut::heartbeat(at.wall, standing.cancel.as_ref(), false),
        Report::Completed(_) => AnswerOut::completed(at.wall, standing.state),
    })
}

fn refused(words: &str) -> LeaseMessage {
    let failure = Failure {
        category: Some(Category::Configuration),
        code: Some(Code::DispatchRefused.title().to_owned()),
        ..Failure::new(
            FailureKind::UserError,
            format!("the worker refused the dispatch: {words}"),
        )
    };
    LeaseMessage::Complete {
        outcome: Outcome::Failed(failure),
        meter: Meter::default(),
        worker: None,
    }
}
