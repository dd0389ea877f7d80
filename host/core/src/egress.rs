//! The messages to the broker, the process that sends requests of guests to HTTP servers, from the host and from
//! cells.
//!
//! The host passes each run that has grants a socket of its own, whose other end goes to the broker together
//! with what the run may do: a [`Pass`]. A cell says nothing about its rights, and has none after its socket is
//! closed.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::http_grant::HttpGrant;
use crate::tcp_grant::TcpGrant;
use crate::trace::Parent;

/// The largest message between the host and the broker, in bytes: a manifest with its overhead, or a secret.
pub const CONTROL_BYTES_MAX: usize = 128 << 10;

/// The largest secret, in bytes.
pub const SECRET_BYTES_MAX: usize = 16 << 10;

/// The largest file of certificates, in bytes.
pub const AUTHORITIES_BYTES_MAX: u64 = 4 << 20;

/// The largest body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 4 << 20;

/// The longest URL of a request, in bytes.
pub const URL_BYTES_MAX: usize = 8 << 10;

/// The most headers of a request or a response.
pub const HEADERS_MAX: usize = 1_000;

/// The most bytes of all headers of a request or a response together.
pub const HEADERS_BYTES_MAX: usize = 64 << 10;

/// The largest frame between a cell and the broker, in bytes: a response at its highest limit of 16 MiB, plus
/// overhead.
pub const EGRESS_FRAME_BYTES_MAX: usize = 17 << 20;

/// What the host tells the broker. One message is one packet.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToBroker {
    /// The value of a secret. All are sent before the first run; a changed one is sent again.
    Secret { name: String, value: String },
    /// The certificates of authorities have changed. Their open file comes with the message.
    Authorities,
    /// Asks for a sign of life.
    Ping,
    /// A run has begun; its socket comes with the message.
    Run {
        pass: Pass,
        /// Numbers of [`ReportAs`] of attempts that have ended.
        over: Vec<u64>,
    },
}

/// How the broker reports the requests of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAs {
    /// A number of the host, the same for all runs of an attempt.
    pub run: u64,
    /// How long the attempt had lasted when the run began, in milliseconds.
    pub began_ms: u64,
    /// The id of the span of the first request, if requests have spans. Those of the next ones follow it.
    pub first_span: Option<u64>,
}

impl ReportAs {
    /// Returns the id of the span of the run's request `number`, counted from 0.
    pub fn span(self, number: u64) -> Option<u64> {
        // Zero is not an id.
        Some(self.first_span?.wrapping_add(number).max(1))
    }
}

/// What a run may ask of servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// The component and its revision: connections are shared by runs of the same revision only.
    pub component: String,
    pub revision: u32,
    /// The handler, for messages.
    pub handler: String,
    pub grants: Vec<HttpGrant>,
    pub tcp: Vec<TcpGrant>,
    pub sql: Vec<TcpGrant>,
    /// How long after receipt requests may be sent for the run, in milliseconds.
    pub time_left_ms: u64,
    /// Whether requests may be sent only as long as the host may run guests of its store.
    pub has_lifeline: bool,
    /// The trace that the run belongs to, sent to servers as `traceparent`.
    pub trace: Option<Parent>,
    /// How its requests are reported; they are not if this is `None`.
    pub report_as: Option<ReportAs>,
    /// Whether a body that is larger than it may be is cut, instead of refused.
    pub cuts_bodies: bool,
}

/// What a cell asks of the broker for a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromCell {
    Http(HttpRequest),
    /// Connect to the server of this grant of [`Pass::tcp`].
    Connect {
        call: u32,
        grant: u32,
    },
    Sql {
        call: u32,
        asked: SqlRequest,
    },
}

/// What the broker tells a cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToCell {
    Http(HttpAnswer),
    /// The answer to the connection `call`. If there is one, a socket comes with the message.
    Connected {
        call: u32,
        result: Result<(), HttpError>,
    },
    Sql {
        call: u32,
        result: Result<SqlRows, SqlError>,
    },
    /// Why a connection has ended early: a line for the log of the job.
    Broken(String),
}

/// What a guest asks of a database. A transaction has a number that its cell chooses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SqlRequest {
    /// One statement, in a transaction of its own.
    Query {
        database: String,
        statement: SqlStatement,
    },
    Begin {
        database: String,
        transaction: u32,
    },
    /// A statement of a transaction.
    Step {
        transaction: u32,
        statement: SqlStatement,
    },
    End {
        transaction: u32,
        commits: bool,
    },
}

/// A statement, and its parameters as an array of JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlStatement {
    pub text: String,
    pub params: String,
}

/// What a statement returned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SqlRows {
    pub columns: Vec<String>,
    /// An array of JSON with an array for each row.
    pub rows: String,
    /// How many rows it returned or changed.
    pub affected: u32,
}

/// Why a statement returned nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct SqlError {
    pub kind: HttpErrorKind,
    /// The SQLSTATE, if the database answered.
    pub code: Option<String>,
    pub message: String,
}

impl From<HttpError> for SqlError {
    fn from(HttpError { kind, message }: HttpError) -> Self {
        let code = None;
        Self {
            kind,
            code,
            message,
        }
    }
}

/// The largest statement with its parameters, in bytes.
pub const SQL_STATEMENT_BYTES_MAX: usize = 4 << 20;

/// The most bytes of rows that a statement may return.
pub const SQL_ROWS_BYTES_MAX: usize = 8 << 20;

/// A request of a guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpRequest {
    /// Identifies the request in its run.
    pub call: u32,
    pub method: String,
    pub url: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// A time limit below that of the grant, in milliseconds.
    pub timeout_ms: Option<u32>,
}

/// The answer to the request `call`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpAnswer {
    pub call: u32,
    pub result: Result<HttpResponse, HttpError>,
}

/// The answer of an HTTP server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HttpResponse {
    pub status: u16,
    /// Names are in lower case; what is not UTF-8 is replaced.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct HttpError {
    pub kind: HttpErrorKind,
    /// One sentence for a person; it contains no secret.
    pub message: String,
}

impl HttpError {
    pub fn new(kind: HttpErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message }
    }
}

/// What went wrong. `host:jobs/http` shows fewer kinds than `wasi:http`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HttpErrorKind {
    /// The manifest does not grant the request, or this host does not allow its server.
    NotGranted,
    /// The server has an address that requests may not go to.
    AddressNotAllowed,
    /// The request is invalid.
    InvalidRequest,
    /// The request's body is too large.
    RequestTooLarge,
    /// The server's name has no address.
    NameNotFound,
    /// The server accepts no connection.
    ConnectionRefused,
    /// The server's certificate does not match its name, or its issuer is not trusted.
    CertificateRefused,
    /// The server breaks off its response.
    ResponseIncomplete,
    /// The server's response cannot be decompressed, or could hide a secret.
    ResponseEncoded,
    /// The server cannot be reached for another reason.
    Unreachable,
    /// The server takes too long.
    TimedOut,
    /// The response is too large.
    TooLarge,
    /// The attempt has used up its requests or bytes.
    LimitReached,
    /// The broker is gone; another attempt may help.
    Unavailable,
    /// The server does not let the broker sign in.
    LoginRefused,
    /// The database answered with an error.
    StatementRefused,
}

impl HttpErrorKind {
    /// Returns the stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotGranted => "not_granted",
            Self::AddressNotAllowed => "address_not_allowed",
            Self::InvalidRequest => "invalid_request",
            Self::RequestTooLarge => "request_too_large",
            Self::NameNotFound => "name_not_found",
            Self::ConnectionRefused => "connection_refused",
            Self::CertificateRefused => "certificate_refused",
            Self::ResponseIncomplete => "response_incomplete",
            Self::ResponseEncoded => "response_encoded",
            Self::Unreachable => "unreachable",
            Self::TimedOut => "timed_out",
            Self::TooLarge => "too_large",
            Self::LimitReached => "limit_reached",
            Self::Unavailable => "unavailable",
            Self::LoginRefused => "login_refused",
            Self::StatementRefused => "statement_refused",
        }
    }
}
