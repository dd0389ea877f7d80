//! Builds the run request for foreign work. Pure.

use host_cells::run::build::{Caps, RunRequest};
use host_core::cell::Context;
use host_core::id::{JobId, LeaseId};
use host_core::port::ForeignJob;
use host_core::time::Time;

/// The host's ids of one execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ids {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
}

/// Makes the request. `job` is only borrowed: it is needed for the history, and to run again if its
/// cell dies.
pub(super) fn request(now: Time, ids: Ids, job: &ForeignJob) -> RunRequest {
    let limit = job.timeout_ms.map(|ms| now.plus_ms(ms));
    let deadline = job.deadline.into_iter().chain(limit).min();
    RunRequest {
        origin: None,
        job: ids.job,
        lease: ids.lease,
        caps: Caps {
            timeout_ms: job.timeout_ms,
            deadline: job.deadline,
            result_bytes_max: Some(job.result_bytes_max),
        },
        context: Context {
            job_id: job.external_id.clone(),
            request_id: job.request_id.clone(),
            handler: job.handler.to_string(),
            queue: job.queue.clone(),
            protocol: job.wire.to_owned(),
            attempt: job.attempt,
            max_attempts: None,
            enqueued_at: job.enqueued_at.unwrap_or(now).to_rfc3339(),
            deadline: deadline.map(Time::to_rfc3339),
            worker_id: job.worker_id.clone(),
            trace: job.trace.clone(),
            attributes: job.attributes.clone(),
        },
        params: job.params.clone(),
        // They are checked before, where that may take long.
        check_params: false,
        may_write: false,
        is_limited: false,
        env: job.env.clone(),
    }
}
