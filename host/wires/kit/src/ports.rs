//! A hub at the ports of the host: answers to executions and attempts for workers become events of its session.

use std::sync::Arc;

use host_core::name::Name;
use host_core::port::{Answer, Answers, Assignment, Tag};
use host_runtime::slots::Pusher;

use crate::driver::{EffectHandler, Hub};
use crate::session::Session;

/// The events of a session whose jobs the host executes: its hub receives the answers.
pub trait ExecutionEvents<S: Session>: EffectHandler<S> {
    /// Returns the event for an answer; `None` if the wire has no message for it.
    fn event(tag: Tag, answer: Answer) -> Option<S::Event>;
}

impl<S: Session, H: ExecutionEvents<S>> Answers for Hub<S, H> {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        if let Some(event) = H::event(tag, answer) {
            self.report(event);
        }
    }
}

/// The events of a session that sends attempts to its workers: its hub fills their slots.
pub trait AttemptEvents<S: Session>: EffectHandler<S> {
    /// Returns the event for a new attempt.
    fn start(&self, tag: Tag, assignment: Assignment) -> S::Event;

    /// Returns the event for a cancel.
    fn cancel(tag: Tag, grace_ms: u64) -> S::Event;

    /// Returns the event that gives back the attempts that no worker has begun; `None` if there are never any.
    fn recall() -> Option<S::Event> {
        None
    }
}

impl<S: Session, H: AttemptEvents<S>> Pusher for Hub<S, H> {
    fn start(self: Arc<Self>, tag: Tag, _: &Name, assignment: Assignment) {
        let event = self.handler().start(tag, assignment);
        self.report(event);
    }

    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64) {
        self.report(H::cancel(tag, grace_ms));
    }

    fn recall(self: Arc<Self>) {
        if let Some(event) = H::recall() {
            self.report(event);
        }
    }
}
