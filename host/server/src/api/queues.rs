//! Queues: how many jobs they have in each state, pausing and resuming.

use axum::Json;
use axum::extract::{Request, State};
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_core::command::Command;
use host_core::name::Name;
use host_core::rejection::Rejection;
use host_http::extract::{EmptyBody, InPath, small_body_or_default};

use super::Shared;
use super::error::ApiError;

/// Lists all queues that have or had jobs or are paused.
#[utoipa::path(
    get, path = path::QUEUES, tag = "queues",
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
    get, path = path::QUEUE, tag = "queues",
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
    post, path = path::QUEUE_PAUSE, tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = Option<EmptyBody>,
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
    post, path = path::QUEUE_RESUME, tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = Option<EmptyBody>,
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
