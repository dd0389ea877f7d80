//! What a runner may send by mistake or on purpose, and what it gets.

use axum::http::StatusCode;
use serde_json::{Value, json};

use super::fixture::Host;

/// A body, in which `LEASE` is replaced by a live lease, and how it is refused.
type Case<'a> = (&'a str, &'a str, u16, &'a str, &'a str);

const BAD: &[Case<'_>] = &[
    ("lease", "", 400, "E_JSON", "at byte 0"),
    ("lease", "\0", 400, "E_JSON", "at byte 0"),
    ("lease", "{", 400, "E_JSON", "EOF"),
    ("lease", "\u{feff}{}", 400, "E_JSON", "at byte"),
    ("lease", "{} {}", 400, "E_JSON", "trailing"),
    ("lease", r#"{"a":1,"a":2}"#, 400, "E_JSON", "duplicate key"),
    ("lease", r#"{"a":"\ud800"}"#, 400, "E_JSON", "at byte"),
    ("lease", r#"{"a":NaN}"#, 400, "E_JSON", "at byte"),
    (
        "lease",
        r#"{"a":1e400}"#,
        400,
        "E_JSON",
        "number out of range",
    ),
    ("lease", "[]", 422, "E_FIELD_TYPE", "the body is an array"),
    ("lease", "null", 422, "E_FIELD_TYPE", "the body is null"),
    (
        "lease",
        "{}",
        422,
        "E_FIELD_TYPE",
        "runner_id: expected a string, found nothing",
    ),
    (
        "lease",
        r#"{"runner_id":7}"#,
        422,
        "E_FIELD_TYPE",
        "runner_id: expected a string, found a number",
    ),
    (
        "lease",
        r#"{"runner_id":null}"#,
        422,
        "E_FIELD_TYPE",
        "found nothing",
    ),
    (
        "lease",
        r#"{"runner_id":""}"#,
        422,
        "E_FIELD_VALUE",
        "runner_id: expected 1 to 128",
    ),
    (
        "lease",
        r#"{"runner_id":"a b"}"#,
        422,
        "E_FIELD_VALUE",
        "runner_id",
    ),
    (
        "lease",
        r#"{"runner_id":"a\nb"}"#,
        422,
        "E_FIELD_VALUE",
        "runner_id",
    ),
    (
        "lease",
        r#"{"runner_id":"\u001b[31m"}"#,
        422,
        "E_FIELD_VALUE",
        "runner_id",
    ),
    (
        "lease",
        r#"{"runner_id":"\u202e"}"#,
        422,
        "E_FIELD_VALUE",
        "runner_id",
    ),
    (
        "lease",
        r#"{"runner_id":"w","capabilities":"os:linux"}"#,
        422,
        "E_FIELD_TYPE",
        "capabilities: expected an array of strings, found a string of 8",
    ),
    (
        "lease",
        r#"{"runner_id":"w","capabilities":[1]}"#,
        422,
        "E_FIELD_TYPE",
        "capabilities",
    ),
    (
        "lease",
        r#"{"runner_id":"w","capabilities":["os:linux","os:mac"]}"#,
        422,
        "E_FIELD_VALUE",
        "capabilities: expected at most one os:",
    ),
    (
        "lease",
        r#"{"runner_id":"w","wait_seconds":-1}"#,
        422,
        "E_FIELD_TYPE",
        "wait_seconds",
    ),
    (
        "lease",
        r#"{"runner_id":"w","wait_seconds":0.5}"#,
        422,
        "E_FIELD_TYPE",
        "wait_seconds",
    ),
    (
        "lease",
        r#"{"runner_id":"w","wait_seconds":18446744073709551616}"#,
        422,
        "E_FIELD_TYPE",
        "wait_seconds",
    ),
    (
        "ack-lease",
        r#"{"runner_id":"w1"}"#,
        422,
        "E_FIELD_TYPE",
        "lease_id: expected a string, found nothing",
    ),
    (
        "ack-lease",
        r#"{"runner_id":"w1","lease_id":{}}"#,
        422,
        "E_FIELD_TYPE",
        "lease_id: expected a string, found an object",
    ),
    (
        "ack-lease",
        r#"{"lease_id":"LEASE"}"#,
        422,
        "E_FIELD_TYPE",
        "runner_id",
    ),
    (
        "ack-lease",
        r#"{"type":"Heartbeat","runner_id":"w1","lease_id":"LEASE"}"#,
        422,
        "E_FIELD_VALUE",
        "type: expected AckLease",
    ),
    (
        "ack-lease",
        r#"{"job_id":"other","runner_id":"w1","lease_id":"LEASE"}"#,
        422,
        "E_FIELD_MISMATCH",
        "job_id",
    ),
    (
        "heartbeat",
        r#"{"type":"WRONG","runner_id":"w1","lease_id":"LEASE"}"#,
        422,
        "E_FIELD_VALUE",
        "type",
    ),
    (
        "heartbeat",
        r#"{"runner_id":["w1"],"lease_id":"LEASE"}"#,
        422,
        "E_FIELD_TYPE",
        "runner_id",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE"}"#,
        422,
        "E_FIELD_TYPE",
        "status: expected a string, found nothing",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"succeeded"}"#,
        422,
        "E_FIELD_VALUE",
        "status: expected SUCCEEDED",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","exit_code":1099511627776}"#,
        422,
        "E_FIELD_RANGE",
        "exit_code",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","exit_code":"0"}"#,
        422,
        "E_FIELD_TYPE",
        "exit_code",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","exit_code":0.5}"#,
        422,
        "E_FIELD_TYPE",
        "exit_code",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","timings":[]}"#,
        422,
        "E_FIELD_TYPE",
        "timings: expected an object",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","finished_at":5}"#,
        422,
        "E_FIELD_TYPE",
        "finished_at",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","artifacts":{}}"#,
        422,
        "E_FIELD_TYPE",
        "artifacts: expected an array, found an object",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","artifacts":["x"]}"#,
        422,
        "E_FIELD_TYPE",
        "artifacts[0]: expected an object",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","artifacts":[{"uri":7}]}"#,
        422,
        "E_FIELD_TYPE",
        "artifacts[0].uri",
    ),
    (
        "complete",
        r#"{"runner_id":"w1","lease_id":"LEASE","status":"SUCCEEDED","summary":["x"]}"#,
        422,
        "E_FIELD_TYPE",
        "summary",
    ),
    (
        "cancel-ack",
        r#"{"runner_id":"w1","lease_id":"LEASE","final_status":"FAILED"}"#,
        422,
        "E_FIELD_VALUE",
        "final_status: expected CANCELED",
    ),
    (
        "cancel-ack",
        r#"{"runner_id":"w1","lease_id":"LEASE"}"#,
        422,
        "E_FIELD_TYPE",
        "final_status",
    ),
];

#[tokio::test]
async fn bad_messages_are_refused_and_the_lease_lives() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    for (path, body, status, code, expected) in BAD {
        let body = body.replace("LEASE", &lease);
        let answer = host.post(path, body.clone()).await;
        let message = answer.refused(*status, code);
        assert!(message.contains(expected), "{body}: {message}");
        assert!(
            !answer.text.contains(&lease),
            "a secret is not shown: {body}"
        );
        assert_eq!(host.refused().last(), Some(code), "{body}");
    }
    for body in [&b"\xff{}"[..], b"{\"a\":\"\xc0\xaf\"}"] {
        let answer = host.post("lease", body).await;
        answer.refused(400, "E_JSON");
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let answer = host.post("complete", deep).await;
    answer.refused(400, "E_JSON");
    host.heartbeat(&lease, "w1").await.is(200);
    host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
}

#[tokio::test]
async fn values_at_their_limits() {
    let host = Host::start();
    let ask = |runner: String, tags: Vec<String>| {
        json!({"runner_id": runner, "capabilities": tags, "wait_seconds": 0}).to_string()
    };
    let tags = |count: usize, bytes: usize| -> Vec<String> {
        (0..count).map(|n| format!("{n:0bytes$}")).collect()
    };
    for (runner, tags, status) in [
        (128, tags(64, 64), 204),
        (129, tags(0, 1), 422),
        (65_536, tags(0, 1), 413),
        (8, tags(65, 2), 422),
        (8, tags(1, 65), 422),
    ] {
        let answer = host.post("lease", ask("w".repeat(runner), tags)).await;
        assert_eq!(answer.status, status, "{runner}");
    }
    let long = json!({"lease_id": "x".repeat(513), "runner_id": "w1"}).to_string();
    let answer = host.post("heartbeat", long).await;
    assert!(answer.refused(422, "E_FIELD_RANGE").contains("513"));
    // A wait that is too long is a long one.
    host.enqueue();
    let ask = json!({"runner_id": "w1", "capabilities": ["os:linux"], "wait_seconds": 1_000_000});
    host.post("lease", ask.to_string()).await.is(200);
}

#[tokio::test]
async fn no_token_or_a_wrong_one_looks_the_same() {
    let host = Host::start();
    let mut answers = Vec::new();
    for headers in [
        &[][..],
        &[("authorization", "Bearer")],
        &[("authorization", "Bearer ")],
        &[("authorization", "Bearer wrong")],
        &[("authorization", "Bearer ci-token ")],
        &[("authorization", "Bearer  ci-token")],
        &[("authorization", "Basic ci-token")],
        &[("authorization", "ci-token")],
        &[
            ("authorization", "Bearer ci-token"),
            ("authorization", "Bearer ci-token"),
        ],
    ] {
        for (method, path) in [
            ("POST", "lease"),
            ("POST", "ack-lease"),
            ("POST", "heartbeat"),
            ("POST", "complete"),
            ("POST", "cancel-ack"),
            ("PUT", "logs/none"),
        ] {
            let kind = if method == "PUT" {
                "text/plain"
            } else {
                "application/json"
            };
            let path = format!("/api/v1/internal/{path}?token=ci-token");
            // Whatever is wrong with the body.
            let large = "x".repeat(9 << 20);
            let bodies = [
                (kind, "not even JSON"),
                ("image/png", "not even JSON"),
                (kind, large.as_str()),
            ];
            for (kind, body) in bodies {
                let with_type = [headers, &[("content-type", kind)]].concat();
                let answer = host.send(method, &path, &with_type, body).await;
                answer.refused(401, "E_AUTH");
                assert_eq!(answer.headers["www-authenticate"], "Bearer");
                answers.push(answer.text);
            }
        }
    }
    answers.dedup();
    assert_eq!(answers.len(), 1);
    let lower = [
        ("authorization", "bearer ci-token"),
        ("content-type", "application/json"),
    ];
    let ask = r#"{"runner_id":"w1","wait_seconds":0}"#;
    let answer = host
        .send("POST", "/api/v1/internal/lease", &lower, ask)
        .await;
    assert_eq!(answer.status, StatusCode::NO_CONTENT.as_u16());
}

#[tokio::test]
async fn what_informs_is_clamped_and_never_fails_a_heartbeat() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    for (progress, cursor, percent, warnings) in [
        (json!({"percent": 101}), json!(null), Some(100.0), 1),
        (json!({"percent": -1}), json!(null), Some(0.0), 1),
        (json!({"percent": -0.0}), json!(null), Some(0.0), 0),
        (
            json!({"percent": "NaN", "message": "m"}),
            json!(null),
            None,
            1,
        ),
        (json!({"percent": 1e300}), json!(null), Some(100.0), 1),
        (json!("half"), json!({"bytes_sent": 10}), None, 1),
        (
            json!({"message": ["m"], "percent": 1}),
            json!({"bytes_sent": 9}),
            Some(1.0),
            2,
        ),
        (
            json!({"message": "x".repeat(5_000), "percent": 2}),
            json!([]),
            Some(2.0),
            2,
        ),
        (
            json!({"step_index": -1, "percent": 3}),
            json!({"bytes_sent": -1}),
            Some(3.0),
            2,
        ),
    ] {
        let beat = json!({
            "lease_id": lease, "runner_id": "w1", "progress": progress, "log_cursor": cursor,
        });
        let ack = host.post("heartbeat", beat.to_string()).await.is(200);
        let found = ack["warnings"].as_array().map_or(0, Vec::len);
        assert_eq!(found, warnings, "{ack}");
        let found = host.model.look(job, |job| job.progress.clone().unwrap());
        assert_eq!(found.percent, percent, "{beat}");
        assert!(found.message.len() < 2_000);
    }
}

#[tokio::test]
async fn a_flood_of_heartbeats_is_refused_and_the_lease_lives() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let mut accepted = 0;
    for _ in 0..1_000 {
        let answer = host.heartbeat(&lease, "w1").await;
        match answer.status {
            200 => accepted += 1,
            _ => {
                answer.refused(429, "E_RATE");
            }
        }
    }
    assert_eq!(accepted, 30);
    // Those of another runner cost the holder nothing.
    host.model.advance(1_000);
    for _ in 0..100 {
        host.heartbeat(&lease, "w2")
            .await
            .stale(&lease, "UNKNOWN_LEASE");
    }
    host.heartbeat(&lease, "w1").await.is(200);
}

#[tokio::test]
async fn an_end_with_too_much_is_kept_in_part() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let artifacts = [
        json!({"type": "log", "uri": "file:///etc/passwd"}),
        json!({"type": "x", "uri": "javascript:alert(1)"}),
        json!({"type": "x", "uri": "u".repeat(1 << 20)}),
    ];
    let more = (0..100_000).map(|n| json!({"type": "t", "uri": format!("u{n}")}));
    let artifacts: Vec<Value> = artifacts.into_iter().chain(more).collect();
    let end = json!({
        "lease_id": lease, "runner_id": "w1", "status": "SUCCEEDED", "exit_code": 1,
        "artifacts": artifacts, "summary": "s".repeat(300 << 10),
    });
    host.post("complete", end.to_string()).await.is(200);
    let text = host.model.look(job, |job| job.result.clone().unwrap());
    let result: Value = serde_json::from_str(text.as_str()).unwrap();
    let kept = result["artifacts"].as_array().unwrap();
    assert_eq!(kept.len(), 1_000);
    assert_eq!(kept[0]["uri"], "file:///etc/passwd");
    assert_eq!(kept[2]["uri"].as_str().unwrap().len(), 2_048);
    assert_eq!(result["summary"].as_str().unwrap().len(), 256 << 10);
    assert_eq!(
        result["warnings"].as_array().unwrap().len(),
        4,
        "{}",
        result["warnings"]
    );
}

#[tokio::test]
async fn requests_that_are_none_of_ours_are_refused_in_our_words() {
    let host = Host::start();
    let json = ("content-type", "application/json");
    let token = ("authorization", "Bearer ci-token");
    let big = "x".repeat(9 << 20);
    for (method, path, headers, body, status, code) in [
        (
            "POST",
            "lease",
            &[token, ("content-type", "text/plain")][..],
            "{}",
            415,
            "E_REQUEST",
        ),
        ("POST", "lease", &[token], "{}", 415, "E_REQUEST"),
        (
            "POST",
            "lease",
            &[token, json, ("content-encoding", "gzip")],
            "{}",
            415,
            "E_REQUEST",
        ),
        (
            "POST",
            "lease",
            &[token, json, ("origin", "http://evil.example")],
            "{}",
            403,
            "E_REQUEST",
        ),
        ("GET", "lease", &[token], "", 405, "E_REQUEST"),
        ("POST", "nothing", &[token, json], "{}", 404, "E_REQUEST"),
        (
            "POST",
            "complete",
            &[token, json],
            &big,
            413,
            "E_BODY_TOO_LARGE",
        ),
        (
            "PUT",
            "logs/x",
            &[token, ("content-type", "text/plain")],
            "x",
            422,
            "E_FIELD_TYPE",
        ),
        (
            "PUT",
            "logs/x?runner_id=w1&offset=-1",
            &[token, ("content-type", "text/plain")],
            "x",
            422,
            "E_FIELD_TYPE",
        ),
        (
            "PUT",
            "logs/x?runner_id=w1&offset=18446744073709551615",
            &[token, ("content-type", "text/plain")],
            "x",
            422,
            "E_FIELD_RANGE",
        ),
        (
            "PUT",
            "logs/%00?runner_id=&offset=0",
            &[token, ("content-type", "text/plain")],
            "x",
            422,
            "E_FIELD_VALUE",
        ),
        (
            "PUT",
            "logs/x?runner_id=w1&offset=0",
            &[("content-type", "text/plain")],
            "x",
            401,
            "E_AUTH",
        ),
    ] {
        let path = format!("/api/v1/internal/{path}");
        host.send(method, &path, headers, body)
            .await
            .refused(status, code);
    }
}

#[tokio::test]
async fn without_pools_the_routes_say_what_to_configure() {
    let mut config = super::fixture::config();
    config.pools.clear();
    config.tokens = crate::settings::Tokens::default();
    let host = Host::on(host_testing::LeaseHost::new(), config);
    let answer = host.ask("w1", &[]).await;
    assert!(
        answer
            .refused(404, "E_OFF")
            .contains("[protocol.delta.runners.NAME]")
    );
}
