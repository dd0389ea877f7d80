//! The routes of the API itself, one line each: who may use it. Each handler says the rest above itself. Wires hand in
//! their routes.

use host_core::access::{Access, Verb};
use host_http::door::Door;
use host_http::route;
use host_http::route::Route;

use super::{
    Shared, artifacts, audit, batches, causes, components, enqueue, events, handlers, health, jobs,
    limits, logs, many, nodes,
};
use super::{
    openapi, queues, runners, schedules, sessions, state, tokens, trends, uploads, webhooks,
};

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
        route!(Verb::Enqueue, enqueue::enqueue)
            .scoped()
            .takes(enqueue::MEDIA_TYPES)
            .ends_with_client(),
        route!(Verb::Read, jobs::list).scoped(),
        route!(Verb::Read, many::count).scoped(),
        route!(Verb::Retry, many::retry).scoped(),
        route!(Verb::Cancel, many::cancel).scoped(),
        route!(Verb::Operate, many::purge).scoped(),
        route!(Verb::Operate, many::set_priority).scoped(),
        route!(Verb::Read, jobs::show).scoped(),
        route!(Verb::Cancel, jobs::cancel).scoped(),
        route!(Verb::Retry, jobs::retry).scoped(),
        route!(Verb::Operate, jobs::set_priority).scoped(),
        route!(Verb::Schedule, jobs::reschedule).scoped(),
        route!(Verb::Operate, jobs::purge).scoped(),
        route!(Verb::Read, jobs::wait).scoped().long_running(),
        route!(Verb::Read, jobs::attempts).scoped(),
        route!(Verb::ReadPayload, logs::logs).scoped(),
        route!(Verb::Read, artifacts::show).scoped(),
        route!(Verb::Enqueue, uploads::create)
            .scoped()
            .takes(&[])
            .long_running()
            .ends_with_client(),
        route!(Verb::ReadPayload, causes::list).scoped(),
        route!(Verb::Read, trends::show),
        route!(Verb::Read, queues::list).scoped(),
        route!(Verb::Read, queues::show).scoped(),
        route!(Verb::Operate, queues::remove).scoped(),
        route!(Verb::Operate, queues::pause).scoped(),
        route!(Verb::Operate, queues::resume).scoped(),
        route!(Verb::Enqueue, webhooks::test).scoped(),
        route!(Verb::Read, state::spaces).scoped(),
        route!(Verb::Read, state::keys).scoped(),
        route!(Verb::Operate, state::remove_keys).scoped(),
        route!(Verb::ReadPayload, state::value).scoped(),
        route!(Verb::Operate, state::set).scoped(),
        route!(Verb::Operate, state::remove).scoped(),
    ]
}

fn batches() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Enqueue, batches::new)
            .scoped()
            .ends_with_client(),
        route!(Verb::Read, batches::list).scoped(),
        route!(Verb::Read, batches::show).scoped(),
        route!(Verb::Enqueue, batches::add)
            .scoped()
            .ends_with_client(),
        route!(Verb::Enqueue, batches::close).scoped(),
        route!(Verb::Cancel, batches::cancel).scoped(),
    ]
}

fn limits() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Operate, limits::set),
        route!(Verb::Read, limits::list),
        route!(Verb::Read, limits::show),
        route!(Verb::Operate, limits::remove),
    ]
}

fn schedules() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Schedule, schedules::set).scoped(),
        route!(Verb::Read, schedules::list).scoped(),
        route!(Verb::Read, schedules::show).scoped(),
        route!(Verb::Schedule, schedules::remove).scoped(),
        route!(Verb::Read, schedules::next).scoped(),
        route!(Verb::Read, schedules::firings).scoped(),
        route!(Verb::Schedule, schedules::pause).scoped(),
        route!(Verb::Schedule, schedules::resume).scoped(),
        route!(Verb::Schedule, schedules::trigger).scoped(),
        route!(Verb::Schedule, schedules::backfill).scoped(),
    ]
}

fn deployed() -> Vec<Route<Shared>> {
    let deploy = route!(Verb::Deploy, components::deploy).takes(components::DEPLOY_MEDIA_TYPES);
    vec![
        route!(Verb::Read, handlers::list).scoped(),
        route!(Verb::Read, handlers::show).scoped(),
        route!(Verb::Read, components::list),
        route!(Verb::Read, components::show),
        deploy.long_running(),
        route!(Verb::Deploy, components::remove),
        route!(Verb::Deploy, components::rollback).long_running(),
        route!(Verb::Read, runners::list),
        route!(Verb::Read, runners::show),
        route!(Verb::Operate, runners::restart),
    ]
}

fn nodes() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Read, nodes::list),
        route!(Verb::Read, nodes::show),
        route!(Verb::Operate, nodes::drain),
        route!(Verb::Operate, nodes::resume),
    ]
}

fn tokens() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Tokens, tokens::create).scoped(),
        route!(Verb::Tokens, tokens::list).scoped(),
        route!(Access::AnyPrincipal, tokens::own),
        route!(Verb::Tokens, tokens::show).scoped(),
        route!(Verb::Tokens, tokens::revoke).scoped(),
        route!(Verb::Tokens, tokens::rotate).scoped(),
        route!(Access::AnyPrincipal, sessions::begin),
        route!(Access::AnyPrincipal, sessions::end),
    ]
}

fn host() -> Vec<Route<Shared>> {
    vec![
        route!(Verb::Read, events::events).scoped().long_running(),
        route!(Verb::Audit, audit::list),
        route!(Access::Open, openapi::document),
        route!(Access::Open, health::alive).behind(health::DOORS),
        route!(Access::Open, health::ready).behind(health::DOORS),
        route!(Verb::Metrics, health::metrics)
            .scoped()
            .behind(&[Door::Metrics]),
    ]
}
