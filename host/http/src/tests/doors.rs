//! A listener serves only what its doors open.

use std::sync::Arc;

use axum::Router;
use host_core::access::Access;

use super::fixture::{Counted, send, serving};
use crate::door::{DOORS, Door};
use crate::problem;
use crate::route::{Group, Route};
use crate::router::{Serving, router};

fn app(doors: &[Door]) -> Router {
    let routes = vec![
        Route::get(Access::Open, "/api", || async { "api" }),
        Route::get(Access::Open, "/callbacks", || async { "callbacks" }).behind(&[Door::Callbacks]),
        Route::get(Access::Open, "/metrics", || async { "metrics" }).behind(&[Door::Metrics]),
        Route::get(Access::Open, "/pages", || async { "pages" }).behind(&[Door::Pages]),
        Route::get(Access::Open, "/health", || async { "health" })
            .behind(&[Door::Api, Door::Metrics]),
        // One path with a method behind each of two doors.
        Route::get(Access::Open, "/both", || async { "read" }),
        Route::post(Access::Open, "/both", || async { "written" })
            .takes(&[])
            .behind(&[Door::Callbacks]),
    ];
    let group = Group {
        prefix: "/",
        render: problem::render,
        routes,
    };
    let serving = Serving {
        doors: doors.into(),
        ..serving(&Arc::<Counted>::default())
    };
    router(vec![group], &serving, problem::render)
}

#[tokio::test]
async fn a_route_behind_a_closed_door_does_not_exist() {
    let paths = ["/api", "/callbacks", "/metrics", "/pages", "/health"];
    #[rustfmt::skip]
    let table: [(&[Door], [bool; 5]); 6] = [
        (&DOORS,                          [true,  true,  true,  true,  true]),
        (&[Door::Api],                    [true,  false, false, false, true]),
        (&[Door::Callbacks],              [false, true,  false, false, false]),
        (&[Door::Metrics],                [false, false, true,  false, true]),
        (&[Door::Pages],                  [false, false, false, true,  false]),
        (&[Door::Callbacks, Door::Pages], [false, true,  false, true,  false]),
    ];
    let host = &[("host", "localhost")];
    for (doors, served) in table {
        let app = app(doors);
        for (path, is_served) in paths.into_iter().zip(served) {
            let answer = send(&app, "GET", path, host, "").await;
            if is_served {
                assert_eq!(answer.status, 200, "{path} of {doors:?}");
            } else {
                answer.fails(404, "not_found");
            }
        }
    }
    let app = app(&[Door::Callbacks]);
    assert_eq!(send(&app, "POST", "/both", host, "").await.status, 200);
    let answer = send(&app, "GET", "/both", host, "").await;
    answer.fails(405, "method_not_allowed");
}
