//! Keys that one job of a queue has: what they give again, and their scopes.

use axum::http::StatusCode;
use host_core::time::Time;
use serde_json::json;

use super::fixture::Host;

const JOBS: &str = "/api/v1/jobs";

#[tokio::test]
async fn a_unique_key_gives_the_same_job_again() {
    let host = Host::start().await;
    let job = r#"{"handler":"noop","unique_key":"k"}"#;
    let first = host.post(JOBS, job).await.is(StatusCode::CREATED);
    let again = host.post(JOBS, job).await.is(StatusCode::OK);
    assert_eq!(first.body["existing"], false);
    assert_eq!(again.body["existing"], true);
    assert_eq!(first.body["id"], again.body["id"]);
    let array = host
        .post(JOBS, format!("[{job}]"))
        .await
        .is(StatusCode::CREATED);
    assert_eq!(array.body[0]["existing"], true);
}

#[tokio::test]
async fn a_unique_key_has_a_scope() {
    let host = Host::start().await;
    let job = |scope: &str, params: &str| {
        format!(r#"{{"handler":"noop","params":{params},"unique":{{"key":"k","scope":{scope}}}}}"#)
    };
    let plain = r#"{"handler":"noop","params":1,"unique_key":"k"}"#;
    let first = host.post(JOBS, plain).await.is(StatusCode::CREATED).body;
    let other = host
        .post(JOBS, job(r#""active""#, "2"))
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(
        other,
        json!({"id": first["id"], "state": "available", "existing": true,
               "existing_params_differ": true})
    );
    let cancel = format!("{JOBS}/{}/cancel", first["id"].as_str().unwrap());
    host.post(&cancel, "{}").await.is(StatusCode::OK);
    for scope in [r#""retained""#, r#"{"seconds":3600}"#] {
        let answer = host
            .post(JOBS, job(scope, " 1 "))
            .await
            .is(StatusCode::OK)
            .body;
        let ended = json!({"id": first["id"], "state": "cancelled", "existing": true});
        assert_eq!(answer, ended, "{scope}");
    }
    let second = host.post(JOBS, plain).await.is(StatusCode::CREATED).body;
    assert_ne!(second["id"], first["id"]);
    let retry = format!("{JOBS}/{}/retry", first["id"].as_str().unwrap());
    let refused = host.post(&retry, "{}").await;
    let detail = refused.fails(409, "unique_key_taken");
    assert!(detail.contains(second["id"].as_str().unwrap()), "{detail}");
    for (unique, message) in [
        (
            r#"{"key":"k","scope":"ever"}"#,
            r#"unique.scope: expected `active`, `retained` or {"seconds": N}, got "ever""#,
        ),
        (
            r#"{"key":"k","scope":5}"#,
            "unique.scope: expected `active`, `retained` or {\"seconds\": N}, got 5",
        ),
        (
            r#"{"key":"k","scope":{}}"#,
            "unique.scope: missing field `seconds`",
        ),
        (
            r#"{"key":"k","scope":{"hours":1}}"#,
            "unknown field `hours`",
        ),
        (r#"{"key":"k","scope":{"seconds":"1"}}"#, "unique.scope"),
        (r#"{"key":""}"#, "unique.key: must have 1–256 bytes"),
        (
            r#"{"key":"k","scope":{"seconds":-1}}"#,
            "must be 0–31536000 seconds",
        ),
    ] {
        let body = format!(r#"{{"handler":"noop","unique":{unique}}}"#);
        let refused = host.post(JOBS, body).await;
        let detail = refused.fails(422, "invalid_request");
        assert!(detail.contains(message), "{detail}");
    }
    let both = r#"{"handler":"noop","unique_key":"k","unique":{"key":"k"}}"#;
    host.post(JOBS, both).await.fails(422, "invalid_request");
}

#[tokio::test]
async fn a_later_job_replaces_the_params_of_one_that_waits() {
    let host = Host::start().await;
    let body = |params: u32| {
        json!({"handler": "noop", "params": params, "delay_seconds": 600,
               "unique": {"key": "k", "on_conflict": "replace"}})
    };
    let post = async |params| host.post(JOBS, body(params).to_string()).await;
    let first = post(1).await.is(StatusCode::CREATED).body;
    let again = post(2).await.is(StatusCode::OK).body;
    let expected = json!({"id": first["id"], "state": "scheduled", "existing": true});
    assert_eq!(again, expected);
    let path = format!("{JOBS}/{}", first["id"].as_str().unwrap());
    assert_eq!(host.get(&path).await.body["params"], 2);
}

#[tokio::test]
async fn a_later_job_pushes_one_that_waits_back_until_its_latest_start() {
    let host = Host::start().await;
    let body = |params: u32, delay_seconds: u32| {
        json!({"handler": "noop", "params": params, "delay_seconds": delay_seconds, "unique": {
            "key": "k", "on_conflict": "push_back", "max_delay_seconds": 3_600,
        }})
    };
    let first = host
        .post(JOBS, body(1, 600).to_string())
        .await
        .is(StatusCode::CREATED)
        .body;
    let path = format!("{JOBS}/{}", first["id"].as_str().unwrap());
    let starts = async || {
        let job = host.get(&path).await.is(StatusCode::OK).body;
        let at = |key: &str| Time::parse_rfc3339(job[key].as_str().unwrap()).unwrap();
        let delay_ms = at("run_at").since_ms(at("enqueued_at"));
        (job["params"].clone(), delay_ms.div_ceil(1_000))
    };
    assert_eq!(starts().await, (json!(1), 600));
    for (params, delay_seconds, latest) in [(2, 1_800, 1_800..1_900), (3, 7_200, 3_600..3_602)] {
        let again = host
            .post(JOBS, body(params, delay_seconds).to_string())
            .await;
        assert_eq!(again.is(StatusCode::OK).body["id"], first["id"]);
        let (shown, delay) = starts().await;
        assert_eq!(shown, params);
        assert!(latest.contains(&delay), "{delay}");
    }
}
