//! Requests to HTTP servers.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::{Category, Error};

/// Why there is no response, and who must act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpErrorKind {
    /// The manifest does not grant the request, or the host does not allow its server.
    NotGranted,
    /// The request is invalid.
    InvalidRequest,
    /// The server cannot be reached, or broke off.
    Unreachable,
    /// The server took too long.
    TimedOut,
    /// The response is too large.
    TooLarge,
    /// The attempt has made as many requests as it may.
    LimitReached,
    /// The host cannot send requests now.
    Unavailable,
}

/// Why there is no response.
///
/// `?` converts it to an [`Error`] of a category that fits: another attempt is made only if it may help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpError {
    /// Who must act.
    pub kind: HttpErrorKind,
    /// One sentence for a person.
    pub message: String,
}

impl From<HttpError> for Error {
    fn from(error: HttpError) -> Self {
        let (category, kind) = match error.kind {
            HttpErrorKind::NotGranted => (Category::Configuration, "http_not_granted"),
            HttpErrorKind::InvalidRequest => (Category::UserCode, "http_invalid_request"),
            HttpErrorKind::Unreachable => (Category::Infrastructure, "http_unreachable"),
            HttpErrorKind::TimedOut => (Category::Infrastructure, "http_timed_out"),
            HttpErrorKind::TooLarge => (Category::Configuration, "http_too_large"),
            HttpErrorKind::LimitReached => (Category::Configuration, "http_limit_reached"),
            HttpErrorKind::Unavailable => (Category::Infrastructure, "http_unavailable"),
        };
        Self::new(category, kind, error.message)
    }
}

/// A request, as the host and [`MockHost`](crate::MockHost) see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// `GET`, `POST`, …
    pub method: String,
    /// The absolute URL.
    pub url: String,
    /// Pairs of name and value.
    pub headers: Vec<(String, String)>,
    /// The whole body; empty if there is none.
    pub body: Vec<u8>,
    /// A time limit, in milliseconds.
    pub timeout_ms: Option<u32>,
}

/// A response with its whole body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u16,
    /// Pairs of name, in lower case, and value.
    pub headers: Vec<(String, String)>,
    /// The body as the server sent it.
    pub body: Vec<u8>,
}

impl HttpResponse {
    /// Makes a response with this status and JSON, for tests.
    pub fn json_of(status: u16, body: &impl Serialize) -> Self {
        Self {
            status,
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: serde_json::to_vec(body).unwrap_or_default(),
        }
    }

    /// Returns the first header `name`, which is in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Reads the body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let message = format!("the response is not the expected JSON: {error}");
            Error::new(Category::Infrastructure, "http_invalid_json", message)
        })
    }

    /// Returns the response if its status is 2xx. Other statuses become an [`Error`]: 408, 425, 429 and 5xx are
    /// retried, the others are not.
    pub fn ok(self) -> Result<Self, Error> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let retryable = matches!(self.status, 408 | 425 | 429 | 500..);
        let message = format!("the server answered {}", self.status);
        let error = Error::new(Category::Infrastructure, "http_status", message);
        Err(error.code(self.status.to_string()).retryable(retryable))
    }
}

/// Makes requests. See [`Ctx::http`].
#[derive(Clone, Copy)]
pub struct Http<'a> {
    ctx: &'a Ctx,
}

impl<'a> Http<'a> {
    pub(crate) const fn new(ctx: &'a Ctx) -> Self {
        Self { ctx }
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
            ctx: self.ctx,
            request: HttpRequest {
                method: method.to_owned(),
                url: url.into(),
                ..HttpRequest::default()
            },
        }
    }
}

/// A request that is not sent yet.
#[must_use = "a request is sent by `send`"]
pub struct RequestBuilder<'a> {
    ctx: &'a Ctx,
    request: HttpRequest,
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

    /// Sends the request and waits for the response. Any status is a response; see [`HttpResponse::ok`].
    pub fn send(self) -> Result<HttpResponse, HttpError> {
        self.ctx.send(&self.request)
    }
}

#[cfg(all(test, not(target_family = "wasm")))]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::MockHost;

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
