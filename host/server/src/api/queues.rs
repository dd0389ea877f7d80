//! Queues: how many jobs they have in each state, pausing and resuming.

use axum::Json;
use axum::extract::{Request, State};
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_core::command::SetPaused;
use host_core::name::Name;
use host_core::query::QueueStatus;
use host_core::rejection::{QueueRefusal, Rejection};
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
    let queues = shared.api.dispatch.read(|reader| reader.queues()).await?;
    let seen = queues.into_iter();
    let seen = seen.filter(|queue| sees_queue(&caller, &queue.name));
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
    read(&shared, &caller, name).await
}

/// Starts no more jobs of a queue; running ones continue.
#[utoipa::path(
    post, path = path::QUEUE_PAUSE, tag = "queues",
    params(("name" = String, Path, description = "The queue's name")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = QueueView))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    set(&shared, (&caller, &actor), name, true, request).await
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
    let _known = read(&shared, &caller, name.clone()).await?;
    set(&shared, (&caller, &actor), name, false, request).await
}

async fn set(
    shared: &Shared,
    (caller, actor): (&Caller, &Actor),
    name: Name,
    paused: bool,
    request: Request,
) -> Result<Json<QueueView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    if !sees_queue(caller, &name) {
        return Err(Rejection::Queue(QueueRefusal::Unknown(name)).into());
    }
    let queue = name.clone();
    let command = SetPaused { queue, paused };
    let detail = Some(if paused { "paused" } else { "resumed" }.to_owned());
    actor
        .submit(shared, command, format!("queue {name}"), detail)
        .await?;
    read(shared, caller, name).await
}

async fn read(shared: &Shared, caller: &Caller, name: Name) -> Result<Json<QueueView>, ApiError> {
    let queues = shared.api.dispatch.read(|reader| reader.queues()).await?;
    let mut queues = queues.into_iter();
    let queue = queues.find(|queue| queue.name == name && sees_queue(caller, &name));
    let queue = queue.ok_or(Rejection::Queue(QueueRefusal::Unknown(name)))?;
    Ok(Json(view(caller, queue)))
}

/// Shows a queue. Its numbers are for those who may see all handlers: they count jobs of any.
fn view(caller: &Caller, queue: QueueStatus) -> QueueView {
    let mut view = QueueView::from(queue);
    if !scope(caller).handlers.is_empty() {
        view.counts.clear();
    }
    view
}
