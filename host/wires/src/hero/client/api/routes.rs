//! The routes about Hero jobs, one line each; `openapi.rs` describes the same set.

use host_http::route::Route;

use super::path::{JOB, JOBS, LOGS, REQUEUE, STALE, STOP, WAIT, WORKER};
use super::{Shared, list, logs, steer, submit};

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
