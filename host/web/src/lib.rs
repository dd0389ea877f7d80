//! The dashboard: pages for a browser, made on the server. A page asks the routes of the API in this process, on
//! behalf of whoever asks for the page: what it shows is what the API answers, and nobody may do more here than
//! there. Pages work without scripts, and all that a page depends on is in its address.

mod ask;
mod assets;
mod filter;
mod form;
mod format;
mod page;
mod pages;
mod timeline;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Redirect, Response};
use host_core::access::Access;
use host_core::port::Clock;
use host_http::budget::ByteBudget;
use host_http::door::Door;
use host_http::refusal::Refusal;
use host_http::route::{Group, Route};

use self::ask::Web;
use self::pages::{change, components, executors, handlers, job, jobs, nodes, overview, queues};

/// The media type of a form that a browser sends.
const FORM: &[&str] = &["application/x-www-form-urlencoded"];

/// Returns the routes of all pages, which ask `api`: the router of the API. They say nothing by themselves, so
/// everybody may use them; what they ask for is checked there. `bodies` is the memory for the bodies of requests.
pub fn group(api: Router, clock: Arc<dyn Clock>, bodies: ByteBudget) -> Group {
    let page = Access::Open;
    let form = |route: Route<Web>| route.takes(FORM);
    let routes = vec![
        Route::get(page, "/", overview::show),
        Route::get(page, "/jobs", jobs::list),
        form(Route::post(page, "/jobs", job::enqueue)),
        form(Route::post(page, "/jobs/change", change::change)).long_running(),
        Route::get(page, "/jobs/{id}", job::show),
        form(Route::post(page, "/jobs/{id}", job::act)),
        Route::get(page, "/queues", queues::list),
        form(Route::post(page, "/queues/{name}", queues::act)),
        Route::get(page, "/handlers", handlers::list),
        Route::get(page, "/handlers/{name}", handlers::show),
        Route::get(page, "/components", components::list),
        Route::get(page, "/components/{name}", components::show),
        form(Route::post(page, "/components/{name}", components::act)).long_running(),
        Route::get(page, "/executors", executors::list),
        form(Route::post(page, "/executors/{name}", executors::act)),
        Route::get(page, "/nodes", nodes::list),
        form(Route::post(page, "/nodes/{id}", nodes::act)),
        Route::get(page, "/assets/{name}", assets::serve),
    ];
    let web = Web { api, clock, bodies };
    let routes = routes.into_iter();
    Group {
        prefix: "/",
        render,
        routes: routes
            .map(|route| route.behind(&[Door::Pages]).with_state(web.clone()))
            .collect(),
    }
}

fn render(refusal: &Refusal) -> Response {
    let title = refusal.status().canonical_reason().unwrap_or("Refused");
    page::failed(refusal.status(), title, &refusal.to_string(), "")
}

/// Goes to another page after a change, so that a reload does not repeat it.
fn see(page: &str) -> Response {
    Redirect::to(page).into_response()
}
