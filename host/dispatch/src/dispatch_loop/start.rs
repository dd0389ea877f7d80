//! Builds the run request for a claimed job. Pure.

use host_cells::run::build::{Caps, RunRequest};
use host_core::cell::Context;
use host_core::id::LeaseId;
use host_core::time::Time;
use host_engine::lease::Claimed;

/// Makes the request for a claimed job. Its params were checked when it was accepted.
pub(super) fn request(claimed: Claimed, lease: LeaseId, worker: &str) -> RunRequest {
    let Claimed { lifecycle, payload } = claimed;
    RunRequest {
        job: lifecycle.id,
        lease,
        caps: Caps {
            timeout_ms: lifecycle.policy.timeout_ms,
            deadline: lifecycle.deadline,
            result_bytes_max: None,
        },
        context: Context {
            job_id: lifecycle.id.to_string(),
            request_id: format!("{}-{}", lifecycle.id, lifecycle.attempt),
            handler: lifecycle.handler.to_string(),
            queue: lifecycle.queue.to_string(),
            protocol: payload.wire,
            attempt: lifecycle.attempt,
            max_attempts: Some(lifecycle.policy.max_attempts),
            enqueued_at: lifecycle.enqueued_at.to_rfc3339(),
            deadline: lifecycle.deadline.map(Time::to_rfc3339),
            worker_id: Some(worker.to_owned()),
            trace: payload.trace_context,
            attributes: payload.attributes,
        },
        params: payload.params,
        check_params: false,
        may_write: true,
        is_limited: !lifecycle.limits.keys.is_empty(),
        env: Vec::new(),
        origin: payload.origin,
    }
}
