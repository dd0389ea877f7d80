//! The callbacks of workers: reads them, checks them in the order of the document, and answers once
//! the host has kept what they say.

mod read;

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::State as JobState;
use host_core::outcome::{Meter, Outcome};
use host_core::port::lease::{Kept, LeaseError, LeaseMessage, Standing};
use host_http::budget::ByteBudget;
use host_http::route::{Group, Route, RoutePorts};
use host_runtime::mailbox::respond;

use self::read::{Message, Said};
use super::attempts::{Attempt, Life};
use super::explain::{Kind, explain};
use super::{Control, Running, envelope};
use crate::arco::messages::{CANCELLED, CompletedAnswer, FAILED, HeartbeatAnswer, StartedAnswer};
use crate::arco::refusals::{Refused, json, render};
use crate::arco::task_id::TaskId;
use crate::arco::token::Scope;

/// The reason of a cancel for which nobody gave one.
const USER_REQUESTED: &str = "user_requested";

/// The reason for which an attempt is to stop whose time is over.
const DEADLINE: &str = "deadline_exceeded";

/// What all callbacks use.
#[derive(Clone)]
pub(super) struct Shared {
    control: Arc<Control>,
    bodies: ByteBudget,
}

/// Makes the routes, once below each prefix.
pub(super) fn routes(control: &Arc<Control>, ports: &RoutePorts) -> Vec<Group> {
    let shared = Shared {
        control: Arc::clone(control),
        bodies: ports.bodies.clone(),
    };
    let group = |prefix, routes: [Route<Shared>; 3]| Group {
        prefix,
        render,
        routes: routes.map(|it| it.with_state(shared.clone())).into(),
    };
    vec![
        group(
            "/v1/tasks",
            [
                Route::post("/v1/tasks/{task_id}/started", started),
                Route::post("/v1/tasks/{task_id}/heartbeat", heartbeat),
                Route::post("/v1/tasks/{task_id}/completed", completed),
            ],
        ),
        group(
            "/api/v1/tasks",
            [
                Route::post("/api/v1/tasks/{task_id}/started", started),
                Route::post("/api/v1/tasks/{task_id}/heartbeat", heartbeat),
                Route::post("/api/v1/tasks/{task_id}/completed", completed),
            ],
        ),
    ]
}

async fn started(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    shared.answer(&id, request, read::started).await
}

async fn heartbeat(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    shared.answer(&id, request, read::heartbeat).await
}

async fn completed(
    State(shared): State<Shared>,
    Path(id): Path<String>,
    request: Request,
) -> Response {
    shared.answer(&id, request, read::completed).await
}

/// Why a message to the host has no answer of its own.
enum Unheard {
    /// The attempt is not current any more.
    Over,
    /// The host takes no message now.
    Busy,
}

impl Shared {
    async fn answer(
        &self,
        id: &str,
        request: Request,
        read: fn(&[u8]) -> Result<Message, Refused>,
    ) -> Response {
        let answered = self.handle(id, request, read).await;
        answered.unwrap_or_else(|refused| {
            self.control.count(refused.code);
            tracing::debug!(code = refused.code.as_str(), "a callback is refused");
            refused.into_response()
        })
    }

    async fn handle(
        &self,
        id: &str,
        request: Request,
        read: fn(&[u8]) -> Result<Message, Refused>,
    ) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        let body = self.bodies.read(&parts.headers, body, read::BODY_BYTES_MAX);
        let body = body
            .await
            .map_err(|refusal| crate::arco::refusals::of_server(&refusal))?;
        let message = read(&body.bytes)?;
        if self.control.config.workers.is_empty() {
            let words = "no worker is configured below [protocol.arco.workers]";
            return Err(Refused::new(
                crate::arco::refusals::Code::Task,
                404,
                "task_not_found",
                words,
            ));
        }
        let running = self.control.running.get().ok_or_else(Refused::busy)?;
        let scope = self
            .authorize(running, id, &parts.headers, message.attempt)
            .await?;
        let said = message.said?;
        self.settle(running, &scope, message.attempt_id.as_deref(), &said)
            .await
    }

    /// Checks that the task exists and that the token is for it and this attempt.
    async fn authorize(
        &self,
        running: &Running,
        id: &str,
        headers: &HeaderMap,
        attempt: u32,
    ) -> Result<Scope, Refused> {
        let task = TaskId::read(id);
        let token = bearer(headers);
        let scope = token.and_then(|token| running.tokens.check(running.now(), token));
        if let Some(scope) = scope
            && scope.attempt == attempt
            && self.is_about(running, &scope, task.as_ref()).await?
        {
            return Ok(scope);
        }
        let named = match &task {
            Some(TaskId::Job(job)) => Some(*job),
            Some(TaskId::OfRun { run, .. }) => crate::arco::task_id::job(run),
            None => None,
        };
        let Some(job) = named else {
            return Err(Refused::task());
        };
        match running.look(job).await? {
            Some(_) => Err(Refused::token()),
            None => Err(Refused::task()),
        }
    }

    /// Returns whether a token is about the task of the path, as the task is known here.
    async fn is_about(
        &self,
        running: &Running,
        scope: &Scope,
        task: Option<&TaskId>,
    ) -> Result<bool, Refused> {
        let (known, key) = match self.control.attempts.find(scope.job) {
            Some(attempt) => (attempt.scope.clone(), attempt.key.clone()),
            None => match running.look(scope.job).await? {
                Some(kept) => {
                    let attributes = &kept.job.payload.attributes;
                    let known = envelope::scope(scope.job, scope.attempt, attributes);
                    (known, kept.job.lifecycle.handler.to_string())
                }
                None => return Ok(false),
            },
        };
        let is_task = match task {
            Some(TaskId::Job(job)) => *job == scope.job,
            Some(TaskId::OfRun { run, key: of_path }) => *run == known.run && *of_path == key,
            None => false,
        };
        // The attempt is checked later: an earlier one has an answer of its own.
        let attempt = scope.attempt;
        Ok(is_task && *scope == Scope { attempt, ..known })
    }

    /// Gives the host what a worker says, and answers.
    async fn settle(
        &self,
        running: &Running,
        scope: &Scope,
        attempt_id: Option<&str>,
        said: &Said,
    ) -> Result<Response, Refused> {
        let mut tried = None;
        // A second time, if the attempt was found in the store only.
        for _ in 0..2 {
            let current = self.control.attempts.find(scope.job);
            let current = current.filter(|it| it.scope.attempt == scope.attempt);
            if let Some(attempt) = current.filter(|it| tried != Some(it.lease)) {
                let expected = envelope::attempt_id(scope.job, scope.attempt);
                if let Some(received) = attempt_id.filter(|id| *id != expected) {
                    return Err(Refused::id_mismatch(scope.attempt, &expected, received));
                }
                let _turn = attempt.turn.lock().await;
                match self.pass_on(running, &attempt, said).await {
                    Ok(answered) => return answered,
                    Err(Unheard::Busy) => return Err(Refused::busy()),
                    Err(Unheard::Over) => tried = Some(attempt.lease),
                }
                self.control.attempts.end(attempt.job, attempt.lease);
            }
            let kept = running.look(scope.job).await?.ok_or_else(Refused::task)?;
            if tried.is_none() && self.adopt(scope, &kept) {
                continue;
            }
            explain(&kept, scope.attempt, &said.kind())?;
            return Ok(running.completed_answer(said));
        }
        Err(Refused::busy())
    }

    /// Takes up an attempt that runs, but that no lane has.
    fn adopt(&self, scope: &Scope, kept: &Kept) -> bool {
        let lifecycle = &kept.job.lifecycle;
        let Some(lease) = lifecycle.lease.as_ref() else {
            return false;
        };
        if lifecycle.state != JobState::Running || lifecycle.attempt != scope.attempt {
            return false;
        }
        let life = Life {
            has_begun: lease.ack_by.is_none(),
            is_cancelled: lifecycle.cancel.is_some(),
            is_over: false,
        };
        self.control.attempts.add(Attempt::new(
            (scope.job, lease.id),
            lifecycle.runner.clone(),
            (scope.clone(), lifecycle.handler.to_string()),
            None,
            life,
        ));
        true
    }

    /// Tells the host what the worker of the current attempt says.
    async fn pass_on(
        &self,
        running: &Running,
        attempt: &Attempt,
        said: &Said,
    ) -> Result<Result<Response, Refused>, Unheard> {
        if attempt.life().is_over {
            return Err(Unheard::Over);
        }
        let mut standing = None;
        if !attempt.life().has_begun || matches!(said, Said::Started) {
            standing = Some(running.say(attempt, LeaseMessage::Ack).await?);
            attempt.begin();
            let health = attempt.executor.as_ref();
            if let Some(health) = health.and_then(|name| self.control.health.get(name)) {
                health.answered();
            }
        }
        match said {
            Said::Started => {
                let is_cancelled = standing.is_some_and(|standing| standing.cancel.is_some());
                if !is_cancelled {
                    return Ok(Ok(running.started_answer()));
                }
                running
                    .say(
                        attempt,
                        LeaseMessage::CancelAck {
                            partial: None,
                            message: None,
                        },
                    )
                    .await?;
                self.control.attempts.end(attempt.job, attempt.lease);
                Ok(Err(Refused::terminal(CANCELLED)))
            }
            Said::Heartbeat(progress) => {
                if let Some(overdue_ms) = running.overdue_ms(attempt)
                    && overdue_ms > envelope::cancel_ms(&self.control.config.times)
                {
                    running.say(attempt, timed_out()).await?;
                    self.control.attempts.end(attempt.job, attempt.lease);
                    return Ok(Err(Refused::expired(FAILED)));
                }
                let progress = progress.clone();
                let heartbeat = LeaseMessage::Heartbeat { progress };
                let standing = running.say(attempt, heartbeat).await?;
                let is_overdue = running.overdue_ms(attempt).is_some();
                Ok(Ok(running.heartbeat_answer(&standing, is_overdue)))
            }
            Said::Completed(ended) => {
                let (outcome, meter) = (ended.outcome.clone(), ended.meter);
                let complete = LeaseMessage::Complete { outcome, meter };
                running.say(attempt, complete).await?;
                self.control.attempts.end(attempt.job, attempt.lease);
                Ok(Ok(running.completed_answer(said)))
            }
        }
    }
}

fn timed_out() -> LeaseMessage {
    let words = "the worker did not end the attempt in its time and grace";
    LeaseMessage::Complete {
        outcome: Outcome::Failed(Failure::new(FailureKind::TimedOut, words)),
        meter: Meter::default(),
    }
}

impl Running {
    async fn say(&self, attempt: &Attempt, message: LeaseMessage) -> Result<Standing, Unheard> {
        self.tell(attempt, message)
            .await
            .map_err(|error| match error {
                LeaseError::Rejected(_) => Unheard::Over,
                LeaseError::Busy | LeaseError::StoreFull | LeaseError::Stopping => Unheard::Busy,
            })
    }

    async fn look(&self, job: JobId) -> Result<Option<Kept>, Refused> {
        let (respond, answer) = respond();
        self.leases.read(job, respond);
        match answer.await {
            Ok(Ok(kept)) => Ok(kept),
            _ => Err(Refused::busy()),
        }
    }

    /// Returns for how long the attempt's time has been over.
    fn overdue_ms(&self, attempt: &Attempt) -> Option<u64> {
        let due = attempt.due?;
        let now = self.now();
        (now >= due).then(|| now.since_ms(due))
    }

    fn server_time(&self) -> String {
        self.clock.wall().to_rfc3339()
    }

    fn started_answer(&self) -> Response {
        let answer = StartedAnswer {
            acknowledged: true,
            server_time: self.server_time(),
        };
        json(200, &answer)
    }

    fn heartbeat_answer(&self, standing: &Standing, is_overdue: bool) -> Response {
        let reason = match &standing.cancel {
            Some(cancel) => Some(cancel.reason.as_deref().unwrap_or(USER_REQUESTED)),
            None => is_overdue.then_some(DEADLINE),
        };
        let answer = HeartbeatAnswer {
            acknowledged: true,
            should_cancel: reason.is_some(),
            cancel_reason: reason.map(str::to_owned),
            server_time: self.server_time(),
        };
        json(200, &answer)
    }

    fn completed_answer(&self, said: &Said) -> Response {
        let state = match said.kind() {
            Kind::Completed(ended) => ended.state,
            Kind::Started | Kind::Heartbeat => FAILED,
        };
        let answer = CompletedAnswer {
            acknowledged: true,
            final_state: state.to_owned(),
            server_time: self.server_time(),
        };
        json(200, &answer)
    }
}

/// Returns the token of a request that has exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut all = headers.get_all(axum::http::header::AUTHORIZATION).iter();
    let (Some(value), None) = (all.next(), all.next()) else {
        return None;
    };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    (scheme.eq_ignore_ascii_case("bearer") && is_token).then_some(token)
}
