//! Questions to the API: its router is called as a function, with the identity of the reader.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::FromRequestParts;
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use axum::response::{IntoResponse, Response};
use host_api::page::PageView;
use host_api::path;
use host_api::queue::QueueView;
use host_core::port::Clock;
use host_core::time::Time;
use host_http::budget::ByteBudget;
use host_http::gate::{Caller, REQUEST_ID};
use host_http::peer::Peer;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tower_service::Service as _;

use crate::page::{self, Counts, Frame, Verb};

/// Which page of a list without a filter.
pub(crate) const ALL: &[(&str, &str)] = &[];

/// No body.
const NOTHING: Option<(&str, Vec<u8>)> = None;

/// The largest answer that a page is made of, in bytes: a page of jobs, or one job with its params and result.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The state that all pages share.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) api: Router,
    pub(crate) clock: Arc<dyn Clock>,
    /// The memory budget for the bodies of requests.
    pub(crate) bodies: ByteBudget,
}

/// Asks the API on behalf of the caller of a page.
pub(crate) struct Ask {
    api: Router,
    /// When the page was asked for, as the host counts time.
    pub(crate) now: Time,
    headers: HeaderMap,
    peer: Peer,
    /// Who asks, if the page is for those who are known.
    caller: Option<Caller>,
    /// The queues that the caller may see, if the page counts them in its frame.
    queues: Option<Vec<QueueView>>,
}

/// Why the API gives no answer, in its own words.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Problem {
    pub(crate) code: String,
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) next: String,
    #[serde(skip)]
    pub(crate) status: StatusCode,
    /// The frame of the page that says so.
    #[serde(skip)]
    pub(crate) frame: Option<Box<Frame>>,
}

impl FromRequestParts<Web> for Ask {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, web: &Web) -> Result<Self, Infallible> {
        let mut headers = HeaderMap::new();
        for name in [HOST, COOKIE, REQUEST_ID] {
            for value in parts.headers.get_all(&name) {
                headers.append(&name, value.clone());
            }
        }
        let mut ask = Self {
            api: web.api.clone(),
            now: web.clock.now(),
            headers,
            peer: parts.extensions.get().cloned().unwrap_or_default(),
            caller: parts.extensions.get().cloned(),
            queues: None,
        };
        if parts.method == Method::GET && ask.may(Verb::Read) {
            // A page without counts is better than none.
            ask.queues = ask.queues().await.ok();
        }
        Ok(ask)
    }
}

impl Ask {
    /// Shows something else of who asks.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Makes the frame of a page for the caller.
    pub(crate) fn frame(&self, title: impl Into<String>, section: &'static str) -> Frame {
        let host = self.headers.get(HOST).and_then(|it| it.to_str().ok());
        let scheme = if self.peer.is_tls { "https" } else { "http" };
        Frame {
            now: self.now,
            counts: self.queues.as_deref().map(Counts::sum).unwrap_or_default(),
            origin: format!("{scheme}://{}", host.unwrap_or_default()),
            who: self
                .caller
                .as_ref()
                .map(|caller| Arc::clone(&caller.principal)),
            ..Frame::new(title, section)
        }
    }

    /// Returns the queues that the caller may see, which are read once for a page.
    pub(crate) async fn queues(&self) -> Result<Vec<QueueView>, Problem> {
        if let Some(queues) = &self.queues {
            return Ok(queues.clone());
        }
        let page: PageView<QueueView> = self.get(path::QUEUES, &ALL).await?;
        Ok(page.items)
    }

    /// Returns whether the caller may do this somewhere.
    pub(crate) fn may(&self, verb: Verb) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.principal.verbs.has(verb))
    }

    /// Returns whether the caller may use all queues and handlers.
    pub(crate) fn has_all(&self) -> bool {
        let caller = self.caller.as_ref();
        caller.is_none_or(|caller| caller.principal.scope.is_all())
    }

    /// Asks for something without a body, and returns the headers of the answer.
    pub(crate) async fn send(&self, method: Method, path: &str) -> Result<HeaderMap, Problem> {
        let (headers, _) = self.answer(method, path, &ALL, NOTHING).await?;
        Ok(headers)
    }

    /// Reads a document. `query` becomes the parameters.
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
    ) -> Result<T, Problem> {
        self.ask(Method::GET, path, query, NOTHING).await
    }

    /// Changes something, as a document says.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        query: &impl Serialize,
        body: &impl Serialize,
    ) -> Result<T, Problem> {
        let json = serde_json::to_vec(body).map_err(|error| broken(&error))?;
        let body = Some(("application/json", json));
        self.ask(Method::POST, path, query, body).await
    }

    /// Removes something.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<T, Problem> {
        self.ask(Method::DELETE, path, &ALL, NOTHING).await
    }

    /// Asks for something, with a body of a media type if there is one.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        query: &impl Serialize,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, Problem> {
        let (_, bytes) = self.answer(method, path, query, body).await?;
        serde_json::from_slice(&bytes).map_err(|error| broken(&error))
    }

    async fn answer(
        &self,
        method: Method,
        path: &str,
        query: &impl Serialize,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<(HeaderMap, Bytes), Problem> {
        let (parts, body) = self.respond(method, path, query, body).await?.into_parts();
        let status = parts.status;
        let bytes = to_bytes(body, ANSWER_BYTES_MAX)
            .await
            .map_err(|error| broken(&error))?;
        if status.is_success() {
            return Ok((parts.headers, bytes));
        }
        let problem = serde_json::from_slice(&bytes).unwrap_or_default();
        let frame = Some(Box::new(self.frame("", "")));
        Err(Problem {
            status,
            frame,
            ..problem
        })
    }

    /// Returns an answer as it comes.
    pub(crate) async fn respond(
        &self,
        method: Method,
        path: &str,
        query: &impl Serialize,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Response, Problem> {
        let (kind, body) = body.unzip();
        let query = serde_urlencoded::to_string(query).map_err(|error| broken(&error))?;
        let mut request: Request<Body> = Request::builder()
            .method(&method)
            .uri(format!("{path}?{query}"))
            .body(body.unwrap_or_default().into())
            .map_err(|error| broken(&error))?;
        *request.headers_mut() = self.headers.clone();
        if let Some(kind) = kind {
            let kind = HeaderValue::from_str(kind).map_err(|error| broken(&error))?;
            request.headers_mut().insert(CONTENT_TYPE, kind);
        }
        request.extensions_mut().insert(self.peer.clone());
        if let Some(caller) = self.caller.clone() {
            request.extensions_mut().insert(caller);
        }
        let Ok(answer) = self.api.clone().call(request).await;
        Ok(answer)
    }
}

impl Problem {
    /// Makes the problem of a request that cannot be carried out as it is.
    pub(crate) fn bad_request(title: &str, detail: impl Into<String>, next: &str) -> Self {
        Self {
            title: title.to_owned(),
            detail: detail.into(),
            next: next.to_owned(),
            status: StatusCode::BAD_REQUEST,
            ..Self::default()
        }
    }
}

fn broken(error: &dyn std::fmt::Display) -> Problem {
    Problem {
        title: "The answer cannot be shown".to_owned(),
        detail: error.to_string(),
        next: "Look at it with the command line.".to_owned(),
        status: StatusCode::INTERNAL_SERVER_ERROR,
        ..Problem::default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let frame = self.frame.map(|frame| *frame);
        page::failed(self.status, frame, &self.title, &self.detail, &self.next)
    }
}
