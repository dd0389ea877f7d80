//! The callbacks of workers: checked in the order of the document, then passed on to the host or refused.
//! Pure.

use host_core::id::{JobId, LeaseId};
use host_core::job::State as JobState;
use host_core::port::Tag;
use host_core::port::lease::{LeaseError, StoredJob};
use host_core::time::Time;
use host_wire_kit::session::Link;

use super::reports::{CANCEL_UNBEGUN, Cause};
use super::{Actions, Effect, Orchestrator, Timer};
use crate::orchestrator::attempts::{Attempt, Call, is_about};
use crate::orchestrator::envelope;
use crate::orchestrator::read::Callback;
use crate::refusals::WireRefusal;
use crate::settings::Times;
use crate::task_id::{self, TaskId};
use crate::token::Scope;

/// Why a job is being looked up.
#[derive(Debug)]
pub(super) enum Lookup {
    /// To check whether a token is about the task of a callback.
    Authorize(Link, Box<Callback>),
    /// To check whether the task of a callback without a valid token exists.
    Refuse(Link),
    /// To see whether the worker of a cancelled attempt has begun: another node may know.
    Cancel(JobId, LeaseId),
}

impl Orchestrator {
    pub(super) fn on_callback(&mut self, link: Link, callback: Callback, actions: &mut Actions) {
        let attempt = callback.message.as_ref().ok().map(|it| it.attempt);
        let is_of = |scope: &&Scope| attempt.is_none_or(|attempt| attempt == scope.attempt);
        let Some(scope) = callback.scope.as_ref().filter(is_of) else {
            return self.refuse(link, callback.task.as_ref(), actions);
        };
        let job = scope.job;
        if let Some(known) = self.attempts.numbered(job, scope.attempt) {
            let is_about = is_about(scope, callback.task.as_ref(), &known.scope, &known.key);
            return self.authorized(link, callback, is_about, actions);
        }
        let lookup = Lookup::Authorize(link, Box::new(callback));
        self.look_up(job, lookup, actions);
    }

    pub(super) fn look_up(&mut self, job: JobId, lookup: Lookup, actions: &mut Actions) {
        let tag = self.tag();
        self.lookups.insert(tag, lookup);
        actions.effect(Effect::Read(tag, job));
    }

    /// Refuses a callback whose token is not about its task.
    fn refuse(&mut self, link: Link, task: Option<&TaskId>, actions: &mut Actions) {
        let named = match task {
            Some(TaskId::Job(job)) => Some(*job),
            Some(TaskId::OfRun { run, .. }) => task_id::job(run),
            None => None,
        };
        match named {
            Some(job) => self.look_up(job, Lookup::Refuse(link), actions),
            None => actions.send(link, Err(WireRefusal::task())),
        }
    }

    /// Handles a callback once it is known whether its token is about its task.
    fn authorized(
        &mut self,
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
        let message =
            message.and_then(|message| Ok((message.report?, message.attempt_id, message.claims)));
        match message {
            Ok((report, attempt_id, claims)) => {
                let call = Call {
                    link,
                    scope,
                    attempt_id,
                    claims,
                    report,
                };
                self.pass_on(Box::new(call), actions);
            }
            Err(refused) => actions.send(link, Err(refused)),
        }
    }

    /// Passes a callback on to the host, which says why if its attempt is not current.
    fn pass_on(&mut self, call: Box<Call>, actions: &mut Actions) {
        let (job, number) = (call.scope.job, call.scope.attempt);
        let Some(attempt) = self.attempts.numbered(job, number) else {
            return self.send_past(call, actions);
        };
        if let Some(received) = &call.attempt_id {
            let expected = envelope::attempt_id(job, number);
            if *received != expected {
                let refused = WireRefusal::id_mismatch(number, &expected, received);
                return actions.send(call.link, Err(refused));
            }
        }
        if let Some(delivery) = &mut attempt.delivery {
            delivery.may_run = true;
        }
        let lease = attempt.lease;
        self.send_cause(job, lease, Cause::Callback(call), actions);
    }

    /// Adds an attempt that was leased before the host restarted or by another node.
    fn adopt(&mut self, now: Time, scope: &Scope, kept: &StoredJob, actions: &mut Actions) {
        let Some(attempt) = running(&self.times, scope, kept) else {
            return;
        };
        let (job, lease) = (scope.job, attempt.lease);
        if self.attempts.with_lease(job, lease).is_none() {
            self.insert(attempt, actions);
            let forget_at = now.plus_ms(self.times.heartbeat_timeout_ms);
            self.timers.insert((forget_at, Timer::Forget(job, lease)));
        }
    }

    /// Continues with a callback once its job was looked up.
    pub(super) fn on_read(
        &mut self,
        now: Time,
        tag: Tag,
        kept: Result<Option<&StoredJob>, &LeaseError>,
        actions: &mut Actions,
    ) {
        let Some(lookup) = self.lookups.remove(&tag) else {
            return;
        };
        if let Lookup::Cancel(job, lease) = lookup {
            return self.cancel_unbegun(job, lease, kept, actions);
        }
        let Ok(kept) = kept else {
            return lookup.refuse(WireRefusal::busy(), actions);
        };
        match (lookup, kept) {
            (Lookup::Authorize(link, callback), kept) => {
                let (scope, task) = (callback.scope.as_ref(), callback.task.as_ref());
                let about = scope.zip(kept).filter(|(scope, kept)| {
                    let attributes = &kept.job.payload.attributes;
                    let known = envelope::scope(scope.job, scope.attempt, attributes);
                    is_about(scope, task, &known, kept.job.lifecycle.handler.as_str())
                });
                if let Some((scope, kept)) = about {
                    self.adopt(now, scope, kept, actions);
                }
                let is_about = about.is_some();
                self.authorized(link, *callback, is_about, actions);
            }
            (Lookup::Refuse(link), Some(_)) => actions.send(link, Err(WireRefusal::token())),
            (lookup, None) => lookup.refuse(WireRefusal::task(), actions),
            (Lookup::Cancel(..), Some(_)) => {}
        }
    }

    /// Ends a cancelled attempt if its worker has not begun.
    fn cancel_unbegun(
        &mut self,
        job: JobId,
        lease: LeaseId,
        kept: Result<Option<&StoredJob>, &LeaseError>,
        actions: &mut Actions,
    ) {
        let current = kept
            .ok()
            .flatten()
            .and_then(|it| it.job.lifecycle.lease.as_ref());
        let is_unbegun = current.is_some_and(|it| it.id == lease && it.ack_by.is_some());
        let attempt = self.attempts.with_lease(job, lease);
        // The answer to a start that is on its way brings the cancel.
        let Some(attempt) = attempt.filter(|it| is_unbegun && !it.is_begun) else {
            return;
        };
        if let Some(delivery) = attempt.delivery.take() {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        }
        if !self.is_acknowledging(job) {
            let cause = Cause::Undelivered(CANCEL_UNBEGUN);
            self.send_cause(job, lease, cause, actions);
        }
    }
}

impl Lookup {
    /// Refuses the callback that waits for it.
    fn refuse(&self, refused: WireRefusal, actions: &mut Actions) {
        let link = match self {
            Self::Authorize(link, _) | Self::Refuse(link) => *link,
            Self::Cancel(..) => return,
        };
        actions.send(link, Err(refused));
    }
}

/// Returns the running attempt of a job, which was leased before the host restarted or by another node.
fn running(times: &Times, scope: &Scope, kept: &StoredJob) -> Option<Attempt> {
    let lifecycle = &kept.job.lifecycle;
    let lease = lifecycle.lease.as_ref()?;
    if lifecycle.state != JobState::Running || lifecycle.attempt != scope.attempt {
        return None;
    }
    let key = lifecycle.handler.to_string();
    let granted_at = lease.granted_at;
    let due = envelope::due(times, lifecycle, granted_at);
    Some(Attempt {
        is_begun: lease.ack_by.is_none(),
        ..Attempt::new(
            lease.id,
            lifecycle.executor.clone(),
            scope.clone(),
            key,
            granted_at,
            due,
        )
    })
}
