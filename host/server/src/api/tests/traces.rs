//! The trace that an enqueue comes with.

use axum::http::StatusCode;
use serde_json::json;

use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_trace_of_the_request_is_that_of_jobs_that_name_none() {
    const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let host = Host::start().await;
    let long = "x".repeat(513);
    for (headers, job, kept) in [
        (
            vec![("traceparent", THEIRS)],
            "{}",
            json!({"traceparent": THEIRS}),
        ),
        (
            vec![("traceparent", THEIRS), ("tracestate", "a=1")],
            r#"{"tracestate": "b=2", "baggage": "c=3"}"#,
            json!({"traceparent": THEIRS, "tracestate": "a=1", "baggage": "c=3"}),
        ),
        (
            vec![("traceparent", THEIRS), ("tracestate", &long)],
            r#"{"traceparent": "00-1"}"#,
            json!({"traceparent": "00-1"}),
        ),
        (
            vec![("traceparent", "00-1"), ("tracestate", "a=1")],
            "{}",
            json!(null),
        ),
        (
            vec![("tracestate", "a=1")],
            r#"{"tracestate": "b=2"}"#,
            json!({"tracestate": "b=2"}),
        ),
    ] {
        let body = format!(r#"[{{"handler":"noop","trace_context":{job}}}]"#);
        let answer = host
            .send_with("POST", JOBS, &headers, body.into_bytes())
            .await;
        let id = answer.is(StatusCode::CREATED).body[0]["id"]
            .as_str()
            .unwrap()
            .to_owned();
        let job = host.get(&format!("{JOBS}/{id}")).await.is(StatusCode::OK);
        assert_eq!(job.body["trace_context"], kept, "{headers:?}");
    }
}
