//! The pools of foreign runners: how each runner is, and restarting them.

use axum::Json;
use axum::extract::{Request, State};
use host_core::name::Name;
use host_protocols::hero;
use host_core::port::SeatState;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Shared;
use super::extract::InPath;
use super::jobs::small;
use super::problem::{Code, Problem};
use super::view::PageView;
use crate::runners::{PoolHealth, RunnerHealth};

/// A pool of foreign runners.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RunnerPool)]
pub(super) struct PoolView {
    /// Its name: what stands before `#` in a handler's name.
    name: String,
    /// The protocol it speaks.
    wire: &'static str,
    /// Whether somebody else starts its runner; a restart is then another connection.
    external: bool,
    /// The queues whose jobs all go to it.
    queues: Vec<String>,
    /// Whether it is given the handlers that nobody else has.
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
}

/// Which runners to restart.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RestartBody {
    /// The number of one runner, from 1; all of the pool if absent.
    runner: Option<usize>,
}

impl From<PoolHealth> for PoolView {
    fn from(pool: PoolHealth) -> Self {
        let up = |runner: &&RunnerHealth| runner.state == SeatState::Up;
        Self {
            up: pool.runners.iter().filter(up).count(),
            in_flight: pool.runners.iter().map(|runner| runner.in_flight).sum(),
            name: pool.name.into(),
            wire: pool.wire,
            external: pool.is_external,
            queues: pool.queues.into_iter().map(String::from).collect(),
            default: pool.is_default,
            runners: pool.runners.into_iter().map(RunnerView::from).collect(),
        }
    }
}

impl From<RunnerHealth> for RunnerView {
    fn from(runner: RunnerHealth) -> Self {
        Self {
            executor: runner.executor,
            state: runner.state.as_str(),
            address: runner.address,
            pid: runner.pid,
            in_flight: runner.in_flight,
            failures: runner.failures,
            reason: runner.reason,
        }
    }
}

/// Lists the pools of foreign runners.
#[utoipa::path(
    get, path = "/api/v1/runners", tag = "runners",
    responses((status = 200, body = PageView<PoolView>))
)]
pub(super) async fn list(State(shared): State<Shared>) -> Json<PageView<PoolView>> {
    let pools = shared.api.runners.health().into_iter();
    Json(PageView {
        items: pools.map(PoolView::from).collect(),
        next_cursor: None,
    })
}

/// Shows one pool of foreign runners.
#[utoipa::path(
    get, path = "/api/v1/runners/{name}", tag = "runners",
    params(("name" = String, Path, description = "The pool's name")),
    responses((status = 200, body = PoolView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath,
) -> Result<Json<PoolView>, Problem> {
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
    InPath(name): InPath,
    request: Request,
) -> Result<Json<PoolView>, Problem> {
    let RestartBody { runner } = small(&shared, request).await?;
    let Json(pool) = look(&shared, &name)?;
    if pool.wire == hero::ADAPTER.name {
        let detail = format!("{name} is not started by this host; restart it where it runs");
        return Err(Problem::new(Code::InvalidRequest, detail));
    }
    if !shared.api.runners.restart(&name, runner) {
        let detail = format!("runner: it is 1 to {}", pool.runners.len());
        return Err(Problem::new(Code::InvalidRequest, detail));
    }
    look(&shared, &name)
}

fn look(shared: &Shared, name: &Name) -> Result<Json<PoolView>, Problem> {
    let pools = shared.api.runners.health();
    let pool = pools.into_iter().find(|pool| pool.name == *name);
    let pool = pool.ok_or_else(|| {
        let detail = format!("no runner is named {name}");
        Problem::new(Code::RunnerNotFound, detail)
    })?;
    Ok(Json(pool.into()))
}
