//! Invalid, oversized, truncated and slow input on the HTTP listener: the answer is one clear error or a
//! closed connection, nothing panics, and other clients are not affected.

use std::io::Write;
use std::time::Duration;

use host_tests::raw::{Raw, ask, connect, exchange, read};
use host_tests::{Client, eventually};
use serde_json::json;

use crate::fixture::{Own, own};

/// Names and values of headers.
type Headers<'a> = Vec<(&'a str, &'a str)>;

/// Returns the bytes of a request that asks to close the connection afterwards.
fn request(line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{line} HTTP/1.1\r\nconnection: close\r\n").into_bytes();
    for (name, value) in headers {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if !body.is_empty() {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

fn post(address: &str, body: &[u8]) -> Raw {
    let headers = [("host", address), ("content-type", "application/json")];
    ask(address, &request("POST /api/v1/jobs", &headers, body))
}

fn assert_problem(what: &str, raw: &Raw, status: u16, code: &str) {
    assert_eq!(raw.status, Some(status), "{what}: {raw:?}");
    assert_eq!(raw.answers, 1, "{what}: {raw:?}");
    assert_eq!(raw.body["code"], code, "{what}: {raw:?}");
    assert_eq!(raw.body["status"], status, "{what}: {raw:?}");
    assert!(
        raw.body["detail"]
            .as_str()
            .is_some_and(|detail| !detail.is_empty()),
        "{what}: {raw:?}"
    );
}

/// Checks that the host still answers and has not panicked.
fn assert_unharmed(own: &Own) {
    let client: Client = own.server.client();
    let job = client.run(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(job["result"], json!([1]), "{job}");
    let log = std::fs::read_to_string(own.data.path().join("serve.log")).unwrap();
    assert!(!log.contains("panicked"), "{log}");
}

#[test]
fn bytes_that_are_not_http_get_at_most_one_answer() {
    let own = own();
    let address = own.server.address().to_owned();
    let own_host = format!("host: {address}\r\n");
    let many_headers = format!(
        "GET / HTTP/1.1\r\n{own_host}{}\r\n",
        "x: y\r\n".repeat(20_000)
    );
    let large_header = format!(
        "GET / HTTP/1.1\r\n{own_host}x: {}\r\n\r\n",
        "y".repeat(2 << 20)
    );
    let long_path = format!("GET /{} HTTP/1.1\r\n{own_host}\r\n", "p".repeat(1 << 20));
    let two_lengths = format!(
        "POST /api/v1/jobs HTTP/1.1\r\n{own_host}content-type: application/json\r\n\
         content-length: 2\r\ncontent-length: 3\r\n\r\n{{}}"
    );
    let both = format!(
        "POST /api/v1/jobs HTTP/1.1\r\n{own_host}content-type: application/json\r\n\
         content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n\
         GET /smuggled HTTP/1.1\r\n{own_host}\r\n"
    );
    let bad_chunk = format!(
        "POST /api/v1/jobs HTTP/1.1\r\n{own_host}content-type: application/json\r\n\
         transfer-encoding: chunked\r\n\r\nffffffffffffffffff\r\nxx"
    );
    let folded = format!("GET /healthz HTTP/1.1\r\n{own_host}x: y\r\n z\r\n\r\n");
    let cases: Vec<(&str, &[u8])> = vec![
        ("nothing", b""),
        ("one byte", b"\0"),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
        ("SSH", b"SSH-2.0-OpenSSH_9.2\r\n"),
        ("RESP", b"*1\r\n$4\r\nPING\r\n"),
        ("a frame", b"\0\0\0\x02{}"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("HTTP/0.9", b"GET /\r\n"),
        ("no version", b"GET / HTTP/9.9\r\n\r\n"),
        ("random", b"\x80\xff\r\n\r\n\x00\x01\x02\r\n\r\n"),
        ("many headers", many_headers.as_bytes()),
        ("a large header", large_header.as_bytes()),
        ("a long path", long_path.as_bytes()),
        ("two lengths", two_lengths.as_bytes()),
        ("a length and chunks", both.as_bytes()),
        ("a chunk without end", bad_chunk.as_bytes()),
        ("a folded header", folded.as_bytes()),
    ];
    for (what, bytes) in cases {
        let raw = exchange(&address, bytes);
        assert!(raw.answers <= 1, "{what}: {raw:?}");
        assert!(
            raw.status.is_none_or(|status| (400..500).contains(&status)),
            "{what}: {raw:?}"
        );
    }
    assert_unharmed(&own);
}

/// Bodies that are not a valid JSON document.
const INVALID_JSON: &[(&str, &[u8])] = &[
    ("no document", b" "),
    ("half a document", br#"{"handler": "noo"#),
    ("two documents", br#"{"handler":"noop"}{}"#),
    ("invalid UTF-8", b"{\"handler\":\"\xff\"}"),
    ("overlong UTF-8", b"{\"handler\":\"\xc0\xaf\"}"),
    ("a lone surrogate", br#"{"handler":"\ud800"}"#),
    ("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbf{}"),
    ("UTF-16", b"\xff\xfe{\0}\0"),
    ("gzip", b"\x1f\x8b\x08\0"),
    ("a key twice", br#"{"handler":"noop","handler":"echo"}"#),
    (
        "a key of params twice",
        br#"{"handler":"noop","params":{"a":1,"a":2}}"#,
    ),
    (
        "a number out of range",
        br#"{"handler":"noop","params":1e400}"#,
    ),
];

/// JSON documents that are not valid jobs.
const INVALID_JOBS: &[(&str, &str)] = &[
    ("a number", "7"),
    ("no handler", "{}"),
    ("an empty array", "[]"),
    ("an array of numbers", "[1]"),
    ("a wrong type", r#"{"handler":7}"#),
    ("a wrong field", r#"{"handler":"noop","parms":1}"#),
    ("a space", r#"{"handler":"no op"}"#),
    ("an empty name", r#"{"handler":""}"#),
    ("priority 10", r#"{"handler":"noop","priority":10}"#),
    ("priority -1", r#"{"handler":"noop","priority":-1}"#),
    ("no attempts", r#"{"handler":"noop","max_attempts":0}"#),
    (
        "no zone",
        r#"{"handler":"noop","run_at":"2026-01-01T00:00:00"}"#,
    ),
    (
        "second 61",
        r#"{"handler":"noop","run_at":"2026-01-01T00:00:61Z"}"#,
    ),
];

#[test]
fn invalid_jobs_are_refused_with_a_code() {
    let own = own();
    let address = own.server.address().to_owned();
    for (what, body) in INVALID_JSON {
        assert_problem(what, &post(&address, body), 400, "invalid_json");
    }
    for (what, body) in INVALID_JOBS {
        let raw = post(&address, body.as_bytes());
        assert_problem(what, &raw, 422, "invalid_request");
    }
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    let deep = format!("{open}{close}");
    let deep_params = format!(
        r#"{{"handler":"noop","params":{}1{}}}"#,
        &open[..200],
        &close[..200]
    );
    let long_name = format!(r#"{{"handler":"{}"}}"#, "n".repeat(64 << 10));
    let many = format!("[{}]", vec![r#"{"handler":"noop"}"#; 1_001].join(","));
    let large = "[".repeat((8 << 20) + 1);
    for (what, body, status, code) in [
        ("depth", deep, 400, "invalid_json"),
        ("depth of params", deep_params, 400, "invalid_json"),
        ("a long name", long_name, 422, "invalid_request"),
        ("too many", many, 413, "too_many_jobs"),
        ("too large", large, 413, "body_too_large"),
    ] {
        assert_problem(what, &post(&address, body.as_bytes()), status, code);
    }
    let unknown = post(&address, br#"{"handler":"../../etc"}"#);
    assert_problem("a path", &unknown, 422, "handler_not_found");
    let jobs = own.server.client().get("/api/v1/jobs").unwrap();
    assert_eq!(jobs.body["items"], json!([]), "none of it was accepted");
    assert_unharmed(&own);
}

#[test]
fn unknown_paths_are_refused() {
    let own = own();
    let address = own.server.address().to_owned();
    let host = [("host", &*address)];
    for (line, status) in [
        ("GET /nothing", 404),
        ("GET /api/v1/nothing", 404),
        ("GET /api/v1/../../etc/passwd", 404),
        ("GET /api/v1/jobs/%2e%2e%2f", 404),
        ("GET /api/v1/jobs/%00", 404),
        ("GET /api/v1/jobs/%ff", 400),
        ("GET /api/v1/jobs/00000000-0000-7000-8000-000000000000", 404),
        ("GET /api/v1/jobs?limit=x", 400),
        ("GET /api/v1/jobs?limits=1", 400),
        ("GET /api/v1/jobs?cursor=%ff", 400),
        ("GET /api/v1/queues/no%20name", 400),
        ("DELETE /api/v1/jobs", 405),
        ("BREW /api/v1/jobs", 405),
    ] {
        let raw = ask(&address, &request(line, &host, b""));
        assert_eq!(raw.status, Some(status), "{line}: {raw:?}");
        assert!(raw.body["code"].is_string(), "{line}: {raw:?}");
    }
    assert_unharmed(&own);
}

#[test]
fn requests_from_web_pages_are_refused() {
    const JOB: &[u8] = br#"{"handler":"noop"}"#;
    let own = own();
    let address = own.server.address().to_owned();
    let origin = format!("http://{address}");
    let json = ("content-type", "application/json");
    let cases: Vec<(Headers<'_>, u16, &str)> = vec![
        (vec![("host", "evil.example"), json], 403, "host_refused"),
        (
            vec![("host", "127.0.0.1.evil.example:80"), json],
            403,
            "host_refused",
        ),
        (vec![json], 400, ""),
        (
            vec![("host", &*address), ("host", "evil.example"), json],
            403,
            "host_refused",
        ),
        (
            vec![
                ("host", &*address),
                ("origin", "https://evil.example"),
                json,
            ],
            403,
            "origin_refused",
        ),
        (
            vec![("host", &*address), ("origin", "null"), json],
            403,
            "origin_refused",
        ),
        (
            vec![("host", &*address), ("sec-fetch-site", "cross-site"), json],
            403,
            "origin_refused",
        ),
        (
            vec![("host", &*address), ("content-type", "text/plain")],
            415,
            "unsupported_media_type",
        ),
        (
            vec![
                ("host", &*address),
                ("content-type", "application/x-www-form-urlencoded"),
            ],
            415,
            "unsupported_media_type",
        ),
        (vec![("host", &*address)], 415, "unsupported_media_type"),
        (
            vec![("host", &*address), json, ("content-encoding", "gzip")],
            415,
            "unsupported_media_type",
        ),
    ];
    for (headers, status, code) in cases {
        let raw = ask(&address, &request("POST /api/v1/jobs", &headers, JOB));
        if code.is_empty() {
            assert!(
                matches!(raw.status, Some(400 | 403)),
                "{headers:?}: {raw:?}"
            );
        } else {
            assert_problem(&format!("{headers:?}"), &raw, status, code);
        }
    }
    let read = request(
        "GET /api/v1/jobs",
        &[("host", &address), ("origin", "http://evil.example")],
        b"",
    );
    assert_problem(
        "a page that reads",
        &ask(&address, &read),
        403,
        "origin_refused",
    );
    let own_page = [("host", &*address), ("origin", &*origin), json];
    let accepted = ask(&address, &request("POST /api/v1/jobs", &own_page, JOB));
    assert_eq!(accepted.status, Some(201), "{accepted:?}");
    assert_unharmed(&own);
}

#[test]
fn slow_and_truncated_requests_time_out() {
    let own = own();
    let address = own.server.address().to_owned();
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         content-length: 1000\r\n\r\n{{\"handler\":"
    );
    let truncated = exchange(&address, head.as_bytes());
    assert!(
        truncated
            .status
            .is_none_or(|status| (400..500).contains(&status)),
        "{truncated:?}"
    );
    let mut no_header_end = connect(&address);
    no_header_end
        .write_all(b"GET /healthz HTTP/1.1\r\nhost:")
        .unwrap();
    let mut no_body_end = connect(&address);
    no_body_end.write_all(head.as_bytes()).unwrap();
    let idle = connect(&address);
    assert_unharmed(&own);
    let slow_body = read(no_body_end);
    assert_problem("a slow body", &slow_body, 408, "body_timeout");
    let slow_header = read(no_header_end);
    assert!(
        matches!(slow_header.status, None | Some(408)),
        "{slow_header:?}"
    );
    assert_eq!(read(idle).status, None, "an idle connection is closed");
    assert_unharmed(&own);
}

#[test]
fn many_idle_connections_do_not_block_other_clients() {
    const CONNECTIONS: usize = 500;
    let own = own();
    let address = own.server.address().to_owned();
    let mut silent: Vec<_> = (0..CONNECTIONS).map(|_| connect(&address)).collect();
    for (n, stream) in silent.iter_mut().enumerate() {
        let _ = stream.write_all(&b"POST /api/v1/jobs HTTP/1.1\r\n"[..n % 28]);
    }
    assert_unharmed(&own);
    drop(silent);
    eventually(
        "the host to answer as before",
        Duration::from_secs(20),
        || {
            own.server
                .client()
                .get("/healthz")
                .ok()
                .filter(|answer| answer.status == 200)
        },
    );
}
