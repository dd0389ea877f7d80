//! The routes of the API itself, one line each; wires hand in theirs. `openapi.rs` describes the
//! same set; a test compares.

use host_api::path;
use host_http::route::Route;

use super::{Shared, components, enqueue, events, handlers, health, jobs, logs, many, nodes};
use super::{openapi, queues, runners};

/// Returns all routes.
pub(super) fn all() -> Vec<Route<Shared>> {
    let mut all = jobs();
    all.extend(deployed());
    all.extend(nodes());
    all.extend(host());
    all
}

fn jobs() -> Vec<Route<Shared>> {
    vec![
        Route::post(path::JOBS, enqueue::enqueue).ends_with_client(),
        Route::get(path::JOBS, jobs::list),
        Route::get(path::JOBS_COUNT, many::count),
        Route::post(path::JOBS_RETRY, many::retry).body_optional(),
        Route::post(path::JOBS_CANCEL, many::cancel).body_optional(),
        Route::post(path::JOBS_PURGE, many::purge).body_optional(),
        Route::get(path::JOB, jobs::show),
        Route::post(path::JOB_CANCEL, jobs::cancel).body_optional(),
        Route::post(path::JOB_RETRY, jobs::retry).body_optional(),
        Route::post(path::JOB_PRIORITY, jobs::set_priority),
        Route::post(path::JOB_RESCHEDULE, jobs::reschedule),
        Route::post(path::JOB_PURGE, jobs::purge).body_optional(),
        Route::get(path::JOB_WAIT, jobs::wait).long_running(),
        Route::get(path::JOB_ATTEMPTS, jobs::attempts),
        Route::get(path::JOB_LOGS, logs::logs),
        Route::get(path::QUEUES, queues::list),
        Route::get(path::QUEUE, queues::show),
        Route::post(path::QUEUE_PAUSE, queues::pause).body_optional(),
        Route::post(path::QUEUE_RESUME, queues::resume).body_optional(),
    ]
}

fn deployed() -> Vec<Route<Shared>> {
    let deploy =
        Route::put(path::COMPONENT, components::deploy).takes(components::DEPLOY_MEDIA_TYPES);
    vec![
        Route::get(path::HANDLERS, handlers::list),
        Route::get(path::HANDLER, handlers::show),
        Route::get(path::COMPONENTS, components::list),
        Route::get(path::COMPONENT, components::show),
        deploy.long_running(),
        Route::delete(path::COMPONENT, components::remove),
        Route::post(path::COMPONENT_ROLLBACK, components::rollback).long_running(),
        Route::get(path::RUNNERS, runners::list),
        Route::get(path::RUNNER, runners::show),
        Route::post(path::RUNNER_RESTART, runners::restart).body_optional(),
    ]
}

fn nodes() -> Vec<Route<Shared>> {
    vec![
        Route::get(path::NODES, nodes::list),
        Route::get(path::NODE, nodes::show),
        Route::post(path::NODE_DRAIN, nodes::drain).body_optional(),
        Route::post(path::NODE_RESUME, nodes::resume).body_optional(),
    ]
}

fn host() -> Vec<Route<Shared>> {
    vec![
        Route::get(path::EVENTS, events::events).long_running(),
        Route::get(path::OPENAPI, openapi::document),
        Route::get(path::HEALTH, health::alive),
        Route::get(path::READY, health::ready),
        Route::get(path::METRICS, health::metrics),
    ]
}
