//! What principals see of the jobs that they enqueued themselves, and of others.

use axum::http::StatusCode;
use host_core::access::Scope;
use host_core::failure::{Failure, FailureKind};
use host_core::job::{HANDLER_WIRE, Origin};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_engine::job::Enqueue;
use serde_json::{Value, json};

use super::access::Guarded;
use super::retry::late_job;

#[tokio::test]
async fn a_producer_sees_what_its_own_jobs_carry_and_what_is_withheld_of_others() {
    let guarded = Guarded::start().await;
    let host = &guarded.host;
    let body = json!({"name": "p", "role": "producer"});
    let (own, other) = (guarded.make(&body).await, guarded.make(&body).await);
    let enqueued = async |token: &str| {
        let job = json!({"handler": "noop", "params": {"n": "zebra 1"}, "max_attempts": 1});
        let made = guarded
            .send(token, ("POST", "/api/v1/jobs"), Some(&job))
            .await;
        made.is(StatusCode::CREATED).body["id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let completed = enqueued(&own).await;
    let result = Some(JsonText("[\"zebra 2\"]".to_owned()));
    host.complete(&host.claim().await, Outcome::Completed { result })
        .await;
    let failed = enqueued(&own).await;
    let failure = Failure::new(FailureKind::UserError, "because of zebra 3");
    host.complete(&host.claim().await, Outcome::Failed(failure))
        .await;
    for (id, withheld) in [
        (&completed, json!(["params", "result"])),
        (&failed, json!(["params", "failure"])),
    ] {
        for path in [
            format!("/api/v1/jobs/{id}"),
            format!("/api/v1/jobs/{id}/wait?timeout_seconds=0"),
        ] {
            let shown = guarded
                .send(&own, ("GET", &path), None)
                .await
                .is(StatusCode::OK);
            assert_eq!(shown.text.matches("zebra").count(), 2, "{}", shown.text);
            assert_eq!(shown.body["withheld"], Value::Null, "{}", shown.text);
            let hidden = guarded
                .send(&other, ("GET", &path), None)
                .await
                .is(StatusCode::OK);
            assert_eq!(hidden.body["withheld"], withheld, "{}", hidden.text);
            assert!(!hidden.text.contains("zebra"), "{}", hidden.text);
        }
    }
    let attempts = format!("/api/v1/jobs/{failed}/attempts");
    let shown = guarded.send(&own, ("GET", &attempts), None).await;
    assert_eq!(
        shown.body["items"][0]["failure"]["message"],
        "because of zebra 3"
    );
    let hidden = guarded.send(&other, ("GET", &attempts), None).await;
    assert_eq!(hidden.body["items"][0]["withheld"], json!(["failure"]));
    assert!(!hidden.text.contains("zebra"), "{}", hidden.text);
    // What a handler enqueued for it may tell what it must not know.
    let origin = Origin {
        principal: format!("token:{}", &own[4..16]),
        scope: Scope::ALL,
        max_waiting: None,
    };
    let mut job = late_job();
    job.payload.wire = HANDLER_WIRE.to_owned();
    job.payload.origin = Some(Box::new(origin));
    let path = format!("/api/v1/jobs/{}", job.id);
    host.dispatch.submit(Enqueue(vec![job])).await.unwrap();
    let hidden = guarded.send(&own, ("GET", &path), None).await;
    assert_eq!(
        hidden.is(StatusCode::OK).body["withheld"],
        json!(["params"])
    );
}

#[tokio::test]
async fn the_start_of_an_id_finds_a_job_behind_any_number_that_the_caller_may_not_see() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "m", "role": "viewer", "queues": ["own"]});
    let token = guarded.make(&body).await;
    for _ in 0..70 {
        guarded.job("web", "noop").await;
    }
    let own = guarded.job("own", "noop").await;
    let path = format!("/api/v1/jobs/{}", &own[..4]);
    let shown = guarded.send(&token, ("GET", &path), None).await;
    assert_eq!(shown.is(StatusCode::OK).body["id"], own);
    guarded.job("own", "noop").await;
    let ambiguous = guarded.send(&token, ("GET", &path), None).await;
    ambiguous.fails(409, "ambiguous_id");
}

#[tokio::test]
async fn only_those_who_may_read_payloads_see_what_jobs_carry() {
    let guarded = Guarded::start().await;
    let body = json!({"handler": "typed", "params": {"n": 7_351_902_468_u64}});
    let made = guarded
        .send(&guarded.admin, ("POST", "/api/v1/jobs"), Some(&body))
        .await;
    let id = made.body["id"].as_str().unwrap().to_owned();
    let viewer = guarded.make(&json!({"name": "v", "role": "viewer"})).await;
    let operator = guarded
        .make(&json!({"name": "o", "role": "operator"}))
        .await;
    let show = format!("/api/v1/jobs/{id}");
    let wait = format!("{show}/wait?timeout_seconds=0");
    for path in [&show, &wait] {
        let hidden = guarded
            .send(&viewer, ("GET", path), None)
            .await
            .is(StatusCode::OK);
        assert!(!hidden.text.contains("7351902468"), "{path}");
        let shown = guarded.send(&operator, ("GET", path), None).await;
        assert!(shown.text.contains("7351902468"), "{path}");
    }
    let logs = format!("{show}/logs");
    let logs = guarded.send(&viewer, ("GET", &logs), None).await;
    assert!(logs.fails(403, "forbidden").contains("read_payload"));
    for query in [
        "failure=my_kind",
        "param=n%3D7351902468",
        "q=7351",
        "q=params.n:7351902468",
    ] {
        let path = format!("/api/v1/jobs?{query}");
        let asked = guarded.send(&viewer, ("GET", &path), None).await;
        assert!(
            asked.fails(403, "forbidden").contains("read_payload"),
            "{query}"
        );
        let found = guarded.send(&operator, ("GET", &path), None).await;
        found.is(StatusCode::OK);
    }
}
