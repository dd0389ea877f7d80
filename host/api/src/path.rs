//! The paths of the API, for its routes, its document and its clients.

use std::fmt::Write as _;

/// Where a host listens by default.
pub const SERVER_DEFAULT: &str = "http://127.0.0.1:7700";

pub const JOBS: &str = "/api/v1/jobs";
pub const JOBS_COUNT: &str = "/api/v1/jobs/count";
pub const JOBS_RETRY: &str = "/api/v1/jobs/retry";
pub const JOBS_CANCEL: &str = "/api/v1/jobs/cancel";
pub const JOBS_PURGE: &str = "/api/v1/jobs/purge";
pub const JOBS_PRIORITY: &str = "/api/v1/jobs/priority";
pub const JOB: &str = "/api/v1/jobs/{id}";
pub const JOB_CANCEL: &str = "/api/v1/jobs/{id}/cancel";
pub const JOB_RETRY: &str = "/api/v1/jobs/{id}/retry";
pub const JOB_PRIORITY: &str = "/api/v1/jobs/{id}/priority";
pub const JOB_RESCHEDULE: &str = "/api/v1/jobs/{id}/reschedule";
pub const JOB_PURGE: &str = "/api/v1/jobs/{id}/purge";
pub const JOB_WAIT: &str = "/api/v1/jobs/{id}/wait";
pub const JOB_ATTEMPTS: &str = "/api/v1/jobs/{id}/attempts";
pub const JOB_LOGS: &str = "/api/v1/jobs/{id}/logs";
pub const ARTIFACTS: &str = "/api/v1/artifacts";
pub const JOB_ARTIFACT: &str = "/api/v1/jobs/{id}/artifacts/{name}";
pub const FAILURES: &str = "/api/v1/failures";
pub const TRENDS: &str = "/api/v1/trends";
pub const QUEUES: &str = "/api/v1/queues";
pub const QUEUE: &str = "/api/v1/queues/{name}";
pub const QUEUE_PAUSE: &str = "/api/v1/queues/{name}/pause";
pub const QUEUE_RESUME: &str = "/api/v1/queues/{name}/resume";
pub const BATCHES: &str = "/api/v1/batches";
pub const BATCH: &str = "/api/v1/batches/{id}";
pub const BATCH_JOBS: &str = "/api/v1/batches/{id}/jobs";
pub const BATCH_CLOSE: &str = "/api/v1/batches/{id}/close";
pub const BATCH_CANCEL: &str = "/api/v1/batches/{id}/cancel";
pub const LIMITS: &str = "/api/v1/limits";
pub const LIMIT: &str = "/api/v1/limits/{name}";
pub const SCHEDULES: &str = "/api/v1/schedules";
pub const SCHEDULE: &str = "/api/v1/schedules/{name}";
pub const SCHEDULE_NEXT: &str = "/api/v1/schedules/{name}/next";
pub const SCHEDULE_FIRINGS: &str = "/api/v1/schedules/{name}/firings";
pub const SCHEDULE_PAUSE: &str = "/api/v1/schedules/{name}/pause";
pub const SCHEDULE_RESUME: &str = "/api/v1/schedules/{name}/resume";
pub const SCHEDULE_TRIGGER: &str = "/api/v1/schedules/{name}/trigger";
pub const SCHEDULE_BACKFILL: &str = "/api/v1/schedules/{name}/backfill";
pub const WEBHOOK_TEST: &str = "/api/v1/webhooks/test";
pub const STATE: &str = "/api/v1/state";
pub const STATE_SPACE: &str = "/api/v1/state/{space}";
pub const STATE_VALUE: &str = "/api/v1/state/{space}/value";
pub const HANDLERS: &str = "/api/v1/handlers";
pub const HANDLER: &str = "/api/v1/handlers/{name}";
pub const COMPONENTS: &str = "/api/v1/components";
pub const COMPONENT: &str = "/api/v1/components/{name}";
pub const COMPONENT_ROLLBACK: &str = "/api/v1/components/{name}/rollback";
pub const RUNNERS: &str = "/api/v1/runners";
pub const RUNNER: &str = "/api/v1/runners/{name}";
pub const RUNNER_RESTART: &str = "/api/v1/runners/{name}/restart";
pub const NODES: &str = "/api/v1/nodes";
pub const NODE: &str = "/api/v1/nodes/{id}";
pub const NODE_DRAIN: &str = "/api/v1/nodes/{id}/drain";
pub const NODE_RESUME: &str = "/api/v1/nodes/{id}/resume";
pub const TOKENS: &str = "/api/v1/tokens";
pub const TOKENS_SELF: &str = "/api/v1/tokens/self";
pub const TOKEN: &str = "/api/v1/tokens/{id}";
pub const TOKEN_ROTATE: &str = "/api/v1/tokens/{id}/rotate";
pub const SESSIONS: &str = "/api/v1/sessions";
pub const SESSIONS_SELF: &str = "/api/v1/sessions/self";
pub const AUDIT: &str = "/api/v1/audit";
pub const EVENTS: &str = "/api/v1/events";
pub const OPENAPI: &str = "/api/v1/openapi.json";
pub const HEALTH: &str = "/healthz";
pub const READY: &str = "/readyz";
pub const METRICS: &str = "/metrics";

/// Puts a name or an id into a path that has a place for one, such as [`JOB`].
pub fn with_name(path: &str, name: &str) -> String {
    let (before, after) = path.split_once('{').unwrap_or((path, ""));
    let after = after.split_once('}').map_or("", |(_, after)| after);
    format!("{before}{}{after}", segment(name))
}

/// Escapes a name or an id as one segment of a path.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_one_segment() {
        assert_eq!(with_name(JOB, "1-a"), "/api/v1/jobs/1-a");
        assert_eq!(with_name(JOB_WAIT, "a/b?"), "/api/v1/jobs/a%2Fb%3F/wait");
    }
}
