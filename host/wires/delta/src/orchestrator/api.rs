//! The routes of the document, and one for logs: who may send what, how bodies are read, and how
//! answers look. Knows nothing of leases but their messages.

mod access;
mod answer;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use host_core::access::Access::Proof;
use host_http::budget::RequestBody;
use host_http::door::Door;
use host_http::peer::ClientClosed;
use host_http::route;
use host_http::route::{Description, Group, Route, RoutePorts};
use serde::Deserialize;

use self::access::Access;
use self::answer::{answered, refused};
use super::{Answer, Extension, Message, NamedLease, Pools};
use crate::messages::lease_id::{LEASE_ID_BYTES_MAX, LeaseText};
use crate::messages::read::{self, About};
use crate::messages::{LEASE_HEADER, LOG_BYTES_MAX};
use crate::orchestrator;
use crate::refusals::{Code, WireRefusal};

/// The largest body of a message, in bytes, and of one that ends a lease: it lists artifacts.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const END_BYTES_MAX: usize = 8 << 20;

/// The largest chunk of a log, in bytes.
const CHUNK_BYTES_MAX: usize = 256 << 10;

/// The state that all requests share.
type Shared = Arc<Api>;

struct Api {
    pools: Arc<Pools>,
    ports: RoutePorts,
}

/// Makes the routes.
pub(crate) fn routes(pools: Arc<Pools>, ports: RoutePorts) -> Group {
    if let Some(url) = &ports.callbacks {
        pools.reached_at(url.clone());
    }
    let shared = Shared::new(Api { pools, ports });
    let routes = all_routes().map(|route| {
        let route = route.behind(&[Door::Callbacks]);
        route.with_state(Arc::clone(&shared))
    });
    Group {
        prefix: "/api/v1/internal",
        render: answer::render,
        routes: routes.into(),
    }
}

fn all_routes() -> [Route<Shared>; 7] {
    let log_types = &["text/plain", "application/octet-stream"];
    [
        route!(Proof, self::lease).long_running().ends_with_client(),
        route!(Proof, self::ack_lease),
        route!(Proof, self::heartbeat).long_running(),
        route!(Proof, self::complete),
        route!(Proof, self::cancel_ack),
        route!(Proof, self::logs).takes(log_types),
        route!(Proof, self::logs_of_lease).takes(log_types),
    ]
}

/// Describes the routes.
pub(crate) fn description() -> Description {
    Description::new(&all_routes(), &[])
}

impl Api {
    /// Finds out by what a request is made, and reads its body.
    async fn receive(
        &self,
        request: Request,
        bytes_max: usize,
    ) -> Result<(Access, Result<RequestBody, WireRefusal>), WireRefusal> {
        let access = Access::of(&self.pools.config, request.headers());
        let (parts, body) = request.into_parts();
        // A body that is left unread would end the connection.
        let bodies = &self.ports.bodies;
        let body = bodies
            .read(&parts, body, bytes_max)
            .await
            .map_err(|refusal| answer::of_http(&refusal));
        Ok((access?, body))
    }

    /// Handles a message about a lease: `read` says which lease, and what the message is.
    async fn message(
        &self,
        request: Request,
        bytes_max: usize,
        read: impl FnOnce(&[u8]) -> Result<(About, Message), WireRefusal>,
    ) -> Response {
        let mut lease_id = None;
        let reporting = async {
            let (access, body) = self.receive(request, bytes_max).await?;
            if let (Access::Lease, Ok(body)) = (access, &body) {
                // Here the lease alone says who sends the message.
                lease_id = read::lease_id(&body.bytes);
            }
            let pool = access.pool_of(&self.pools, lease_id.as_ref()).await?;
            let body = body?;
            let (about, message) = read(&body.bytes)?;
            lease_id = Some(about.lease_id.clone());
            // A heartbeat that waits keeps no body.
            let is_end = matches!(message, Message::End(_));
            let _body = is_end.then_some(body);
            let message = orchestrator::Request::Message(NamedLease::read(pool, &about)?, message);
            self.pools
                .request_until(message, &self.ports.stopping)
                .await
        };
        let answered = reporting.await;
        self.answer(lease_id.as_ref(), answered)
    }

    /// Makes the answer, and counts a refusal.
    fn answer(
        &self,
        lease_id: Option<&LeaseText>,
        answer: Result<Answer, WireRefusal>,
    ) -> Response {
        answer.map_or_else(
            |refusal| {
                self.pools.count(refusal.code);
                let text = lease_id.map(|lease| lease.0.as_str());
                // One that is too long is not ours.
                refused(
                    &refusal,
                    text.filter(|text| text.len() <= LEASE_ID_BYTES_MAX),
                )
            },
            |answer| answered(answer, self.pools.config.times),
        )
    }
}

/// Grants a lease, or waits for a job that the runner can execute.
#[utoipa::path(
    post, path = "/api/v1/internal/lease", tag = "delta",
    request_body(content = serde_json::Value, description = "`runner_id`, `capabilities`, `wait_seconds` (at most 60)"),
    responses(
        (status = 200, body = serde_json::Value, description = "LeaseGranted"),
        (status = 204, description = "No job came in time"),
        (status = "default", body = serde_json::Value, description = "Refused"),
    )
)]
async fn lease(State(api): State<Shared>, request: Request) -> Response {
    let closed = request.extensions().get::<ClientClosed>().cloned();
    let ClientClosed(closed) = closed.unwrap_or_default();
    let leasing = async {
        let (access, body) = api.receive(request, MESSAGE_BYTES_MAX).await?;
        let (pool, body) = (access.pool(&api.pools.config)?, body?);
        let ask = read::ask(&body.bytes)?;
        pool.check_own(&ask.runner_id)?;
        // A request that waits keeps no body.
        drop(body);
        let ask = orchestrator::Request::Ask(pool.name.clone(), ask);
        let asking = api.pools.request_until(ask, &api.ports.stopping);
        // A runner that is gone gets no job.
        let answer = closed.run_until_cancelled(asking).await;
        answer.unwrap_or(Ok(Answer::Granted(None)))
    };
    let leased = leasing.await;
    api.answer(None, leased)
}

/// Acknowledges a lease.
#[utoipa::path(
    post, path = "/api/v1/internal/ack-lease", tag = "delta",
    request_body(content = serde_json::Value, description = "AckLease"),
    responses(
        (status = 200, body = serde_json::Value, description = "An empty object"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease"),
    )
)]
async fn ack_lease(State(api): State<Shared>, request: Request) -> Response {
    api.message(request, MESSAGE_BYTES_MAX, Message::ack).await
}

/// Extends a lease and reports progress.
#[utoipa::path(
    post, path = "/api/v1/internal/heartbeat", tag = "delta",
    request_body(content = serde_json::Value, description = "Heartbeat; with `wait_seconds` the answer waits for a cancel"),
    responses(
        (status = 200, body = serde_json::Value, description = "HeartbeatAck"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease"),
    )
)]
async fn heartbeat(State(api): State<Shared>, request: Request) -> Response {
    api.message(request, MESSAGE_BYTES_MAX, Message::heartbeat)
        .await
}

/// Ends a lease with the outcome of its job.
#[utoipa::path(
    post, path = "/api/v1/internal/complete", tag = "delta",
    request_body(content = serde_json::Value, description = "Complete"),
    responses(
        (status = 200, body = serde_json::Value, description = "CompleteAck"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease"),
    )
)]
async fn complete(State(api): State<Shared>, request: Request) -> Response {
    api.message(request, END_BYTES_MAX, Message::complete).await
}

/// Ends a lease because of a cancel.
#[utoipa::path(
    post, path = "/api/v1/internal/cancel-ack", tag = "delta",
    request_body(content = serde_json::Value, description = "CancelAck"),
    responses(
        (status = 200, body = serde_json::Value, description = "An empty object"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease"),
    )
)]
async fn cancel_ack(State(api): State<Shared>, request: Request) -> Response {
    api.message(request, END_BYTES_MAX, Message::cancel_ack)
        .await
}

/// Which part of a log a chunk is, and who sends it.
#[derive(Debug, Deserialize)]
struct Chunk {
    runner_id: String,
    offset: u64,
}

/// Keeps a part of a runner's log.
#[utoipa::path(
    put, path = "/api/v1/internal/logs", tag = "delta",
    params(
        ("x-delta-lease" = String, Header, description = "The lease"),
        ("runner_id" = String, Query, description = "The runner that holds it"),
        ("offset" = u64, Query, description = "Where the chunk begins in the log, in bytes"),
    ),
    request_body(content = String, description = "At most 256 KiB of text", content_type = "application/octet-stream"),
    responses(
        (status = 200, body = serde_json::Value, description = "LogAck with `next_offset`"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease or a gap"),
    )
)]
async fn logs(
    State(api): State<Shared>,
    query: Result<Query<Chunk>, QueryRejection>,
    request: Request,
) -> Response {
    let lease_id = request
        .headers()
        .get(LEASE_HEADER)
        .and_then(|it| it.to_str().ok())
        .unwrap_or_default();
    keep_log(&api, LeaseText(lease_id.to_owned()), query, request).await
}

/// The same with the lease in the path, where logs of proxies show it.
#[utoipa::path(
    put, path = "/api/v1/internal/logs/{lease_id}", tag = "delta",
    params(
        ("lease_id" = String, Path, description = "The lease"),
        ("runner_id" = String, Query, description = "The runner that holds it"),
        ("offset" = u64, Query, description = "Where the chunk begins in the log, in bytes"),
    ),
    request_body(content = String, description = "At most 256 KiB of text", content_type = "application/octet-stream"),
    responses(
        (status = 200, body = serde_json::Value, description = "LogAck with `next_offset`"),
        (status = "default", body = serde_json::Value, description = "Refused; 409 for a stale lease or a gap"),
    )
)]
async fn logs_of_lease(
    State(api): State<Shared>,
    Path(lease_id): Path<String>,
    query: Result<Query<Chunk>, QueryRejection>,
    request: Request,
) -> Response {
    keep_log(&api, LeaseText(lease_id), query, request).await
}

async fn keep_log(
    api: &Shared,
    lease_id: LeaseText,
    query: Result<Query<Chunk>, QueryRejection>,
    request: Request,
) -> Response {
    let keeping = async {
        let (access, body) = api.receive(request, CHUNK_BYTES_MAX).await?;
        let pool = access.pool_of(&api.pools, Some(&lease_id)).await?;
        let body = body?;
        let Query(chunk) = query.map_err(|_| {
            let message = "the query must have runner_id and offset, a number of bytes";
            WireRefusal::new(Code::FieldType, message)
        })?;
        let about = About {
            lease_id: lease_id.clone(),
            runner_id: read::check_runner_id(chunk.runner_id)?,
        };
        let (offset, most) = (chunk.offset, u64::MAX - LOG_BYTES_MAX);
        if offset > most {
            let message = format!("offset: must be at most {most}");
            return Err(WireRefusal::new(Code::FieldRange, message));
        }
        let bytes = body.bytes.clone();
        let chunk = Message::Extension(Extension::Log { offset, bytes });
        let message = orchestrator::Request::Message(NamedLease::read(pool, &about)?, chunk);
        api.pools.request(message).await
    };
    let kept = keeping.await;
    api.answer(Some(&lease_id), kept)
}
