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

/// Reads the body of a callback.
type Read = fn(&[u8]) -> Result<Message, Refused>;

/// Makes the routes, once below each prefix.
pub(super) fn routes(role: &Arc<Role>, ports: &RoutePorts) -> Vec<Group> {
    let shared = Shared {
        role: Arc::clone(role),
        bodies: ports.bodies.clone(),
    };
    let group = |prefix, [started, heartbeat, completed]: [&'static str; 3]| {
        let routes = [
            route(started, read::started),
            route(heartbeat, read::heartbeat),
            route(completed, read::completed),
        ];
        Group {
            prefix,
            render,
            routes: routes.map(|it| it.with_state(shared.clone())).into(),
        }
    };
    let documented = [
        "/v1/tasks/{task_id}/started",
        "/v1/tasks/{task_id}/heartbeat",
        "/v1/tasks/{task_id}/completed",
    ];
    let current = [
        "/api/v1/tasks/{task_id}/started",
        "/api/v1/tasks/{task_id}/heartbeat",
        "/api/v1/tasks/{task_id}/completed",
    ];
    vec![
        group("/v1/tasks", documented),
        group("/api/v1/tasks", current),
    ]
}

fn route(path: &'static str, read: Read) -> Route<Shared> {
    let answer = move |State(shared): State<Shared>, Path(id): Path<String>, request: Request| async move {
        shared.answer(&id, request, read).await
    };
    Route::post(path, answer)
}

impl Shared {
    async fn answer(&self, id: &str, request: Request, read: Read) -> Response {
        let answered = self.handle(id, request, read).await;
        answered.unwrap_or_else(|refused| {
            self.role.count(refused.code);
            tracing::debug!(code = refused.code.as_str(), "a callback was refused");
            refused.into_response()
        })
    }

    async fn handle(&self, id: &str, request: Request, read: Read) -> Result<Response, Refused> {
        let (parts, body) = request.into_parts();
        let body = self.bodies.read(&parts.headers, body, read::BODY_BYTES_MAX);
        let body = body.await.map_err(|refusal| of_server(&refusal))?;
        let message = read(&body.bytes)?;
        let hub = self.role.hub.get().ok_or_else(|| {
            if self.role.config.workers.is_empty() {
                Refused::no_worker()
            } else {
                Refused::busy()
            }
        })?;
        let callback = Callback {
            task: TaskId::read(id),
            scope: bearer(&parts.headers).and_then(|token| hub.handler().scope(token)),
            message,
        };
        let answer = hub.request(callback).await;
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
