//! Handlers: what a component reports of each, and what limits its attempts.

use serde::{Deserialize, Serialize};

use crate::json::JsonText;
use crate::name::Name;

/// The fuel for each second of time limit, unless the manifest sets the fuel. It is above the
/// highest measured rate, so that the time limit ends a run and fuel only measures it.
pub const FUEL_PER_SECOND: u64 = 100_000_000_000;

/// The limits of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The most linear memory over all memories of the guest, in bytes.
    pub memory_bytes: u64,
    /// CPU budget; `None` is [`FUEL_PER_SECOND`] for each second of the time limit.
    pub fuel: Option<u64>,
    /// Time limit, in milliseconds.
    pub timeout_ms: u64,
    /// How long a cancelled guest has to stop by itself, in milliseconds.
    pub grace_ms: u64,
    /// The largest result, in bytes.
    pub result_bytes_max: u64,
    /// The most log that is kept, in bytes.
    pub log_bytes_max: u64,
    /// The size of the scratch directory, in bytes; 0 for none.
    pub scratch_bytes: u64,
    /// The size of all artifacts together, in bytes; 0 for none.
    pub artifact_bytes: u64,
    /// The most steps of a job; 0 for none.
    pub steps_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            fuel: None,
            timeout_ms: 30_000,
            grace_ms: 5_000,
            result_bytes_max: 1 << 20,
            log_bytes_max: 1 << 20,
            scratch_bytes: 0,
            artifact_bytes: 0,
            steps_max: 0,
        }
    }
}

/// The largest scratch directory, in MiB. A cell writes no larger file.
pub const SCRATCH_MIB_MAX: u64 = 4_096;

/// A directory of the host that a guest may read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirGrant {
    /// The absolute path on the host.
    pub host: String,
    /// The path that the guest sees.
    pub guest: String,
}

/// What a component reports about one of its handlers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandlerInfo {
    pub name: Name,
    /// What it does, for people.
    pub description: Option<String>,
    /// JSON Schema of its params.
    pub params_schema: Option<JsonText>,
    /// JSON Schema of its result.
    pub result_schema: Option<JsonText>,
}
