//! Routes as data: the method, the path, who may use it, the handler, its description and the error format. One router
//! serves the groups of routes from all parts of a program.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodFilter, MethodRouter, get, on, post};
use host_core::access::Access;
use host_core::port::Clock;
#[doc(hidden)]
pub use pastey::paste;
use tokio_util::sync::CancellationToken;
use utoipa::Path;
use utoipa::openapi::path::HttpMethod;
use utoipa::openapi::{OpenApi, RefOr, Required};

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
    /// Describes it; `None` if it is in no document.
    pub description: Option<fn() -> OpenApi>,
    /// The handler.
    pub call: MethodRouter<S, Infallible>,
}

/// Makes a route of who may use it and of a handler that `utoipa::path` describes, from which it has everything else.
#[macro_export]
macro_rules! route {
    ($access:expr, $module:ident::$handler:ident) => {
        $crate::route::paste!({
            static PATH: ::std::sync::LazyLock<String> =
                ::std::sync::LazyLock::new(<$module::[<__path_ $handler>] as ::utoipa::Path>::path);
            #[derive(::utoipa::OpenApi)]
            #[openapi(paths($module::$handler))]
            struct Description;
            let description = <Description as ::utoipa::OpenApi>::openapi;
            $crate::route::Route::described::<$module::[<__path_ $handler>], _>(
                $access, &PATH, description, $module::$handler,
            )
        })
    };
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

    /// Makes a route with a description. It needs a body if its description says so.
    pub fn described<D: Path, T: 'static>(
        access: impl Into<Access>,
        path: &'static str,
        description: fn() -> OpenApi,
        handler: impl Handler<T, S>,
    ) -> Self {
        let (method, filter) = match D::methods()[..] {
            [HttpMethod::Put] => ("PUT", MethodFilter::PUT),
            [HttpMethod::Post] => ("POST", MethodFilter::POST),
            [HttpMethod::Delete] => ("DELETE", MethodFilter::DELETE),
            _ => ("GET", MethodFilter::GET),
        };
        let needs_body = matches!(
            D::operation().request_body,
            Some(RefOr::T(body)) if body.required == Some(Required::True)
        );
        Self {
            description: Some(description),
            is_body_optional: !needs_body,
            ..Self::new(method, access.into(), path, on(filter, handler))
        }
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
            description: None,
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
            description: self.description,
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

impl Description {
    /// Describes routes.
    pub fn new<S>(routes: &[Route<S>], kinds: &'static [&'static Kind]) -> Self {
        let mut document = OpenApi::default();
        for description in routes.iter().filter_map(|route| route.description) {
            document.merge(description());
        }
        Self { document, kinds }
    }
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
