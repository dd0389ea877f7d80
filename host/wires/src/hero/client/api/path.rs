//! The paths of the routes about Hero jobs.

pub(in crate::hero) const JOBS: &str = "/api/v1/hero/jobs";
pub(in crate::hero) const JOB: &str = "/api/v1/hero/jobs/{id}";
pub(in crate::hero) const WAIT: &str = "/api/v1/hero/jobs/{id}/wait";
pub(in crate::hero) const LOGS: &str = "/api/v1/hero/jobs/{id}/logs";
pub(in crate::hero) const STOP: &str = "/api/v1/hero/jobs/{id}/stop";
pub(in crate::hero) const REQUEUE: &str = "/api/v1/hero/jobs/{id}/requeue";
pub(in crate::hero) const WORKER: &str = "/api/v1/hero/workers/{worker_id}";
pub(in crate::hero) const STALE: &str = "/api/v1/hero/workers/{worker_id}/requeue";
