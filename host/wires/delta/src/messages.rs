//! The messages of the document, as they are written by an orchestrator; below, how they are read.

pub(super) mod fields;
pub(super) mod lease_id;
pub(super) mod read;

use hyper::header::HeaderName;
use serde::Serialize;
use serde_json::value::RawValue;

use self::lease_id::LeaseText;

/// The most of one attempt's log that is kept, in bytes: what its lines cost, empty ones too.
pub(super) const LOG_BYTES_MAX: u64 = 1 << 20;

/// Names the lease of a part of a log.
pub(super) const LEASE_HEADER: HeaderName = HeaderName::from_static("x-delta-lease");

/// Grants a lease (section 1 of the document).
#[derive(Debug, Serialize)]
pub(super) struct LeaseGranted {
    pub(super) r#type: &'static str,
    pub(super) job_id: String,
    pub(super) run_id: String,
    #[serde(serialize_with = "plain")]
    pub(super) lease_id: LeaseText,
    pub(super) lease_ttl_seconds: u64,
    pub(super) heartbeat_interval_seconds: u64,
    pub(super) max_runtime_seconds: u64,
    pub(super) job_spec: Box<RawValue>,
    /// What this orchestrator takes beyond the document, if the lease is granted over the network.
    #[serde(flatten)]
    pub(super) more: Option<Announced>,
}

/// Tells a runner what it may use beyond the document.
#[derive(Debug, Serialize)]
pub(super) struct Announced {
    /// A heartbeat may wait for a cancel, for so long.
    pub(super) heartbeat_wait_seconds: u64,
    /// The log may be uploaded, and people find it here.
    pub(super) log_uri: String,
}

/// Answers a heartbeat (section 3).
#[derive(Debug, Serialize)]
pub(super) struct HeartbeatAck {
    pub(super) r#type: &'static str,
    #[serde(serialize_with = "plain")]
    pub(super) lease_id: LeaseText,
    pub(super) extend_lease: bool,
    pub(super) new_lease_ttl_seconds: u64,
    pub(super) cancel_requested: bool,
    pub(super) cancel_deadline_seconds: u64,
    /// What was clamped or ignored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) warnings: Vec<String>,
}

/// Answers a completion (section 4).
#[derive(Debug, Serialize)]
pub(super) struct CompleteAck {
    pub(super) r#type: &'static str,
    #[serde(serialize_with = "plain")]
    pub(super) lease_id: LeaseText,
    pub(super) accepted: bool,
}

/// Answers a chunk of a log.
#[derive(Debug, Serialize)]
pub(super) struct LogAck {
    pub(super) r#type: &'static str,
    pub(super) next_offset: u64,
}

/// Answers what the document gives no answer to.
#[derive(Debug, Serialize)]
pub(super) struct Nothing {}

/// Writes a lease id to its runner.
fn plain<S: serde::Serializer>(lease: &LeaseText, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&lease.0)
}
