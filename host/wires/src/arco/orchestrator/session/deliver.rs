//! Sends one attempt to its worker, again and again until the worker has begun or the window for it
//! ends. An answer acknowledges the delivery and nothing else: callbacks decide. Pure.

use std::sync::Arc;
use std::time::Duration;

use host_core::id::{JobId, LeaseId};
use host_core::port::Tag;
use host_core::port::lease::{Granted, LeaseMessage};
use host_core::time::Time;

use super::{Actions, Effect, Orchestrator, Timer};
use crate::arco::orchestrator::attempts::{CANCELLED_UNBEGUN, Delivery, Turn};
use crate::arco::orchestrator::envelope::Dispatch;
use crate::arco::refusals::Code;
use crate::kit::backoff::Backoff;
use crate::kit::http_client::{Answer, RequestError};
use crate::kit::text::cut_marked;

/// How long a worker may take to answer or begin before the dispatch is sent again.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// An attempt that was not delivered is given back this long before its window ends, in milliseconds.
const GIVE_BACK_MARGIN_MS: u64 = 100;

/// How much of a worker's refusal is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;

/// What became of one try.
#[derive(Debug, PartialEq, Eq)]
enum Tried {
    /// The worker has the dispatch.
    Delivered,
    /// The worker will never accept this dispatch.
    Refused(String),
    /// It is to be sent again.
    Again {
        /// The wait that the worker asks for.
        after: Option<Duration>,
        /// Why the worker counts as failing; `None` if it is only busy.
        reason: Option<String>,
        /// Whether the worker may have got it.
        may_run: bool,
    },
}

impl Orchestrator {
    /// Begins to deliver an attempt, unless its worker has begun.
    pub(super) fn deliver(
        &mut self,
        now: Time,
        granted: Granted,
        may_run: bool,
        actions: &mut Actions,
    ) {
        let Some(attempt) = self.attempts.get(granted.job) else {
            return;
        };
        if attempt.has_begun || attempt.delivery.is_some() {
            return;
        }
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
            self.leave(now, granted.job, actions);
        } else {
            self.send(now, granted.job, actions);
        }
    }

    /// Sends an attempt once. A worker may answer only when the task has ended; once it has begun, the
    /// request is kept open for such a worker.
    fn send(&mut self, now: Time, job: JobId, actions: &mut Actions) {
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
        if let Some(attempt) = self.attempts.get(job) {
            attempt.request = None;
        }
        self.tried(now, job, tried(answer), actions);
    }

    /// Goes on with a delivery whose time has come.
    pub(super) fn go_on(&mut self, now: Time, job: JobId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let is_last = attempt.delivery.as_ref().is_some_and(|it| it.is_last);
        if let Some(tag) = attempt.request.take() {
            self.dispatches.remove(&tag);
            actions.effect(Effect::Abort(tag));
            self.tried(
                now,
                job,
                tried(Err(RequestError::TimedOut(TRY_TIMEOUT))),
                actions,
            );
        } else if is_last {
            self.leave(now, job, actions);
        } else {
            self.send(now, job, actions);
        }
    }

    fn tried(&mut self, now: Time, job: JobId, tried: Tried, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let Some(delivery) = &mut attempt.delivery else {
            return;
        };
        self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        let answers = attempt.executor.as_ref();
        let answers = answers.and_then(|name| self.workers.get_mut(name));
        let answers = answers.map(|worker| &mut worker.answers);
        let (after, reason, may_run) = match tried {
            Tried::Delivered => (None, None, None),
            Tried::Refused(words) => {
                attempt.delivery = None;
                actions.count(Code::DispatchRefused.as_str());
                return self.take_turn(now, job, Turn::Fail(words), actions);
            }
            Tried::Again {
                after,
                reason,
                may_run,
            } => (after, reason, Some(may_run)),
        };
        match (answers, reason) {
            (Some(answers), Some(reason)) => answers.failed(reason),
            (Some(answers), None) => answers.answered(),
            (None, _) => {}
        }
        let executor = attempt.executor.clone();
        match may_run {
            None => attempt.delivery = None,
            Some(may_run) => {
                delivery.may_run |= may_run;
                let wait_ms = delivery.backoff.next_ms().max(after.map_or(0, millis));
                let left_ms = delivery.begin_by.since_ms(now);
                let left_ms = left_ms.saturating_sub(GIVE_BACK_MARGIN_MS);
                delivery.at = now.plus_ms(wait_ms.min(left_ms));
                delivery.is_last = wait_ms >= left_ms;
                self.timers.insert((delivery.at, Timer::Deliver(job)));
                if attempt.is_cancelled {
                    let lease = attempt.lease;
                    self.on_cancelled(now, job, lease, actions);
                }
            }
        }
        if let Some(name) = executor {
            self.ask(&name, actions);
        }
    }

    /// A cancel ends what no worker can have.
    pub(super) fn on_cancelled(
        &mut self,
        now: Time,
        job: JobId,
        lease: LeaseId,
        actions: &mut Actions,
    ) {
        let attempt = self.attempts.with_lease(job, lease);
        let Some(attempt) = attempt.filter(|attempt| attempt.request.is_none()) else {
            return;
        };
        if let Some(delivery) = attempt.delivery.take_if(|delivery| !delivery.may_run) {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
            self.take_turn(now, job, Turn::End(CANCELLED_UNBEGUN), actions);
        }
    }

    /// The worker of an attempt has reported the start.
    pub(super) fn on_begun(&mut self, job: JobId, lease: LeaseId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.with_lease(job, lease) else {
            return;
        };
        attempt.has_begun = true;
        if let Some(delivery) = attempt.delivery.take() {
            self.timers.remove(&(delivery.at, Timer::Deliver(job)));
        }
        let Some(name) = attempt.executor.clone() else {
            return;
        };
        if let Some(worker) = self.workers.get_mut(&name) {
            worker.answers.answered();
        }
        self.ask(&name, actions);
    }

    /// Gives an attempt back if no worker can have it, and leaves it to its worker or the end of its
    /// window otherwise.
    fn leave(&mut self, now: Time, job: JobId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        let delivery = attempt.delivery.take();
        if delivery.is_some_and(|delivery| !delivery.may_run) {
            let back = LeaseMessage::GiveBack { begun: false };
            self.take_turn(now, job, Turn::End(back), actions);
        }
    }

    /// Ends the delivery of an attempt because the host stops. A worker may have what is on its way.
    pub(super) fn stop_delivery(&mut self, now: Time, job: JobId, actions: &mut Actions) {
        let Some(attempt) = self.attempts.get(job) else {
            return;
        };
        match attempt.request.take() {
            Some(tag) => {
                attempt.delivery = None;
                self.dispatches.remove(&tag);
                actions.effect(Effect::Abort(tag));
            }
            None => self.leave(now, job, actions),
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
            return Tried::Again {
                after: None,
                may_run: error.may_be_delivered(),
                reason: Some(error.to_string()),
            };
        }
    };
    let status = answer.status;
    match status {
        200..=299 => Tried::Delivered,
        400 | 413 | 415 | 422 => {
            let words = String::from_utf8_lossy(&answer.body);
            let words = words.trim().replace(|c: char| c.is_control(), " ");
            Tried::Refused(format!(
                "{status}: {}",
                cut_marked(&words, REFUSAL_BYTES_MAX)
            ))
        }
        408 | 425 | 429 | 503 => Tried::Again {
            after: answer.retry_after,
            reason: None,
            may_run: false,
        },
        401 | 403 => Tried::Again {
            after: answer.retry_after,
            reason: Some(format!("it answers {status}: check the secret")),
            may_run: false,
        },
        500.. => Tried::Again {
            after: answer.retry_after,
            reason: Some(format!("it answers {status}")),
            may_run: true,
        },
        _ => Tried::Again {
            after: answer.retry_after,
            reason: Some(format!("it answers {status}: check the URL")),
            may_run: false,
        },
    }
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
    fn only_some_answers_are_for_good() {
        let after = Some(Duration::from_secs(3));
        assert_eq!(answer(200), Tried::Delivered);
        assert_eq!(answer(204), Tried::Delivered);
        assert_eq!(answer(400), Tried::Refused("400: no way".to_owned()));
        let busy = Tried::Again {
            after,
            reason: None,
            may_run: false,
        };
        assert_eq!(answer(503), busy);
        for (status, runs) in [
            (302, false),
            (401, false),
            (404, false),
            (500, true),
            (502, true),
        ] {
            let Tried::Again {
                reason: Some(_),
                may_run,
                ..
            } = answer(status)
            else {
                panic!("{status} is no failure of the worker");
            };
            assert_eq!(may_run, runs, "{status}");
        }
        for (error, runs) in [
            (RequestError::Connect("refused".to_owned()), false),
            (RequestError::Broken("reset".to_owned()), true),
            (RequestError::TimedOut(TRY_TIMEOUT), true),
        ] {
            let Tried::Again {
                reason: Some(_),
                may_run,
                ..
            } = tried(Err(error))
            else {
                panic!("it is no failure of the worker");
            };
            assert_eq!(may_run, runs);
        }
    }
}
