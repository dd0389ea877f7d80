//! Routes as data: the method, the path, the handler and the error format. One router serves the
//! groups of routes from all parts of a program.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};
use host_core::access::Access;
use host_core::port::Clock;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::budget::ByteBudget;
use crate::door::Door;
use crate::problem::Kind;
use crate::refusal::Render;

/// The media types that routes accept by default.
const JSON: &[&str] = &["application/json"];

/// One method of one path. `S` is the state that the handler still needs; a served route has its
/// state.
#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "properties of a route that do not depend on each other"
)]
pub struct Route<S = ()> {
    /// The method in capitals.
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Who may use it.
    pub access: Access,
    /// Whether the handler limits its own time, as for requests that wait.
    pub is_long_running: bool,
    /// Whether to drop the handler when its client is gone, although it may change something.
    pub ends_with_client: bool,
    /// The media types that a POST or PUT accepts. If empty, bodies are not checked.
    pub media_types: &'static [&'static str],
    /// Whether to accept a request without a body and media type, too.
    pub is_body_optional: bool,
    /// Whether the gate records each request in the audit, before the handler runs.
    pub is_recorded: bool,
    /// Behind which doors it is served. If none of them is open at a listener, it does not exist there.
    pub doors: &'static [Door],
    /// The handler.
    pub call: MethodRouter<S, Infallible>,
}

impl<S> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// Makes a route for GET, which also serves HEAD.
    pub fn get<T: 'static>(
        access: impl Into<Access>,
        path: &'static str,
        handler: impl Handler<T, S>,
    ) -> Self {
        Self::new("GET", access.into(), path, get(handler))
    }

    /// Makes a route for POST with a JSON body.
    pub fn post<T: 'static>(
        access: impl Into<Access>,
        path: &'static str,
        handler: impl Handler<T, S>,
    ) -> Self {
        Self::new("POST", access.into(), path, post(handler))
    }

    /// Makes a route for PUT with a JSON body.
    pub fn put<T: 'static>(
        access: impl Into<Access>,
        path: &'static str,
        handler: impl Handler<T, S>,
    ) -> Self {
        Self::new("PUT", access.into(), path, put(handler))
    }

    /// Makes a route for DELETE.
    pub fn delete<T: 'static>(
        access: impl Into<Access>,
        path: &'static str,
        handler: impl Handler<T, S>,
    ) -> Self {
        Self::new("DELETE", access.into(), path, delete(handler))
    }

    fn new(
        method: &'static str,
        access: Access,
        path: &'static str,
        call: MethodRouter<S>,
    ) -> Self {
        Self {
            method,
            path,
            access,
            is_long_running: false,
            ends_with_client: false,
            media_types: JSON,
            is_body_optional: false,
            is_recorded: false,
            doors: &[Door::Api],
            call,
        }
    }

    /// Lets in principals whose scope has not everything: the handler names and shows nothing else.
    #[must_use]
    pub fn scoped(self) -> Self {
        Self {
            access: self.access.scoped(),
            ..self
        }
    }

    /// Removes the time limit of the answer, so that the handler must limit its own time.
    #[must_use]
    pub fn long_running(self) -> Self {
        Self {
            is_long_running: true,
            ..self
        }
    }

    /// Drops the handler when its client is gone, which must be safe at each of its awaits. Otherwise only
    /// handlers of GET are dropped: half a change may be worse than one whose answer is lost.
    #[must_use]
    pub fn ends_with_client(self) -> Self {
        Self {
            ends_with_client: true,
            ..self
        }
    }

    /// Accepts bodies of these media types instead of JSON. If empty, bodies are not checked.
    #[must_use]
    pub fn takes(self, media_types: &'static [&'static str]) -> Self {
        Self {
            media_types,
            ..self
        }
    }

    /// Accepts requests without a body, which then need no media type.
    #[must_use]
    pub fn body_optional(self) -> Self {
        Self {
            is_body_optional: true,
            ..self
        }
    }

    /// Has each request recorded in the audit, before the handler runs: for handlers that change what the host's own
    /// store does not have, so that no entry can be in the commit of the change.
    #[must_use]
    pub fn recorded(self) -> Self {
        Self {
            is_recorded: true,
            ..self
        }
    }

    /// Serves it behind these doors instead of that of the API.
    #[must_use]
    pub fn behind(self, doors: &'static [Door]) -> Self {
        Self { doors, ..self }
    }

    /// Gives the handler its state.
    pub fn with_state(self, state: S) -> Route {
        Route {
            method: self.method,
            path: self.path,
            access: self.access,
            is_long_running: self.is_long_running,
            ends_with_client: self.ends_with_client,
            media_types: self.media_types,
            is_body_optional: self.is_body_optional,
            is_recorded: self.is_recorded,
            doors: self.doors,
            call: self.call.with_state(state),
        }
    }
}

/// Routes that share an error format. No two groups may have the same path.
#[derive(Clone, Debug)]
pub struct Group {
    /// The prefix of all paths in the group. A path without a route is refused in the format of the group
    /// with the longest matching prefix.
    pub prefix: &'static str,
    pub render: Render,
    pub routes: Vec<Route>,
}

/// The documentation of a part's routes, even if they are not configured.
#[derive(Clone, Default)]
pub struct Description {
    /// Its share of the `OpenAPI` document, which is merged with the others.
    pub document: OpenApi,
    /// The kinds of problem that its routes return, in addition to those of every JSON API. If two
    /// parts declare the same kind, both must use the same words.
    pub kinds: &'static [&'static Kind],
}

/// What the server provides to the routes of other parts.
#[derive(Clone)]
pub struct RoutePorts {
    /// The URL of the listener where workers report, without a path; `None` without one.
    pub callbacks: Option<String>,
    /// The memory budget for request bodies.
    pub bodies: ByteBudget,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Cancelled when requests that wait or stream must end.
    pub stopping: CancellationToken,
}
