//! The routes about Hero jobs, one line each; `openapi.rs` describes the same set.

use host_http::route::Route;

use super::{Shared, list, logs, steer, submit};

pub(in crate::hero) const JOBS: &str = "/api/v1/hero/jobs";
pub(in crate::hero) const JOB: &str = "/api/v1/hero/jobs/{id}";
pub(in crate::hero) const WAIT: &str = "/api/v1/hero/jobs/{id}/wait";
pub(in crate::hero) const LOGS: &str = "/api/v1/hero/jobs/{id}/logs";
pub(in crate::hero) const STOP: &str = "/api/v1/hero/jobs/{id}/stop";
pub(in crate::hero) const REQUEUE: &str = "/api/v1/hero/jobs/{id}/requeue";
pub(in crate::hero) const WORKER: &str = "/api/v1/hero/workers/{worker_id}";
pub(in crate::hero) const STALE: &str = "/api/v1/hero/workers/{worker_id}/requeue";

/// Returns all routes.
pub(super) fn all() -> [Route<Shared>; 9] {
    [
        Route::post(JOBS, submit::submit),
        Route::get(JOBS, list::list),
        Route::get(JOB, list::show),
        Route::get(WAIT, list::wait).long_running(),
        Route::get(LOGS, logs::logs),
        Route::post(STOP, steer::stop).body_optional(),
        Route::post(REQUEUE, steer::requeue).body_optional(),
        Route::get(WORKER, list::worker),
        Route::post(STALE, steer::requeue_stale).body_optional(),
    ]
}
