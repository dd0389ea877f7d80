//! The dashboard: pages for a browser, made on the server. A page asks the routes of the API in this process, on
//! behalf of the caller: what it shows is what the API answers, and no one may do more here than
//! there. Pages work without scripts, and all that a page depends on is in its address.

mod ask;
mod assets;
mod chart;
mod cron;
mod fields;
mod filter;
mod form;
mod format;
mod login;
mod page;
mod pages;
mod same;
mod timeline;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use host_core::access::{Access, Verb};
use host_core::port::Clock;
use host_http::budget::ByteBudget;
use host_http::door::Door;
use host_http::refusal::Refusal;
use host_http::route::{Group, Route};

use self::ask::Web;
use self::pages::{
    audit, batches, change, components, executors, failures, find, handlers, job, jobs, limits,
    live, nodes, overview, queues, schedules, tokens,
};

/// The media type of a form that a browser sends.
const FORM: &[&str] = &["application/x-www-form-urlencoded"];

/// The media type of a form with files.
const UPLOAD: &[&str] = &["multipart/form-data"];

/// Returns the routes of all pages, which ask `api`: the router of the API. `bodies` is the memory for the bodies of
/// requests.
pub fn group(api: Router, clock: Arc<dyn Clock>, bodies: ByteBudget) -> Group {
    let web = Web { api, clock, bodies };
    Group {
        prefix: "/",
        render,
        routes: routes()
            .map(|route| route.with_state(web.clone()))
            .collect(),
    }
}

/// Returns all routes. A form with several buttons is for every principal: the API checks what a button asks for.
fn routes() -> impl Iterator<Item = Route<Web>> {
    let read = Access::Scoped(Verb::Read);
    let form = |route: Route<Web>| route.takes(FORM);
    let routes = [
        Route::get(read, "/", overview::show),
        Route::get(read, "/jobs", jobs::list),
        form(Route::post(Verb::Enqueue, "/jobs", job::enqueue)).scoped(),
        form(Route::post(
            Access::AnyPrincipal,
            "/jobs/change",
            change::change,
        ))
        .long_running(),
        Route::get(read, "/jobs/{id}", job::show),
        form(Route::post(Access::AnyPrincipal, "/jobs/{id}", job::act)),
        Route::get(read, "/find", find::find),
        Route::get(
            Access::Scoped(Verb::ReadPayload),
            "/failures",
            failures::list,
        ),
        Route::get(read, "/queues", queues::list),
        form(Route::post(Verb::Operate, "/queues/{name}", queues::act)).scoped(),
        Route::get(read, "/batches", batches::list),
        Route::get(read, "/batches/{id}", batches::show),
        form(Route::post(Verb::Cancel, "/batches/{id}", batches::act)).scoped(),
        Route::get(read, "/schedules", schedules::list),
        form(Route::post(Verb::Schedule, "/schedules", schedules::set)).scoped(),
        Route::get(read, "/schedules/{name}", schedules::show),
        form(Route::post(
            Verb::Schedule,
            "/schedules/{name}",
            schedules::act,
        ))
        .scoped(),
        Route::get(Verb::Read, "/limits", limits::list),
        Route::get(Verb::Read, "/limits/{name}", limits::show),
        form(Route::post(Verb::Operate, "/limits/{name}", limits::act)),
        Route::get(read, "/handlers", handlers::list),
        Route::get(read, "/handlers/{name}", handlers::show),
        Route::get(Verb::Read, "/components", components::list),
        Route::post(Verb::Deploy, "/components", components::deploy)
            .takes(UPLOAD)
            .long_running(),
        Route::get(Verb::Read, "/components/{name}", components::show),
        form(Route::post(
            Verb::Deploy,
            "/components/{name}",
            components::act,
        ))
        .long_running(),
        Route::get(Verb::Read, "/executors", executors::list),
        form(Route::post(
            Verb::Operate,
            "/executors/{name}",
            executors::act,
        )),
        Route::get(Verb::Read, "/nodes", nodes::list),
        form(Route::post(Verb::Operate, "/nodes/{id}", nodes::act)),
        Route::get(Access::Scoped(Verb::Tokens), "/tokens", tokens::list),
        form(Route::post(Verb::Tokens, "/tokens", tokens::act)).scoped(),
        Route::get(Verb::Audit, "/audit", audit::list),
        Route::get(read, "/live", live::follow).long_running(),
        form(Route::post(Access::Open, "/login", login::login)),
        form(Route::post(Access::AnyPrincipal, "/logout", login::logout)),
        Route::get(Access::Open, "/assets/{name}", assets::serve),
    ]
    .into_iter();
    routes.map(|route| route.behind(&[Door::Pages]))
}

/// Returns the method and the path of each page, and who may use it.
pub fn pages() -> impl Iterator<Item = (&'static str, &'static str, Access)> {
    routes().map(|route| (route.method, route.path, route.access))
}

fn render(refusal: &Refusal) -> Response {
    if *refusal == Refusal::Unauthenticated {
        return login::ask();
    }
    let title = refusal.status().canonical_reason().unwrap_or("Refused");
    page::failed(refusal.status(), None, title, &refusal.to_string(), "")
}

/// Goes to another page after a change, so that a reload does not repeat it.
fn see(page: &str) -> Response {
    Redirect::to(page).into_response()
}
