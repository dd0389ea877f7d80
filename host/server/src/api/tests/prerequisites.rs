//! Jobs that wait for others: how each has to end.

use axum::http::StatusCode;
use host_core::outcome::Outcome;
use serde_json::json;

use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_job_shows_how_those_that_it_waits_for_have_to_end() {
    let host = Host::start().await;
    let body = r##"[
        {"handler":"noop"},
        {"handler":"noop","depends_on":["#0",{"job":"#2","when":"ended"}]},
        {"handler":"noop","depends_on":[{"job":"#0"},{"job":"#0","when":"completed"}]},
        {"handler":"noop","depends_on":[{"job":"#0","when":"failed"}]},
        {"handler":"noop","depends_on":[{"job":"#1","when":"ended"},"#2"]}
    ]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED).body;
    let id = |n: usize| answer[n]["id"].as_str().unwrap().to_owned();
    let ended = |n| json!({"job": id(n), "when": "ended"});
    let first = id(0);
    for (n, depends_on, why) in [
        (
            1,
            json!([id(0), ended(2)]),
            format!("it depends on job {first}, which is available, and on 1 other"),
        ),
        (
            2,
            json!([id(0)]),
            format!("it depends on job {first}, which is available"),
        ),
        (
            3,
            json!([{"job": id(0), "when": "failed"}]),
            format!("it depends on job {first}, which is available and has to fail"),
        ),
        (
            4,
            json!([ended(1), id(2)]),
            format!(
                "it depends on job {}, which is pending and has to end, and on 1 other",
                id(1)
            ),
        ),
    ] {
        let job = host.get(&format!("{JOBS}/{}", id(n))).await.body;
        assert_eq!(job["depends_on"], depends_on, "{job}");
        assert_eq!(job["waits_because"], why);
    }
    let cancel = format!("{JOBS}/{first}/cancel");
    host.post(&cancel, "{}").await.is(StatusCode::OK);
    let job = host.get(&format!("{JOBS}/{}", id(3))).await.body;
    let why = format!("not needed: job {first} was cancelled, and did not fail");
    assert_eq!(
        (&job["state"], &job["cancel_reason"]),
        (&json!("cancelled"), &json!(why))
    );
    let last = host.get(&format!("{JOBS}/{}", id(4))).await.body;
    assert_eq!(last["state"], "discarded", "{last}");
}

#[tokio::test]
async fn what_is_no_condition_is_refused() {
    let host = Host::start().await;
    for (entry, expected) in [
        ("1", "the id of a job, #n or {"),
        (r##"{"job":"#0","when":"lost"}"##, "unknown value `lost`"),
        (r#"{"when":"failed"}"#, "missing field `job`"),
        (r##"{"job":"#0","on":"failed"}"##, "unknown field `on`"),
        (r##"{"job":"#x"}"##, "#x is not a valid reference"),
        (
            r##""#0",{"job":"#0","when":"failed"}"##,
            "#0 is named with completed and with failed",
        ),
    ] {
        let body = format!(r#"[{{"handler":"noop"}},{{"handler":"noop","depends_on":[{entry}]}}]"#);
        let refused = host.post(JOBS, body).await;
        let detail = refused.refused(422, "invalid_request");
        assert!(detail.contains(expected), "{detail}");
    }
}

#[tokio::test]
async fn a_job_that_waited_for_a_failure_is_not_run_again_after_a_success() {
    let host = Host::start().await;
    let body =
        r##"[{"handler":"noop"},{"handler":"noop","depends_on":[{"job":"#0","when":"failed"}]}]"##;
    let answer = host.post(JOBS, body).await.is(StatusCode::CREATED).body;
    let [first, second] = [0, 1].map(|n| answer[n]["id"].as_str().unwrap().to_owned());
    let claimed = host.claim().await;
    assert_eq!(claimed.lifecycle.id.to_string(), first);
    host.complete(&claimed, Outcome::Completed { result: None })
        .await;
    let retry = format!("{JOBS}/{second}/retry");
    let refused = host.post(&retry, "{}").await;
    let detail = refused.refused(409, "prerequisite_completed");
    assert!(detail.contains(&first), "{detail}");
    let forced = host.post(&retry, r#"{"force":true}"#).await;
    assert_eq!(forced.is(StatusCode::OK).body["state"], "available");
}
