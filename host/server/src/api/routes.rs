//! The routes of the API itself, one line each; wires hand in theirs. `openapi.rs` describes the
//! same set; a test compares.

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
        Route::post("/api/v1/jobs", enqueue::enqueue).ends_with_client(),
        Route::get("/api/v1/jobs", jobs::list),
        Route::get("/api/v1/jobs/count", many::count),
        Route::post("/api/v1/jobs/retry", many::retry).body_optional(),
        Route::post("/api/v1/jobs/cancel", many::cancel).body_optional(),
        Route::post("/api/v1/jobs/purge", many::purge).body_optional(),
        Route::get("/api/v1/jobs/{id}", jobs::show),
        Route::post("/api/v1/jobs/{id}/cancel", jobs::cancel).body_optional(),
        Route::post("/api/v1/jobs/{id}/retry", jobs::retry).body_optional(),
        Route::post("/api/v1/jobs/{id}/priority", jobs::set_priority),
        Route::post("/api/v1/jobs/{id}/reschedule", jobs::reschedule),
        Route::post("/api/v1/jobs/{id}/purge", jobs::purge).body_optional(),
        Route::get("/api/v1/jobs/{id}/wait", jobs::wait).long_running(),
        Route::get("/api/v1/jobs/{id}/attempts", jobs::attempts),
        Route::get("/api/v1/jobs/{id}/logs", logs::logs),
        Route::get("/api/v1/queues", queues::list),
        Route::get("/api/v1/queues/{name}", queues::show),
        Route::post("/api/v1/queues/{name}/pause", queues::pause).body_optional(),
        Route::post("/api/v1/queues/{name}/resume", queues::resume).body_optional(),
    ]
}

fn deployed() -> Vec<Route<Shared>> {
    const ONE: &str = "/api/v1/components/{name}";
    const ROLLBACK: &str = "/api/v1/components/{name}/rollback";
    let deploy = Route::put(ONE, components::deploy).takes(components::DEPLOY_MEDIA_TYPES);
    vec![
        Route::get("/api/v1/handlers", handlers::list),
        Route::get("/api/v1/handlers/{name}", handlers::show),
        Route::get("/api/v1/components", components::list),
        Route::get(ONE, components::show),
        deploy.long_running(),
        Route::delete(ONE, components::remove),
        Route::post(ROLLBACK, components::rollback).long_running(),
        Route::get("/api/v1/runners", runners::list),
        Route::get("/api/v1/runners/{name}", runners::show),
        Route::post("/api/v1/runners/{name}/restart", runners::restart).body_optional(),
    ]
}

fn nodes() -> Vec<Route<Shared>> {
    vec![
        Route::get("/api/v1/nodes", nodes::list),
        Route::get("/api/v1/nodes/{id}", nodes::show),
        Route::post("/api/v1/nodes/{id}/drain", nodes::drain).body_optional(),
        Route::post("/api/v1/nodes/{id}/resume", nodes::resume).body_optional(),
    ]
}

fn host() -> Vec<Route<Shared>> {
    vec![
        Route::get("/api/v1/events", events::events).long_running(),
        Route::get("/api/v1/openapi.json", openapi::document),
        Route::get("/healthz", health::alive),
        Route::get("/readyz", health::ready),
        Route::get("/metrics", health::metrics),
    ]
}
