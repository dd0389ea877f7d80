//! Who asks for a change, for the audit.

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use host_core::access::Access;
use host_engine::audit::{AddNote, DONE, Note};
use host_http::gate::{Caller, REQUEST_ID, request_id};
use host_http::peer::Peer;
use host_http::problem::{Problem, kinds};

use super::Shared;
use super::error::ApiError;

/// Who asks for a change, from where, and by which verb.
#[derive(Clone, Debug)]
pub(super) struct Actor {
    principal: String,
    token_name: Option<String>,
    address: Option<String>,
    request: Option<String>,
    verb: &'static str,
}

impl<S: Send + Sync> FromRequestParts<S> for Actor {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let lost = || Problem::new(&kinds::INTERNAL, "the route does not ask who calls");
        let caller = parts.extensions.get::<Caller>().ok_or_else(lost)?;
        let access = parts.extensions.get::<Access>().copied();
        let verb = match access.ok_or_else(lost)? {
            // The only changes that need no verb are those of the caller's own session.
            Access::AnyPrincipal => "login",
            access => access.verb().ok_or_else(lost)?.as_str(),
        };
        let peer = parts.extensions.get::<Peer>();
        Ok(Self {
            principal: caller.principal.name.clone(),
            token_name: caller.principal.label.clone(),
            address: peer
                .and_then(|peer| peer.address)
                .map(|address| address.to_string()),
            request: Some(request_id(parts.headers.get(REQUEST_ID))),
            verb,
        })
    }
}

impl Actor {
    /// Returns what people know the principal by: the name of its token, if it has one.
    pub(super) fn name(&self) -> &str {
        self.token_name.as_deref().unwrap_or(&self.principal)
    }

    /// Makes the note about a change of an object.
    pub(super) fn note(&self, object: impl Into<String>) -> Note {
        Note {
            principal: self.principal.clone(),
            token_name: self.token_name.clone(),
            address: self.address.clone(),
            request: self.request.clone(),
            ..Note::new(self.verb, object)
        }
    }

    /// Records a change that no single command makes.
    pub(super) async fn record(
        &self,
        shared: &Shared,
        object: impl Into<String>,
        detail: &str,
    ) -> Result<(), ApiError> {
        let note = Box::new(self.note(object).detail(detail));
        let outcome = DONE.to_owned();
        let recorded = shared.api.dispatch.submit(AddNote { note, outcome });
        Ok(recorded.await.map(drop)?)
    }
}
