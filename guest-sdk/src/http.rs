//! The client for HTTP servers that a handler has.

use std::rc::Rc;

use serde::Serialize;

use crate::error::Error;
use crate::redirects::{HOPS_MAX, send_all};
use crate::request::{HttpError, HttpRequest, HttpResponse};
use crate::services::Services;

/// Makes requests. See [`Ctx::http`](crate::Ctx::http).
#[derive(Clone, Copy)]
pub struct Http<'a> {
    services: &'a Rc<dyn Services>,
}

impl<'a> Http<'a> {
    pub(crate) const fn new(services: &'a Rc<dyn Services>) -> Self {
        Self { services }
    }

    /// Begins a `GET` request.
    pub fn get(self, url: impl Into<String>) -> RequestBuilder<'a> {
        self.request("GET", url)
    }

    /// Begins a `POST` request.
    pub fn post(self, url: impl Into<String>) -> RequestBuilder<'a> {
        self.request("POST", url)
    }

    /// Begins a request with any method.
    pub fn request(self, method: &str, url: impl Into<String>) -> RequestBuilder<'a> {
        RequestBuilder {
            services: self.services,
            request: HttpRequest {
                method: method.to_owned(),
                url: url.into(),
                ..HttpRequest::default()
            },
            redirects: 0,
        }
    }
}

/// A request that is not sent yet.
#[must_use = "a request is sent by `send`"]
pub struct RequestBuilder<'a> {
    services: &'a Rc<dyn Services>,
    request: HttpRequest,
    redirects: u32,
}

impl RequestBuilder<'_> {
    /// Adds a header. The manifest may add others, which the handler neither sees nor sets.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let header = (name.to_owned(), value.to_owned());
        self.request.headers.push(header);
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.request.body = body.into();
        self
    }

    /// Sets the body to JSON, with its header.
    pub fn json(self, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body).map_err(|error| {
            let message = format!("cannot serialize the body of a request as JSON: {error}");
            Error::fatal("invalid_body", message)
        })?;
        Ok(self.header("content-type", "application/json").body(body))
    }

    /// Sets a time limit. The manifest's is the longest.
    pub fn timeout_ms(mut self, ms: u32) -> Self {
        self.request.timeout_ms = Some(ms);
        self
    }

    /// Follows up to so many redirects, 20 at most. Each is a request that the manifest must grant; to another origin go no
    /// headers that could be credentials.
    pub fn redirects(mut self, most: u32) -> Self {
        self.redirects = most.min(HOPS_MAX);
        self
    }

    /// Sends the request and waits for the response. Any status is a response; see [`HttpResponse::ok`].
    pub fn send(self) -> Result<HttpResponse, HttpError> {
        send_all(&**self.services, self.request, self.redirects)
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Category, HttpErrorKind, MockHost};

    #[test]
    fn a_handler_gets_the_answers_of_the_mock() {
        let host = MockHost::new().answer(|request| match &*request.url {
            "https://a.com/rows" => Ok(HttpResponse::json_of(200, &json!({"rows": [1]}))),
            _ => Ok(HttpResponse::json_of(503, &json!({}))),
        });
        let ctx = host.ctx();
        let sent = ctx.http().post("https://a.com/rows").json(&7).unwrap();
        let rows: Value = sent.send().unwrap().ok().unwrap().json().unwrap();
        assert_eq!(rows, json!({"rows": [1]}));
        let other = ctx.http().get("https://a.com/other").send().unwrap();
        let Err(Error::Failed(failed)) = other.ok() else {
            panic!("503 is an error");
        };
        assert_eq!(failed.retryable, Some(true));
        let requests = host.requests();
        assert_eq!(requests[0].body, b"7");
        assert_eq!(requests[0].headers[0].0, "content-type");
        assert_eq!(requests.len(), 2);
    }

    #[test]
    fn without_answers_nothing_is_granted() {
        let ctx = MockHost::new().ctx();
        let error = ctx.http().get("https://a.com").send().unwrap_err();
        assert_eq!(error.kind, HttpErrorKind::NotGranted);
        let Error::Failed(failed) = Error::from(error) else {
            panic!("it is an error");
        };
        assert_eq!(failed.category, Category::Configuration);
    }
}
