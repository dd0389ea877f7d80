//! Keys that one job of a queue has: what they give again, and their scopes.

use axum::http::StatusCode;
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
    let detail = refused.refused(409, "unique_key_taken");
    assert!(detail.contains(second["id"].as_str().unwrap()), "{detail}");
    for (unique, message) in [
        (
            r#"{"key":"k","scope":"ever"}"#,
            r#"unique.scope: invalid value: string "ever", expected `active`, `retained` or {"seconds": N}"#,
        ),
        (
            r#"{"key":"k","scope":5}"#,
            "unique.scope: invalid type: integer `5`",
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
        let detail = refused.refused(422, "invalid_request");
        assert!(detail.contains(message), "{detail}");
    }
    let both = r#"{"handler":"noop","unique_key":"k","unique":{"key":"k"}}"#;
    host.post(JOBS, both).await.refused(422, "invalid_request");
}
