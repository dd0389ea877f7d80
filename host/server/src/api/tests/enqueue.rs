//! What an enqueue takes, answers and refuses.

use axum::http::StatusCode;
use serde_json::json;

use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

/// A body, and the status, code and detail it is refused with.
type Case<'a> = (&'a str, u16, &'a str, &'a str);

const BAD: &[Case<'_>] = &[
    (
        "",
        400,
        "invalid_json",
        "body: not valid JSON: ends too early",
    ),
    (
        "   ",
        400,
        "invalid_json",
        "body: not valid JSON: ends too early",
    ),
    (
        "{",
        400,
        "invalid_json",
        "body: not valid JSON: ends too early",
    ),
    (
        "[",
        400,
        "invalid_json",
        "body: not valid JSON: ends too early",
    ),
    (
        "\u{feff}\u{feff}{}",
        400,
        "invalid_json",
        "body: not valid JSON at line 1, column 1",
    ),
    (
        r#"{"handler":"noop"} {}"#,
        400,
        "invalid_json",
        "body: not valid JSON: more text after its end",
    ),
    (
        r#"{"handler":"noop","params":NaN}"#,
        400,
        "invalid_json",
        "body: not valid JSON at line 1, column 28",
    ),
    (
        r#"{"handler":"noop","params":1e400}"#,
        400,
        "invalid_json",
        "params: number too large",
    ),
    (
        r#"{"handler":"noop","params":{"a":1,"a":2}}"#,
        400,
        "invalid_json",
        "params: duplicate key `a`",
    ),
    (
        r#"{"handler":"noop","params":"\ud800"}"#,
        400,
        "invalid_json",
        "params: a lone surrogate, half of a character",
    ),
    (
        r#"{"handler":"noop","handler":"noop"}"#,
        400,
        "invalid_json",
        "duplicate key `handler`",
    ),
    (
        r#"{"handler":"noop","attributes":{"a":"1","a":"2"}}"#,
        400,
        "invalid_json",
        "duplicate key `a`",
    ),
    ("3", 422, "invalid_request", "expected an object, got 3"),
    (
        "null",
        422,
        "invalid_request",
        "expected an object, got null",
    ),
    ("{}", 422, "invalid_request", "missing field `handler`"),
    ("[]", 422, "invalid_request", "the array has no jobs"),
    ("[3]", 422, "invalid_request", "#0: expected an object"),
    (
        r#"{"handler":null}"#,
        422,
        "invalid_request",
        "handler: expected a string, got null",
    ),
    (
        r#"{"handler":3}"#,
        422,
        "invalid_request",
        "handler: expected a string, got 3",
    ),
    (
        r#"{"handler":""}"#,
        422,
        "invalid_request",
        "handler: a name must not be empty",
    ),
    (
        r#"{"handler":"a b"}"#,
        422,
        "invalid_request",
        "handler: a name may contain only",
    ),
    (
        r#"[["noop"]]"#,
        422,
        "invalid_request",
        "#0: expected an object, got an array",
    ),
    (
        r#"{"handler":"noop","prams":1}"#,
        422,
        "invalid_request",
        "unknown field `prams`; did you mean `params`?",
    ),
    (
        r#"[{"handler":"noop"},{"handler":"noop","timeout":1}]"#,
        422,
        "invalid_request",
        "#1: unknown field `timeout`; did you mean `timeout_seconds`?",
    ),
    (
        r#"{"handler":"noop","queue":"a b"}"#,
        422,
        "invalid_request",
        "queue: a name may contain only",
    ),
    (
        r#"{"handler":"noop","priority":10}"#,
        422,
        "invalid_request",
        "priority: must be 0–9, got 10",
    ),
    (
        r#"{"handler":"noop","priority":-1}"#,
        422,
        "invalid_request",
        "priority: must be 0–9, got -1",
    ),
    (
        r#"{"handler":"noop","priority":1.5}"#,
        422,
        "invalid_request",
        "priority: expected ",
    ),
    (
        r#"{"handler":"noop","max_attempts":0}"#,
        422,
        "invalid_request",
        "max_attempts: must be at least 1 and at most limits.attempts, got 0",
    ),
    (
        r#"{"handler":"noop","max_attempts":4294967296}"#,
        422,
        "invalid_request",
        "max_attempts: must be at least 1 and at most limits.attempts, got 4294967296",
    ),
    (
        r#"{"handler":"noop","timeout_seconds":0}"#,
        422,
        "invalid_request",
        "timeout_seconds: must be 0.001–31536000",
    ),
    (
        r#"{"handler":"noop","retention_seconds":0.5}"#,
        422,
        "invalid_request",
        "retention_seconds: must be 1–31536000",
    ),
    (
        r#"{"handler":"noop","retention_discarded_seconds":0}"#,
        422,
        "invalid_request",
        "retention_discarded_seconds: must be 1–31536000",
    ),
    (
        r#"{"handler":"noop","timeout_seconds":1e30}"#,
        422,
        "invalid_request",
        "timeout_seconds: must be 0–31536000 seconds",
    ),
    (
        r#"{"handler":"noop","delay_seconds":-1}"#,
        422,
        "invalid_request",
        "delay_seconds: must be 0–31536000 seconds",
    ),
    (
        r#"{"handler":"noop","run_at":"tomorrow"}"#,
        422,
        "invalid_request",
        "run_at: expected an RFC 3339 time",
    ),
    (
        r#"{"handler":"noop","run_at":"2026-05-17T18:30:00"}"#,
        422,
        "invalid_request",
        "run_at: expected an RFC 3339 time",
    ),
    (
        r#"{"handler":"noop","deadline":"2026-05-17T18:30:00+99:99"}"#,
        422,
        "invalid_request",
        "deadline: expected an RFC 3339 time",
    ),
    (
        r#"{"handler":"noop","deadline":5}"#,
        422,
        "invalid_request",
        "deadline: expected ",
    ),
    (
        r#"{"handler":"noop","run_at":"2026-05-17T18:30:00Z","delay_seconds":1}"#,
        422,
        "invalid_request",
        "run_at and delay_seconds are mutually",
    ),
    (
        r#"{"handler":"noop","unique_key":""}"#,
        422,
        "invalid_request",
        "unique_key: must have 1–256 bytes",
    ),
    (
        r#"{"handler":"noop","unique":{"key":"k","on_conflict":"push_back"}}"#,
        422,
        "invalid_request",
        "unique.on_conflict: push_back needs delay_seconds or run_at",
    ),
    (
        r#"{"handler":"noop","unique":{"key":"k","on_conflict":"replace","max_delay_seconds":1}}"#,
        422,
        "invalid_request",
        "unique.max_delay_seconds: needs on_conflict push_back",
    ),
    (
        r#"{"handler":"noop","attributes":{"a":1}}"#,
        422,
        "invalid_request",
        "attributes.a: expected ",
    ),
    (
        r#"{"handler":"noop","trace_context":[]}"#,
        422,
        "invalid_request",
        "trace_context: expected ",
    ),
    (
        r#"{"handler":"noop","depends_on":["x"]}"#,
        422,
        "invalid_request",
        "depends_on: \"x\" is neither an id nor #n",
    ),
    (
        r##"{"handler":"noop","depends_on":["#x"]}"##,
        422,
        "invalid_request",
        "depends_on: #x is not a valid reference",
    ),
    (
        r##"{"handler":"noop","depends_on":["#-1"]}"##,
        422,
        "invalid_request",
        "depends_on: #-1 is not a valid reference",
    ),
    (
        r##"{"handler":"noop","depends_on":["#0"]}"##,
        422,
        "dependency_cycle",
        "#0 → #0",
    ),
    (
        r##"{"handler":"noop","depends_on":["#1"]}"##,
        422,
        "unknown_prerequisite",
        "#1",
    ),
    (
        r##"[{"handler":"noop","depends_on":["#7"]}]"##,
        422,
        "unknown_prerequisite",
        "#0: depends_on names #7, but there are 1 entries",
    ),
    (
        r#"{"handler":"noop","depends_on":["01990f3c-1a2b-7000-8000-000000000001"]}"#,
        422,
        "unknown_prerequisite",
        "no job has the id 01990f3c-1a2b-7000-8000-000000000001",
    ),
    (
        r#"{"handler":"nop"}"#,
        422,
        "handler_not_found",
        "no handler is named nop; did you mean noop?",
    ),
    (
        r#"[{"handler":"noop"},{"handler":"nop"}]"#,
        422,
        "handler_not_found",
        "#1: no handler is named nop",
    ),
    (
        r#"{"handler":"../../etc/passwd"}"#,
        422,
        "handler_not_found",
        "no handler is named ../../etc/passwd",
    ),
    (
        r#"{"handler":"pythn#noop"}"#,
        422,
        "handler_not_found",
        "no runner is named \"pythn\"; did you mean python?",
    ),
    (
        r##"{"handler":"#noop"}"##,
        422,
        "handler_not_found",
        "no runner is named \"\"",
    ),
    (
        r#"{"handler":"python#"}"#,
        422,
        "invalid_request",
        "handler: a name must not be empty",
    ),
    (
        r#"{"handler":"python#a#b"}"#,
        422,
        "invalid_request",
        "handler: a name may contain only",
    ),
    (
        r#"{"handler":"python#noop","params":[1]}"#,
        422,
        "invalid_params",
        "the runner python takes an object",
    ),
    (
        r#"{"handler":"noop","params":7,"queue":"pythons"}"#,
        422,
        "invalid_params",
        "the runner python takes an object",
    ),
    (
        r#"{"handler":"python#noop","attributes":{"zone":"z"}}"#,
        422,
        "invalid_request",
        "attributes: zone: there is no zone z",
    ),
    (
        r#"{"handler":"typed"}"#,
        422,
        "invalid_params",
        "missing params; the handler takes an object with \"n\"",
    ),
    (
        r#"{"handler":"typed","params":null}"#,
        422,
        "invalid_params",
        "missing params",
    ),
    (
        r#"{"handler":"typed","params":{}}"#,
        422,
        "invalid_params",
        "params: \"n\" is a required property",
    ),
    (
        r#"{"handler":"typed","params":{"n":"secret"}}"#,
        422,
        "invalid_params",
        "/n: value is not of type \"integer\"",
    ),
];

#[tokio::test]
async fn bad_input_is_refused_with_its_reason_and_keeps_nothing() {
    let host = Host::start().await;
    for (body, status, code, detail) in BAD {
        let answer = host.post(JOBS, *body).await;
        let message = answer.fails(*status, code);
        assert!(message.contains(detail), "{body}: {message}");
    }
    let list = host.get(JOBS).await;
    assert_eq!(list.body, json!({"items": [], "next_cursor": null}));
}

#[tokio::test]
async fn sizes_and_depth_are_bounded() {
    let host = Host::start().await;
    let params = |text: &str| format!(r#"{{"handler":"noop","params":{text}}}"#);
    let deep = |levels: usize| params(&("[".repeat(levels) + &"]".repeat(levels)));
    let with = |field: &str, value: String| format!(r#"{{"handler":"noop","{field}":{value}}}"#);
    let array = |jobs: usize| format!("[{}]", vec![r#"{"handler":"noop"}"#; jobs].join(","));
    let long = |chars: usize| format!("\"{}\"", "x".repeat(chars));
    // Each but the first waits for the first, named several times.
    let waiting = |jobs: usize, times: usize| {
        let first = with("queue", long(1));
        let next = with(
            "depends_on",
            format!("[{}]", vec!["\"#0\""; times].join(",")),
        );
        format!("[{first},{}]", vec![next; jobs - 1].join(","))
    };
    let pairs = |count: usize, chars: usize| {
        let pairs: Vec<_> = (0..count)
            .map(|n| format!("\"{n:03}\":{}", long(chars)))
            .collect();
        format!("{{{}}}", pairs.join(","))
    };
    let megabytes = |n: usize| params(&long(n << 20));
    for (body, status, code) in [
        (deep(100), 201, ""),
        (deep(128), 400, "invalid_json"),
        (deep(200_000), 400, "invalid_json"),
        (
            "[".repeat(200_000) + &"]".repeat(200_000),
            400,
            "invalid_json",
        ),
        (megabytes(7), 201, ""),
        (megabytes(8), 413, "body_too_large"),
        (array(1000), 201, ""),
        (array(1001), 413, "too_many_jobs"),
        (waiting(1000, 10), 201, ""),
        (waiting(1000, 11), 413, "too_many_dependencies"),
        (with("unique_key", long(256)), 201, ""),
        (with("unique_key", long(257)), 422, "invalid_request"),
        (with("queue", long(128)), 201, ""),
        (with("queue", long(129)), 422, "invalid_request"),
        (with("attributes", pairs(64, 100)), 201, ""),
        (with("attributes", pairs(65, 1)), 422, "invalid_request"),
        (with("attributes", pairs(2, 9000)), 422, "invalid_request"),
        (with("trace_context", pairs(16, 509)), 201, ""),
        (with("trace_context", pairs(17, 1)), 422, "invalid_request"),
        (with("trace_context", pairs(1, 510)), 422, "invalid_request"),
    ] {
        let answer = host.post(JOBS, body).await;
        if status == 201 {
            assert_eq!(answer.status, 201, "{answer:?}");
        } else {
            answer.fails(status, code);
        }
    }
}

#[tokio::test]
async fn a_job_is_kept_as_it_was_sent() {
    let host = Host::start().await;
    let params = r#"{"z": 1.10, "a": 18446744073709551615, "ü": [ ]}"#;
    let before = host.enqueue(r#"{"handler":"noop"}"#).await;
    let id = host
        .enqueue(format!(
            r#"{{"handler":"a/b","params":{params},"queue":"q/1","priority":0,"delay_seconds":60.5,
            "deadline":"2999-05-17T20:30:00+02:00","max_attempts":3,"timeout_seconds":0.25,
            "unique_key":"k","depends_on":["{before}","{before}"],
            "trace_context":{{"traceparent":"00-1"}},"attributes":{{"team":"a"}}}}"#
        ))
        .await;
    let job = host.get(&format!("{JOBS}/{id}")).await.is(StatusCode::OK);
    assert!(
        job.text.contains(&format!("\"params\":{params}")),
        "{}",
        job.text
    );
    let mut seen = job.body;
    for changing in ["id", "params", "enqueued_at", "run_at", "waited_ms"] {
        assert!(
            seen.as_object_mut().unwrap().remove(changing).is_some(),
            "{changing}"
        );
    }
    assert_eq!(
        seen,
        json!({
            "state": "pending", "handler": "a/b", "queue": "q/1", "priority": 0, "attempt": 0,
            "max_attempts": 3, "attempts_charged": 0, "attempts_lost": 0, "ran_ms": 0,
            "wire": "http", "deadline": "2999-05-17T18:30:00.000Z",
            "timeout_seconds": 0.25, "prerequisites_open": 1, "unique_key": "k",
            "waits_because": format!("it depends on job {before}, which is available"),
            "depends_on": [before], "trace_context": {"traceparent": "00-1"},
            "attributes": {"team": "a"},
            "retention_seconds": 604_800.0, "retention_discarded_seconds": 604_800.0,
        })
    );
}

#[tokio::test]
async fn integers_that_handlers_would_round_are_refused() {
    let host = Host::start().await;
    let wide = r#""params":{"n":[1,-9223372036854775809]}"#;
    let refused = host
        .post(JOBS, format!(r#"{{"handler":"noop",{wide}}}"#))
        .await;
    let detail = refused.fails(422, "invalid_params");
    assert!(detail.contains("-9223372036854775809"), "{detail}");
    let theirs = format!(r#"{{"handler":"python#any",{wide}}}"#);
    host.post(JOBS, theirs).await.is(StatusCode::CREATED);
}

#[tokio::test]
async fn a_deadline_that_has_passed_is_refused() {
    let host = Host::start().await;
    let job = r#"{"handler":"noop","deadline":"2001-01-01T00:00:00Z"}"#;
    let refused = host.post(JOBS, job).await;
    let detail = refused.fails(422, "invalid_request");
    assert!(
        detail.contains("2001-01-01T00:00:00.000Z has passed"),
        "{detail}"
    );
}

#[tokio::test]
async fn an_array_is_answered_in_its_order_and_all_or_none() {
    let host = Host::start().await;
    let body = r##"[
        {"handler":"noop","depends_on":["#2"]},
        {"handler":"typed","params":{"n":1},"delay_seconds":9},
        {"handler":"noop"}
    ]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED);
    let states: Vec<_> = answer
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|job| &job["state"])
        .collect();
    assert_eq!(states, ["pending", "scheduled", "available"]);
    let dependent = answer.body[0]["id"].as_str().unwrap();
    let job = host.get(&format!("{JOBS}/{dependent}")).await;
    assert_eq!(job.body["depends_on"], json!([answer.body[2]["id"]]));

    let cycle = r##"[
        {"handler":"noop","depends_on":["#1"]},
        {"handler":"noop","depends_on":["#2"]},
        {"handler":"noop","depends_on":["#1"]}
    ]"##;
    let refused = host.post(JOBS, cycle).await;
    let detail = refused.fails(422, "dependency_cycle");
    assert_eq!(detail, "the jobs wait for each other: #1 → #2 → #1");
    let list = host.get(JOBS).await;
    assert_eq!(list.body["items"].as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn a_runner_may_have_a_part_for_a_jobs_attributes() {
    let host = Host::start().await;
    for (attributes, handler) in [
        (r#"{"zone":"a"}"#, "python/a#noop"),
        (r#"{"team":"a"}"#, "python#noop"),
    ] {
        let body = format!(r#"{{"handler":"python#noop","attributes":{attributes}}}"#);
        let id = host.enqueue(body).await;
        let job = host.get(&format!("{JOBS}/{id}")).await;
        assert_eq!(job.body["handler"], handler);
    }
}
