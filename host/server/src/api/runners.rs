//! The pools of foreign runners: how each runner is, and restarting them.

use axum::Json;
use axum::extract::{Request, State};
use host_core::name::Name;
use host_http::extract::{InPath, small_body_or_default};
use host_http::query::PageView;
use host_protocols::wire::executors::{ExecutorHealth, RestartError, WorkerHealth, WorkerState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// A pool of foreign runners.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunnerPool)]
pub(super) struct PoolView {
    /// Its name: what stands before `#` in a handler's name.
    name: String,
    /// The protocol it speaks.
    wire: &'static str,
    /// Whether its runners are started by another program; a restart then connects anew.
    external: bool,
    /// Whether its runners can be restarted, or connected to anew, by this host.
    restartable: bool,
    /// The queues whose jobs all go to it.
    queues: Vec<String>,
    /// Whether it gets the jobs whose handler no component has.
    default: bool,
    /// How many of its runners take work.
    up: usize,
    /// Attempts in flight at all of them.
    in_flight: usize,
    /// Its runners.
    runners: Vec<RunnerView>,
}

/// One foreign runner.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Runner)]
pub(super) struct RunnerView {
    /// Its name in attempts: `python/1`.
    executor: String,
    /// down, starting, up, draining or ending.
    state: &'static str,
    /// Where it listens, or the Redis from which it takes its jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// Its process, if we started it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Attempts in flight.
    in_flight: usize,
    /// How often in a row it ended without having answered anything, or could not be reached.
    failures: u32,
    /// Why it takes no work, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What it does, if its protocol tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    doing: Option<String>,
}

/// Which runners to restart.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RestartBody {
    /// The number of one runner, from 1; all of the pool if absent.
    runner: Option<usize>,
}

impl PoolView {
    fn new(shared: &Shared, executor: ExecutorHealth) -> Self {
        let executors = &shared.api.executors;
        let up = |worker: &&WorkerHealth| worker.state == WorkerState::Up;
        let queues = executors.queues_of(&executor.name).into_iter();
        Self {
            up: executor.workers.iter().filter(up).count(),
            in_flight: executor.workers.iter().map(|worker| worker.in_flight).sum(),
            default: executors.default_executor() == Some(&executor.name),
            queues: queues.map(String::from).collect(),
            name: executor.name.into(),
            wire: executor.wire,
            external: executor.is_external,
            restartable: executor.is_restartable,
            runners: executor.workers.into_iter().map(RunnerView::from).collect(),
        }
    }
}

impl From<WorkerHealth> for RunnerView {
    fn from(worker: WorkerHealth) -> Self {
        Self {
            executor: worker.name,
            state: worker.state.as_str(),
            address: worker.address,
            pid: worker.pid,
            in_flight: worker.in_flight,
            failures: worker.failures,
            reason: worker.reason,
            doing: worker.doing,
        }
    }
}

/// Lists the pools of foreign runners.
#[utoipa::path(
    get, path = "/api/v1/runners", tag = "runners",
    responses((status = 200, body = PageView<PoolView>))
)]
pub(super) async fn list(State(shared): State<Shared>) -> Json<PageView<PoolView>> {
    let executors = shared.api.executors.health().into_iter();
    let items = executors.map(|executor| PoolView::new(&shared, executor));
    Json(PageView::all(items.collect()))
}

/// Shows one pool of foreign runners.
#[utoipa::path(
    get, path = "/api/v1/runners/{name}", tag = "runners",
    params(("name" = String, Path, description = "The pool's name")),
    responses((status = 200, body = PoolView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
) -> Result<Json<PoolView>, ApiError> {
    look(&shared, &name)
}

/// Restarts the runners of a pool, each once its attempts have ended; until then it takes no others.
#[utoipa::path(
    post, path = "/api/v1/runners/{name}/restart", tag = "runners",
    params(("name" = String, Path, description = "The pool's name")),
    request_body = RestartBody,
    responses((status = 200, body = PoolView))
)]
pub(super) async fn restart(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<PoolView>, ApiError> {
    let RestartBody { runner } = small_body_or_default(&shared.api.bodies, request).await?;
    let Json(pool) = look(&shared, &name)?;
    let refused = |detail| Err(ApiError::new(&kinds::INVALID_REQUEST, detail));
    match shared.api.executors.restart(&name, runner) {
        Ok(()) => look(&shared, &name),
        Err(RestartError::NotOurs) => refused(format!(
            "{name} is not started by this host; restart it where it runs"
        )),
        Err(RestartError::NoSuchWorker) => {
            refused(format!("runner: it is 1 to {}", pool.runners.len()))
        }
    }
}

fn look(shared: &Shared, name: &Name) -> Result<Json<PoolView>, ApiError> {
    let mut executors = shared.api.executors.health().into_iter();
    let executor = executors.find(|executor| executor.name == *name);
    let executor = executor.ok_or_else(|| {
        let detail = format!("no runner is named {name}");
        ApiError::new(&kinds::RUNNER_NOT_FOUND, detail)
    })?;
    Ok(Json(PoolView::new(shared, executor)))
}
