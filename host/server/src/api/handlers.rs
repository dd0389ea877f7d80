//! The handlers that are deployed, with their limits, grants and schemas, and what they cost.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use host_api::handler::HandlerView;
use host_api::page::PageView;
use host_api::{path, raw};
use host_cells::run::handlers::Handler;
use host_core::access::{Object, Scope};
use host_core::name::Name;
use host_core::seconds::Seconds;
use host_http::extract::InPath;
use host_http::gate::Caller;
use host_http::json::nearest;

use super::error::ApiError;
use super::problem::kinds;
use super::scoped::scope;
use super::{Api, Shared};

/// Shows a handler. What it costs is for those who may see all queues: it counts jobs of any.
fn view(shared: &Shared, caller: &Caller, handler: &Handler, with_schemas: bool) -> HandlerView {
    let info = &handler.info;
    let api = &shared.api;
    let mut cost = api.numbers.costs().of(info.name.as_str(), api.clock.now());
    if !scope(caller).queues.is_empty() {
        cost.clear();
    }
    let (policy, kept) = (handler.policy(), handler.retention());
    let schema = |schema: &Option<_>| schema.clone().filter(|_| with_schemas).map(raw);
    HandlerView {
        name: info.name.to_string(),
        description: info.description.clone(),
        component: handler.revision.component.to_string(),
        revision: handler.revision.revision,
        limits: (&handler.limits).into(),
        grants: (&handler.grants).into(),
        max_attempts: policy.max_attempts,
        backoff: policy.backoff.into(),
        retention_seconds: kept.ms.map(|ms| Seconds { ms }),
        retention_discarded_seconds: kept.discarded_ms.map(|ms| Seconds { ms }),
        cost: cost.into_iter().map(Into::into).collect(),
        params_schema: schema(&info.params_schema),
        result_schema: schema(&info.result_schema),
    }
}

/// Returns the deployed handlers that a scope has.
pub(super) fn seen(api: &Api, scope: &Scope) -> Arc<BTreeMap<Name, Arc<Handler>>> {
    let all = api.handlers.by_name();
    if scope.is_all() {
        return all;
    }
    let has = |name: &Name| scope.has(Object::Handler(None, name.as_str()));
    let seen = all
        .iter()
        .filter(|(name, _)| has(name))
        .map(|(name, handler)| (name.clone(), Arc::clone(handler)));
    Arc::new(seen.collect())
}

/// Lists all deployed handlers.
#[utoipa::path(
    get, path = path::HANDLERS, tag = "handlers",
    responses((status = 200, body = PageView<HandlerView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Json<PageView<HandlerView>> {
    let all = seen(&shared.api, scope(&caller));
    let views = all
        .values()
        .map(|handler| view(&shared, &caller, handler, false));
    Json(PageView::whole(views.collect()))
}

/// Shows one handler with its schemas.
#[utoipa::path(
    get, path = path::HANDLER, tag = "handlers",
    params(("name" = String, Path, description = "The handler's name")),
    responses((status = 200, body = HandlerView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
) -> Result<Json<HandlerView>, ApiError> {
    let mut all = seen(&shared.api, scope(&caller));
    if !all.contains_key(&name) && shared.api.deployer.sync().await {
        all = seen(&shared.api, scope(&caller));
    }
    let handler = all
        .get(&name)
        .ok_or_else(|| unknown(&all, &name).in_path())?;
    Ok(Json(view(&shared, &caller, handler, true)))
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
