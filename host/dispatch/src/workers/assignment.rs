//! Builds the assignment that a foreign worker gets for a claimed job. Pure.

use host_core::id::LeaseId;
use host_core::json::JsonText;
use host_core::port::Assignment;
use host_core::time::Time;
use host_engine::lease::Claimed;

/// The time limit of a job that sets none, in milliseconds.
const TIMEOUT_MS: u64 = 30_000;

/// How the host names itself in the logs of workers.
const WORKER_ID: &str = "host";

/// Makes the assignment for a claimed job. The time limit ends at the deadline at the latest;
/// absent params become an empty object. The lease id is the request id, because only the lease's
/// worker may know it.
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
        priority: lifecycle.priority,
        attempt: lifecycle.attempt,
        enqueued_at: lifecycle.enqueued_at,
        timeout_ms: left_ms.map_or(timeout_ms, |left_ms| timeout_ms.min(left_ms)),
        deadline: lifecycle.deadline,
        trace: payload.trace_context,
        attributes: payload.attributes,
        worker_id: WORKER_ID.to_owned(),
        suspicion: lifecycle.suspicion,
    }
}
