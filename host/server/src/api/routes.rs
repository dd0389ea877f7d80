//! The routes of the API itself, one line each; wires hand in theirs. `openapi.rs` describes the
//! same set; a test compares.

use host_api::path;
use host_core::access::{Access, Verb};
use host_http::door::Door;
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
        Route::post(Verb::Enqueue, path::JOBS, enqueue::enqueue).ends_with_client(),
        Route::get(Verb::Read, path::JOBS, jobs::list),
        Route::get(Verb::Read, path::JOBS_COUNT, many::count),
        Route::post(Verb::Retry, path::JOBS_RETRY, many::retry).body_optional(),
        Route::post(Verb::Cancel, path::JOBS_CANCEL, many::cancel).body_optional(),
        Route::post(Verb::Operate, path::JOBS_PURGE, many::purge).body_optional(),
        Route::get(Verb::Read, path::JOB, jobs::show),
        Route::post(Verb::Cancel, path::JOB_CANCEL, jobs::cancel).body_optional(),
        Route::post(Verb::Retry, path::JOB_RETRY, jobs::retry).body_optional(),
        Route::post(Verb::Operate, path::JOB_PRIORITY, jobs::set_priority),
        Route::post(Verb::Schedule, path::JOB_RESCHEDULE, jobs::reschedule),
        Route::post(Verb::Operate, path::JOB_PURGE, jobs::purge).body_optional(),
        Route::get(Verb::Read, path::JOB_WAIT, jobs::wait).long_running(),
        Route::get(Verb::Read, path::JOB_ATTEMPTS, jobs::attempts),
        Route::get(Verb::ReadPayload, path::JOB_LOGS, logs::logs),
        Route::get(Verb::Read, path::QUEUES, queues::list),
        Route::get(Verb::Read, path::QUEUE, queues::show),
        Route::post(Verb::Operate, path::QUEUE_PAUSE, queues::pause).body_optional(),
        Route::post(Verb::Operate, path::QUEUE_RESUME, queues::resume).body_optional(),
    ]
}

fn deployed() -> Vec<Route<Shared>> {
    let deploy = Route::put(Verb::Deploy, path::COMPONENT, components::deploy)
        .takes(components::DEPLOY_MEDIA_TYPES);
    vec![
        Route::get(Verb::Read, path::HANDLERS, handlers::list),
        Route::get(Verb::Read, path::HANDLER, handlers::show),
        Route::get(Verb::Read, path::COMPONENTS, components::list),
        Route::get(Verb::Read, path::COMPONENT, components::show),
        deploy.long_running(),
        Route::delete(Verb::Deploy, path::COMPONENT, components::remove),
        Route::post(Verb::Deploy, path::COMPONENT_ROLLBACK, components::rollback).long_running(),
        Route::get(Verb::Read, path::RUNNERS, runners::list),
        Route::get(Verb::Read, path::RUNNER, runners::show),
        Route::post(Verb::Operate, path::RUNNER_RESTART, runners::restart).body_optional(),
    ]
}

fn nodes() -> Vec<Route<Shared>> {
    vec![
        Route::get(Verb::Read, path::NODES, nodes::list),
        Route::get(Verb::Read, path::NODE, nodes::show),
        Route::post(Verb::Operate, path::NODE_DRAIN, nodes::drain).body_optional(),
        Route::post(Verb::Operate, path::NODE_RESUME, nodes::resume).body_optional(),
    ]
}

fn host() -> Vec<Route<Shared>> {
    vec![
        Route::get(Verb::Read, path::EVENTS, events::events).long_running(),
        Route::get(Access::Open, path::OPENAPI, openapi::document),
        Route::get(Access::Open, path::HEALTH, health::alive).behind(health::DOORS),
        Route::get(Access::Open, path::READY, health::ready).behind(health::DOORS),
        Route::get(Verb::Metrics, path::METRICS, health::metrics).behind(&[Door::Metrics]),
    ]
}
