//! The routes of callbacks: reads a request, checks its token, and asks the session for the answer.

use std::sync::Arc;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::Response;
use host_http::budget::ByteBudget;
use host_http::route::{Group, Route, RoutePorts};

use super::Role;
use super::read::{self, Callback, Message};
use crate::arco::refusals::{Refused, json, of_server, render};
use crate::arco::task_id::TaskId;

/// What all callbacks use.
#[derive(Clone)]
pub(super) struct Shared {
    role: Arc<Role>,
    bodies: ByteBudget,
}

/// Makes the routes, once below each prefix.
pub(super) fn routes(role: &Arc<Role>, ports: &RoutePorts) -> Vec<Group> {
    let shared = Shared {
        role: Arc::clone(role),
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

impl Shared {
    async fn answer(
        &self,
        id: &str,
        request: Request,
        read: fn(&[u8]) -> Result<Message, Refused>,
    ) -> Response {
        let answered = self.handle(id, request, read).await;
        answered.unwrap_or_else(|refused| {
            self.role.count(refused.code);
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
        let body = body.await.map_err(|refusal| of_server(&refusal))?;
        let message = read(&body.bytes)?;
        let running = self.role.running.get().ok_or_else(|| {
            if self.role.config.workers.is_empty() {
                Refused::no_worker()
            } else {
                Refused::busy()
            }
        })?;
        let token = bearer(&parts.headers);
        let callback = Callback {
            task: TaskId::read(id),
            scope: token.and_then(|token| running.tokens.check(running.clock.now(), token)),
            message,
        };
        let answer = running.hub.request(callback).await;
        let answer = answer.ok_or_else(Refused::busy)??;
        Ok(json(200, &answer))
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
