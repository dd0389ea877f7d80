//! The dispatch of an attempt, made of its assignment. Pure.

use host_core::id::JobId;
use host_core::port::Assignment;
use host_core::time::Time;
use serde_json::value::RawValue;

use crate::arco::messages::{EnvelopeOut, Resources, Secret};
use crate::arco::section::Times;
use crate::arco::token::{Scope, TTL_SECONDS_MAX};
use crate::kit::http_client::BaseUrl;

/// How long a token outlives its attempt's time and cancel, in seconds: for the last callback.
const TOKEN_MARGIN_SECONDS: u64 = 60;

/// How long the report of a worker that has stopped may take, in milliseconds.
const REPORT_MS: u64 = 2_000;

const DEFAULT: &str = "default";

/// Returns what an attempt's token is about.
pub(super) fn scope(job: JobId, attempt: u32, attributes: &[(String, String)]) -> Scope {
    let find = |key: &str| {
        let mut pairs = attributes.iter();
        pairs
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.clone())
    };
    let or_default = |key| find(key).unwrap_or_else(|| DEFAULT.to_owned());
    Scope {
        job,
        tenant: or_default("arco.tenant_id"),
        workspace: or_default("arco.workspace_id"),
        run: find("arco.run_id").unwrap_or_else(|| job.to_string()),
        attempt,
    }
}

/// Returns the id of an attempt on the wire.
pub(super) fn attempt_id(job: JobId, attempt: u32) -> String {
    format!("{job}:{attempt}")
}

/// Returns how long after a cancel a worker may take to report that it has stopped: the cancel reaches
/// it with its next heartbeat, and only then its grace begins.
pub(super) fn cancel_ms(times: &Times) -> u64 {
    times.heartbeat_interval_ms + times.cancel_grace_ms + REPORT_MS
}

/// Returns how long a token outlives the time of its attempt, in seconds.
fn spare_seconds(times: &Times) -> u64 {
    TOKEN_MARGIN_SECONDS + cancel_ms(times).div_ceil(1_000)
}

/// Returns how long an attempt may take: a token has to outlive it and its cancel.
pub(super) fn timeout_ms(times: &Times, asked_ms: u64) -> u64 {
    let most_seconds = TTL_SECONDS_MAX.saturating_sub(spare_seconds(times)).max(1);
    asked_ms.min(most_seconds * 1_000)
}

/// Returns how long the token of an attempt is valid.
pub(super) fn ttl_seconds(times: &Times, timeout_ms: u64) -> u64 {
    let needed = timeout_ms.div_ceil(1_000) + spare_seconds(times);
    times.token_ttl_seconds.max(needed).min(TTL_SECONDS_MAX)
}

/// What a dispatch is made of.
pub(super) struct Parts<'a> {
    pub(super) scope: &'a Scope,
    pub(super) assignment: &'a Assignment,
    pub(super) times: &'a Times,
    pub(super) base: &'a BaseUrl,
    pub(super) token: &'a Secret,
    /// The wall clock's instants: the worker has its own.
    pub(super) deadline: Time,
    pub(super) token_expires_at: Time,
}

/// Writes the dispatch. The same attempt always has the same ids.
pub(super) fn write(parts: &Parts<'_>) -> Vec<u8> {
    let (scope, assignment, times) = (parts.scope, parts.assignment, parts.times);
    let (task_id, base) = (scope.job.to_string(), parts.base.to_string());
    let mut attributes = assignment.attributes.iter();
    let asset = attributes.find(|(name, _)| name == "arco.asset_id");
    let mut trace = assignment.trace.iter();
    let traceparent = trace.find(|(name, _)| name == "traceparent");
    let payload = RawValue::from_string(assignment.params.0.clone());
    let payload = payload.unwrap_or_else(|_| RawValue::NULL.to_owned());
    let envelope = EnvelopeOut {
        task_id: &task_id,
        run_id: &scope.run,
        asset_id: asset.map_or(&assignment.handler, |(_, asset)| asset),
        task_key: &assignment.handler,
        tenant_id: &scope.tenant,
        workspace_id: &scope.workspace,
        attempt: scope.attempt,
        attempt_id: &attempt_id(scope.job, scope.attempt),
        dispatch_id: &format!("dispatch:{task_id}:{}", scope.attempt),
        resources: Resources {},
        worker_queue: &assignment.queue,
        enqueued_at: assignment.enqueued_at.to_rfc3339(),
        deadline: parts.deadline.to_rfc3339(),
        callback_base_url: &base,
        task_token: parts.token,
        token_expires_at: parts.token_expires_at.to_rfc3339(),
        heartbeat_interval_ms: times.heartbeat_interval_ms,
        heartbeat_timeout_ms: times.heartbeat_timeout_ms,
        heartbeat_timeout_sec: times.heartbeat_timeout_ms.div_ceil(1_000),
        cancel_grace_period_ms: times.cancel_grace_ms,
        traceparent: traceparent.map(|(_, value)| value.as_str()),
        payload: &payload,
    };
    serde_json::to_vec(&envelope).unwrap_or_default()
}
