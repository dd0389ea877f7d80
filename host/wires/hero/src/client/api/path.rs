//! The paths of the routes about Hero jobs.

pub(crate) const JOBS: &str = "/api/v1/hero/jobs";
pub(crate) const JOB: &str = "/api/v1/hero/jobs/{id}";
pub(crate) const WAIT: &str = "/api/v1/hero/jobs/{id}/wait";
pub(crate) const LOGS: &str = "/api/v1/hero/jobs/{id}/logs";
pub(crate) const STOP: &str = "/api/v1/hero/jobs/{id}/stop";
pub(crate) const REQUEUE: &str = "/api/v1/hero/jobs/{id}/requeue";
pub(crate) const WORKER: &str = "/api/v1/hero/workers/{worker_id}";
pub(crate) const STALE: &str = "/api/v1/hero/workers/{worker_id}/requeue";
