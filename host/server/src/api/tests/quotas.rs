//! The quotas of a token: requests a second, and jobs that wait.

use axum::http::StatusCode;
use host_runtime::clock::Clock;
use serde_json::json;

use super::access::Guarded;

#[tokio::test]
async fn a_token_asks_as_often_as_it_may_and_hears_when_to_come_again() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "slow", "role": "viewer", "rate": 1});
    let slow = guarded.make(&body).await;
    let path = ("GET", "/api/v1/queues");
    let mut answer = guarded.send(&slow, path, None).await.is(StatusCode::OK);
    // One a second is let in, so one of a hundred is not, however slow this is.
    for _ in 0..100 {
        if answer.status != 200 {
            break;
        }
        answer = guarded.send(&slow, path, None).await;
    }
    answer.fails(429, "rate_limited");
    assert_eq!(answer.headers["retry-after"], "1");
    guarded
        .send(&guarded.admin, path, None)
        .await
        .is(StatusCode::OK);
}

/// Nodes share the rate of a token: each lets in its part.
#[tokio::test]
async fn each_node_lets_in_its_part_of_a_rate() {
    let guarded = Guarded::start().await;
    let clock = Clock::start();
    let let_in_by = async |nodes: usize| {
        let body = json!({"name": "many", "role": "viewer", "rate": 100});
        let many = guarded.make(&body).await;
        guarded.auth.share_among(nodes);
        let (begun, mut let_in) = (clock.now(), 0);
        for _ in 0..100 {
            let answer = guarded.send(&many, ("GET", "/api/v1/queues"), None).await;
            let_in += u64::from(answer.status == 200);
        }
        (let_in, clock.now().since_ms(begun))
    };
    let (alone, _) = let_in_by(1).await;
    assert_eq!(alone, 100, "as many as a second has");
    let (shared, took_ms) = let_in_by(2).await;
    // Those of one second immediately, and 50 a second from then on.
    assert!(
        (50..=51 + took_ms / 20).contains(&shared),
        "{shared} in {took_ms} ms"
    );
}

#[tokio::test]
async fn a_token_has_as_many_jobs_waiting_as_it_may() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "few", "role": "producer", "max_waiting": 2});
    let few = guarded.make(&body).await;
    let path = ("POST", "/api/v1/jobs");
    let job = json!({"handler": "noop", "delay_seconds": 3_600});
    let first = guarded
        .send(&few, path, Some(&job))
        .await
        .is(StatusCode::CREATED)
        .body;
    guarded
        .send(&few, path, Some(&job))
        .await
        .is(StatusCode::CREATED);
    let refused = guarded.send(&few, path, Some(&job)).await;
    refused.fails(429, "too_many_of_token");
    let own = guarded
        .send(&few, ("GET", "/api/v1/tokens/self"), None)
        .await
        .is(StatusCode::OK)
        .body;
    assert_eq!(
        (&own["waiting"], &own["token"]["max_waiting"]),
        (&json!(2), &json!(2))
    );
    guarded.job("default", "noop").await;
    let cancel = format!("/api/v1/jobs/{}/cancel", first["id"].as_str().unwrap());
    let cancelled = guarded
        .send(&few, ("POST", &cancel), Some(&json!({})))
        .await;
    cancelled.is(StatusCode::OK);
    guarded
        .send(&few, path, Some(&job))
        .await
        .is(StatusCode::CREATED);
}
