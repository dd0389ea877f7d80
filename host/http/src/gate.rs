//! Who a request is from. A route with a verb asks the gate before its handler runs.

use std::fmt;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use futures_util::future::BoxFuture;
use host_core::access::{Access, Principal, Verb};
use host_core::secret::hide_tokens;
use host_runtime::ids;
use tokio_util::sync::CancellationToken;

use crate::peer::Peer;
use crate::problem::{Problem, kinds};
use crate::refusal::Refusal;
use crate::share::Share;

/// On whose behalf a request is made. Each request that a route with a verb lets in has it in its extensions.
#[derive(Clone)]
pub struct Caller {
    pub principal: Arc<Principal>,
    /// Cancelled when the caller may do nothing more: its token was revoked or is over. `None` if that cannot happen.
    pub over: Option<CancellationToken>,
    /// Its share at a time. `None` for callers without a limit.
    pub share: Option<Share>,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Caller").field(&self.principal.name).finish()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let caller = parts.extensions.get::<Self>().cloned();
        caller.ok_or_else(|| Problem::new(&kinds::INTERNAL, "the route does not ask who calls"))
    }
}

/// The method of what is denied before there is a request: a connection.
pub const CONNECT: &str = "connect";

/// What a gate records of a request, or of a connection that was refused.
#[derive(Debug)]
pub struct AccessRecord<'a> {
    pub peer: &'a Peer,
    /// Who asked, if that is known.
    pub principal: Option<&'a Principal>,
    /// What the route needs.
    pub verb: Option<Verb>,
    /// The method and the path of the request, and the path of the route. For a connection, [`CONNECT`] and how.
    pub method: &'a str,
    pub path: &'a str,
    pub route: &'static str,
    /// The id that the client gave it.
    pub request_id: Option<&'a HeaderValue>,
}

/// Knows who may do what.
pub trait Gate: Send + Sync {
    /// Returns on whose behalf a request is made, or why it is refused.
    fn admit(&self, peer: &Peer, headers: &HeaderMap) -> Result<Caller, Refusal>;

    /// Learns what has changed elsewhere, if that could let in a request that it has refused; `None` if it could not.
    fn learn(&self, _: &Peer, _: &HeaderMap) -> Option<BoxFuture<'static, ()>> {
        None
    }

    /// Returns whether it wants to know of requests that are denied.
    fn records_denials(&self) -> bool {
        false
    }

    /// Records that a request or a connection was denied with this status: 401, 403, 404 or 429.
    fn denied(&self, _: &AccessRecord<'_>, _status: u16) {}

    /// Records a request that will change something, before it does. Returns whether that is kept.
    fn record(&self, _: &AccessRecord<'_>) -> BoxFuture<'static, bool> {
        Box::pin(async { true })
    }
}

/// Lets everybody do everything.
#[derive(Debug)]
pub struct NoGate(Arc<Principal>);

impl Default for NoGate {
    fn default() -> Self {
        Self(Arc::new(Principal::anyone()))
    }
}

impl Gate for NoGate {
    fn admit(&self, _: &Peer, _: &HeaderMap) -> Result<Caller, Refusal> {
        Ok(Caller {
            principal: Arc::clone(&self.0),
            over: None,
            share: None,
        })
    }
}

/// The header with the id that a client gives a request.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id of a request that a client may give, in bytes.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Returns the id of a request: the one that the client gave, or a new one. A client may have put a token there.
pub fn request_id(given: Option<&HeaderValue>) -> String {
    let given = given.and_then(|given| given.to_str().ok());
    let is_id = |text: &&str| !text.is_empty() && text.len() <= REQUEST_ID_BYTES_MAX;
    let given = given.filter(is_id);
    given.map_or_else(ids::uuid, hide_tokens)
}

/// Returns the caller of a request to a route with this access; `None` if the route needs no caller. A caller that may
/// not use the route is returned with the reason. A request that another route of this process makes has its caller
/// already.
pub(crate) fn pass(
    gate: &dyn Gate,
    access: Access,
    request: &Request,
) -> Result<Option<Caller>, (Refusal, Option<Caller>)> {
    let verb = access.verb();
    if verb.is_none() && access != Access::AnyPrincipal {
        return Ok(None);
    }
    let known = request.extensions().get::<Caller>();
    let caller = known
        .cloned()
        .map_or_else(
            || {
                let peer = request.extensions().get().cloned().unwrap_or_default();
                gate.admit(&peer, request.headers())
            },
            Ok,
        )
        .map_err(|refusal| (refusal, None))?;
    let principal = &caller.principal;
    let refusal = match verb {
        Some(verb) if !principal.verbs.has(verb) => Refusal::Forbidden { verb },
        Some(verb) if access == Access::Needs(verb) && !principal.scope.is_all() => {
            Refusal::Unscoped
        }
        _ => return Ok(Some(caller)),
    };
    Err((refusal, Some(caller)))
}
