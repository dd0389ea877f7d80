//! Looking at Hero jobs, waiting for them, and the lengths of a worker's queues.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::State;
use host_api::page::{PageView, WaitQuery};
use host_http::extract::{InQuery, TextInPath};
use host_http::problem::Problem;
use host_http::query::{cursor, page_limit, wait_timeout};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problems::unknown;
use super::view::HeroJobView;
use super::{HeroId, Shared, find, hero, path, wall};
use crate::client::JobView;
use crate::client::live::Filter;

/// Which jobs to list.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeroListQuery {
    /// Only jobs for this worker.
    pub(crate) worker_id: Option<String>,
    /// Only jobs in this status.
    pub(crate) status: Option<String>,
    /// About this many, 1 to 1,000; 100 if absent. A page may have fewer although more follow, and
    /// a few more.
    #[param(minimum = 1, maximum = 1_000)]
    pub(crate) limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[param(value_type = Option<u64>)]
    pub(crate) cursor: Option<String>,
}

/// The queues of one worker.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroWorker)]
pub(crate) struct WorkerView {
    /// Its id.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) worker_id: String,
    /// Jobs in its work queue.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) queued: u64,
    /// Jobs that hosts have taken from it and that have not ended.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) processing: u64,
    /// Requests to stop a job.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) stops: u64,
    /// Ids that could not be run.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) dead_letters: u64,
}

/// Lists the Hero jobs of the configured Redis, in no order. One that changes during the listing may come
/// twice.
#[utoipa::path(
    get, path = path::JOBS, tag = "hero", params(HeroListQuery),
    responses((status = 200, body = PageView<HeroJobView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    InQuery(query): InQuery<HeroListQuery>,
) -> Result<Json<PageView<HeroJobView>>, Problem> {
    let limit = page_limit(query.limit)? as usize;
    let after = cursor(query.cursor.as_deref())?;
    let filter = Filter {
        worker_id: query.worker_id,
        status: query.status,
    };
    let page = hero(&shared)?.client.jobs(&filter, after, limit).await?;
    let now = wall(&shared);
    Ok(Json(PageView {
        items: page
            .jobs
            .iter()
            .map(|job| HeroJobView::summary(job, now))
            .collect(),
        next_cursor: page.next.map(|next| next.to_string()),
    }))
}

/// Shows all of a Hero job.
#[utoipa::path(
    get, path = path::JOB, tag = "hero",
    params(("id" = String, Path, description = "The job's id, in full")),
    responses((status = 200, body = HeroJobView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    HeroId(id): HeroId,
) -> Result<Json<HeroJobView>, Problem> {
    let job = find(&shared, &id).await?;
    detail(&shared, &job).await
}

/// Shows all of a job, with the status of those that it waits for.
pub(super) async fn detail(shared: &Shared, job: &JobView) -> Result<Json<HeroJobView>, Problem> {
    let open: BTreeSet<String> = job
        .waits_for()
        .filter(|_| job.status() == "dispatched")
        .unwrap_or_default();
    let status = hero(shared)?.client.statuses(&open).await?;
    Ok(Json(HeroJobView::detail(job, &status, wall(shared))))
}

/// Waits until a Hero job ends, at most as long as requested, and shows it. Its reply is left to
/// others who wait for it.
#[utoipa::path(
    get, path = path::WAIT, tag = "hero",
    params(("id" = String, Path, description = "The job's id, in full"), WaitQuery),
    responses((status = 200, body = HeroJobView, description = "The job as it is then, ended or not"))
)]
pub(super) async fn wait(
    State(shared): State<Shared>,
    HeroId(id): HeroId,
    InQuery(query): InQuery<WaitQuery>,
) -> Result<Json<HeroJobView>, Problem> {
    let within = wait_timeout(query.timeout_seconds)?;
    let client = &hero(&shared)?.client;
    let waited = tokio::select! {
        waited = client.wait(&id, within) => waited,
        () = shared.ports.stopping.cancelled() => client.job(&id).await,
    };
    let job = waited?.ok_or_else(|| unknown(&id))?;
    detail(&shared, &job).await
}

/// Shows how long the queues of a worker are.
#[utoipa::path(
    get, path = path::WORKER, tag = "hero",
    params(("worker_id" = String, Path, description = "The worker's id")),
    responses((status = 200, body = WorkerView))
)]
pub(super) async fn worker(
    State(shared): State<Shared>,
    TextInPath(worker_id): TextInPath,
) -> Result<Json<WorkerView>, Problem> {
    let lengths = hero(&shared)?.client.lengths(&worker_id).await?;
    let [queued, processing, stops, dead_letters] = lengths;
    Ok(Json(WorkerView {
        worker_id,
        queued,
        processing,
        stops,
        dead_letters,
    }))
}
