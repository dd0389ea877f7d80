//! Queues: how many jobs they have in each state, pausing and resuming.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use host_core::command::Command;
use host_core::job::STATES;
use host_core::name::Name;
use host_core::query::QueueStatus;
use host_core::rejection::Rejection;
use host_http::extract::{EmptyBody, InPath, small_body_or_default};
use host_http::query::PageView;
use serde::Serialize;
use utoipa::ToSchema;

use super::Shared;
use super::error::ApiError;

/// A queue.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Queue)]
pub(super) struct QueueView {
    /// Its name.
    name: String,
    /// Whether its jobs are kept from starting.
    paused: bool,
    /// How many jobs it has in each state.
    #[schema(value_type = BTreeMap<String, u64>)]
    counts: BTreeMap<&'static str, u64>,
}

impl From<QueueStatus> for QueueView {
    fn from(queue: QueueStatus) -> Self {
        let states = STATES.into_iter().map(host_core::job::State::as_str);
        Self {
            name: queue.name.into(),
            paused: queue.paused,
            counts: states.zip(queue.counts).collect(),
        }
    }
}

/// Lists all queues that have or had jobs or are paused.
#[utoipa::path(
    get, path = "/api/v1/queues", tag = "queues",
    responses((status = 200, body = PageView<QueueView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<QueueView>>, ApiError> {
    let queues = shared.api.dispatch.read(|reader| reader.queues()).await?;
    let items = queues.into_iter().map(QueueView::from);
    Ok(Json(PageView::all(items.collect())))
}

/// Shows one queue.
#[utoipa::path(
    get, path = "/api/v1/queues/{name}", tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    responses((status = 200, body = QueueView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
) -> Result<Json<QueueView>, ApiError> {
    read(&shared, name).await
}

/// Starts no more jobs of a queue; running ones go on.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/pause", tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = EmptyBody,
    responses((status = 200, body = QueueView))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    set(&shared, name, true, request).await
}

/// Starts jobs of a queue again.
#[utoipa::path(
    post, path = "/api/v1/queues/{name}/resume", tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = EmptyBody,
    responses((status = 200, body = QueueView))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    let _known = read(&shared, name.clone()).await?;
    set(&shared, name, false, request).await
}

async fn set(
    shared: &Shared,
    name: Name,
    paused: bool,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    let queue = name.clone();
    let command = Command::SetPaused { queue, paused };
    shared.api.dispatch.submit(command).await?;
    read(shared, name).await
}

async fn read(shared: &Shared, name: Name) -> Result<Json<QueueView>, ApiError> {
    let queues = shared.api.dispatch.read(|reader| reader.queues()).await?;
    let queue = queues.into_iter().find(|queue| queue.name == name);
    let queue = queue.ok_or(Rejection::UnknownQueue(name))?;
    Ok(Json(queue.into()))
}
