//! Sends one attempt to its worker until the worker has begun or must have begun. An answer acknowledges
//! the delivery and nothing else: callbacks decide. Pure.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, LeaseId};
use host_core::port::Tag;
use host_core::port::lease::{GrantedLease, LeaseMessage};
use host_core::time::Time;
use host_runtime::backoff::Backoff;
use host_wire_kit::http_client::{Answer, RequestError};
use host_wire_kit::text::cut_marked;

use super::callbacks::Lookup;
use super::reports::Cause;
use super::{Actions, Effect, Orchestrator, Timer};
use crate::orchestrator::attempts::Delivery;
use crate::orchestrator::envelope::Dispatch;
use crate::refusals::Code;

/// How long a worker may take to answer or begin before the dispatch is sent again.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// How long before its time to begin is over an undelivered attempt is given back, in milliseconds.
const GIVE_BACK_MARGIN_MS: u64 = 100;

/// How much of a worker's refusal is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;

/// The result of one try.
#[derive(Debug, PartialEq, Eq)]
enum Tried {
    /// The worker has the dispatch.
    Delivered,
    /// The worker will never accept this dispatch.
    Refused(String),
    Again(Again),
}

/// A try after which the dispatch is sent again.
#[derive(Debug, Default, PartialEq, Eq)]
struct Again {
    /// The wait that the worker asks for.
    after: Option<Duration>,
    /// Why the worker counts as failing; `None` if it is only busy.
    reason: Option<String>,
    /// Whether the worker may have received the dispatch.
    may_run: bool,
}

impl Orchestrator {
    /// Begins to deliver an attempt. Its worker may have received it already.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        granted: GrantedLease,
        may_run: bool,
        actions: &mut Actions,
    ) {
        let job = granted.job;
        let attempt = self.attempts.get(job);
        let Some(attempt) = attempt.filter(|attempt| attempt.delivery.is_none()) else {
            return;
        };
        let begin_by = granted.ack_by.or(granted.expires_at);
        attempt.delivery = Some(Delivery {
            assignment: Arc::new(granted.assignment),
            begin_by: begin_by.unwrap_or(Time(i64::MAX)),
            may_run,
            backoff: Backoff::new(200, 10_000),
            at: now,
            is_last: false,
        });
        if self.is_stopping {
            self.give_back(job, actions);
        } else {
            self.dispatch(now, job, actions);
        }
    }

    /// Sends an attempt once. A worker may answer only when the task has ended; once it has begun, the
    /// request is kept open for such a worker.
    fn dispatch(&mut self, now: Time, job: JobId, actions: &mut Actions) {
        let tag = self.tag();
        let Some(base) = self.base.clone() else {
            return;
        };
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let (Some(delivery), Some(worker)) = (&mut attempt.delivery, attempt.executor.clone())
        else {
            return;
        };
        delivery.at = now.plus_ms(millis(TRY_TIMEOUT));
        attempt.request = Some(tag);
        let dispatch = Dispatch {
            worker,
            base,
            scope: attempt.scope.clone(),
            assignment: Arc::clone(&delivery.assignment),
            due: attempt.due,
        };
        self.timers.insert((delivery.at, Timer::Deliver(job)));
        self.dispatches.insert(tag, job);
        actions.effect(Effect::Dispatch(tag, Box::new(dispatch)));
    }

    pub(super) fn on_dispatched(
        &mut self,
        now: Time,
        tag: Tag,
        answer: Result<Answer, RequestError>,
        actions: &mut Actions,
    ) {
        let Some(job) = self.dispatches.remove(&tag) else {
            return;
        };
        // An attempt that has ended has none any more.
        let attempt = self.attempts.get(job);
        if attempt.is_some_and(|attempt| attempt.request.take_if(|it| *it == tag).is_some()) {
            self.tried(now, job, tried(answer), actions);
        }
    }

    /// Continues a delivery whose time has come.
    pub(super) fn go_on(&mut self, now: Time, job: JobId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let is_last = attempt.delivery.as_ref().is_some_and(|it| it.is_last);
        if let Some(tag) = attempt.request.take() {
            self.abort(tag, actions);
            let timed_out = tried(Err(RequestError::TimedOut(TRY_TIMEOUT)));
            self.tried(now, job, timed_out, actions);
        } else if is_last {
            self.give_back(job, actions);
        } else {
            self.dispatch(now, job, actions);
        }
    }

    fn tried(&mut self, now: Time, job: JobId, tried: Tried, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let (lease, executor) = (attempt.lease, attempt.executor.clone());
        let Some(mut delivery) = attempt.delivery.take() else {
            return;
        };
        self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        let worker = executor.as_ref().and_then(|it| self.workers.get_mut(it));
        let again = match tried {
            Tried::Refused(words) => {
                actions.count(Code::DispatchRefused.as_str());
                return self.acknowledge(job, lease, Cause::Refused(words), actions);
            }
            Tried::Delivered => None,
            Tried::Again(again) => Some(again),
        };
        let may_run = delivery.may_run || again.as_ref().is_some_and(|again| again.may_run);
        let reason = again.as_ref().and_then(|again| again.reason.clone());
        // What no worker has received waits for its turn like before.
        let is_missed = reason.is_some() && !may_run;
        if let Some(worker) = worker {
            match reason {
                None => worker.answered(),
                Some(reason) => worker.answers.failed(reason),
            }
            if is_missed && let Some(name) = executor.clone() {
                let at = now.plus_ms(worker.missed());
                self.timers.insert((at, Timer::Probe(name)));
            }
        }
        if let Some(again) = again {
            delivery.may_run = may_run;
            let wait_ms = delivery
                .backoff
                .next_ms()
                .max(again.after.map_or(0, millis));
            let left_ms = delivery
                .begin_by
                .since_ms(now)
                .saturating_sub(GIVE_BACK_MARGIN_MS);
            delivery.at = now.plus_ms(wait_ms.min(left_ms));
            delivery.is_last = wait_ms >= left_ms;
            self.timers.insert((delivery.at, Timer::Deliver(job)));
            attempt.delivery = Some(delivery);
        }
        // A request that waits would immediately get what is given back.
        if let Some(name) = executor {
            self.ask(&name, actions);
        }
        if is_missed {
            self.give_back(job, actions);
        }
    }

    /// Ends a cancelled attempt that no worker has begun, as far as the store knows: one that begins it later is
    /// turned away.
    pub(super) fn cancel(&mut self, job: JobId, lease: LeaseId, actions: &mut Actions) {
        let attempt = self.attempts.with_lease(job, lease);
        if attempt.is_some_and(|attempt| !attempt.is_begun) {
            self.look_up(job, Lookup::Cancel(job, lease), actions);
        }
    }

    /// Ends the delivery of an attempt, and the attempt itself if its worker has not received it.
    fn give_back(&mut self, job: JobId, actions: &mut Actions) {
        self.end_undelivered(job, LeaseMessage::GiveBack { begun: false }, actions);
        if let Some(attempt) = self.attempts.get(job) {
            attempt.delivery = None;
        }
    }

    /// Ends an attempt with `message` if its worker has not received it.
    fn end_undelivered(&mut self, job: JobId, message: LeaseMessage, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let lease = attempt.lease;
        if let Some(delivery) = attempt.delivery.take_if(|delivery| !delivery.may_run) {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
            self.send_cause(job, lease, Cause::Undelivered(message), actions);
        }
    }

    /// Handles that the worker of an attempt has begun.
    pub(super) fn on_begun(&mut self, job: JobId, lease: LeaseId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.with_lease(job, lease) else {
            return;
        };
        attempt.is_begun = true;
        if let Some(delivery) = attempt.delivery.take() {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        }
        let Some(name) = attempt.executor.clone() else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.answered();
        }
        self.ask(&name, actions);
    }

    /// Ends the delivery of an attempt because the host stops. A worker may receive what is on its way.
    pub(super) fn stop_delivery(&mut self, job: JobId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        match attempt.request.take() {
            Some(tag) => {
                attempt.delivery = None;
                self.abort(tag, actions);
            }
            None => self.give_back(job, actions),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Reads what an answer means.
fn tried(answer: Result<Answer, RequestError>) -> Tried {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            return Tried::Again(Again {
                after: None,
                may_run: error.may_be_delivered(),
                reason: Some(error.to_string()),
            });
        }
    };
    let status = answer.status;
    let hint = match status {
        200..=299 => return Tried::Delivered,
        400 | 413 | 415 | 422 => {
            let words = String::from_utf8_lossy(&answer.body)
                .trim()
                .replace(|c: char| c.is_control(), " ");
            let words = cut_marked(&words, REFUSAL_BYTES_MAX);
            return Tried::Refused(format!("{status}: {words}"));
        }
        408 | 425 | 429 | 503 => None,
        401 | 403 => Some(": check the secret"),
        500.. => Some(""),
        _ => Some(": check the URL"),
    };
    Tried::Again(Again {
        after: answer.retry_after,
        reason: hint.map(|hint| format!("it answers {status}{hint}")),
        may_run: status >= 500 && hint.is_some(),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn answer(status: u16) -> Tried {
        tried(Ok(Answer {
            status,
            retry_after: Some(Duration::from_secs(3)),
            body: Bytes::from_static(b" no\nway "),
        }))
    }

    #[test]
    fn only_some_answers_are_final() {
        let after = Some(Duration::from_secs(3));
        assert_eq!(answer(200), Tried::Delivered);
        assert_eq!(answer(204), Tried::Delivered);
        assert_eq!(answer(400), Tried::Refused("400: no way".to_owned()));
        let busy = Tried::Again(Again {
            after,
            ..Again::default()
        });
        assert_eq!(answer(503), busy);
        for (status, runs) in [
            (302, false),
            (401, false),
            (404, false),
            (500, true),
            (502, true),
        ] {
            let Tried::Again(Again {
                reason: Some(_),
                may_run,
                ..
            }) = answer(status)
            else {
                panic!("{status} is not a failure of the worker");
            };
            assert_eq!(may_run, runs, "{status}");
        }
        for (error, runs) in [
            (RequestError::Connect("refused".to_owned()), false),
            (RequestError::Broken("reset".to_owned()), true),
            (RequestError::TimedOut(TRY_TIMEOUT), true),
        ] {
            let Tried::Again(Again {
                reason: Some(_),
                may_run,
                ..
            }) = tried(Err(error))
            else {
                panic!("not a failure of the worker");
            };
            assert_eq!(may_run, runs);
        }
    }
}
