//! Requests that a web page or a faulty client may send, and checks that all routes share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_core::access::Access;

use super::fixture::{Counted, ECHO_BYTES_MAX, LARGE_BYTES, Recorded, app, send, serving};
use crate::problem;
use crate::route::{Group, Route};
use crate::router::{Serving, router};

/// Headers, and the expected status and code. The status is 200 if the request is accepted.
type Case<'a> = (&'a [(&'a str, &'a str)], u16, &'a str);

const JSON: (&str, &str) = ("content-type", "application/json");
const HOST: (&str, &str) = ("host", "127.0.0.1:7700");

const CASES: &[Case<'_>] = &[
    (&[HOST, JSON], 200, ""),
    (
        &[HOST, ("content-type", "Application/JSON; charset=utf-8")],
        200,
        "",
    ),
    (&[("host", "LOCALHOST"), JSON], 200, ""),
    (&[("host", "localhost:1"), JSON], 200, ""),
    (&[("host", "[::1]:7700"), JSON], 200, ""),
    (&[("host", "127.0.0.9:7700"), JSON], 200, ""),
    (&[("host", "jobs.example"), JSON], 200, ""),
    (&[("host", "Jobs.Example:8443"), JSON], 200, ""),
    (&[("host", "www.jobs.example"), JSON], 403, "host_refused"),
    (
        &[
            ("host", "jobs.example"),
            JSON,
            ("origin", "https://jobs.example"),
        ],
        200,
        "",
    ),
    (
        &[
            ("host", "jobs.example"),
            JSON,
            ("origin", "https://evil.example"),
        ],
        403,
        "origin_refused",
    ),
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
    (&[HOST, JSON, ("origin", "http://127.0.0.1:7700")], 200, ""),
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
    (
        &[
            HOST,
            JSON,
            ("origin", "http://127.0.0.1:7700"),
            ("origin", "http://evil.example"),
        ],
        403,
        "origin_refused",
    ),
    (
        &[HOST, JSON, ("content-type", "text/plain")],
        415,
        "unsupported_media_type",
    ),
    (&[HOST, JSON, ("sec-fetch-site", "same-origin")], 200, ""),
    (&[HOST, JSON, ("sec-fetch-site", "none")], 200, ""),
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
    (
        &[HOST, JSON, ("content-encoding", "identity, gzip")],
        415,
        "unsupported_media_type",
    ),
    (&[HOST, JSON, ("content-encoding", "Identity")], 200, ""),
    (
        &[HOST, ("content-type", "application/json; charset=utf-16")],
        415,
        "unsupported_media_type",
    ),
    (
        &[
            HOST,
            (
                "content-type",
                "application/json;v=1; Charset = \"ISO-8859-1\"",
            ),
        ],
        415,
        "unsupported_media_type",
    ),
    (
        &[
            HOST,
            ("content-type", "application/json; charset=\"UTF-8\""),
        ],
        200,
        "",
    ),
];

#[tokio::test]
async fn web_pages_have_no_access() {
    let app = app(&Arc::default());
    for (headers, status, code) in CASES {
        let answer = send(&app, "POST", "/api/echo", headers, "{}").await;
        if *status == 200 {
            assert_eq!(answer.status, 200, "{headers:?}: {answer:?}");
        } else {
            answer.fails(*status, code);
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
    let app = app(&Arc::default());
    for path in ["/api/ping", "/api/wait", "/api/list"] {
        let answer = send(&app, "GET", path, &[("host", "evil.example")], "").await;
        answer.fails(403, "host_refused");
    }
    let absolute = "http://evil.example/api/ping";
    let answer = send(&app, "GET", absolute, &[("host", "localhost")], "").await;
    answer.fails(403, "host_refused");
}

#[tokio::test]
async fn a_route_takes_the_media_types_that_it_names() {
    let app = app(&Arc::default());
    for (path, kind, status) in [
        ("/api/file", "application/wasm", 200),
        ("/api/file", "text/plain; charset=utf-8", 200),
        ("/api/file", "application/json", 415),
        ("/api/other/any", "image/png", 200),
    ] {
        let method = if path.ends_with("file") {
            "PUT"
        } else {
            "POST"
        };
        let answer = send(&app, method, path, &[HOST, ("content-type", kind)], "x").await;
        assert_eq!(answer.status, status, "{path} {kind}: {answer:?}");
    }
    let answer = send(&app, "PUT", "/api/file", &[HOST, JSON], "x").await;
    let detail = answer.fails(415, "unsupported_media_type");
    let expected = "unsupported body type \"application/json\"; this path accepts application/wasm or \
                    text/plain";
    assert_eq!(detail, expected);
    let answer = send(&app, "POST", "/api/other/any", &[HOST], "x").await;
    assert_eq!((answer.status, answer.text.as_str()), (200, "taken"));
}

#[tokio::test]
async fn an_optional_body_needs_no_media_type_if_there_is_none() {
    let app = app(&Arc::default());
    let form = ("content-type", "application/x-www-form-urlencoded");
    let touch = "/api/touch/a";
    for (path, headers, body, status) in [
        (touch, &[HOST][..], "", 200),
        (touch, &[HOST, JSON], "", 200),
        (touch, &[HOST, JSON], "{}", 200),
        (touch, &[HOST], "{}", 415),
        (touch, &[HOST, form], "", 415),
        (touch, &[HOST, ("origin", "http://evil.example")], "", 403),
        (touch, &[HOST, ("sec-fetch-site", "cross-site")], "", 403),
        (touch, &[("host", "evil.example")], "", 403),
        ("/api/echo", &[HOST], "", 415),
    ] {
        let answer = send(&app, "POST", path, headers, body).await;
        assert_eq!(
            answer.status, status,
            "{path} {headers:?} {body}: {answer:?}"
        );
    }
}

#[tokio::test]
async fn unknown_paths_and_methods_have_the_format_of_their_group() {
    let app = app(&Arc::default());
    for path in [
        "/",
        "/api",
        "/api/",
        "/api/ping/",
        "/apis",
        "/api/touch/a/b",
    ] {
        let answer = send(&app, "GET", path, &[HOST], "").await;
        answer.fails(404, "not_found");
    }
    for path in ["/api/other", "/api/other/x"] {
        let answer = send(&app, "GET", path, &[HOST], "").await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.text, "plain: no such path");
    }
    for (method, path) in [("DELETE", "/api/ping"), ("OPTIONS", "/api/echo")] {
        let answer = send(&app, method, path, &[HOST], "").await;
        answer.fails(405, "method_not_allowed");
        assert!(answer.headers.contains_key("allow"), "{method} {path}");
    }
    let answer = send(&app, "GET", "/api/other/any", &[HOST], "").await;
    assert_eq!(answer.status, 405);
    assert_eq!(
        answer.text,
        "plain: this path does not support the method GET"
    );
    let answer = send(&app, "POST", "/api/other/any", &[], "").await;
    assert_eq!(answer.status, 403);
    assert_eq!(
        answer.text,
        "plain: a request must have exactly one Host header"
    );
    let head = send(&app, "HEAD", "/api/ping", &[HOST], "").await;
    assert_eq!((head.status, head.text.as_str()), (200, ""));
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_a_time_limit_unless_its_route_is_long_running() {
    let app = app(&Arc::default());
    let answer = send(&app, "GET", "/api/stuck", &[HOST], "").await;
    answer.fails(504, "timed_out");
    let answer = send(&app, "GET", "/api/other/stuck", &[HOST], "").await;
    assert_eq!(answer.status, 504);
    assert_eq!(
        answer.text,
        "plain: the host did not answer within 60 seconds"
    );
    let waiting = send(&app, "GET", "/api/wait", &[HOST], "");
    let an_hour = std::time::Duration::from_hours(1);
    assert!(tokio::time::timeout(an_hour, waiting).await.is_err());
}

#[tokio::test]
async fn bodies_queries_and_paths_are_read_strictly() {
    let app = app(&Arc::default());
    let large = "x".repeat(ECHO_BYTES_MAX + 1);
    let answer = send(&app, "POST", "/api/echo", &[HOST, JSON], &large).await;
    answer.fails(413, "body_too_large");
    for (body, status, code) in [
        ("", 200, ""),
        (" {}", 200, ""),
        ("[]", 422, "invalid_request"),
        ("{", 400, "invalid_json"),
        (r#"{"a":1}"#, 422, "invalid_request"),
    ] {
        let answer = send(&app, "POST", "/api/touch/a%2Fb", &[HOST, JSON], body).await;
        if status == 200 {
            assert_eq!(
                (answer.status, answer.text.as_str()),
                (200, "a/b"),
                "{body}"
            );
        } else {
            answer.fails(status, code);
        }
    }
    let answer = send(&app, "POST", "/api/touch/%FF", &[HOST, JSON], "").await;
    answer.fails(400, "invalid_name");
    for (query, detail) in [
        ("limit=0", "limit: must be 1–1000, got 0"),
        (
            "limits=1",
            "unknown parameter `limits`; did you mean `limit`?",
        ),
    ] {
        let answer = send(&app, "GET", &format!("/api/list?{query}"), &[HOST], "").await;
        assert_eq!(answer.fails(400, "invalid_query"), detail);
    }
}

#[tokio::test]
async fn every_answer_of_a_route_is_counted() {
    let metrics = Arc::<Counted>::default();
    let app = app(&metrics);
    send(&app, "GET", "/api/ping", &[HOST], "").await;
    send(&app, "GET", "/api/ping", &[], "").await;
    send(&app, "POST", "/api/touch/a", &[HOST, JSON], "{").await;
    send(&app, "GET", "/nowhere", &[HOST], "").await;
    let large = send(&app, "GET", "/api/large", &[HOST], "").await;
    assert_eq!(large.headers["content-length"], LARGE_BYTES.to_string());
    let answered = metrics.answered.lock().unwrap().clone();
    let expected = [
        ("GET", "/api/ping", 200),
        ("GET", "/api/ping", 403),
        ("POST", "/api/touch/{name}", 400),
        ("GET", "/api/large", 200),
    ];
    assert_eq!(answered, expected);
}

#[tokio::test]
async fn a_recorded_request_is_handled_only_if_the_audit_has_it() {
    for (is_full, status) in [(false, 200), (true, 503)] {
        let handled = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&handled);
        let stop = move || async move {
            counted.fetch_add(1, Ordering::Relaxed);
            "stopped"
        };
        let route = Route::post(Access::Open, "/api/jobs/{id}/stop", stop);
        let group = Group {
            prefix: "/api",
            render: problem::render,
            routes: vec![route.recorded()],
        };
        let gate = Arc::new(Recorded {
            is_full,
            ..Recorded::default()
        });
        let serving = Serving {
            gate: Arc::clone(&gate) as _,
            ..serving(&Arc::new(Counted::default()))
        };
        let app = router(vec![group], &serving, problem::render);
        // What is refused anyway is not recorded.
        let refused = send(&app, "POST", "/api/jobs/7/stop", &[HOST], "{}").await;
        assert_eq!(refused.status, 415, "{refused:?}");
        let answer = send(&app, "POST", "/api/jobs/7/stop", &[HOST, JSON], "{}").await;
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(*gate.requests.lock().unwrap(), ["POST /api/jobs/7/stop"]);
        assert_eq!(handled.load(Ordering::Relaxed), usize::from(!is_full));
    }
}
