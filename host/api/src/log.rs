//! A line of a job's log as the API shows it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::words::{LogLevel, LogLineSource};

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
    /// How severe it is.
    #[serde(default)]
    #[schema(value_type = LogLevel, required = true)]
    pub level: String,
    /// Where it comes from.
    #[serde(default)]
    #[schema(value_type = LogLineSource, required = true)]
    pub source: String,
    /// The message.
    #[serde(default)]
    #[schema(required = true)]
    pub message: String,
    /// Structured fields; their values are JSON.
    #[serde(default)]
    #[schema(required = true)]
    pub fields: BTreeMap<String, Value>,
}

/// Returns the value of a field as people read it: a string without its quotes.
pub fn plain_value(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        other => other.to_string().into(),
    }
}
