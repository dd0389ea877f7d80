//! Queues: their counts, and pausing them.

use axum::http::StatusCode;
use serde_json::json;

use super::fixture::Host;

#[tokio::test]
async fn a_job_of_a_paused_queue_says_why_it_waits() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop","queue":"a/b"}"#).await;
    let job = format!("/api/v1/jobs/{id}");
    for (verb, because) in [
        (
            "pause",
            json!("its queue is paused until `host queue resume a/b`"),
        ),
        ("resume", json!(null)),
    ] {
        let switch = format!("/api/v1/queues/a%2Fb/{verb}");
        host.post(&switch, "").await.is(StatusCode::OK);
        assert_eq!(host.get(&job).await.body["waits_because"], because);
    }
}

#[tokio::test]
async fn queues_are_counted_paused_and_resumed() {
    let host = Host::start().await;
    host.enqueue(r#"{"handler":"noop","queue":"a/b"}"#).await;
    let queue = host
        .get("/api/v1/queues/a%2Fb")
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(
        queue,
        json!({"name": "a/b", "paused": false, "counts": {
            "pending": 0, "scheduled": 0, "available": 1, "running": 0, "retryable": 0,
            "completed": 0, "cancelled": 0, "discarded": 0,
        }})
    );
    host.post("/api/v1/queues/new/pause", "{}")
        .await
        .fails(404, "queue_not_found");
    let paused = host
        .post("/api/v1/queues/new/pause", r#"{"create":true}"#)
        .await
        .is(StatusCode::OK);
    assert_eq!(paused.body["paused"], true);
    let names = |body: serde_json::Value| -> Vec<String> {
        let items = body["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|queue| queue["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(host.get("/api/v1/queues").await.body), ["a/b", "new"]);
    let resumed = host
        .post("/api/v1/queues/new/resume", "")
        .await
        .is(StatusCode::OK);
    assert_eq!(resumed.body["paused"], false);
    host.get("/api/v1/queues/none")
        .await
        .fails(404, "queue_not_found");
    host.post("/api/v1/queues/none/resume", "")
        .await
        .fails(404, "queue_not_found");
    host.get("/api/v1/queues/a%20b")
        .await
        .fails(400, "invalid_name");
    host.post("/api/v1/queues/a%20b/pause", "{}")
        .await
        .fails(400, "invalid_name");
    host.post("/api/v1/queues/new/pause", "[")
        .await
        .fails(400, "invalid_json");
}

#[tokio::test]
async fn a_queue_without_jobs_can_be_removed() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop","queue":"typo"}"#).await;
    let queue = "/api/v1/queues/typo";
    host.post("/api/v1/queues/typo/pause", "")
        .await
        .is(StatusCode::OK);
    host.delete(queue).await.fails(409, "queue_has_jobs");
    for verb in ["cancel", "purge"] {
        let change = format!("/api/v1/jobs/{id}/{verb}");
        host.post(&change, "").await.is(StatusCode::OK);
    }
    let removed = host.delete(queue).await.is(StatusCode::OK).body;
    assert_eq!(removed, json!({"name": "typo", "removed": true}));
    host.get(queue).await.fails(404, "queue_not_found");
    host.delete(queue).await.fails(404, "queue_not_found");
    host.enqueue(r#"{"handler":"noop","queue":"typo"}"#).await;
    assert_eq!(
        host.get(queue).await.body["paused"],
        false,
        "it is made anew"
    );
}
