//! The routes of callbacks: reads a request, checks its token, and asks the session for the answer.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use host_core::access::Access;
use host_http::budget::ByteBudget;
use host_http::door::Door;
use host_http::route;
use host_http::route::{Description, Group, Route, RoutePorts};

use super::host::OrchestratorHub;
use super::read::{self, Callback, Message, Report};
use super::{Role, logs};
use crate::messages::{
    CallbackError, CompletedAnswer, HeartbeatAnswer, RunLogs, RunLogsAnswer, Secret, StartedAnswer,
    TaskCompleted, TaskHeartbeat, TaskStarted,
};
use crate::refusals::{Code, WireRefusal, of_server, render};
use crate::settings::RemoteWorker;
use crate::task_id::{self, TaskId};

/// What all callbacks use.
#[derive(Clone)]
pub(super) struct Shared {
    role: Arc<Role>,
    bodies: ByteBudget,
}

/// Reads the body of a callback.
type BodyReader = fn(&[u8]) -> Result<Message, WireRefusal>;

/// Makes the routes.
pub(super) fn routes(role: &Arc<Role>, ports: &RoutePorts) -> Vec<Group> {
    let shared = Shared {
        role: Arc::clone(role),
        bodies: ports.bodies.clone(),
    };
    let prefixes = ["/v1/tasks", "/api/v1/tasks", "/api/v1/workspaces"];
    let group = |prefix| Group {
        prefix,
        render,
        routes: all_routes()
            .into_iter()
            .filter(|route| route.path.starts_with(prefix))
            .map(|route| route.with_state(shared.clone()))
            .collect(),
    };
    prefixes.map(group).into()
}

/// Describes the routes.
pub(super) fn description() -> Description {
    Description::new(&all_routes(), &[])
}

/// The callbacks, once below each prefix, and the logs.
fn all_routes() -> [Route<Shared>; 7] {
    [
        route!(Access::Proof, self::started),
        route!(Access::Proof, self::heartbeat),
        route!(Access::Proof, self::completed),
        route!(Access::Proof, self::started_current),
        route!(Access::Proof, self::heartbeat_current),
        route!(Access::Proof, self::completed_current),
        route!(Access::Proof, self::logs),
    ]
    .map(|route| route.behind(&[Door::Callbacks]))
}

macro_rules! callbacks {
    ($($name:ident $read:ident $path:literal $body:ty, $answer:ty, $about:literal;)+) => {
        $(
            #[utoipa::path(
                post,
                path = $path,
                tag = "arco",
                summary = $about,
                params(("task_id" = String, Path, description = "The id of the task")),
                request_body = $body,
                responses(
                    (status = 200, description = "Acknowledged", body = $answer),
                    (status = 400, description = "The body or its attempt is not valid", body = CallbackError),
                    (status = 401, description = "The token is missing or not valid for this task and attempt", body = CallbackError),
                    (status = 404, description = "No task has this id", body = CallbackError),
                    (status = 409, description = "The task has ended, or another attempt is current", body = CallbackError),
                    (status = 410, description = "The attempt is no longer active", body = CallbackError),
                    (status = 422, description = "A field has an invalid value", body = CallbackError),
                    (status = 503, description = "The host is busy", body = CallbackError),
                ),
            )]
            async fn $name(
                State(shared): State<Shared>,
                Path(id): Path<String>,
                request: Request,
            ) -> Response {
                shared.answer(&id, request, read::$read).await
            }
        )+
    };
}

callbacks! {
    started started "/v1/tasks/{task_id}/started" TaskStarted, StartedAnswer, "A worker has begun";
    heartbeat heartbeat "/v1/tasks/{task_id}/heartbeat" TaskHeartbeat, HeartbeatAnswer, "A worker is alive";
    completed completed "/v1/tasks/{task_id}/completed" TaskCompleted, CompletedAnswer, "An attempt has ended";
    started_current started "/api/v1/tasks/{task_id}/started" TaskStarted, StartedAnswer, "A worker has begun";
    heartbeat_current heartbeat "/api/v1/tasks/{task_id}/heartbeat" TaskHeartbeat, HeartbeatAnswer, "A worker is alive";
    completed_current completed "/api/v1/tasks/{task_id}/completed" TaskCompleted, CompletedAnswer, "An attempt has ended";
}

#[utoipa::path(
    post,
    path = "/api/v1/workspaces/{workspace_id}/runs/{run_id}/logs",
    tag = "arco",
    summary = "The log of an attempt",
    params(
        ("workspace_id" = String, Path, description = "The workspace of the dispatch"),
        ("run_id" = String, Path, description = "The run of the dispatch"),
    ),
    request_body = RunLogs,
    responses(
        (status = 200, description = "Kept", body = RunLogsAnswer),
        (status = 400, description = "The body or its attempt is not valid", body = CallbackError),
        (status = 401, description = "The bearer is not the secret of the job's worker", body = CallbackError),
        (status = 404, description = "No attempt has this workspace, run, key and number", body = CallbackError),
        (status = 422, description = "A field has an invalid value", body = CallbackError),
        (status = 503, description = "The host is busy", body = CallbackError),
    ),
)]
async fn logs(
    State(shared): State<Shared>,
    Path((workspace, run)): Path<(String, String)>,
    request: Request,
) -> Response {
    shared.answered(shared.keep_log((&workspace, &run), request).await)
}

impl Shared {
    async fn answer(&self, id: &str, request: Request, read: BodyReader) -> Response {
        self.answered(self.handle(id, request, read).await)
    }

    fn answered(&self, answered: Result<Response, WireRefusal>) -> Response {
        answered.unwrap_or_else(|refused| {
            self.role.count(refused.code);
            tracing::debug!(code = refused.code.as_str(), "a callback was refused");
            refused.into_response()
        })
    }

    async fn handle(
        &self,
        id: &str,
        request: Request,
        read: BodyReader,
    ) -> Result<Response, WireRefusal> {
        let (parts, body) = request.into_parts();
        let body = self
            .bodies
            .read(&parts, body, read::BODY_BYTES_MAX)
            .await
            .map_err(|refusal| of_server(&refusal));
        let hub = self.hub()?;
        let message = body.and_then(|body| read(&body.bytes));
        let attempt = message.as_ref().map_or(0, |message| message.attempt);
        let completes = |message: &Message| matches!(message.report, Ok(Report::Completed(_)));
        let is_end = message.as_ref().is_ok_and(completes);
        let callback = Callback {
            task: TaskId::read(id),
            scope: bearer(&parts.headers).and_then(|token| hub.handler().scope(token)),
            message,
        };
        let answer = hub
            .request(callback)
            .await
            .ok_or_else(WireRefusal::busy)?
            .inspect_err(|refused| {
                if is_end && matches!(refused.code, Code::Terminal | Code::Mismatch) {
                    let why = &refused.body.message;
                    tracing::warn!(task = id, attempt, why, "a late result does not count");
                }
            })?;
        Ok(Json(answer).into_response())
    }

    fn hub(&self) -> Result<&Arc<OrchestratorHub>, WireRefusal> {
        self.role.hub.get().ok_or_else(|| {
            if self.role.config.workers.is_empty() {
                WireRefusal::no_worker()
            } else {
                WireRefusal::busy()
            }
        })
    }

    /// Keeps the log that a worker sends after a task. It has no task token: it presents the secret of the job's
    /// worker.
    async fn keep_log(
        &self,
        (workspace, run): (&str, &str),
        request: Request,
    ) -> Result<Response, WireRefusal> {
        let (parts, body) = request.into_parts();
        let body = self.bodies.read(&parts, body, read::BODY_BYTES_MAX).await;
        let hub = self.hub()?;
        let presented = bearer(&parts.headers);
        let is_of = |worker: &RemoteWorker| {
            let is_it = |secret: &Secret| presented.is_some_and(|it| secret.matches(it.as_bytes()));
            worker.secret.as_ref().is_none_or(is_it)
        };
        let workers = &self.role.config.workers;
        if !workers.values().any(is_of) {
            return Err(WireRefusal::secret());
        }
        let body = body.map_err(|refusal| of_server(&refusal))?;
        let log = read::log(&body.bytes)?;
        let known = if let Some(job) = task_id::job(run) {
            Some(job)
        } else {
            let presenting = workers.iter().filter(|(_, worker)| is_of(worker));
            let executors = presenting.map(|(name, _)| name.clone()).collect();
            let found = hub.handler().job_of_run(executors, run, &log).await;
            found.map_err(|_| WireRefusal::busy())?
        };
        let job = known.ok_or_else(WireRefusal::task)?;
        let kept = hub
            .handler()
            .kept(job)
            .await
            .map_err(|_| WireRefusal::busy())?
            .ok_or_else(WireRefusal::task)?;
        let executor = kept.job.lifecycle.executor.as_ref();
        let worker = executor.and_then(|executor| workers.get(executor));
        if !worker.is_some_and(is_of) {
            return Err(WireRefusal::secret());
        }
        let now = hub.handler().now();
        let about =
            logs::about(now, &kept, (workspace, run), &log).ok_or_else(WireRefusal::task)?;
        let lines = logs::lines(&log, about.at_ms);
        if !lines.is_empty() {
            hub.handler()
                .keep_log(job, log.attempt, about.granted_at, lines);
        }
        let answer = RunLogsAnswer {
            path: format!("/api/v1/jobs/{job}/logs"),
            size_bytes: (log.stdout.len() + log.stderr.len()) as u64,
        };
        Ok(Json(answer).into_response())
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
