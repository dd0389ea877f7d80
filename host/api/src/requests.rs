//! What an attempt asked of HTTP servers, as the API shows it.

use host_core::requests::{RequestRecord, Requests};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::words::RequestErrorWord;

/// The requests of an attempt to HTTP servers. Paths, queries, headers and bodies are not recorded.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Requests)]
pub struct RequestsView {
    /// The first 100, in the order in which they began.
    #[serde(default)]
    #[schema(required = true)]
    pub first: Vec<RequestView>,
    /// How many there were.
    #[serde(default)]
    #[schema(required = true)]
    pub total: u64,
    /// How many of them got no answer.
    #[serde(default)]
    #[schema(required = true)]
    pub failed: u64,
    /// The size of all bodies that were sent.
    #[serde(default)]
    #[schema(required = true)]
    pub sent_bytes: u64,
    /// The size of all bodies that handlers got.
    #[serde(default)]
    #[schema(required = true)]
    pub received_bytes: u64,
}

/// One request to an HTTP server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Request)]
pub struct RequestView {
    /// When it began, from the start of the attempt.
    #[serde(default)]
    #[schema(required = true)]
    pub at_ms: u64,
    /// `GET`, `POST`, …, unless it is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// The server, with its scheme and port, unless the URL is invalid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// The pattern of the manifest that allowed the path, if it names patterns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_pattern: Option<String>,
    /// The status of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Why there is no answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<RequestErrorWord>)]
    pub error: Option<String>,
    /// The size of the body that was sent.
    #[serde(default)]
    #[schema(required = true)]
    pub sent_bytes: u64,
    /// The size of the body that the handler got.
    #[serde(default)]
    #[schema(required = true)]
    pub received_bytes: u64,
    /// How long it took.
    #[serde(default)]
    #[schema(required = true)]
    pub duration_ms: f64,
}

impl From<Requests> for RequestsView {
    fn from(requests: Requests) -> Self {
        Self {
            first: requests.first.into_iter().map(RequestView::from).collect(),
            total: requests.total,
            failed: requests.failed,
            sent_bytes: requests.sent_bytes,
            received_bytes: requests.received_bytes,
        }
    }
}

impl From<RequestRecord> for RequestView {
    #[expect(clippy::cast_precision_loss, reason = "time of one request")]
    fn from(record: RequestRecord) -> Self {
        let RequestRecord {
            at_ms,
            asked,
            ended,
        } = record;
        Self {
            at_ms,
            method: asked.method,
            origin: asked.origin,
            path_pattern: asked.path_pattern,
            status: ended.end.status(),
            error: ended.end.error().map(str::to_owned),
            sent_bytes: ended.sent_bytes,
            received_bytes: ended.received_bytes,
            duration_ms: ended.took_us as f64 / 1000.0,
        }
    }
}
