//! What a foreign worker is told about a job that was claimed. Pure.

use host_core::command::Claimed;
use host_core::id::LeaseId;
use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::time::Time;

/// How long an attempt may take whose job does not say, in milliseconds.
const TIMEOUT_MS: u64 = 30_000;

/// Who gives the work, as it stands in the logs of workers.
const WORKER_ID: &str = "host";

/// Makes the assignment for a claimed job: its time cut to what is left until the deadline, absent
/// params as an empty object. The lease names the request: only its worker knows it.
pub(crate) fn make(now: Time, lease: LeaseId, claimed: Claimed) -> Assignment {
    let Claimed { lifecycle, payload } = claimed;
    let left_ms = lifecycle
        .deadline
        .map(|deadline| deadline.since_ms(now).max(1));
    let timeout_ms = lifecycle.policy.timeout_ms.unwrap_or(TIMEOUT_MS);
    let params = match payload.params.as_str() {
        "null" => JsonText("{}".to_owned()),
        _ => payload.params,
    };
    Assignment {
        request_id: lease.0.to_string(),
        job_id: lifecycle.id.to_string(),
        handler: lifecycle.handler.into(),
        params,
        queue: lifecycle.queue.into(),
        attempt: lifecycle.attempt,
        enqueued_at: lifecycle.enqueued_at,
        timeout_ms: left_ms.map_or(timeout_ms, |left_ms| timeout_ms.min(left_ms)),
        deadline: lifecycle.deadline,
        trace: payload.trace_context,
        attributes: payload.attributes,
        worker_id: WORKER_ID.to_owned(),
    }
}
