//! Tokens: making, listing, exchanging and revoking them. A principal sees and changes only tokens that allow no more
//! than it may do itself: others look like tokens that do not exist.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use host_api::page::PageView;
use host_api::path;
use host_api::token::{
    MintedView, NewTokenBody, RevokedView, RotateBody, SelfView, ShareView, TokenView,
};
use host_core::access::{GLOBS_MAX, Glob, GlobError, Role, Scope, Verb, Verbs};
use host_core::seconds::Seconds;
use host_core::secret::TOKEN_PREFIX;
use host_core::time::Time;
use host_engine::token::{
    KeptToken, NAME_BYTES_MAX, NETWORKS_MAX, PutToken, RevokeToken, Rights, Token, TokenId,
    TokenText, token_id,
};
use host_http::extract::{TextInPath, small_body, small_body_or_default};
use host_http::gate::Caller;
use host_http::share::{BODY_BYTES_MAX, STREAMS_MAX};
use host_runtime::ids;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use super::problem::kinds;
use crate::auth::{Auth, first};

/// How long a token lasts by default, in milliseconds: 90 days.
const LASTS_MS: u64 = 90 * 24 * 3_600_000;

/// The shortest time that a token lasts, in milliseconds.
const LASTS_MS_MIN: u64 = 1_000;

/// The highest rate, in requests per second.
const RATE_MAX: u32 = 1_000_000;

/// How many ids an error lists.
const IDS_LISTED: usize = 10;

/// Makes a token. The answer has its text, which is kept nowhere.
#[utoipa::path(
    post, path = path::TOKENS, tag = "tokens", operation_id = "create_token",
    request_body = NewTokenBody,
    responses((status = 201, body = MintedView))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    request: Request,
) -> Result<(StatusCode, Json<MintedView>), ApiError> {
    let body: NewTokenBody = small_body(&shared.api.bodies, request).await?;
    let now = shared.api.clock.now();
    let auth = &shared.api.auth;
    let ends_at = latest_end(auth, &caller);
    let usual = now.plus_ms(LASTS_MS);
    let expires_at = match body.expires_seconds {
        Some(Seconds { ms }) if ms < LASTS_MS_MIN => {
            return Err(ApiError::invalid("expires_seconds: must be at least 1"));
        }
        Some(lasts) => now.plus_ms(lasts.ms),
        None => ends_at.map_or(usual, |ends_at| ends_at.min(usual)),
    };
    let rights = Rights {
        verbs: verbs(&body)?,
        scope: Scope {
            queues: globs("queues", body.queues)?,
            handlers: globs("handlers", body.handlers)?,
        },
        from: networks(&body.from)?,
        rate: within("rate", body.rate, RATE_MAX)?,
        max_waiting: within("max_waiting", body.max_waiting, u64::MAX)?,
        expires_at: Some(expires_at),
    };
    if body.name.is_empty() || body.name.len() > NAME_BYTES_MAX {
        return Err(ApiError::invalid(format!(
            "name: must have 1–{NAME_BYTES_MAX} bytes"
        )));
    }
    if body.name.chars().any(char::is_control) {
        return Err(ApiError::invalid("name: must have no control characters"));
    }
    let more = rights.beyond(&auth.rights_of(&caller.principal));
    if let Some(more) = more.or_else(|| longer(&rights, ends_at)) {
        let detail = format!("a token cannot make one that allows more: {more}");
        return Err(ApiError::new(&kinds::TOKEN_TOO_BROAD, detail));
    }
    let id = token_id(&ids::key());
    let text = TokenText::new(&id, &ids::key());
    let token = Token {
        id: id.clone(),
        hash: text.hash(),
        name: body.name,
        created_by: caller.principal.name.clone(),
        created_at: now,
        rights,
        previous: None,
        sessions: Vec::new(),
    };
    let detail = format!("{:?}: {}", token.name, token.rights.verbs);
    let put = put(token.clone(), true);
    let note = actor.note(format!("token {id}")).detail(detail);
    shared.submit(put, note).await?;
    auth.reload().await?;
    let used_at = None;
    let view = KeptToken { token, used_at }.into();
    let token = text.expose().to_owned();
    Ok((StatusCode::CREATED, Json(MintedView { token, view })))
}

/// Lists the tokens that allow no more than the caller may do.
#[utoipa::path(
    get, path = path::TOKENS, tag = "tokens", operation_id = "list_tokens",
    responses((status = 200, body = PageView<TokenView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<PageView<TokenView>>, ApiError> {
    let auth = &shared.api.auth;
    if !auth.requires_tokens() {
        auth.reload().await?;
    }
    let own = auth.rights_of(&caller.principal);
    let all = auth.list().into_iter();
    let seen = all.filter(|kept| kept.token.rights.beyond(&own).is_none());
    Ok(Json(PageView::whole(seen.map(TokenView::from).collect())))
}

/// Shows one token.
#[utoipa::path(
    get, path = path::TOKEN, tag = "tokens", operation_id = "show_token",
    params(("id" = String, Path, description = "The token's id, or its name if no other token has it")),
    responses((status = 200, body = TokenView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    TextInPath(id): TextInPath,
) -> Result<Json<TokenView>, ApiError> {
    Ok(Json(find(&shared, &caller, &id).await?.into()))
}

/// Revokes a token. From then on it is refused, and its open requests end.
#[utoipa::path(
    delete, path = path::TOKEN, tag = "tokens", operation_id = "revoke_token",
    params(("id" = String, Path, description = "The token's id, or its name if no other token has it")),
    responses((status = 200, body = RevokedView))
)]
pub(super) async fn revoke(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    TextInPath(id): TextInPath,
) -> Result<Json<RevokedView>, ApiError> {
    let token = find(&shared, &caller, &id).await?.token.id;
    let id = token.to_string();
    let revoke = RevokeToken { token };
    let note = actor.note(format!("token {id}")).detail("revoked");
    shared.submit(revoke, note).await?;
    shared.api.auth.reload().await?;
    let revoked = true;
    Ok(Json(RevokedView { id, revoked }))
}

/// Gives a token another text. The one before counts as long as asked for.
#[utoipa::path(
    post, path = path::TOKEN_ROTATE, tag = "tokens", operation_id = "rotate_token",
    params(("id" = String, Path, description = "The token's id, or its name if no other token has it")),
    request_body = Option<RotateBody>,
    responses((status = 200, body = MintedView))
)]
pub(super) async fn rotate(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    TextInPath(id): TextInPath,
    request: Request,
) -> Result<Json<MintedView>, ApiError> {
    let body: RotateBody = small_body_or_default(&shared.api.bodies, request).await?;
    let KeptToken { mut token, used_at } = find(&shared, &caller, &id).await?;
    if let Some(more) = longer(&token.rights, latest_end(&shared.api.auth, &caller)) {
        let detail = format!("a token cannot get the text of one that allows more: {more}");
        return Err(ApiError::new(&kinds::TOKEN_TOO_BROAD, detail));
    }
    let text = TokenText::new(&token.id, &ids::key());
    let now = shared.api.clock.now();
    let overlap = body.overlap_seconds.filter(|overlap| overlap.ms > 0);
    token.previous = overlap.map(|overlap| (token.hash, now.plus_ms(overlap.ms)));
    token.hash = text.hash();
    token.sessions.clear();
    let object = format!("token {}", token.id);
    let note = actor.note(object).detail("rotated");
    shared.submit(put(token.clone(), false), note).await?;
    shared.api.auth.reload().await?;
    let view = KeptToken { token, used_at }.into();
    let token = text.expose().to_owned();
    Ok(Json(MintedView { token, view }))
}

/// Shows who calls, what it may do and what is left of its quotas.
#[utoipa::path(
    get, path = path::TOKENS_SELF, tag = "tokens", operation_id = "show_caller",
    responses((status = 200, body = SelfView))
)]
pub(super) async fn own(
    State(shared): State<Shared>,
    caller: Caller,
) -> Result<Json<SelfView>, ApiError> {
    let principal = &caller.principal;
    let kept = TokenId::of_principal(principal).and_then(|id| shared.api.auth.find(&id));
    let waiting = match principal.max_waiting {
        Some(_) => {
            let name = principal.name.clone();
            let owned = shared.read(move |reader| reader.owned(&name));
            Some(owned.await?)
        }
        None => None,
    };
    Ok(Json(SelfView {
        principal: principal.name.clone(),
        verbs: principal.verbs.into(),
        waiting,
        share: caller.share.as_ref().map(|share| ShareView {
            body_bytes: share.body_bytes(),
            body_bytes_max: BODY_BYTES_MAX,
            streams: share.streams(),
            streams_max: STREAMS_MAX,
        }),
        token: kept.map(TokenView::from),
    }))
}

/// Returns when the tokens that a caller may make end at the latest.
fn latest_end(auth: &Auth, caller: &Caller) -> Option<Time> {
    let own = TokenId::of_principal(&caller.principal).and_then(|id| auth.find(&id))?;
    // The first token lasts a day, and makes those that last.
    let is_first = first::is_first(&own.token);
    own.token.rights.expires_at.filter(|_| !is_first)
}

/// Returns in words that rights end later than a caller may let them.
fn longer(rights: &Rights, ends_at: Option<Time>) -> Option<String> {
    let ends_at = ends_at?;
    let is_longer = rights.expires_at.is_none_or(|at| at > ends_at);
    is_longer.then(|| "a later expiry than its own".to_owned())
}

fn put(token: Token, is_new: bool) -> PutToken {
    let token = Box::new(token);
    PutToken { token, is_new }
}

/// Finds a token by its id, or by its name if only one has it, among those that allow no more than the caller may do.
async fn find(shared: &Shared, caller: &Caller, id: &str) -> Result<KeptToken, ApiError> {
    let auth = &shared.api.auth;
    if !auth.requires_tokens() {
        auth.reload().await?;
    }
    let own = auth.rights_of(&caller.principal);
    let is_seen = |kept: &KeptToken| kept.token.rights.beyond(&own).is_none();
    let by_id = id.parse::<TokenId>().ok().and_then(|id| auth.find(&id));
    if let Some(kept) = by_id.filter(is_seen) {
        return Ok(kept);
    }
    if id.starts_with(TOKEN_PREFIX) {
        let detail = "expected the id of a token, its 12 characters after hst_; got a token, \
                      which may now be in logs: rotate or revoke it";
        return Err(ApiError::invalid(detail));
    }
    let all = auth.list().into_iter();
    let mut named: Vec<_> = all
        .filter(|kept| kept.token.name == id && is_seen(kept))
        .collect();
    let text: String = id.chars().take(64).collect();
    match named.len() {
        0 => {
            let detail = format!("no token has the id or name {text:?}");
            Err(ApiError::new(&kinds::TOKEN_NOT_FOUND, detail))
        }
        1 => Ok(named.remove(0)),
        count => {
            let ids = named
                .iter()
                .take(IDS_LISTED)
                .map(|kept| kept.token.id.to_string())
                .collect::<Vec<_>>()
                .join(", ");
            let detail = format!("{count} tokens are named {text:?}; use an id: {ids}");
            Err(ApiError::new(&kinds::TOKEN_NAME_SHARED, detail))
        }
    }
}

fn verbs(body: &NewTokenBody) -> Result<Verbs, ApiError> {
    let role = body.role.as_deref().map(str::parse::<Role>).transpose();
    let role = role.map_err(|error| ApiError::invalid(format!("role: {error}")))?;
    let mut verbs: Vec<Verb> = role.map_or(Verbs::NONE, Role::verbs).iter().collect();
    for name in &body.allow {
        let verb = name.parse::<Verb>();
        verbs.push(verb.map_err(|error| ApiError::invalid(format!("allow: {error}")))?);
    }
    if verbs.is_empty() {
        return Err(ApiError::invalid("specify a role, or verbs in allow"));
    }
    Ok(Verbs::of(&verbs))
}

fn globs(field: &str, texts: Vec<String>) -> Result<Vec<Glob>, ApiError> {
    if texts.len() > GLOBS_MAX {
        return Err(ApiError::invalid(format!(
            "{field}: must have at most {GLOBS_MAX} entries"
        )));
    }
    let globs: Result<_, GlobError> = texts.into_iter().map(Glob::try_from).collect();
    globs.map_err(|error| ApiError::invalid(format!("{field}: {error}")))
}

fn networks(texts: &[String]) -> Result<Vec<ipnet::IpNet>, ApiError> {
    if texts.len() > NETWORKS_MAX {
        return Err(ApiError::invalid(format!(
            "from: must have at most {NETWORKS_MAX} networks"
        )));
    }
    let network = |text: &String| {
        let address = || text.parse::<std::net::IpAddr>().map(ipnet::IpNet::from);
        let read = text.parse::<ipnet::IpNet>().or_else(|_| address());
        read.map_err(|_| {
            let shown: String = text.chars().take(64).collect();
            ApiError::invalid(format!(
                "from: {shown:?} is not a network, such as 10.1.0.0/16"
            ))
        })
    };
    texts.iter().map(network).collect()
}

fn within<T: Copy + PartialOrd + From<u8> + std::fmt::Display>(
    field: &str,
    given: Option<T>,
    most: T,
) -> Result<Option<T>, ApiError> {
    match given {
        Some(given) if given < T::from(1) || given > most => Err(ApiError::invalid(format!(
            "{field}: must be 1–{most}, got {given}"
        ))),
        given => Ok(given),
    }
}
