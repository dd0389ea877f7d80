//! Stopping Hero jobs and queueing them again.

use axum::Json;
use axum::extract::{Request, State};
use host_http::extract::{EmptyBody, TextInPath, small_body_or_default};
use host_http::problem::Problem;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::list::detail;
use super::problems::unknown;
use super::view::HeroJobView;
use super::{HeroId, Shared, find, hero, path, wall};
use crate::client::StopResult;

/// The result of a stop.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroStop)]
pub(crate) struct StopView {
    /// The job.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) id: String,
    /// Whether it has stopped: it waited for others. Else its worker is asked.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) stopped: bool,
}

/// How to queue a job again.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroRequeue)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RequeueBody {
    /// Also if its worker may still be running it; then it may run twice.
    pub(crate) force: bool,
}

/// Where to begin.
#[derive(Debug, Default, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroRequeueStale)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StaleBody {
    /// The `next_cursor` of the answer before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cursor: Option<u64>,
}

/// Which jobs were queued again.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroRequeued)]
pub(crate) struct RequeuedView {
    /// Their ids.
    pub(crate) requeued: Vec<String>,
    /// What to give as `cursor` to go on, `null` at the end.
    pub(crate) next_cursor: Option<String>,
}

/// Asks the worker of a Hero job to stop it.
#[utoipa::path(
    post, path = path::STOP, tag = "hero",
    params(("id" = String, Path, description = "The job's id, in full")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = StopView))
)]
pub(super) async fn stop(
    State(shared): State<Shared>,
    TextInPath(id): TextInPath,
    request: Request,
) -> Result<Json<StopView>, Problem> {
    let EmptyBody {} = small_body_or_default(&shared.ports.bodies, request).await?;
    let HeroId(id) = HeroId::of(&shared, id)?;
    let stopped = hero(&shared)?
        .client
        .stop(&id, wall(&shared))
        .await?
        .ok_or_else(|| unknown(&id))?
        == StopResult::Ended;
    Ok(Json(StopView { id, stopped }))
}

/// Queues a Hero job again that has failed or that its worker has lost.
#[utoipa::path(
    post, path = path::REQUEUE, tag = "hero",
    params(("id" = String, Path, description = "The job's id, in full")),
    request_body = Option<RequeueBody>,
    responses((status = 200, body = HeroJobView))
)]
pub(super) async fn requeue(
    State(shared): State<Shared>,
    TextInPath(id): TextInPath,
    request: Request,
) -> Result<Json<HeroJobView>, Problem> {
    let RequeueBody { force } = small_body_or_default(&shared.ports.bodies, request).await?;
    let HeroId(id) = HeroId::of(&shared, id)?;
    let client = &hero(&shared)?.client;
    let requeued = client.requeue(&id, force, wall(&shared)).await;
    requeued?.ok_or_else(|| unknown(&id))?;
    detail(&shared, &find(&shared, &id).await?).await
}

/// Queues those jobs of a worker again that it has lost: they were started, and their time limit is
/// over for 10 seconds; or they were taken from the queue and not started. A request examines a bounded number
/// of jobs: repeat it with the cursor of its answer until there is none.
#[utoipa::path(
    post, path = path::STALE, tag = "hero",
    params(("worker_id" = String, Path, description = "The worker's id")),
    request_body = Option<StaleBody>,
    responses((status = 200, body = RequeuedView))
)]
pub(super) async fn requeue_stale(
    State(shared): State<Shared>,
    TextInPath(worker_id): TextInPath,
    request: Request,
) -> Result<Json<RequeuedView>, Problem> {
    let StaleBody { cursor } = small_body_or_default(&shared.ports.bodies, request).await?;
    let client = &hero(&shared)?.client;
    let clock = shared.ports.clock.as_ref();
    let (requeued, next) = client.requeue_lost(&worker_id, cursor, clock).await?;
    Ok(Json(RequeuedView {
        requeued,
        next_cursor: next.map(|next| next.to_string()),
    }))
}
