//! Why the server refuses a request or cannot complete its answer. Each group of routes renders a
//! refusal in the format that its clients expect.

use std::fmt;
use std::time::Duration;

use axum::http::{Method, StatusCode};
use axum::response::Response;
use host_core::access::Verb;

/// Renders a refusal in the error format of a group of routes.
pub type Render = fn(&Refusal) -> Response;

/// Why a request is refused. `Display` gives one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The request has no Host header, or several.
    HostHeaderCount,
    /// The Host header is not ASCII.
    HostHeaderNotAscii,
    /// The Host header or the request target names another host.
    HostNotAllowed {
        /// The name without the port, cut after 64 characters.
        host: String,
    },
    /// The Origin header names an origin other than this host.
    ForeignOrigin,
    /// The Sec-Fetch-Site header shows that a page of another site sent the request.
    ForeignSite,
    /// The body has a content encoding.
    ContentEncoding,
    /// The request has no Content-Type header.
    MediaTypeMissing { allowed: &'static [&'static str] },
    /// The request has several Content-Type headers.
    MediaTypeRepeated,
    /// The route does not accept bodies of this type.
    MediaType {
        /// The type, cut after 64 characters.
        found: String,
        /// The types that the route accepts.
        allowed: &'static [&'static str],
    },
    /// The body is larger than the route accepts.
    BodyTooLarge {
        /// The largest body that the route accepts, in bytes.
        limit_bytes: usize,
    },
    /// The body was not complete in time.
    BodyTimeout {
        /// How long it may take.
        limit: Duration,
    },
    /// The connection broke during the body, or the body does not match its header.
    BodyBroken,
    /// Bodies and answers use all the memory of the budget. The request was not handled.
    Busy,
    /// The handler did not answer in time. The request may have taken effect.
    TimedOut {
        /// How long it may take.
        limit: Duration,
    },
    /// The answer ended before it was complete.
    AnswerBroken,
    /// The bytes are not an HTTP request.
    NotHttp,
    /// The header does not give one clear body length.
    LengthUnclear,
    /// The header, or the request target in it, is too long.
    HeaderTooLarge {
        /// The longest header, in bytes.
        limit_bytes: usize,
    },
    /// The request shows no token, or one that does not count.
    Unauthenticated,
    /// The caller lacks a verb.
    Forbidden { verb: Verb },
    /// The caller may use only some queues or handlers, and this path is for those who may use all.
    Unscoped,
    /// The token is wrong, and too many wrong ones came from this address.
    TooManyWrong {
        /// When it may try again, in seconds.
        retry_after: u32,
    },
    /// The token has made as many requests as it may.
    RateLimited {
        /// When it may continue, in seconds.
        retry_after: u32,
    },
    /// The bodies of the caller's requests and answers use all the memory that one caller may use.
    ShareUsed,
    /// As many requests of the caller wait for their answers as of one caller may.
    WaitsUsed,
    /// The requests of this address use half of the connections.
    ConnectionsUsed,
    /// The audit could not record the request. It was not handled.
    NotRecorded,
    /// No route has this path.
    NotFound,
    /// A route has this path, but not with this method.
    MethodNotAllowed {
        /// The method of the request.
        method: Method,
    },
}

impl Refusal {
    /// Returns after how many seconds the request may be repeated, if it can be told.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::TooManyWrong { retry_after } | Self::RateLimited { retry_after } => {
                Some(*retry_after)
            }
            _ => None,
        }
    }

    /// Returns the most suitable HTTP status.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::HostHeaderCount
            | Self::HostHeaderNotAscii
            | Self::HostNotAllowed { .. }
            | Self::ForeignOrigin
            | Self::ForeignSite
            | Self::Forbidden { .. }
            | Self::Unscoped => StatusCode::FORBIDDEN,
            Self::ContentEncoding
            | Self::MediaTypeMissing { .. }
            | Self::MediaTypeRepeated
            | Self::MediaType { .. } => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::BodyTooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::BodyBroken | Self::NotHttp | Self::LengthUnclear => StatusCode::BAD_REQUEST,
            Self::HeaderTooLarge { .. } => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::Busy | Self::NotRecorded => StatusCode::SERVICE_UNAVAILABLE,
            Self::TimedOut { .. } => StatusCode::GATEWAY_TIMEOUT,
            Self::AnswerBroken => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Unauthenticated => StatusCode::UNAUTHORIZED,
            Self::TooManyWrong { .. }
            | Self::RateLimited { .. }
            | Self::ShareUsed
            | Self::WaitsUsed
            | Self::ConnectionsUsed => StatusCode::TOO_MANY_REQUESTS,
            Self::NotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostHeaderCount => f.write_str("a request must have exactly one Host header"),
            Self::HostHeaderNotAscii => f.write_str("the Host header is not ASCII"),
            Self::HostNotAllowed { host } => write!(f, "{host:?} is not an address of this host"),
            Self::ForeignOrigin => {
                f.write_str("the Origin header names another origin")
            }
            Self::ForeignSite => {
                f.write_str("the Sec-Fetch-Site header shows that a page of another site sent the request")
            }
            Self::ContentEncoding => {
                f.write_str("the body has a content encoding, such as gzip; send it without one")
            }
            Self::MediaTypeRepeated => {
                f.write_str("a request may have at most one Content-Type header")
            }
            Self::NotHttp => f.write_str("the bytes are not an HTTP/1.1 request"),
            Self::LengthUnclear => f.write_str(
                "the body length is ambiguous: the request has several Content-Length or \
                 Transfer-Encoding headers, both of them, or a coding other than chunked",
            ),
            Self::HeaderTooLarge { limit_bytes } => write!(
                f,
                "the header has more than {limit_bytes} bytes or 100 fields, or the path is too long"
            ),
            Self::MediaTypeMissing { allowed } => {
                let allowed = allowed.join(" or ");
                write!(f, "the Content-Type header is missing; this path accepts {allowed}")
            }
            Self::MediaType { found, allowed } => {
                let allowed = allowed.join(" or ");
                write!(f, "unsupported body type {found:?}; this path accepts {allowed}")
            }
            Self::BodyTooLarge { limit_bytes } => write!(
                f,
                "the body has more than {limit_bytes} bytes"
            ),
            Self::BodyTimeout { limit } => write!(
                f,
                "the body was not complete after {} seconds",
                limit.as_secs()
            ),
            Self::BodyBroken => f.write_str(
                "the connection broke during the body, or the body's framing does not match the header",
            ),
            Self::Busy => {
                f.write_str("requests and answers use all the memory available to them")
            }
            Self::TimedOut { limit } => write!(
                f,
                "the host did not answer within {} seconds",
                limit.as_secs()
            ),
            Self::AnswerBroken => f.write_str("the answer ended before it was complete"),
            Self::Unauthenticated => {
                f.write_str("the request has no token that this host accepts")
            }
            Self::Forbidden { verb } => write!(f, "this needs the verb {verb}"),
            Self::Unscoped => f.write_str("this needs a token without a scope"),
            Self::TooManyWrong { retry_after } => write!(
                f,
                "this token is wrong, and too many wrong ones came from this address; try again in {retry_after} seconds"
            ),
            Self::RateLimited { retry_after } => write!(
                f,
                "the token has used up its request rate; try again in {retry_after} seconds"
            ),
            Self::ShareUsed => {
                f.write_str("requests and answers of this token or address use all the memory that one may use")
            }
            Self::WaitsUsed => {
                f.write_str("this token or address has as many requests that wait as one may have")
            }
            Self::ConnectionsUsed => {
                f.write_str("requests from this address use half of the connections, the most that one address may use")
            }
            Self::NotRecorded => {
                f.write_str("the audit cannot record the request, so nothing was done; try again later")
            }
            Self::NotFound => f.write_str("no such path"),
            Self::MethodNotAllowed { method } => {
                write!(f, "this path does not support the method {method}")
            }
        }
    }
}

impl std::error::Error for Refusal {}
