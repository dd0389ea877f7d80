//! Messages about one lease, which go to the host one after the other, and what follows each answer. Pure.

use std::collections::VecDeque;

use host_core::failure::{Category, Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::outcome::{Meter, Outcome};
use host_core::port::Tag;
use host_core::port::lease::{LeaseError, LeaseMessage, Standing};
use host_core::time::Time;

use super::{Actions, Effect, Orchestrator};
use crate::arco::messages::{CANCELLED, FAILED};
use crate::arco::orchestrator::answers::AnswerOut;
use crate::arco::orchestrator::attempts::{Attempt, CANCELLED_UNBEGUN, Call, Turn};
use crate::arco::orchestrator::envelope;
use crate::arco::orchestrator::read::Said;
use crate::arco::refusals::{Code, Refused};
use crate::kit::session::Moment;

/// What a message to the host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Begin,
    /// The worker begins although the job is cancelled.
    TurnAway,
    TimeOut,
    Heartbeat,
    Complete,
}

/// A message about a lease that the host has not answered.
#[derive(Debug)]
pub(super) struct Tell {
    job: JobId,
    lease: LeaseId,
    turn: Turn,
    step: Step,
}

impl Orchestrator {
    /// Gives an attempt's lease to `turn`, at once or after those that wait already.
    pub(super) fn take_turn(&mut self, now: Time, job: JobId, turn: Turn, actions: &mut Actions) {
        match self.attempts.get(job) {
            Some(Attempt {
                waiting: Some(waiting),
                ..
            }) => waiting.push_back(turn),
            Some(_) => self.begin_turn(now, job, turn, actions),
            None => {}
        }
    }

    fn begin_turn(&mut self, now: Time, job: JobId, turn: Turn, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let (lease, has_begun) = (attempt.lease, attempt.has_begun);
        let (message, step) = match &turn {
            Turn::Callback(call) if has_begun && call.said != Said::Started => {
                return self.pass_on(now, (job, lease), turn, actions);
            }
            // Its worker has begun all the same.
            Turn::End(_) | Turn::Fail(_) if has_begun => {
                return self.next_turn(now, job, lease, actions);
            }
            Turn::End(message) => (message.clone(), Step::Complete),
            Turn::Callback(_) | Turn::Fail(_) => (LeaseMessage::Ack, Step::Begin),
        };
        self.tell((job, lease), turn, (message, step), actions);
    }

    /// Tells the host what the worker of an attempt that has begun says, or how a refusal ends it.
    fn pass_on(
        &mut self,
        now: Time,
        (job, lease): (JobId, LeaseId),
        turn: Turn,
        actions: &mut Actions,
    ) {
        let attempt = self.attempts.with_lease(job, lease);
        let overdue_ms = attempt.and_then(|attempt| attempt.overdue_ms(now));
        let is_given_up = overdue_ms.is_some_and(|ms| ms > envelope::cancel_ms(&self.times));
        let message = match &turn {
            Turn::Callback(call) => match &call.said {
                Said::Heartbeat(_) if is_given_up => (timed_out(), Step::TimeOut),
                Said::Started => (CANCELLED_UNBEGUN, Step::TurnAway),
                Said::Heartbeat(progress) => {
                    let progress = progress.clone();
                    (LeaseMessage::Heartbeat { progress }, Step::Heartbeat)
                }
                Said::Completed(ended) => {
                    let (outcome, meter) = (ended.outcome.clone(), ended.meter);
                    (LeaseMessage::Complete { outcome, meter }, Step::Complete)
                }
            },
            Turn::Fail(words) => (refused(words), Step::Complete),
            Turn::End(message) => (message.clone(), Step::Complete),
        };
        self.tell((job, lease), turn, message, actions);
    }

    fn tell(
        &mut self,
        (job, lease): (JobId, LeaseId),
        turn: Turn,
        (message, step): (LeaseMessage, Step),
        actions: &mut Actions,
    ) {
        if let Some(attempt) = self.attempts.with_lease(job, lease) {
            attempt.waiting.get_or_insert_default();
        }
        let tag = self.tag();
        let tell = Tell {
            job,
            lease,
            turn,
            step,
        };
        self.tells.insert(tag, tell);
        let message = Box::new(message);
        actions.effect(Effect::Tell {
            tag,
            job,
            lease,
            message,
        });
    }

    /// Handles the answer to a message about a lease.
    pub(super) fn on_answer(
        &mut self,
        at: Moment,
        tag: Tag,
        answer: Result<Standing, LeaseError>,
        actions: &mut Actions,
    ) {
        let Some(Tell {
            job,
            lease,
            turn,
            step,
        }) = self.tells.remove(&tag)
        else {
            return;
        };
        let call = match turn {
            Turn::Callback(call) => call,
            Turn::Fail(_) if step == Step::Begin && answer.is_ok() => {
                return self.pass_on(at.now, (job, lease), turn, actions);
            }
            // If the host has not accepted the end, its window ends the attempt.
            Turn::Fail(_) | Turn::End(_) => return self.end(job, lease, actions),
        };
        match answer {
            Ok(standing) => self.on_accepted(at, (job, lease), (call, step), &standing, actions),
            // The attempt is not current any more.
            Err(LeaseError::Rejected(_)) => {
                self.end(job, lease, actions);
                self.explain(*call, Some(lease), actions);
            }
            Err(LeaseError::Busy | LeaseError::StoreFull | LeaseError::Stopping) => {
                actions.send(call.link, Err(Refused::busy()));
                self.next_turn(at.now, job, lease, actions);
            }
        }
    }

    /// Goes on with a callback whose message the host has accepted.
    fn on_accepted(
        &mut self,
        at: Moment,
        (job, lease): (JobId, LeaseId),
        (call, step): (Box<Call>, Step),
        standing: &Standing,
        actions: &mut Actions,
    ) {
        let is_over = match step {
            Step::Begin => {
                self.on_begun(job, lease, actions);
                if call.said != Said::Started || standing.cancel.is_some() {
                    return self.pass_on(at.now, (job, lease), Turn::Callback(call), actions);
                }
                actions.send(call.link, Ok(AnswerOut::started(at.wall)));
                false
            }
            Step::TurnAway => {
                actions.send(call.link, Err(Refused::terminal(CANCELLED)));
                true
            }
            Step::TimeOut => {
                actions.send(call.link, Err(Refused::expired(FAILED)));
                true
            }
            Step::Heartbeat => {
                let attempt = self.attempts.with_lease(job, lease);
                let overdue_ms = attempt.and_then(|attempt| attempt.overdue_ms(at.now));
                let cancel = standing.cancel.as_ref();
                let answer = AnswerOut::heartbeat(at.wall, cancel, overdue_ms.is_some());
                actions.send(call.link, Ok(answer));
                false
            }
            Step::Complete => {
                actions.send(call.link, Ok(AnswerOut::completed(at.wall, &call.said)));
                true
            }
        };
        if is_over {
            self.end(job, lease, actions);
        } else {
            self.next_turn(at.now, job, lease, actions);
        }
    }

    fn next_turn(&mut self, now: Time, job: JobId, lease: LeaseId, actions: &mut Actions) {
        if let Some(attempt) = self.attempts.with_lease(job, lease) {
            match attempt.waiting.as_mut().and_then(VecDeque::pop_front) {
                Some(turn) => self.begin_turn(now, job, turn, actions),
                None => attempt.waiting = None,
            }
        }
    }
}

fn failed(failure: Failure) -> LeaseMessage {
    LeaseMessage::Complete {
        outcome: Outcome::Failed(failure),
        meter: Meter::default(),
    }
}

fn timed_out() -> LeaseMessage {
    let words = "the worker did not end the attempt in its time and grace";
    failed(Failure::new(FailureKind::TimedOut, words))
}

fn refused(words: &str) -> LeaseMessage {
    failed(Failure {
        category: Some(Category::Configuration),
        code: Some(Code::DispatchRefused.title().to_owned()),
        ..Failure::new(
            FailureKind::UserError,
            format!("the worker refused the dispatch: {words}"),
        )
    })
}
