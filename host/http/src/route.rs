//! Routes as data: what is answered, by which method and path, and in which error format. Groups of
//! routes from several parts of a program are served by one router.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post, put};
use host_core::port::Clock;
use tokio_util::sync::CancellationToken;
use utoipa::openapi::OpenApi;

use crate::budget::ByteBudget;
use crate::problem::Kind;
use crate::refusal::Render;

/// What routes take unless they say otherwise.
const JSON: &[&str] = &["application/json"];

/// One method of one path. `S` is the state of its handler; a route that is served has it already.
#[derive(Clone)]
pub struct Route<S = ()> {
    /// The method, in capitals.
    pub method: &'static str,
    /// The path, with its parameters in braces.
    pub path: &'static str,
    /// Whether its handler bounds how long it takes, such as a request that waits.
    pub is_long_running: bool,
    /// The media types of bodies that a POST or PUT takes; if empty, bodies are not looked at.
    pub media_types: &'static [&'static str],
    /// What answers.
    pub call: MethodRouter<S, Infallible>,
}

impl<S> fmt::Debug for Route<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)
    }
}

impl<S: Clone + Send + Sync + 'static> Route<S> {
    /// Makes a route for GET, and thereby for HEAD.
    pub fn get<T: 'static>(path: &'static str, handler: impl Handler<T, S>) -> Self {
        Self::new("GET", path, get(handler))
    }

    /// Makes a route for POST with a body of JSON.
    pub fn post<T: 'static>(path: &'static str, handler: impl Handler<T, S>) -> Self {
        Self::new("POST", path, post(handler))
    }

    /// Makes a route for PUT with a body of JSON.
    pub fn put<T: 'static>(path: &'static str, handler: impl Handler<T, S>) -> Self {
        Self::new("PUT", path, put(handler))
    }

    /// Makes a route for DELETE.
    pub fn delete<T: 'static>(path: &'static str, handler: impl Handler<T, S>) -> Self {
        Self::new("DELETE", path, delete(handler))
    }

    fn new(method: &'static str, path: &'static str, call: MethodRouter<S>) -> Self {
        Self {
            method,
            path,
            is_long_running: false,
            media_types: JSON,
            call,
        }
    }

    /// Leaves it to the handler to answer in time.
    #[must_use]
    pub fn long_running(self) -> Self {
        Self {
            is_long_running: true,
            ..self
        }
    }

    /// Takes bodies of these media types in place of JSON; if empty, bodies are not looked at.
    #[must_use]
    pub fn takes(self, media_types: &'static [&'static str]) -> Self {
        Self {
            media_types,
            ..self
        }
    }

    /// Gives the handler its state.
    pub fn with_state(self, state: S) -> Route {
        Route {
            method: self.method,
            path: self.path,
            is_long_running: self.is_long_running,
            media_types: self.media_types,
            call: self.call.with_state(state),
        }
    }
}

/// Routes that share an error format. Two groups have no path in common.
#[derive(Clone, Debug)]
pub struct Group {
    /// What their paths start with. Paths that no route has are refused in the format of the group
    /// with the longest prefix that fits.
    pub prefix: &'static str,
    /// Their error format.
    pub render: Render,
    /// The routes.
    pub routes: Vec<Route>,
}

/// How a part of a program describes the routes that it has, whether it is configured or not.
#[derive(Clone, Default)]
pub struct Description {
    /// Its part of the `OpenAPI` document, which is merged with the others.
    pub document: OpenApi,
    /// The kinds of problem that its routes answer with, beside those that every JSON API has. One
    /// that another part has too is declared by both in the same words.
    pub kinds: &'static [&'static Kind],
}

/// What routes that another part hands in may need of the program that serves them.
#[derive(Clone)]
pub struct RoutePorts {
    /// The memory for bodies of requests.
    pub bodies: ByteBudget,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Ends requests that wait or listen.
    pub stopping: CancellationToken,
}
