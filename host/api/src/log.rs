//! A line of a job's log as the API shows it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One line of a log. A line break in its message is text.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct LineView {
    /// Its position; increases from line to line.
    #[serde(default)]
    #[schema(required = true)]
    pub seq: u64,
    /// During which attempt.
    #[serde(default)]
    #[schema(required = true)]
    pub attempt: u32,
    /// When (RFC 3339).
    #[serde(default)]
    #[schema(required = true)]
    pub at: String,
    /// Since the start of the attempt.
    #[serde(default)]
    #[schema(required = true)]
    pub at_ms: u64,
    /// trace, debug, info, warn or error.
    #[serde(default)]
    #[schema(required = true)]
    pub level: String,
    /// log, stdout, stderr or host.
    #[serde(default)]
    #[schema(required = true)]
    pub source: String,
    /// The message.
    #[serde(default)]
    #[schema(required = true)]
    pub message: String,
    /// Structured fields.
    #[serde(default)]
    #[schema(required = true)]
    pub fields: BTreeMap<String, String>,
}
