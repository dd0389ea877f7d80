//! Sends one attempt to its worker, again and again until the worker has begun or the window for it
//! ends. An answer acknowledges the delivery and nothing else: callbacks decide.

use std::time::Duration;

use bytes::Bytes;
use host_core::failure::{Category, Failure, FailureKind};
use host_core::outcome::{Meter, Outcome};
use host_core::port::Assignment;
use host_core::port::lease::LeaseMessage;
use host_core::time::Time;
use hyper::header::{HeaderName, HeaderValue};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::attempts::Attempt;
use super::envelope::{self, Parts};
use super::health::Health;
use super::{Control, Running};
use crate::arco::backoff::backoff;
use crate::arco::refusals::Code;
use crate::arco::section::RemoteWorker;
use crate::kit::http_client::{Answer, BaseUrl, Post, RequestError};
use crate::kit::text::cut_marked;

/// How long a worker may take to answer or begin before the dispatch is sent again.
const TRY_TIMEOUT: Duration = Duration::from_secs(10);

/// An attempt that was not delivered is given back this long before its window ends.
const GIVE_BACK_MARGIN: Duration = Duration::from_millis(100);

/// How much of a worker's refusal is kept, in bytes.
const REFUSAL_BYTES_MAX: usize = 512;

const SECRET: HeaderName = HeaderName::from_static("x-arco-dispatch-secret");

/// One attempt on its way.
pub(super) struct Delivery<'a> {
    pub(super) control: &'a Control,
    pub(super) running: &'a Running,
    pub(super) worker: &'a RemoteWorker,
    pub(super) health: &'a Health,
    pub(super) attempt: &'a Attempt,
    pub(super) assignment: &'a Assignment,
    /// When the worker must have begun.
    pub(super) begin_by: Time,
    /// Whether the worker may have got it already.
    pub(super) may_run: bool,
}

/// What became of one try.
#[derive(Debug, PartialEq, Eq)]
enum Tried {
    /// The worker has the dispatch.
    Delivered,
    /// The worker will never take this dispatch.
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

impl Delivery<'_> {
    /// Sends the attempt. Returns when the worker has it, or when it is over.
    pub(super) async fn run(mut self, base: &BaseUrl, stopping: &CancellationToken) {
        if stopping.is_cancelled() {
            return self.leave().await;
        }
        for tries in 1.. {
            let tried = tokio::select! {
                tried = self.send(base) => tried,
                () = self.attempt.until(|life| life.is_over) => return,
                // The worker may have it.
                () = stopping.cancelled() => return,
            };
            let wait = match tried {
                Tried::Delivered => {
                    self.health.answered();
                    return;
                }
                Tried::Refused(words) => return self.fail(&words).await,
                Tried::Again {
                    after,
                    reason,
                    may_run,
                } => {
                    self.may_run |= may_run;
                    match reason {
                        Some(reason) => self.health.failed(reason),
                        None => self.health.answered(),
                    }
                    backoff(tries, after)
                }
            };
            let left_ms = self.begin_by.since_ms(self.running.now());
            let left = Duration::from_millis(left_ms).saturating_sub(GIVE_BACK_MARGIN);
            let may_run = self.may_run;
            tokio::select! {
                () = sleep(wait.min(left)) => {}
                () = self.attempt.until(|life| life.has_begun || life.is_over) => return,
                () = self.attempt.until(|life| life.is_cancelled && !may_run) => {}
                () = stopping.cancelled() => return self.leave().await,
            }
            if self.attempt.life().is_cancelled && !may_run {
                return self
                    .end(LeaseMessage::CancelAck {
                        partial: None,
                        message: None,
                    })
                    .await;
            }
            if wait >= left {
                return self.leave().await;
            }
        }
    }

    /// Sends it once. A worker may answer only when the task has ended; once it has begun, the
    /// request is kept open for such a worker.
    async fn send(&self, base: &BaseUrl) -> Tried {
        let Some(body) = self.body(base) else {
            return Tried::Refused("its token cannot be signed".to_owned());
        };
        let secret = self.worker.secret.as_ref();
        let secret = secret.and_then(|secret| HeaderValue::from_str(secret.expose()).ok());
        let headers: Vec<_> = secret.map(|secret| (SECRET, secret)).into_iter().collect();
        let request = self.control.client.post(Post {
            base: &self.worker.url,
            path: "/dispatch",
            headers: &headers,
            body,
            timeout: Duration::from_secs(crate::arco::token::TTL_SECONDS_MAX),
        });
        tokio::pin!(request);
        tokio::select! {
            answer = &mut request => return tried(answer),
            () = self.attempt.until(|life| life.has_begun) => {}
            () = sleep(TRY_TIMEOUT) => return tried(Err(RequestError::TimedOut(TRY_TIMEOUT))),
        }
        self.health.answered();
        // The caller ends this when the attempt is over.
        let _whatever = request.await;
        Tried::Delivered
    }

    /// Makes the dispatch with a new token: its time counts from now.
    fn body(&self, base: &BaseUrl) -> Option<Bytes> {
        let times = &self.control.config.times;
        let (now, wall) = (self.running.now(), self.running.clock.wall());
        let timeout_ms = envelope::timeout_ms(times, self.assignment.timeout_ms);
        let ttl_seconds = envelope::ttl_seconds(times, timeout_ms);
        let tokens = &self.running.tokens;
        let (token, end) = tokens.sign(now, &self.attempt.scope, ttl_seconds)?;
        let left_ms = self.attempt.due.map_or(timeout_ms, |due| due.since_ms(now));
        let body = envelope::write(&Parts {
            scope: &self.attempt.scope,
            assignment: self.assignment,
            times,
            base,
            token: &token,
            deadline: wall.plus_ms(left_ms),
            token_expires_at: wall.plus_ms(end.since_ms(now)),
        });
        Some(body.into())
    }

    /// Leaves the attempt: gives it back if no worker can have it, and waits for the worker or the
    /// end of the window otherwise.
    async fn leave(&self) {
        if !self.may_run && !self.attempt.life().has_begun {
            self.end(LeaseMessage::GiveBack { begun: false }).await;
        }
    }

    async fn end(&self, message: LeaseMessage) {
        let _turn = self.attempt.turn.lock().await;
        let life = self.attempt.life();
        if life.is_over || life.has_begun {
            return;
        }
        let told = self.running.tell(self.attempt, message).await;
        if let Err(error) = told {
            // Its window ends it then.
            tracing::debug!(job = %self.attempt.job, %error, "an attempt is not given back");
        }
        self.control
            .attempts
            .end(self.attempt.job, self.attempt.lease);
    }

    /// Ends the attempt as failed, because its worker does not take it.
    async fn fail(&self, words: &str) {
        self.control.count(Code::DispatchRefused);
        let _turn = self.attempt.turn.lock().await;
        let life = self.attempt.life();
        if life.is_over || life.has_begun {
            return;
        }
        let mut failure = Failure::new(
            FailureKind::UserError,
            format!("the worker refused the dispatch: {words}"),
        );
        failure.category = Some(Category::Configuration);
        failure.code = Some("dispatch_refused".to_owned());
        let outcome = Outcome::Failed(failure);
        let meter = Meter::default();
        for message in [LeaseMessage::Ack, LeaseMessage::Complete { outcome, meter }] {
            if let Err(error) = self.running.tell(self.attempt, message).await {
                tracing::debug!(job = %self.attempt.job, %error, "a refusal is not recorded");
                break;
            }
        }
        self.control
            .attempts
            .end(self.attempt.job, self.attempt.lease);
    }
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
