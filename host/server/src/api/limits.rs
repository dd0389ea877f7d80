//! Limits by key: setting, showing and removing them.

use axum::Json;
use axum::extract::{Request, State};
use host_api::limit::{LimitBody, LimitQuery, LimitView, RemovedLimitView};
use host_api::page::PageView;
use host_api::path;
use host_core::name::Name;
use host_engine::Rejection;
use host_engine::limit::tables::read_limits;
use host_engine::limit::{KeptLimit, LimitRefusal, RemoveLimit, SetLimit};
use host_engine::schedule::Source;
use host_http::extract::{InPath, InQuery, small_body};
use host_http::gate::Caller;
use host_http::query::items;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::scoped::sees_payloads;

/// How many keys are shown if a request does not say.
const KEYS_SHOWN: u32 = 20;

/// Sets a limit, new or in place of the one with its name. Jobs that were enqueued before keep their keys.
#[utoipa::path(
    put, path = path::LIMIT, tag = "limits", operation_id = "set_limit",
    params(("name" = String, Path, description = "The limit's name")),
    request_body = LimitBody,
    responses((status = 200, body = LimitView))
)]
pub(super) async fn set(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<LimitView>, ApiError> {
    let body: LimitBody = small_body(&shared.api.bodies, request).await?;
    let limit = body
        .into_limit(name.clone(), Source::Api)
        .map_err(ApiError::invalid)?;
    let limit = Box::new(limit);
    let note = actor.note(format!("limit {name}")).detail("set");
    shared.submit(SetLimit { limit }, note).await?;
    view(&shared, &caller, name, KEYS_SHOWN).await
}

/// Lists the limits by name.
#[utoipa::path(
    get, path = path::LIMITS, tag = "limits", operation_id = "list_limits",
    responses((status = 200, body = PageView<LimitView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<LimitView>>, ApiError> {
    let read = shared.read(|reader| Ok((read_limits(reader)?, reader.waiting_for_limits()?)));
    let (limits, waiting) = read.await?;
    let mut kept: Vec<KeptLimit> = limits
        .0
        .into_values()
        .filter(|kept| !kept.is_removed)
        .collect();
    kept.sort_by(|one, other| one.limit.name.cmp(&other.limit.name));
    let now = shared.api.clock.now();
    let items = kept.into_iter().map(|kept| {
        let waiting = waiting.get(&kept.number).copied();
        LimitView::new(kept, waiting.unwrap_or_default(), None, now)
    });
    Ok(Json(PageView::whole(items.collect())))
}

/// Shows a limit with its fullest keys.
#[utoipa::path(
    get, path = path::LIMIT, tag = "limits", operation_id = "show_limit",
    params(("name" = String, Path, description = "The limit's name"), LimitQuery),
    responses((status = 200, body = LimitView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
    InQuery(query): InQuery<LimitQuery>,
) -> Result<Json<LimitView>, ApiError> {
    let keys = items("keys", query.keys, KEYS_SHOWN)?;
    view(&shared, &caller, name, keys).await
}

/// Removes a limit. Jobs no longer wait for it.
#[utoipa::path(
    delete, path = path::LIMIT, tag = "limits", operation_id = "remove_limit",
    params(("name" = String, Path, description = "The limit's name")),
    responses((status = 200, body = RemovedLimitView))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    actor: Actor,
    InPath(name): InPath<Name>,
) -> Result<Json<RemovedLimitView>, ApiError> {
    let limits = shared.read(read_limits).await?;
    let owner = limits.named(&name).map(|kept| kept.limit.source.clone());
    if let Some(owner) = owner.filter(|owner| *owner != Source::Api) {
        return Err(Rejection::Limit(LimitRefusal::Owned { limit: name, owner }).into());
    }
    let limit = name.clone();
    let remove = RemoveLimit { limit };
    let note = actor.note(format!("limit {name}")).detail("removed");
    shared.submit(remove, note).await?;
    let (name, removed) = (name.into(), true);
    Ok(Json(RemovedLimitView { name, removed }))
}

async fn view(
    shared: &Shared,
    caller: &Caller,
    name: Name,
    keys: u32,
) -> Result<Json<LimitView>, ApiError> {
    let wanted = name.clone();
    let read = shared.read(move |reader| {
        let limits = read_limits(reader)?;
        let Some(kept) = limits.named(&wanted) else {
            return Ok(None);
        };
        let fullest = reader.fullest_keys(kept.number, keys)?;
        let waiting = reader.waiting_for_limits()?.remove(&kept.number);
        Ok(Some((kept.clone(), waiting.unwrap_or_default(), fullest)))
    });
    let found = read.await?;
    let (kept, waiting, keys) = found.ok_or(Rejection::Limit(LimitRefusal::Unknown(name)))?;
    // Keys are parts of params.
    let mut view = LimitView::new(kept, waiting, Some(keys), shared.api.clock.now());
    if !sees_payloads(caller) {
        view.keys = None;
        view.withheld = vec!["keys".to_owned()];
    }
    Ok(Json(view))
}
