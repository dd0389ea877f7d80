//! The `OpenAPI` document of the routes in `routes.rs`.

use utoipa::OpenApi;

use super::{list, logs, steer, submit};

/// The description of all routes about Hero jobs.
#[derive(OpenApi)]
#[openapi(paths(
    submit::submit,
    list::list,
    list::show,
    list::wait,
    logs::logs,
    steer::stop,
    steer::requeue,
    list::worker,
    steer::requeue_stale,
))]
pub(super) struct Document;
