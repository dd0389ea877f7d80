//! Our worker under our control plane, over links that lose requests, lose answers, send requests twice
//! and out of order, with clocks an hour apart. Every task is executed once and ends once.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderValue, Request, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_core::job::State as JobState;
use host_runtime::tasks::Tasks;
use http_body_util::{BodyExt as _, Full};
use hyper::service::Service as _;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::arco::orchestrator::tests::fixture::{Plane, Setup};
use crate::arco::worker::tests::fixture::{Plane as Played, World};
use host_testing::LeaseHost;

/// How many tasks go through one pair of links.
const TASKS: usize = 20;

/// Of a hundred requests, how many are lost, lose their answer, come twice, or come once more later.
const LOST: u64 = 15;
const UNANSWERED: u64 = 15;
const TWICE: u64 = 10;
const LATER: u64 = 10;

/// How often the time of the orchestrator passes.
const TICK: Duration = Duration::from_millis(10);

/// Where a link leads.
#[derive(Clone)]
enum End {
    Router(Router),
    Address(SocketAddr, Client<HttpConnector, Full<Bytes>>),
}

/// One direction between the two sides.
#[derive(Clone)]
struct Link(Arc<Inner>);

struct Inner {
    end: Mutex<Option<End>>,
    random: Mutex<u64>,
    /// A request that comes once more, before the next one.
    kept: Mutex<Option<(axum::http::request::Parts, Bytes)>>,
}

impl Link {
    async fn start(seed: u64, tasks: &Tasks) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let link = Self(Arc::new(Inner {
            end: Mutex::new(None),
            random: Mutex::new(seed),
            kept: Mutex::new(None),
        }));
        let (router, stopping) = (
            Router::new().fallback(carry).with_state(link.clone()),
            tasks.stopping().clone(),
        );
        tasks.spawn(async move {
            tokio::select! {
                _ = axum::serve(listener, router) => {}
                () = stopping.cancelled() => {}
            }
        });
        (link, address)
    }

    fn lead_to(&self, end: End) {
        *self.0.end.lock().unwrap() = Some(end);
    }

    /// Draws a number below a hundred.
    fn draw(&self) -> u64 {
        let mut bits = self.0.random.lock().unwrap();
        *bits ^= *bits << 13;
        *bits ^= *bits >> 7;
        *bits ^= *bits << 17;
        *bits % 100
    }

    async fn pass(&self, parts: &axum::http::request::Parts, body: &Bytes) -> Response {
        let end = self.0.end.lock().unwrap().clone().unwrap();
        match end {
            End::Router(router) => {
                let mut request = Request::new(Body::from(body.clone()));
                *request.method_mut() = parts.method.clone();
                *request.uri_mut() = parts.uri.clone();
                *request.headers_mut() = parts.headers.clone();
                let host = HeaderValue::from_static("127.0.0.1:7700");
                request.headers_mut().insert("host", host);
                TowerToHyperService::new(router)
                    .call(request)
                    .await
                    .unwrap()
            }
            End::Address(address, client) => {
                let mut request = Request::new(Full::new(body.clone()));
                *request.method_mut() = parts.method.clone();
                let uri = format!("http://{address}{}", parts.uri.path());
                *request.uri_mut() = uri.parse().unwrap();
                *request.headers_mut() = parts.headers.clone();
                request.headers_mut().remove("host");
                match client.request(request).await {
                    Ok(response) => response.map(Body::new),
                    Err(_) => lost(),
                }
            }
        }
    }
}

fn lost() -> Response {
    StatusCode::BAD_GATEWAY.into_response()
}

async fn carry(State(link): State<Link>, request: Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let earlier = link.0.kept.lock().unwrap().take();
    if let Some((parts, body)) = earlier {
        drop(link.pass(&parts, &body).await);
    }
    let drawn = link.draw();
    let mut below = LOST;
    if drawn < below {
        return lost();
    }
    below += UNANSWERED;
    if drawn < below {
        drop(link.pass(&parts, &body).await);
        return lost();
    }
    below += TWICE;
    if drawn < below {
        drop(link.pass(&parts, &body).await);
        return link.pass(&parts, &body).await;
    }
    below += LATER;
    if drawn < below {
        *link.0.kept.lock().unwrap() = Some((parts.clone(), body.clone()));
    }
    link.pass(&parts, &body).await
}

/// Runs tasks with the worker's wall clock ahead by `ahead_ms`.
async fn run(seed: u64, ahead_ms: i64) {
    let links = Tasks::default();
    let (to_worker, dispatches_at) = Link::start(seed | 1, &links).await;
    let (to_plane, callbacks_at) = Link::start(seed.rotate_left(17) | 1, &links).await;
    let played = Arc::new(Played::start().await);
    let worker = World::start_towards(played, callbacks_at, None, 8).await;
    worker.clock.set_wall_ahead(ahead_ms);
    let model = LeaseHost::new();
    model.clock.set_wall_ahead(-ahead_ms / 2);
    let plane = Plane::start(
        &Setup {
            in_flight_max: 8,
            secret: "dsecret",
            public_url: Some(format!("http://{callbacks_at}")),
            ..Setup::to(dispatches_at)
        },
        &model,
    );
    let clock = Arc::clone(&model.clock);
    let ended = links.stopping().clone();
    links.spawn(async move {
        while ended.run_until_cancelled(sleep(TICK)).await.is_some() {
            clock.pass(TICK.as_millis().try_into().unwrap());
        }
    });
    let client = Client::builder(TokioExecutor::new()).build_http();
    let origin = worker.url.to_string();
    let address = origin.trim_start_matches("http://").parse().unwrap();
    to_worker.lead_to(End::Address(address, client));
    to_plane.lead_to(End::Router(plane.router.clone()));
    let ids: Vec<_> = (0..TASKS)
        .map(|n| {
            let params = format!(r#"{{"n":{n}}}"#);
            let handler = if n % 4 == 3 { "fail" } else { "echo" };
            model.enqueue(("spark", handler), &params, plane.policy(), &[])
        })
        .collect();
    for (n, id) in ids.iter().enumerate() {
        let kept = model
            .until(*id, |kept| kept.job.lifecycle.state.is_terminal())
            .await;
        assert_eq!(
            kept.attempts.len(),
            1,
            "seed {seed}: task {n} has {:?}",
            kept.attempts
        );
        let expected = if n % 4 == 3 {
            JobState::Discarded
        } else {
            JobState::Completed
        };
        assert_eq!(kept.job.lifecycle.state, expected, "seed {seed}: task {n}");
        if expected == JobState::Completed {
            let result = kept.job.result.unwrap();
            let start = format!(r#"{{"output":{{"n":{n}}},"#);
            assert!(result.as_str().starts_with(&start), "{}", result.as_str());
        }
    }
    assert_eq!(
        worker.sandbox.jobs.borrow().len(),
        TASKS,
        "seed {seed}: something ran twice"
    );
    plane.stop().await;
    worker.stop_all().await;
    links.stop();
    links.join().await;
}

#[tokio::test]
async fn tasks_run_once_over_bad_links() {
    for seed in [0x9e37_79b9, 0x7f4a_7c15] {
        run(seed, 0).await;
    }
}

#[tokio::test]
async fn tasks_run_once_with_clocks_an_hour_apart() {
    run(0x94d0_49bb, 3_600_000).await;
    run(0x1331_11eb, -3_600_000).await;
}
