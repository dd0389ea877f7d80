//! The handlers that are deployed, with their limits, grants and schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use host_core::handler::{Grants, Limits};
use host_core::name::Name;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::Shared;
use super::extract::InPath;
use super::json::meant;
use super::problem::{Code, Problem};
use super::view::{PageView, raw};
use host_cells::handlers::Handler;

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

impl HandlerView {
    fn new(handler: &Handler, with_schemas: bool) -> Self {
        let info = &handler.info;
        let schema = |schema: &Option<_>| schema.clone().filter(|_| with_schemas).map(raw);
        Self {
            name: info.name.to_string(),
            description: info.description.clone(),
            component: handler.revision.component.to_string(),
            revision: handler.revision.revision,
            limits: (&handler.limits).into(),
            grants: (&handler.grants).into(),
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
    let views = all.values().map(|handler| HandlerView::new(handler, false));
    Json(PageView {
        items: views.collect(),
        next_cursor: None,
    })
}

/// Shows one handler with its schemas.
#[utoipa::path(
    get, path = "/api/v1/handlers/{name}", tag = "handlers",
    params(("name" = String, Path, description = "The handler's name")),
    responses((status = 200, body = HandlerView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath,
) -> Result<Json<HandlerView>, Problem> {
    let all = shared.api.handlers.all();
    let handler = all
        .get(&name)
        .ok_or_else(|| unknown(&all, &name).in_path())?;
    Ok(Json(HandlerView::new(handler, true)))
}

/// Makes the refusal of a name that no deployed handler has.
pub(super) fn unknown(all: &BTreeMap<Name, Arc<Handler>>, name: &Name) -> Problem {
    let detail = match meant(name.as_str(), all.keys().map(Name::as_str)) {
        Some(near) => format!("no handler is named {name}; did you mean {near}?"),
        None if all.is_empty() => format!("no handler is named {name}; nothing is deployed"),
        None => format!("no handler is named {name}"),
    };
    Problem::new(Code::HandlerNotFound, detail)
}
