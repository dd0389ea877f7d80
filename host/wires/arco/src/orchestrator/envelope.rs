//! Makes the dispatch of an attempt. Pure.

use std::sync::Arc;

use host_core::id::JobId;
use host_core::job::Lifecycle;
use host_core::name::Name;
use host_core::policy::{OnGraceExpired, Policy};
use host_core::port::Assignment;
use host_core::time::Time;
use host_wire_kit::http_client::BaseUrl;
use serde_json::value::RawValue;

use crate::messages::{EnvelopeOut, Resources};
use crate::settings::Times;
use crate::token::{Scope, TTL_SECONDS_MAX, Tokens};

/// How long a token outlives its attempt's time and cancel, for the last callback, in seconds.
const TOKEN_MARGIN_SECONDS: u64 = 60;

/// How long a stopped worker may take to report, in milliseconds.
const REPORT_MS: u64 = 2_000;

/// How long after its grace a worker may take to report that knows when its attempt is to end, in milliseconds.
pub(super) const WARNED_MS: u64 = 1_000;

const DEFAULT: &str = "default";

/// The attribute that sets the run of a job.
pub(super) const RUN_ID: &str = "arco.run_id";

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
        run: find(RUN_ID).unwrap_or_else(|| job.to_string()),
        attempt,
    }
}

/// Returns the id of an attempt on the wire.
pub(super) fn attempt_id(job: JobId, attempt: u32) -> String {
    format!("{job}:{attempt}")
}

/// Returns the rules of jobs that name no others. A worker that does not stop after a cancel may still be at it. One
/// that does not begin in time is given up like one that falls silent.
pub(crate) fn policy(times: &Times) -> Policy {
    Policy {
        cancel_grace_ms: Some(cancel_ms(times)),
        on_grace_expired: OnGraceExpired::Discarded,
        ack_window_ms: Some(times.heartbeat_timeout_ms),
        timeout_ms: Some(timeout_ms_default(times)),
        report_ms: Some(times.cancel_grace_ms + WARNED_MS),
        ..Policy::default()
    }
}

/// Returns how long after a cancel a worker may take to report that it has stopped, in milliseconds. The
/// cancel reaches it with its next heartbeat, and its grace begins only then.
pub(super) fn cancel_ms(times: &Times) -> u64 {
    times.heartbeat_interval_ms + times.cancel_grace_ms + REPORT_MS
}

/// Returns how long a token outlives the time of its attempt, in seconds.
fn spare_seconds(times: &Times) -> u64 {
    TOKEN_MARGIN_SECONDS + cancel_ms(times).div_ceil(1_000)
}

/// Returns how long an attempt may take at most, in milliseconds: its token must outlive it and its cancel.
pub(super) fn timeout_ms_max(times: &Times) -> u64 {
    TTL_SECONDS_MAX.saturating_sub(spare_seconds(times)).max(1) * 1_000
}

/// Returns how long an attempt may take whose job sets no limit, in milliseconds: the life of a token less a
/// minute.
pub(super) fn timeout_ms_default(times: &Times) -> u64 {
    let seconds = times.token_ttl_seconds.saturating_sub(TOKEN_MARGIN_SECONDS);
    timeout_ms(times, seconds.max(1) * 1_000)
}

/// Returns how long an attempt may take, in milliseconds.
pub(super) fn timeout_ms(times: &Times, asked_ms: u64) -> u64 {
    asked_ms.min(timeout_ms_max(times))
}

/// Returns when the time of an attempt is over that is being executed.
pub(super) fn due(times: &Times, lifecycle: &Lifecycle, granted_at: Time) -> Time {
    let asked_ms = lifecycle.policy.timeout_ms.unwrap_or(u64::MAX);
    let due = granted_at.plus_ms(timeout_ms(times, asked_ms));
    lifecycle.deadline.map_or(due, |deadline| due.min(deadline))
}

/// Returns how long the token of an attempt is valid, in seconds.
fn ttl_seconds(times: &Times, timeout_ms: u64) -> u64 {
    let needed = timeout_ms.div_ceil(1_000) + spare_seconds(times);
    times.token_ttl_seconds.max(needed).min(TTL_SECONDS_MAX)
}

/// A dispatch.
#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) worker: Name,
    /// What the worker calls back.
    pub(super) base: BaseUrl,
    pub(super) scope: Scope,
    pub(super) assignment: Arc<Assignment>,
    /// When the attempt's time is over.
    pub(super) due: Time,
}

/// Writes a dispatch at an instant of host time and of the wall clock, to which its times refer. The same
/// attempt always has the same ids.
pub(super) fn write(
    dispatch: &Dispatch,
    times: &Times,
    tokens: &Tokens,
    (now, wall): (Time, Time),
) -> Vec<u8> {
    let (scope, assignment) = (&dispatch.scope, &*dispatch.assignment);
    let timeout_ms = timeout_ms(times, assignment.timeout_ms);
    let (token, end) = tokens.sign(now, scope, ttl_seconds(times, timeout_ms));
    let left_ms = dispatch.due.since_ms(now);
    let (task_id, base) = (scope.job.to_string(), dispatch.base.to_string());
    let attribute = |key: &str| {
        let mut attributes = assignment.attributes.iter();
        attributes
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
    };
    let mut trace = assignment.trace.iter();
    let traceparent = trace.find(|(name, _)| name == "traceparent");
    let payload = RawValue::from_string(assignment.params.0.clone())
        .unwrap_or_else(|_| RawValue::NULL.to_owned());
    let envelope = EnvelopeOut {
        task_id: &task_id,
        run_id: &scope.run,
        asset_id: attribute("arco.asset_id").unwrap_or(&assignment.handler),
        task_key: &assignment.handler,
        tenant_id: &scope.tenant,
        workspace_id: &scope.workspace,
        attempt: scope.attempt,
        attempt_id: &attempt_id(scope.job, scope.attempt),
        dispatch_id: &format!("dispatch:{task_id}:{}", scope.attempt),
        resources: Resources {},
        partition_key: attribute("arco.partition_key"),
        worker_queue: &assignment.queue,
        enqueued_at: assignment.enqueued_at.to_rfc3339(),
        deadline: wall.plus_ms(left_ms).to_rfc3339(),
        callback_base_url: &base,
        task_token: &token,
        token_expires_at: wall.plus_ms(end.since_ms(now)).to_rfc3339(),
        heartbeat_interval_ms: times.heartbeat_interval_ms,
        heartbeat_timeout_ms: times.heartbeat_timeout_ms,
        heartbeat_timeout_sec: times.heartbeat_timeout_ms.div_ceil(1_000),
        cancel_grace_period_ms: times.cancel_grace_ms,
        traceparent: traceparent.map(|(_, value)| value.as_str()),
        payload: &payload,
    };
    serde_json::to_vec(&envelope).unwrap_or_default()
}
