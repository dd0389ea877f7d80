//! Every route of the API, one line each. `openapi.rs` describes the same set; a test compares.

use axum::routing::{MethodRouter, delete, get, post, put};

use super::{
    Shared, components, enqueue, events, handlers, health, hero, jobs, logs, openapi, queues,
    runners,
};

/// One method of one path.
pub(super) struct Route {
    /// The method.
    pub(super) method: &'static str,
    /// The path, with its parameters in braces.
    pub(super) path: &'static str,
    /// Whether the request itself bounds how long its answer takes.
    pub(super) takes_its_time: bool,
    /// What answers.
    pub(super) call: MethodRouter<Shared>,
}

impl Route {
    fn new(method: &'static str, path: &'static str, call: MethodRouter<Shared>) -> Self {
        Self {
            method,
            path,
            takes_its_time: false,
            call,
        }
    }

    fn takes_its_time(mut self) -> Self {
        self.takes_its_time = true;
        self
    }
}

/// Returns all routes.
pub(super) fn all() -> Vec<Route> {
    let mut all = jobs();
    all.extend(heroes());
    all.extend(deployed());
    all.extend(host());
    all
}

fn jobs() -> Vec<Route> {
    let new = Route::new;
    vec![
        new("POST", "/api/v1/jobs", post(enqueue::enqueue)),
        new("GET", "/api/v1/jobs", get(jobs::list)),
        new("GET", "/api/v1/jobs/{id}", get(jobs::show)),
        new("POST", "/api/v1/jobs/{id}/cancel", post(jobs::cancel)),
        new("POST", "/api/v1/jobs/{id}/retry", post(jobs::retry)),
        new("GET", "/api/v1/jobs/{id}/wait", get(jobs::wait)).takes_its_time(),
        new("GET", "/api/v1/jobs/{id}/attempts", get(jobs::attempts)),
        new("GET", "/api/v1/jobs/{id}/logs", get(logs::logs)),
        new("GET", "/api/v1/queues", get(queues::list)),
        new("GET", "/api/v1/queues/{name}", get(queues::show)),
        new("POST", "/api/v1/queues/{name}/pause", post(queues::pause)),
        new("POST", "/api/v1/queues/{name}/resume", post(queues::resume)),
    ]
}

fn heroes() -> Vec<Route> {
    const JOBS: &str = "/api/v1/hero/jobs";
    const JOB: &str = "/api/v1/hero/jobs/{id}";
    const WAIT: &str = "/api/v1/hero/jobs/{id}/wait";
    const LOGS: &str = "/api/v1/hero/jobs/{id}/logs";
    const STOP: &str = "/api/v1/hero/jobs/{id}/stop";
    const REQUEUE: &str = "/api/v1/hero/jobs/{id}/requeue";
    const WORKER: &str = "/api/v1/hero/workers/{worker_id}";
    const STALE: &str = "/api/v1/hero/workers/{worker_id}/requeue";
    let new = Route::new;
    vec![
        new("POST", JOBS, post(hero::submit::submit)),
        new("GET", JOBS, get(hero::list::list)),
        new("GET", JOB, get(hero::list::show)),
        new("GET", WAIT, get(hero::list::wait)).takes_its_time(),
        new("GET", LOGS, get(hero::logs::logs)),
        new("POST", STOP, post(hero::steer::stop)),
        new("POST", REQUEUE, post(hero::steer::requeue)),
        new("GET", WORKER, get(hero::list::worker)),
        new("POST", STALE, post(hero::steer::requeue_stale)),
    ]
}

fn deployed() -> Vec<Route> {
    const ONE: &str = "/api/v1/components/{name}";
    const RUNNER: &str = "/api/v1/runners/{name}";
    const RESTART: &str = "/api/v1/runners/{name}/restart";
    const ROLLBACK: &str = "/api/v1/components/{name}/rollback";
    let new = Route::new;
    vec![
        new("GET", "/api/v1/handlers", get(handlers::list)),
        new("GET", "/api/v1/handlers/{name}", get(handlers::show)),
        new("GET", "/api/v1/components", get(components::list)),
        new("GET", ONE, get(components::show)),
        new("PUT", ONE, put(components::deploy)).takes_its_time(),
        new("DELETE", ONE, delete(components::remove)),
        new("GET", "/api/v1/runners", get(runners::list)),
        new("GET", RUNNER, get(runners::show)),
        new("POST", RESTART, post(runners::restart)),
        new("POST", ROLLBACK, post(components::rollback)).takes_its_time(),
    ]
}

fn host() -> Vec<Route> {
    let new = Route::new;
    vec![
        new("GET", "/api/v1/events", get(events::events)).takes_its_time(),
        new("GET", "/api/v1/openapi.json", get(openapi::document)),
        new("GET", "/healthz", get(health::alive)),
        new("GET", "/readyz", get(health::ready)),
        new("GET", "/metrics", get(health::metrics)),
    ]
}
