//! Requests to HTTP servers and their responses, as handlers and the host exchange them.

use serde::Serialize;
use serde::de::DeserializeOwned;

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
    /// The whole body, which may be empty.
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
