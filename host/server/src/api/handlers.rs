//! The handlers that are deployed, with their limits, grants and schemas, and what they cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use host_api::{raw, seconds};
use host_cells::run::handlers::Handler;
use host_core::cost::{Cost, RevisionCost, Spread};
use host_core::handler::{Grants, Limits};
use host_core::name::Name;
use host_http::extract::InPath;
use host_http::json::nearest;
use host_http::query::PageView;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shared;
use super::error::ApiError;
use super::problem::kinds;

/// A handler, as its component's current revision has it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Handler)]
pub(super) struct HandlerView {
    /// Its name.
    name: String,
    /// What it does.
    description: Option<String>,
    /// The component it comes from.
    component: String,
    /// Which revision of it.
    revision: u32,
    /// What an attempt may use up.
    limits: LimitsView,
    /// What an attempt may reach beyond its params.
    grants: GrantsView,
    /// How long its jobs are kept, in seconds, if the manifest says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_seconds: Option<f64>,
    /// How long its discarded jobs are kept, in seconds, if the manifest says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    retention_discarded_seconds: Option<f64>,
    /// What its attempts in this host's cells have cost, by revision, the one that ran last first. Only
    /// revisions that ran in the last day. After a restart it begins with the newest 100,000 attempts
    /// that the store has.
    cost: Vec<RevisionCostView>,
    /// JSON Schema of its params; left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    params_schema: Option<Box<RawValue>>,
    /// JSON Schema of its result; left out of lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    result_schema: Option<Box<RawValue>>,
}

/// What an attempt may use up.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Limits)]
pub(super) struct LimitsView {
    /// Linear memory.
    memory_bytes: u64,
    /// CPU budget; absent, the time limit decides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    fuel: Option<u64>,
    /// Time limit.
    timeout_ms: u64,
    /// How long a cancelled guest may take to stop by itself.
    grace_ms: u64,
    /// The largest result.
    result_bytes_max: u64,
    /// How much log is kept.
    log_bytes_max: u64,
}

/// What an attempt may reach.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Grants)]
pub(super) struct GrantsView {
    /// Names of environment variables.
    env: Vec<String>,
    /// Directories to read.
    read_dirs: Vec<DirView>,
}

/// A directory to read.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DirGrant)]
pub(super) struct DirView {
    /// Where it is on the host.
    host: String,
    /// Where the guest sees it.
    guest: String,
}

/// What the attempts of one revision have cost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = RevisionCost)]
pub(super) struct RevisionCostView {
    /// The component.
    component: String,
    /// Its revision.
    revision: u32,
    /// Over the last 55 to 60 minutes; null if none has ended.
    last_hour: Option<CostView>,
    /// Over the last 23 to 24 hours.
    last_day: CostView,
}

/// What attempts have cost.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Cost)]
pub(super) struct CostView {
    /// How many have ended.
    runs: u64,
    /// How many of them neither completed nor were cancelled.
    failures: u64,
    /// How long one took.
    ran_ms: SpreadView,
    /// The fuel of one.
    fuel: SpreadView,
    /// The CPU time of one.
    cpu_us: SpreadView,
    /// The most linear memory of one.
    peak_memory_bytes: SpreadView,
}

/// How values are distributed. The percentiles are at most an eighth above the exact ones.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Spread)]
pub(super) struct SpreadView {
    /// Half of the values are not above it.
    p50: u64,
    /// 99 of 100 values are not above it.
    p99: u64,
    /// The largest value.
    max: u64,
}

impl From<RevisionCost> for RevisionCostView {
    fn from(cost: RevisionCost) -> Self {
        Self {
            component: cost.component,
            revision: cost.revision,
            last_hour: cost.last_hour.map(Into::into),
            last_day: cost.last_day.into(),
        }
    }
}

impl From<Cost> for CostView {
    fn from(cost: Cost) -> Self {
        Self {
            runs: cost.runs,
            failures: cost.failures,
            ran_ms: cost.ran_ms.into(),
            fuel: cost.fuel.into(),
            cpu_us: cost.cpu_us.into(),
            peak_memory_bytes: cost.peak_memory_bytes.into(),
        }
    }
}

impl From<Spread> for SpreadView {
    fn from(Spread { p50, p99, max }: Spread) -> Self {
        Self { p50, p99, max }
    }
}

impl HandlerView {
    fn new(shared: &Shared, handler: &Handler, with_schemas: bool) -> Self {
        let info = &handler.info;
        let api = &shared.api;
        let cost = api.costs.of(info.name.as_str(), api.clock.now());
        let kept = handler.retention();
        let schema = |schema: &Option<_>| schema.clone().filter(|_| with_schemas).map(raw);
        Self {
            name: info.name.to_string(),
            description: info.description.clone(),
            component: handler.revision.component.to_string(),
            revision: handler.revision.revision,
            limits: (&handler.limits).into(),
            grants: (&handler.grants).into(),
            retention_seconds: kept.ms.map(seconds),
            retention_discarded_seconds: kept.discarded_ms.map(seconds),
            cost: cost.into_iter().map(Into::into).collect(),
            params_schema: schema(&info.params_schema),
            result_schema: schema(&info.result_schema),
        }
    }
}

impl From<&Limits> for LimitsView {
    fn from(limits: &Limits) -> Self {
        Self {
            memory_bytes: limits.memory_bytes,
            fuel: limits.fuel,
            timeout_ms: limits.timeout_ms,
            grace_ms: limits.grace_ms,
            result_bytes_max: limits.result_bytes_max,
            log_bytes_max: limits.log_bytes_max,
        }
    }
}

impl From<&Grants> for GrantsView {
    fn from(grants: &Grants) -> Self {
        let dirs = grants.read_dirs.iter();
        Self {
            env: grants.env.clone(),
            read_dirs: dirs
                .map(|dir| DirView {
                    host: dir.host.clone(),
                    guest: dir.guest.clone(),
                })
                .collect(),
        }
    }
}

/// Lists all deployed handlers.
#[utoipa::path(
    get, path = "/api/v1/handlers", tag = "handlers",
    responses((status = 200, body = PageView<HandlerView>))
)]
pub(super) async fn list(State(shared): State<Shared>) -> Json<PageView<HandlerView>> {
    let all = shared.api.handlers.all();
    let views = all
        .values()
        .map(|handler| HandlerView::new(&shared, handler, false));
    Json(PageView::all(views.collect()))
}

/// Shows one handler with its schemas.
#[utoipa::path(
    get, path = "/api/v1/handlers/{name}", tag = "handlers",
    params(("name" = String, Path, description = "The handler's name")),
    responses((status = 200, body = HandlerView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
) -> Result<Json<HandlerView>, ApiError> {
    let mut all = shared.api.handlers.all();
    if !all.contains_key(&name) && shared.api.deployer.look().await {
        all = shared.api.handlers.all();
    }
    let handler = all
        .get(&name)
        .ok_or_else(|| unknown(&all, &name).in_path())?;
    Ok(Json(HandlerView::new(&shared, handler, true)))
}

/// Makes the refusal of a name that no deployed handler has.
pub(super) fn unknown(all: &BTreeMap<Name, Arc<Handler>>, name: &Name) -> ApiError {
    let detail = match nearest(name.as_str(), all.keys().map(Name::as_str)) {
        Some(near) => format!("no handler is named {name}; did you mean {near}?"),
        None if all.is_empty() => format!("no handler is named {name}; nothing is deployed"),
        None => format!("no handler is named {name}"),
    };
    ApiError::new(&kinds::HANDLER_NOT_FOUND, detail)
}
