//! Queues: how many jobs they have in each state, pausing and resuming.

use axum::Json;
use axum::extract::{Request, State};
use host_api::page::PageView;
use host_api::path;
use host_api::queue::{PauseBody, QueueView, RemovedQueueView};
use host_core::name::Name;
use host_core::query::QueueStatus;
use host_engine::Rejection;
use host_engine::queue::{QueueRefusal, RemoveQueue, SetPaused};
use host_http::extract::{EmptyBody, InPath, small_body_or_default};
use host_http::gate::Caller;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::scoped::{scope, sees_queue};

/// Lists all queues that have or had jobs or are paused.
#[utoipa::path(
    get, path = path::QUEUES, tag = "queues",
    responses((status = 200, body = PageView<QueueView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<PageView<QueueView>>, ApiError> {
    let queues = shared.read(|reader| reader.queues()).await?;
    let seen = queues
        .into_iter()
        .filter(|queue| sees_queue(&caller, &queue.name));
    let items = seen.map(|queue| view(&caller, queue));
    Ok(Json(PageView::whole(items.collect())))
}

/// Shows one queue.
#[utoipa::path(
    get, path = path::QUEUE, tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    responses((status = 200, body = QueueView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
) -> Result<Json<QueueView>, ApiError> {
    let queue = find(&shared, &caller, name).await?;
    Ok(Json(view(&caller, queue)))
}

/// Starts no more jobs of a queue; running ones continue.
#[utoipa::path(
    post, path = path::QUEUE_PAUSE, tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = Option<PauseBody>,
    responses((status = 200, body = QueueView))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    let PauseBody { create } = small_body_or_default(&shared.api.bodies, request).await?;
    if !create {
        find(&shared, &caller, name.clone()).await?;
    }
    set_paused(&shared, &caller, &actor, name, true).await
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
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    find(&shared, &caller, name.clone()).await?;
    set_paused(&shared, &caller, &actor, name, false).await
}

/// Removes a queue that has no jobs.
#[utoipa::path(
    delete, path = path::QUEUE, tag = "queues", operation_id = "remove_queue",
    params(("name" = String, Path, description = "The queue's name")),
    responses((status = 200, body = RemovedQueueView))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
) -> Result<Json<RemovedQueueView>, ApiError> {
    find(&shared, &caller, name.clone()).await?;
    let queue = name.clone();
    let note = actor.note(format!("queue {name}")).detail("removed");
    shared.submit(RemoveQueue { queue }, note).await?;
    let (name, removed) = (name.into(), true);
    Ok(Json(RemovedQueueView { name, removed }))
}

async fn set_paused(
    shared: &Shared,
    caller: &Caller,
    actor: &Actor,
    name: Name,
    paused: bool,
) -> Result<Json<QueueView>, ApiError> {
    if !sees_queue(caller, &name) {
        return Err(Rejection::Queue(QueueRefusal::Unknown(name)).into());
    }
    let queue = name.clone();
    let command = SetPaused { queue, paused };
    let detail = if paused { "paused" } else { "resumed" };
    let note = actor.note(format!("queue {name}")).detail(detail);
    shared.submit(command, note).await?;
    let queue = find(shared, caller, name).await?;
    Ok(Json(view(caller, queue)))
}

/// Finds a queue that the caller may see.
async fn find(shared: &Shared, caller: &Caller, name: Name) -> Result<QueueStatus, ApiError> {
    let mut queues = shared.read(|reader| reader.queues()).await?.into_iter();
    let queue = queues.find(|queue| queue.name == name && sees_queue(caller, &name));
    Ok(queue.ok_or(Rejection::Queue(QueueRefusal::Unknown(name)))?)
}

/// Shows a queue. Its numbers are for those who may see all handlers: they count jobs of any.
fn view(caller: &Caller, queue: QueueStatus) -> QueueView {
    let mut view = QueueView::from(queue);
    if !scope(caller).handlers.is_empty() {
        view.counts.clear();
    }
    view
}
