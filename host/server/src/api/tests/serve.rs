//! The API behind its listener: what guards every route is tested where it is made; here, that the
//! API is behind it.

use std::sync::Arc;

use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use axum::body::Body;
use axum::http::Request;
use host_http::door::DOORS;

use super::fixture::{Host, Lines, api, call, doorway};
use crate::api::{ServedApi, routes};

/// More than any answer needs.
const SOON: std::time::Duration = std::time::Duration::from_mins(1);

#[tokio::test]
async fn the_api_answers_and_ends_with_the_host() {
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let api = api(&dispatch, &Arc::new(Lines::default()), &tasks, clock);
    let metrics = api.metrics.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = ServedApi::new(api, &tasks);
    tasks.spawn(routes.serve(listener, doorway(&DOORS)));

    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let open = "host_http_connections 1\n";
    assert!(metrics.encode().contains(open), "{}", metrics.encode());
    tasks.stop();
    let mut rest = String::new();
    let read = stream.read_to_string(&mut rest);
    tokio::time::timeout(SOON, read).await.unwrap().unwrap();
    assert!(rest.contains("uptime_seconds"), "{rest}");
}

#[tokio::test]
async fn every_route_is_guarded() {
    let host = Host::start().await;
    for path in [
        "/healthz",
        "/metrics",
        "/api/v1/jobs",
        "/api/v1/events",
        "/api/v1/hero/jobs",
    ] {
        let answer = host.get_as("evil.example", path).await;
        answer.fails(403, "host_refused");
    }
    let own = host.get_as("127.0.0.9:7700", "/api/v1/jobs").await;
    assert_eq!(own.status, 200, "it is the address of the listener");
}

#[tokio::test]
async fn unknown_paths_methods_and_media_types() {
    let host = Host::start().await;
    for path in [
        "/nothing",
        "/api/v1",
        "/api/v2/jobs",
        "/api/v1/jobs/",
        "/api/v1/jobs/a/b/c",
    ] {
        host.get(path).await.fails(404, "not_found");
    }
    host.get("/api/v1/hero").await.fails(404, "not_found");
    let json = "application/json";
    for (method, path) in [
        ("DELETE", "/api/v1/jobs"),
        ("OPTIONS", "/api/v1/jobs"),
        ("PATCH", "/api/v1/components/a"),
        ("POST", "/healthz"),
    ] {
        let answer = host.send(method, path, json, Vec::new()).await;
        answer.fails(405, "method_not_allowed");
        assert!(answer.headers.contains_key("allow"), "{method} {path}");
    }
    for kind in [
        "application/wasm",
        "multipart/form-data; boundary=x",
        "text/plain",
    ] {
        let answer = host
            .send("POST", "/api/v1/jobs", kind, b"{}".to_vec())
            .await;
        answer.fails(415, "unsupported_media_type");
    }
    let answer = host
        .send("PUT", "/api/v1/components/a", json, b"{}".to_vec())
        .await;
    answer.fails(415, "unsupported_media_type");
    let head = host.send("HEAD", "/healthz", json, Vec::new()).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

/// What is served behind each door but that of the API, which serves all other routes.
const BEHIND: &[(&str, &str)] = &[
    ("GET /healthz", "api metrics"),
    ("GET /readyz", "api metrics"),
    ("GET /metrics", "metrics"),
    ("POST /api/v1/internal/lease", "callbacks"),
    ("POST /api/v1/internal/ack-lease", "callbacks"),
    ("POST /api/v1/internal/heartbeat", "callbacks"),
    ("POST /api/v1/internal/complete", "callbacks"),
    ("POST /api/v1/internal/cancel-ack", "callbacks"),
    ("PUT /api/v1/internal/logs", "callbacks"),
    ("PUT /api/v1/internal/logs/{lease_id}", "callbacks"),
    ("POST /v1/tasks/{task_id}/started", "callbacks"),
    ("POST /v1/tasks/{task_id}/heartbeat", "callbacks"),
    ("POST /v1/tasks/{task_id}/completed", "callbacks"),
    ("POST /api/v1/tasks/{task_id}/started", "callbacks"),
    ("POST /api/v1/tasks/{task_id}/heartbeat", "callbacks"),
    ("POST /api/v1/tasks/{task_id}/completed", "callbacks"),
    (
        "POST /api/v1/workspaces/{workspace_id}/runs/{run_id}/logs",
        "callbacks",
    ),
];

#[tokio::test]
async fn a_listener_serves_only_what_it_names() {
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let api = api(&dispatch, &Arc::new(Lines::default()), &tasks, clock);
    let of_wires = api
        .wire_routes
        .iter()
        .flat_map(|group| &group.routes)
        .map(|route| (route.method, route.path, route.doors));
    let own = routes::list()
        .into_iter()
        .map(|route| (route.method, route.path, route.doors));
    let all: Vec<_> = of_wires.chain(own).collect();
    let served = ServedApi::new(api, &tasks);
    let mut special = 0;
    for &(method, path, doors) in &all {
        let name = format!("{method} {path}");
        let behind = BEHIND.iter().find(|(route, _)| *route == name);
        special += usize::from(behind.is_some());
        let expected = behind.map_or("api", |(_, doors)| doors);
        let names: Vec<_> = doors.iter().map(|door| door.as_str()).collect();
        assert_eq!(names.join(" "), expected, "{name}");
        for door in DOORS.into_iter().filter(|door| !doors.contains(door)) {
            let router = served.router(&doorway(&[door]));
            let path = path.replace(['{', '}'], "");
            let request = Request::builder()
                .method(method)
                .uri(&path)
                .header("host", "localhost");
            let answer = call(&router, request.body(Body::empty()).unwrap()).await;
            let has_other_methods = all.iter().any(|(other, its, open)| {
                its.replace(['{', '}'], "") == path && *other != method && open.contains(&door)
            });
            let expected = if has_other_methods { 405 } else { 404 };
            assert_eq!(answer.status, expected, "{name} at {door}: {answer:?}");
        }
    }
    assert_eq!(special, BEHIND.len());
}
