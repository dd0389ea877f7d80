//! Requests that a web page or a careless client may send.

use axum::body::Body;
use axum::http::Request;

use super::fixture::{Host, call};

/// Headers, and the status and code the request is refused with; 201 where it is not.
type Case<'a> = (&'a [(&'a str, &'a str)], u16, &'a str);

const JSON: (&str, &str) = ("content-type", "application/json");
const HOST: (&str, &str) = ("host", "127.0.0.1:7700");

const CASES: &[Case<'_>] = &[
    (&[HOST, JSON], 201, ""),
    (
        &[HOST, ("content-type", "Application/JSON; charset=utf-8")],
        201,
        "",
    ),
    (&[("host", "LOCALHOST"), JSON], 201, ""),
    (&[("host", "localhost:1"), JSON], 201, ""),
    (&[("host", "[::1]:7700"), JSON], 201, ""),
    (&[("host", "127.0.0.9:7700"), JSON], 201, ""),
    (&[JSON], 403, "host_refused"),
    (&[HOST, HOST, JSON], 403, "host_refused"),
    (&[("host", ""), JSON], 403, "host_refused"),
    (&[("host", "evil.example:7700"), JSON], 403, "host_refused"),
    (
        &[("host", "127.0.0.1.evil.example"), JSON],
        403,
        "host_refused",
    ),
    (&[("host", "localhost.:7700"), JSON], 403, "host_refused"),
    (&[("host", "user@localhost"), JSON], 403, "host_refused"),
    (&[("host", "::1"), JSON], 403, "host_refused"),
    (&[("host", "10.0.0.1"), JSON], 403, "host_refused"),
    (&[HOST, JSON, ("origin", "http://127.0.0.1:7700")], 201, ""),
    (
        &[HOST, JSON, ("origin", "http://127.0.0.1:8080")],
        403,
        "origin_refused",
    ),
    (
        &[HOST, JSON, ("origin", "http://localhost:7700")],
        403,
        "origin_refused",
    ),
    (
        &[HOST, JSON, ("origin", "https://127.0.0.1:7700")],
        403,
        "origin_refused",
    ),
    (
        &[HOST, JSON, ("origin", "http://evil.example")],
        403,
        "origin_refused",
    ),
    (&[HOST, JSON, ("origin", "null")], 403, "origin_refused"),
    (&[HOST, JSON, ("sec-fetch-site", "same-origin")], 201, ""),
    (&[HOST, JSON, ("sec-fetch-site", "none")], 201, ""),
    (
        &[HOST, JSON, ("sec-fetch-site", "same-site")],
        403,
        "origin_refused",
    ),
    (
        &[HOST, JSON, ("sec-fetch-site", "cross-site")],
        403,
        "origin_refused",
    ),
    (&[HOST], 415, "unsupported_media_type"),
    (
        &[HOST, ("content-type", "text/plain")],
        415,
        "unsupported_media_type",
    ),
    (
        &[HOST, ("content-type", "application/x-www-form-urlencoded")],
        415,
        "unsupported_media_type",
    ),
    (
        &[HOST, ("content-type", "application/wasm")],
        415,
        "unsupported_media_type",
    ),
    (
        &[HOST, ("content-type", "multipart/form-data; boundary=x")],
        415,
        "unsupported_media_type",
    ),
    (
        &[HOST, JSON, ("content-encoding", "gzip")],
        415,
        "unsupported_media_type",
    ),
];

#[tokio::test]
async fn web_pages_have_no_access() {
    let host = Host::start().await;
    for (headers, status, code) in CASES {
        let mut request = Request::post("/api/v1/jobs");
        for (name, value) in *headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(r#"{"handler":"noop"}"#)).unwrap();
        let answer = call(&host.router, request).await;
        if *status == 201 {
            assert_eq!(answer.status, 201, "{headers:?}: {answer:?}");
        } else {
            answer.refused(*status, code);
        }
        assert!(
            answer
                .headers
                .keys()
                .all(|name| !name.as_str().starts_with("access-control")),
            "no page is ever given access"
        );
    }
}

#[tokio::test]
async fn reading_is_guarded_too() {
    let host = Host::start().await;
    for path in ["/healthz", "/metrics", "/api/v1/jobs", "/api/v1/events"] {
        let request = Request::get(path).header("host", "evil.example");
        let answer = call(&host.router, request.body(Body::empty()).unwrap()).await;
        answer.refused(403, "host_refused");
    }
    let request = Request::get("http://evil.example/healthz").header("host", "localhost");
    let answer = call(&host.router, request.body(Body::empty()).unwrap()).await;
    answer.refused(403, "host_refused");
}

#[tokio::test]
async fn unknown_paths_and_methods() {
    let host = Host::start().await;
    for path in [
        "/",
        "/api/v1",
        "/api/v2/jobs",
        "/api/v1/jobs/",
        "/api/v1/jobs/a/b/c",
    ] {
        host.get(path).await.refused(404, "not_found");
    }
    let json = "application/json";
    for (method, path) in [
        ("DELETE", "/api/v1/jobs"),
        ("OPTIONS", "/api/v1/jobs"),
        ("PATCH", "/api/v1/components/a"),
        ("POST", "/healthz"),
    ] {
        let answer = host.send(method, path, json, Vec::new()).await;
        answer.refused(405, "method_not_allowed");
        assert!(answer.headers.contains_key("allow"), "{method} {path}");
    }
    let head = host.send("HEAD", "/healthz", json, Vec::new()).await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}
