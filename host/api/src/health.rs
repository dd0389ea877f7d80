//! How a host is.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The health of the host.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// Always `ok`.
    pub status: String,
    /// The host's version.
    pub version: String,
    /// How long it has been running.
    pub uptime_seconds: u64,
    /// Which jobs share a cell: `shared`, all of them, or `component`, those of the same component.
    pub isolation: String,
    /// Days until the certificate of the API expires, negative if it has; only with TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_days_left: Option<f64>,
    /// What this system lacks to sandbox cells fully, where `cells.allow_weak` permits that. Not shown by a host with
    /// tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub weak: Vec<String>,
}
