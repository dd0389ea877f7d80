//! Sessions: a browser presents a token once, and a cookie from then on.

use axum::Json;
use axum::extract::State;
use axum::http::header::{AUTHORIZATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use host_api::path;
use host_api::token::{SessionEndedView, SessionView};
use host_engine::token::{
    BeginSession, EndSession, NewSession, SESSION_MS, TokenHash, TokenId, TokenText,
};
use host_http::gate::Caller;
use host_http::peer::Peer;
use host_http::refusal::Refusal;
use host_runtime::ids;

use super::Shared;
use super::actor::Actor;
use super::error::ApiError;
use crate::auth::{bearer, session};

type WithCookie<T> = ([(HeaderName, HeaderValue); 1], Json<T>);

/// Begins a session of the token in the header `Authorization`. The answer sets its cookie.
#[utoipa::path(
    post, path = path::SESSIONS, tag = "tokens", operation_id = "begin_session",
    responses((status = 201, body = SessionView))
)]
pub(super) async fn begin(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    peer: Peer,
    headers: HeaderMap,
) -> Result<(StatusCode, WithCookie<SessionView>), ApiError> {
    let shown = headers
        .get(AUTHORIZATION)
        .and_then(|it| it.to_str().ok())
        .and_then(bearer)
        .map(TokenHash::of);
    let (Some(token), Some(presented)) = (TokenId::of_principal(&caller.principal), shown) else {
        return Err(Refusal::Unauthenticated.into());
    };
    let text = TokenText::new(&token, &ids::key());
    let until = shared.api.clock.now().plus_ms(SESSION_MS);
    let object = format!("session of token {token}");
    let begin = BeginSession(NewSession {
        token,
        presented,
        session: text.hash(),
        until,
    });
    let note = actor.note(object).detail("begun");
    shared.submit(begin, note).await?;
    shared.api.auth.reload().await?;
    let cookie = session::write_cookie(text.expose(), peer.is_tls, SESSION_MS / 1_000);
    let expires_at = until.to_rfc3339();
    Ok((
        StatusCode::CREATED,
        ([(SET_COOKIE, cookie)], Json(SessionView { expires_at })),
    ))
}

/// Ends the session whose cookie the request has. The answer takes the cookie away.
#[utoipa::path(
    delete, path = path::SESSIONS_SELF, tag = "tokens", operation_id = "end_session",
    responses((status = 200, body = SessionEndedView))
)]
pub(super) async fn end(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    peer: Peer,
    headers: HeaderMap,
) -> Result<WithCookie<SessionEndedView>, ApiError> {
    let shown = session::read_cookie(&headers, peer.is_tls).map(TokenHash::of);
    let ended = shown.is_some();
    if let (Some(token), Some(session)) = (TokenId::of_principal(&caller.principal), shown) {
        let object = format!("session of token {token}");
        let end = EndSession { token, session };
        let note = actor.note(object).detail("ended");
        shared.submit(end, note).await?;
        shared.api.auth.reload().await?;
    }
    let cookie = session::write_cookie("", peer.is_tls, 0);
    Ok(([(SET_COOKIE, cookie)], Json(SessionEndedView { ended })))
}
