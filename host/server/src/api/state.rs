//! The state that handlers keep: listing, reading, writing and removing it.

use axum::Json;
use axum::extract::{Request, State};
use host_api::page::{PageView, next_cursor};
use host_api::path;
use host_api::state::{
    RemoveStateQuery, RemovedStateView, SetStateBody, StateKeyQuery, StateKeyView, StateQuery,
    StateSpaceView, StateSpacesQuery, StateValueView,
};
use host_core::state::{
    KEYS_MAX, Space, SpaceUsage, StateWrite, StateWrites, VALUE_BYTES_MAX, check_key,
};
use host_engine::state::SetState;
use host_engine::state::tables::StateEntry;
use host_engine::table::Range;
use host_http::extract::{InPath, InQuery};
use host_http::gate::Caller;
use host_http::json;
use host_http::query::page_limit;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::{scope, sees_handler};

/// The largest body of a value, in bytes: each byte of a text may be written with six.
const BODY_BYTES_MAX: usize = 6 * VALUE_BYTES_MAX + (64 << 10);

/// Lists the spaces that have state.
#[utoipa::path(
    get, path = path::STATE, tag = "state", params(StateSpacesQuery),
    responses((status = 200, body = PageView<StateSpaceView>))
)]
pub(super) async fn spaces(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<StateSpacesQuery>,
) -> Result<Json<PageView<StateSpaceView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let mut after = query.cursor.unwrap_or_default();
    let mut items: Vec<StateSpaceView> = Vec::new();
    loop {
        let from = std::mem::take(&mut after);
        let found: Vec<StateSpaceView> = shared
            .read(move |reader| {
                reader.list::<SpaceUsage>(Range::all().marked().after(from.as_str()).first(limit))
            })
            .await?
            .into_iter()
            .map(Into::into)
            .collect();
        let is_last = found.len() < limit as usize;
        after = found
            .last()
            .map(|last| last.space.clone())
            .unwrap_or_default();
        let seen = |it: &StateSpaceView| it.space.parse().is_ok_and(|space| sees(&caller, &space));
        items.extend(found.into_iter().filter(seen));
        if is_last || items.len() >= limit as usize {
            break;
        }
    }
    items.truncate(limit as usize);
    let next_cursor = next_cursor(&items, limit, |last| &last.space);
    Ok(Json(PageView { items, next_cursor }))
}

/// Returns whether a caller may see a space: that of a handler that its scope names, or a shared one if it has no scope.
/// A scope of queues alone has no state, because jobs of all queues keep it together. Others look empty.
fn sees(caller: &Caller, space: &Space) -> bool {
    let scope = scope(caller);
    match space {
        _ if scope.is_all() => true,
        Space::Handler(name) => !scope.handlers.is_empty() && sees_handler(caller, name),
        Space::Shared(_) => false,
    }
}

/// Lists the keys of a space, in the order of their bytes.
#[utoipa::path(
    get, path = path::STATE_SPACE, tag = "state",
    params(("space" = String, Path, description = "`handler:NAME` or `shared:NAME`"), StateQuery),
    responses((status = 200, body = PageView<StateKeyView>))
)]
pub(super) async fn keys(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(space): InPath<Space>,
    InQuery(query): InQuery<StateQuery>,
) -> Result<Json<PageView<StateKeyView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    if !sees(&caller, &space) {
        return Ok(Json(PageView::whole(Vec::new())));
    }
    let prefix = query.prefix.unwrap_or_default();
    let after = query.cursor.unwrap_or_default();
    let found = shared.read(move |reader| reader.state_keys(&space, &prefix, &after, limit));
    let items: Vec<StateKeyView> = found.await?.into_iter().map(Into::into).collect();
    let next_cursor = next_cursor(&items, limit, |last| &last.key);
    Ok(Json(PageView { items, next_cursor }))
}

/// Shows the value of a key.
#[utoipa::path(
    get, path = path::STATE_VALUE, tag = "state",
    params(("space" = String, Path, description = "`handler:NAME` or `shared:NAME`"), StateKeyQuery),
    responses((status = 200, body = StateValueView))
)]
pub(super) async fn value(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(space): InPath<Space>,
    InQuery(query): InQuery<StateKeyQuery>,
) -> Result<Json<StateValueView>, ApiError> {
    read(&shared, &caller, space, query.key).await
}

/// Writes a key. The quotas of handlers do not count.
#[utoipa::path(
    put, path = path::STATE_VALUE, tag = "state",
    params(("space" = String, Path, description = "`handler:NAME` or `shared:NAME`"), StateKeyQuery),
    request_body = SetStateBody,
    responses((status = 200, body = StateValueView))
)]
pub(super) async fn set(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(space): InPath<Space>,
    InQuery(query): InQuery<StateKeyQuery>,
    request: Request,
) -> Result<Json<StateValueView>, ApiError> {
    let (parts, body) = request.into_parts();
    let bodies = &shared.api.bodies;
    let received = bodies.read(&parts, body, BODY_BYTES_MAX).await?;
    let body: SetStateBody = json::read_object(&received.bytes)?;
    let value = body.into_value().map_err(|_| {
        let detail = "specify exactly one of value (text) and base64";
        ApiError::invalid(detail)
    })?;
    if value.len() > VALUE_BYTES_MAX {
        let length = value.len();
        let detail =
            format!("a value of state may have at most {VALUE_BYTES_MAX} bytes, got {length}");
        return Err(ApiError::invalid(detail));
    }
    let key = query.key;
    check_key(&key).map_err(|error| ApiError::invalid(format!("key: {error}")))?;
    if !sees(&caller, &space) {
        let detail = format!("the token may not use {space}");
        return Err(ApiError::new(&kinds::OUT_OF_SCOPE, detail));
    }
    let write = StateWrite {
        key: key.clone(),
        value: Some(value),
        expected: None,
    };
    change(&shared, &actor, space.clone(), vec![write]).await?;
    read(&shared, &caller, space, key).await
}

/// Removes a key.
#[utoipa::path(
    delete, path = path::STATE_VALUE, tag = "state",
    params(("space" = String, Path, description = "`handler:NAME` or `shared:NAME`"), StateKeyQuery),
    responses((status = 200, body = RemovedStateView))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(space): InPath<Space>,
    InQuery(query): InQuery<StateKeyQuery>,
) -> Result<Json<RemovedStateView>, ApiError> {
    let _ = read(&shared, &caller, space.clone(), query.key.clone()).await?;
    change(&shared, &actor, space, vec![removal(query.key)]).await?;
    let (removed, more) = (1, false);
    Ok(Json(RemovedStateView { removed, more }))
}

/// Removes the keys of a space, at most 1,000.
#[utoipa::path(
    delete, path = path::STATE_SPACE, tag = "state",
    params(("space" = String, Path, description = "`handler:NAME` or `shared:NAME`"), RemoveStateQuery),
    responses((status = 200, body = RemovedStateView))
)]
pub(super) async fn remove_keys(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(space): InPath<Space>,
    InQuery(query): InQuery<RemoveStateQuery>,
) -> Result<Json<RemovedStateView>, ApiError> {
    if !sees(&caller, &space) {
        let (removed, more) = (0, false);
        return Ok(Json(RemovedStateView { removed, more }));
    }
    let (of, prefix) = (space.clone(), query.prefix.unwrap_or_default());
    let limit = u32::try_from(KEYS_MAX).unwrap_or(u32::MAX);
    let found = shared
        .read(move |reader| reader.state_keys(&of, &prefix, "", limit))
        .await?;
    let (removed, more) = (found.len() as u64, found.len() == KEYS_MAX);
    if removed > 0 {
        let removals = found.into_iter().map(|it| removal(it.key));
        change(&shared, &actor, space, removals.collect()).await?;
    }
    Ok(Json(RemovedStateView { removed, more }))
}

const fn removal(key: String) -> StateWrite {
    StateWrite {
        key,
        value: None,
        expected: None,
    }
}

async fn change(
    shared: &Shared,
    actor: &Actor,
    space: Space,
    writes: Vec<StateWrite>,
) -> Result<(), ApiError> {
    let object = format!("state {space}");
    let removed = writes.iter().filter(|it| it.value.is_none()).count();
    let detail = match &writes[..] {
        [write] if removed == 0 => format!("key {:?} set", write.key),
        [write] => format!("key {:?} removed", write.key),
        _ => format!("{removed} keys removed"),
    };
    let writes = StateWrites {
        space,
        quota_bytes: u64::MAX,
        writes,
    };
    let command = SetState(Box::new(writes));
    let note = actor.note(object).detail(detail);
    shared.submit(command, note).await?;
    Ok(())
}

async fn read(
    shared: &Shared,
    caller: &Caller,
    space: Space,
    key: String,
) -> Result<Json<StateValueView>, ApiError> {
    let missing = format!("the state {space} has no key {key:?}");
    if !sees(caller, &space) {
        return Err(ApiError::new(&kinds::STATE_NOT_FOUND, missing));
    }
    let asked = key.clone();
    let found = shared
        .read(move |reader| reader.get::<StateEntry>((&space, &asked)))
        .await?
        .ok_or_else(|| ApiError::new(&kinds::STATE_NOT_FOUND, missing))?;
    Ok(Json(StateValueView::new(key, found.value)))
}
