//! Problem documents (RFC 9457) for JSON APIs. A problem has one of a fixed list of kinds, each
//! with a status, a meaning and advice. Callers declare their own kinds in addition to those of
//! every JSON API.

pub mod kinds;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::json::JsonError;
use crate::refusal::Refusal;

pub use host_core::problem::Kind;

/// Declares kinds as statics, and `KINDS`, a list of them in the same order. The syntax is
/// `NAME status "code", "title", "meaning", "next";`. Add `retry seconds` before the semicolon if
/// the request may be repeated.
#[macro_export]
macro_rules! kinds {
    ($($name:ident $status:literal $code:literal, $title:literal, $meaning:literal, $next:literal
        $(retry $retry:literal)?;)+) => {
        $(
            #[doc = $meaning]
            pub static $name: $crate::problem::Kind = {
                let retry: &[u32] = &[$($retry)?];
                $crate::problem::Kind {
                    code: $code,
                    status: $status,
                    title: $title,
                    meaning: $meaning,
                    next: $next,
                    retry_after_seconds: retry.first().copied(),
                }
            };
        )+

        /// All of these kinds.
        pub static KINDS: &[&$crate::problem::Kind] = &[$(&$name),+];
    };
}

/// One occurrence of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    kind: &'static Kind,
    status: u16,
    detail: String,
    state: Option<&'static str>,
    retry_after: Option<u32>,
}

/// The problem document of a refusal (RFC 9457).
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemView<'a> {
    /// `urn:host:problem:` and the code.
    r#type: String,
    /// A few words, the same for every occurrence of the code.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// What is wrong with this request.
    detail: &'a str,
    /// The stable code: see `docs/errors.md`.
    code: &'a str,
    /// The next step.
    next: &'a str,
    /// The state of the resource, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<&'a str>,
}

impl Problem {
    /// Makes a problem of a kind, with what is wrong with this request.
    pub fn new(kind: &'static Kind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            status: kind.status,
            detail: detail.into(),
            state: None,
            retry_after: kind.retry_after_seconds,
        }
    }

    /// Returns the kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Returns what is wrong with this request.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Adds the state of the resource, if that is the reason for the problem.
    #[must_use]
    pub fn with_state(self, state: &'static str) -> Self {
        Self {
            state: Some(state),
            ..self
        }
    }

    /// Changes the status to 404, for a path that names something missing.
    #[must_use]
    pub fn in_path(self) -> Self {
        Self {
            status: StatusCode::NOT_FOUND.as_u16(),
            ..self
        }
    }

    /// Changes the status.
    #[must_use]
    pub(crate) fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Returns the text of the document.
    pub fn document(&self) -> Vec<u8> {
        let kind = self.kind;
        let document = ProblemView {
            r#type: format!("urn:host:problem:{}", kind.code),
            title: kind.title,
            status: self.status,
            detail: &self.detail,
            code: kind.code,
            next: kind.next,
            state: self.state,
        };
        serde_json::to_vec(&document).unwrap_or_default()
    }

    /// Adds the place of the mistake to the front of the detail.
    #[must_use]
    pub fn at(self, place: &str) -> Self {
        Self {
            detail: format!("{place}: {}", self.detail),
            ..self
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = self.document();
        let mut response = Response::new(Body::from(text));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(CONTENT_TYPE, problem);
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if self.status == StatusCode::UNAUTHORIZED.as_u16() {
            let scheme = HeaderValue::from_static("Bearer realm=\"host\"");
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl From<&Refusal> for Problem {
    fn from(refusal: &Refusal) -> Self {
        let kind = match refusal {
            Refusal::HostHeaderCount
            | Refusal::HostHeaderNotAscii
            | Refusal::HostNotAllowed { .. } => &kinds::HOST_REFUSED,
            Refusal::ForeignOrigin | Refusal::ForeignSite => &kinds::ORIGIN_REFUSED,
            Refusal::ContentEncoding
            | Refusal::MediaTypeMissing { .. }
            | Refusal::MediaTypeRepeated
            | Refusal::MediaType { .. } => &kinds::UNSUPPORTED_MEDIA_TYPE,
            Refusal::NotHttp => &kinds::NOT_HTTP,
            Refusal::LengthUnclear => &kinds::LENGTH_UNCLEAR,
            Refusal::HeaderTooLarge { .. } => &kinds::HEADER_TOO_LARGE,
            Refusal::BodyTooLarge { .. } => &kinds::BODY_TOO_LARGE,
            Refusal::BodyTimeout { .. } => &kinds::BODY_TIMEOUT,
            Refusal::BodyBroken => &kinds::INVALID_REQUEST,
            Refusal::Busy | Refusal::NotRecorded => &kinds::BUSY,
            Refusal::TimedOut { .. } => &kinds::TIMED_OUT,
            Refusal::AnswerBroken => &kinds::INTERNAL,
            Refusal::Unauthenticated => &kinds::UNAUTHENTICATED,
            Refusal::Forbidden { .. } | Refusal::Unscoped => &kinds::FORBIDDEN,
            Refusal::TooManyWrong { .. } => &kinds::TOO_MANY_WRONG_TOKENS,
            Refusal::RateLimited { .. } => &kinds::RATE_LIMITED,
            Refusal::ShareUsed | Refusal::WaitsUsed | Refusal::ConnectionsUsed => {
                &kinds::SHARE_USED
            }
            Refusal::NotFound => &kinds::NOT_FOUND,
            Refusal::MethodNotAllowed { .. } => &kinds::METHOD_NOT_ALLOWED,
        };
        let problem = Self::new(kind, refusal.to_string());
        Self {
            retry_after: refusal.retry_after().or(problem.retry_after),
            ..problem
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::from(&refusal)
    }
}

impl From<JsonError> for Problem {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::Syntax(detail) => Self::new(&kinds::INVALID_JSON, detail),
            JsonError::Data(detail) => Self::new(&kinds::INVALID_REQUEST, detail),
        }
    }
}

/// Renders a refusal as a problem document.
pub fn render(refusal: &Refusal) -> Response {
    Problem::from(refusal).into_response()
}
