//! The callbacks of workers: checked in the order of the document, and answered once the host has kept
//! what they report. Pure.

use host_core::id::LeaseId;
use host_core::job::State as JobState;
use host_core::port::Tag;
use host_core::port::lease::{Kept, LeaseError};

use super::{Actions, Effect, Orchestrator};
use crate::arco::orchestrator::answers::AnswerOut;
use crate::arco::orchestrator::attempts::{Attempt, Call, Turn, is_about};
use crate::arco::orchestrator::envelope;
use crate::arco::orchestrator::explain::explain;
use crate::arco::orchestrator::read::Callback;
use crate::arco::refusals::Refused;
use crate::arco::task_id::{self, TaskId};
use crate::arco::token::Scope;
use crate::kit::session::{Link, Moment};

/// Why a job is being read.
#[derive(Debug)]
pub(super) enum Reading {
    /// To see whether a token is about the task of a callback.
    Authorize(Link, Box<Callback>),
    /// To see whether the task of a callback without a valid token exists.
    Refuse(Link),
    /// To explain why a callback is refused, or that it repeats one that was accepted.
    Explain(Box<Call>),
}

impl Orchestrator {
    pub(super) fn on_callback(
        &mut self,
        at: Moment,
        link: Link,
        callback: Callback,
        actions: &mut Actions,
    ) {
        let attempt = callback.message.attempt;
        let Some(scope) = callback.scope.as_ref().filter(|it| it.attempt == attempt) else {
            return self.refuse(link, callback.task.as_ref(), actions);
        };
        let job = scope.job;
        if let Some(known) = self.attempts.get(job) {
            let is_about = is_about(scope, callback.task.as_ref(), (&known.scope, &known.key));
            return self.authorized(at, link, callback, is_about, actions);
        }
        let tag = self.tag();
        let reading = Reading::Authorize(link, Box::new(callback));
        self.reads.insert(tag, reading);
        actions.effect(Effect::Read(tag, job));
    }

    /// Refuses a callback whose token is not about its task.
    fn refuse(&mut self, link: Link, task: Option<&TaskId>, actions: &mut Actions) {
        let named = match task {
            Some(TaskId::Job(job)) => Some(*job),
            Some(TaskId::OfRun { run, .. }) => task_id::job(run),
            None => None,
        };
        let Some(job) = named else {
            return actions.send(link, Err(Refused::task()));
        };
        let tag = self.tag();
        self.reads.insert(tag, Reading::Refuse(link));
        actions.effect(Effect::Read(tag, job));
    }

    /// Goes on with a callback once it is known whether its token is about its task.
    fn authorized(
        &mut self,
        at: Moment,
        link: Link,
        callback: Callback,
        is_about: bool,
        actions: &mut Actions,
    ) {
        let Callback {
            task,
            scope,
            message,
        } = callback;
        let Some(scope) = scope.filter(|_| is_about) else {
            return self.refuse(link, task.as_ref(), actions);
        };
        match message.said {
            Ok(said) => {
                let call = Call {
                    link,
                    scope,
                    attempt_id: message.attempt_id,
                    said,
                    tried: None,
                    was_adopted: false,
                };
                self.settle(at, Box::new(call), actions);
            }
            Err(refused) => actions.send(link, Err(refused)),
        }
    }

    /// Passes a callback on if its attempt is current.
    fn settle(&mut self, at: Moment, call: Box<Call>, actions: &mut Actions) {
        let (job, number) = (call.scope.job, call.scope.attempt);
        let current = self.attempts.get(job);
        if current.is_none_or(|attempt| attempt.scope.attempt != number) {
            return self.explain(*call, None, actions);
        }
        if let Some(received) = &call.attempt_id {
            let expected = envelope::attempt_id(job, number);
            if *received != expected {
                let refused = Refused::id_mismatch(number, &expected, received);
                return actions.send(call.link, Err(refused));
            }
        }
        self.take_turn(at.now, job, Turn::Callback(call), actions);
    }

    /// Answers a callback whose attempt is not current, by what is kept of its job.
    pub(super) fn explain(&mut self, call: Call, tried: Option<LeaseId>, actions: &mut Actions) {
        let (tag, job) = (self.tag(), call.scope.job);
        let call = Call { tried, ..call };
        self.reads.insert(tag, Reading::Explain(Box::new(call)));
        actions.effect(Effect::Read(tag, job));
    }

    /// Goes on with a callback once its job was read.
    pub(super) fn on_read(
        &mut self,
        at: Moment,
        tag: Tag,
        kept: Result<Option<Box<Kept>>, LeaseError>,
        actions: &mut Actions,
    ) {
        let Some(reading) = self.reads.remove(&tag) else {
            return;
        };
        match (reading, kept) {
            (Reading::Authorize(link, _) | Reading::Refuse(link), Err(_)) => {
                actions.send(link, Err(Refused::busy()));
            }
            (Reading::Explain(call), Err(_)) => actions.send(call.link, Err(Refused::busy())),
            (Reading::Authorize(link, callback), Ok(kept)) => {
                let (scope, task) = (callback.scope.as_ref(), callback.task.as_ref());
                let is_about = scope.zip(kept.as_deref()).is_some_and(|(scope, kept)| {
                    let attributes = &kept.job.payload.attributes;
                    let known = envelope::scope(scope.job, scope.attempt, attributes);
                    is_about(scope, task, (&known, kept.job.lifecycle.handler.as_str()))
                });
                self.authorized(at, link, *callback, is_about, actions);
            }
            (Reading::Refuse(link), Ok(Some(_))) => actions.send(link, Err(Refused::token())),
            (Reading::Refuse(link), Ok(None)) => actions.send(link, Err(Refused::task())),
            (Reading::Explain(call), Ok(None)) => actions.send(call.link, Err(Refused::task())),
            (Reading::Explain(call), Ok(Some(kept))) => self.explained(at, call, &kept, actions),
        }
    }

    fn explained(&mut self, at: Moment, mut call: Box<Call>, kept: &Kept, actions: &mut Actions) {
        if call.tried.is_none()
            && let Some(attempt) = running(&call.scope, kept)
        {
            if call.was_adopted {
                return actions.send(call.link, Err(Refused::busy()));
            }
            call.was_adopted = true;
            let is_known = self
                .attempts
                .with_lease(call.scope.job, attempt.lease)
                .is_some();
            if !is_known {
                self.insert(attempt, actions);
            }
            return self.settle(at, call, actions);
        }
        let answer = explain(kept, call.scope.attempt, &call.said);
        actions.send(
            call.link,
            answer.map(|()| AnswerOut::completed(at.wall, &call.said)),
        );
    }
}

/// Returns an attempt that runs, though nobody here has asked for it or taken it over.
fn running(scope: &Scope, kept: &Kept) -> Option<Attempt> {
    let lifecycle = &kept.job.lifecycle;
    let lease = lifecycle.lease.as_ref()?;
    if lifecycle.state != JobState::Running || lifecycle.attempt != scope.attempt {
        return None;
    }
    let task = (scope.clone(), lifecycle.handler.to_string());
    Some(Attempt {
        has_begun: lease.ack_by.is_none(),
        is_cancelled: lifecycle.cancel.is_some(),
        ..Attempt::new(lease.id, lifecycle.runner.clone(), task)
    })
}
