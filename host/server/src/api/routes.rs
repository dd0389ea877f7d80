//! The routes of the API itself, one line each; wires hand in theirs. `openapi.rs` describes the
//! same set; a test compares.

use host_api::path;
use host_core::access::{Access, Verb};
use host_http::door::Door;
use host_http::route::Route;

use super::{
    Shared, audit, batches, causes, components, enqueue, events, handlers, health, jobs, limits,
    logs, many, nodes,
};
use super::{openapi, queues, runners, schedules, sessions, state, tokens, trends, webhooks};

/// Returns all routes.
pub(super) fn list() -> Vec<Route<Shared>> {
    let mut all = jobs();
    all.extend(batches());
    all.extend(limits());
    all.extend(schedules());
    all.extend(deployed());
    all.extend(nodes());
    all.extend(tokens());
    all.extend(host());
    all
}

fn jobs() -> Vec<Route<Shared>> {
    vec![
        Route::post(Verb::Enqueue, path::JOBS, enqueue::enqueue)
            .scoped()
            .takes(enqueue::MEDIA_TYPES)
            .ends_with_client(),
        Route::get(Verb::Read, path::JOBS, jobs::list).scoped(),
        Route::get(Verb::Read, path::JOBS_COUNT, many::count).scoped(),
        Route::post(Verb::Retry, path::JOBS_RETRY, many::retry)
            .scoped()
            .body_optional(),
        Route::post(Verb::Cancel, path::JOBS_CANCEL, many::cancel)
            .scoped()
            .body_optional(),
        Route::post(Verb::Operate, path::JOBS_PURGE, many::purge)
            .scoped()
            .body_optional(),
        Route::post(Verb::Operate, path::JOBS_PRIORITY, many::set_priority).scoped(),
        Route::get(Verb::Read, path::JOB, jobs::show).scoped(),
        Route::post(Verb::Cancel, path::JOB_CANCEL, jobs::cancel)
            .scoped()
            .body_optional(),
        Route::post(Verb::Retry, path::JOB_RETRY, jobs::retry)
            .scoped()
            .body_optional(),
        Route::post(Verb::Operate, path::JOB_PRIORITY, jobs::set_priority).scoped(),
        Route::post(Verb::Schedule, path::JOB_RESCHEDULE, jobs::reschedule).scoped(),
        Route::post(Verb::Operate, path::JOB_PURGE, jobs::purge)
            .scoped()
            .body_optional(),
        Route::get(Verb::Read, path::JOB_WAIT, jobs::wait)
            .scoped()
            .long_running(),
        Route::get(Verb::Read, path::JOB_ATTEMPTS, jobs::attempts).scoped(),
        Route::get(Verb::ReadPayload, path::JOB_LOGS, logs::logs).scoped(),
        Route::get(Verb::ReadPayload, path::FAILURES, causes::list).scoped(),
        Route::get(Verb::Read, path::TRENDS, trends::show),
        Route::get(Verb::Read, path::QUEUES, queues::list).scoped(),
        Route::get(Verb::Read, path::QUEUE, queues::show).scoped(),
        Route::delete(Verb::Operate, path::QUEUE, queues::remove).scoped(),
        Route::post(Verb::Operate, path::QUEUE_PAUSE, queues::pause)
            .scoped()
            .body_optional(),
        Route::post(Verb::Operate, path::QUEUE_RESUME, queues::resume)
            .scoped()
            .body_optional(),
        Route::post(Verb::Enqueue, path::WEBHOOK_TEST, webhooks::test).scoped(),
        Route::get(Verb::Read, path::STATE, state::spaces).scoped(),
        Route::get(Verb::Read, path::STATE_SPACE, state::keys).scoped(),
        Route::delete(Verb::Operate, path::STATE_SPACE, state::remove_keys).scoped(),
        Route::get(Verb::ReadPayload, path::STATE_VALUE, state::value).scoped(),
        Route::put(Verb::Operate, path::STATE_VALUE, state::set).scoped(),
        Route::delete(Verb::Operate, path::STATE_VALUE, state::remove).scoped(),
    ]
}

fn batches() -> Vec<Route<Shared>> {
    vec![
        Route::post(Verb::Enqueue, path::BATCHES, batches::new)
            .scoped()
            .ends_with_client(),
        Route::get(Verb::Read, path::BATCHES, batches::list).scoped(),
        Route::get(Verb::Read, path::BATCH, batches::show).scoped(),
        Route::post(Verb::Enqueue, path::BATCH_JOBS, batches::add)
            .scoped()
            .ends_with_client(),
        Route::post(Verb::Enqueue, path::BATCH_CLOSE, batches::close)
            .scoped()
            .body_optional(),
        Route::post(Verb::Cancel, path::BATCH_CANCEL, batches::cancel)
            .scoped()
            .body_optional(),
    ]
}

fn limits() -> Vec<Route<Shared>> {
    vec![
        Route::put(Verb::Operate, path::LIMIT, limits::set),
        Route::get(Verb::Read, path::LIMITS, limits::list),
        Route::get(Verb::Read, path::LIMIT, limits::show),
        Route::delete(Verb::Operate, path::LIMIT, limits::remove),
    ]
}

fn schedules() -> Vec<Route<Shared>> {
    vec![
        Route::put(Verb::Schedule, path::SCHEDULE, schedules::set).scoped(),
        Route::get(Verb::Read, path::SCHEDULES, schedules::list).scoped(),
        Route::get(Verb::Read, path::SCHEDULE, schedules::show).scoped(),
        Route::delete(Verb::Schedule, path::SCHEDULE, schedules::remove).scoped(),
        Route::get(Verb::Read, path::SCHEDULE_NEXT, schedules::next).scoped(),
        Route::get(Verb::Read, path::SCHEDULE_FIRINGS, schedules::firings).scoped(),
        Route::post(Verb::Schedule, path::SCHEDULE_PAUSE, schedules::pause)
            .scoped()
            .body_optional(),
        Route::post(Verb::Schedule, path::SCHEDULE_RESUME, schedules::resume)
            .scoped()
            .body_optional(),
        Route::post(Verb::Schedule, path::SCHEDULE_TRIGGER, schedules::trigger)
            .scoped()
            .body_optional(),
        Route::post(Verb::Schedule, path::SCHEDULE_BACKFILL, schedules::backfill).scoped(),
    ]
}

fn deployed() -> Vec<Route<Shared>> {
    let deploy = Route::put(Verb::Deploy, path::COMPONENT, components::deploy)
        .takes(components::DEPLOY_MEDIA_TYPES);
    vec![
        Route::get(Verb::Read, path::HANDLERS, handlers::list).scoped(),
        Route::get(Verb::Read, path::HANDLER, handlers::show).scoped(),
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

fn tokens() -> Vec<Route<Shared>> {
    vec![
        Route::post(Verb::Tokens, path::TOKENS, tokens::create).scoped(),
        Route::get(Verb::Tokens, path::TOKENS, tokens::list).scoped(),
        Route::get(Access::AnyPrincipal, path::TOKENS_SELF, tokens::own),
        Route::get(Verb::Tokens, path::TOKEN, tokens::show).scoped(),
        Route::delete(Verb::Tokens, path::TOKEN, tokens::revoke).scoped(),
        Route::post(Verb::Tokens, path::TOKEN_ROTATE, tokens::rotate)
            .scoped()
            .body_optional(),
        Route::post(Access::AnyPrincipal, path::SESSIONS, sessions::begin).body_optional(),
        Route::delete(Access::AnyPrincipal, path::SESSIONS_SELF, sessions::end),
    ]
}

fn host() -> Vec<Route<Shared>> {
    vec![
        Route::get(Verb::Read, path::EVENTS, events::events)
            .scoped()
            .long_running(),
        Route::get(Verb::Audit, path::AUDIT, audit::list),
        Route::get(Access::Open, path::OPENAPI, openapi::document),
        Route::get(Access::Open, path::HEALTH, health::alive).behind(health::DOORS),
        Route::get(Access::Open, path::READY, health::ready).behind(health::DOORS),
        Route::get(Verb::Metrics, path::METRICS, health::metrics)
            .scoped()
            .behind(&[Door::Metrics]),
    ]
}
