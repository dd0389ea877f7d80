//! Jobs that run again, by the wish of an operator or of their handler.

use axum::http::StatusCode;
use host_core::job::{NewJob, Payload};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::policy::Policy;
use host_core::time::Time;
use host_engine::job::{Enqueue, Reschedule};
use host_runtime::ids;
use serde_json::json;

use super::fixture::Host;

const NOOP: &str = r#"{"handler":"noop"}"#;

#[tokio::test]
async fn a_dependent_is_run_again_when_its_prerequisite_is() {
    let host = Host::start().await;
    let first = host.enqueue(NOOP).await;
    let body = format!(r#"{{"handler":"noop","depends_on":["{first}"]}}"#);
    let second = host.enqueue(body).await;
    let cancel = format!("/api/v1/jobs/{first}/cancel");
    host.post(&cancel, "{}").await.is(StatusCode::OK);
    let retry = format!("/api/v1/jobs/{second}/retry");
    let job = host.post(&retry, "{}").await.is(StatusCode::OK).body;
    assert_eq!(
        (&job["state"], &job["prerequisites_open"]),
        (&json!("pending"), &json!(1))
    );
    let why = format!(
        "it depends on job {first}, which is cancelled: `host job retry {first}` runs that job again, \
         `host job retry {second} --force` runs this one without it"
    );
    assert_eq!(job["waits_because"], why);
    let refused = host.post(&retry, "{}").await;
    refused.fails(409, "job_not_terminal");
    let other = host.enqueue(NOOP).await;
    let waits = format!(r#"{{"handler":"noop","depends_on":["{other}"]}}"#);
    let waits = host.enqueue(waits).await;
    let waits = host.get(&format!("/api/v1/jobs/{waits}")).await.body;
    let why = format!("it depends on job {other}, which is available");
    assert_eq!(waits["waits_because"], why);
    let cancel = format!("/api/v1/jobs/{second}/cancel");
    for is_cancelled in [false, true] {
        if is_cancelled {
            host.post(&cancel, "{}").await.is(StatusCode::OK);
        }
        let job = host.post(&retry, r#"{"force":true}"#).await.body;
        assert_eq!(job["state"], "available");
    }
    let unknown = host.post(&retry, r#"{"forced":true}"#).await;
    unknown.fails(422, "invalid_request");
}

#[tokio::test]
async fn a_retry_says_that_it_removes_a_deadline_that_has_passed() {
    let host = Host::start().await;
    let id = host
        .enqueue(r#"{"handler":"noop","deadline":"2999-01-01T00:00:00Z"}"#)
        .await;
    let path = format!("/api/v1/jobs/{id}");
    let ended = format!("{path}/cancel");
    host.post(&ended, "{}").await.is(StatusCode::OK);
    let retried = host.post(&format!("{path}/retry"), "{}").await.body;
    assert_eq!(retried["deadline"], "2999-01-01T00:00:00.000Z");
    assert_eq!(retried.get("removed_deadline"), None);

    let late = late_job();
    let path = format!("/api/v1/jobs/{}", late.id);
    host.dispatch.submit(Enqueue(vec![late])).await.unwrap();
    host.post(&format!("{path}/cancel"), "{}")
        .await
        .is(StatusCode::OK);
    let retried = host.post(&format!("{path}/retry"), "{}").await.body;
    assert_eq!(retried.get("deadline"), None);
    assert_eq!(retried["removed_deadline"], "1970-01-01T00:00:00.001Z");
}

/// A job whose deadline passed long ago.
pub(super) fn late_job() -> NewJob {
    NewJob {
        id: ids::job(Time(1)),
        handler: "noop".parse().unwrap(),
        executor: None,
        component: None,
        queue: "default".parse().unwrap(),
        priority: 5,
        run_at: None,
        deadline: Some(Time(1)),
        policy: Policy::default(),
        unique_key: None,
        depends_on: Vec::new(),
        conditions: None,
        batch: None,
        notify: Vec::new(),
        files: Vec::new(),
        payload: Payload {
            params: JsonText::null(),
            wire: "http".to_owned(),
            external_id: None,
            trace_context: Vec::new(),
            attributes: Vec::new(),
            origin: None,
            latest_start: None,
        },
    }
}

#[tokio::test]
async fn attempts_come_in_pages() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    for _ in 0..3 {
        let claimed = host.claim().await;
        let again = Outcome::Retry {
            after_ms: Some(0),
            reason: "not yet".to_owned(),
        };
        host.complete(&claimed, again).await;
        let (job, run_at) = (claimed.lifecycle.id, Time::default());
        let now = Reschedule { job, run_at };
        host.dispatch.submit(now).await.unwrap();
    }
    host.claim().await;
    let path = format!("/api/v1/jobs/{id}/attempts?limit=2");
    let first = host.get(&path).await.body;
    assert_eq!(
        (&first["items"][1]["number"], &first["next_cursor"]),
        (&json!(2), &json!("2"))
    );
    let last = host.get(&format!("{path}&cursor=2")).await.body;
    let numbers = [&last["items"][0]["number"], &last["items"][1]["number"]];
    assert_eq!(numbers, [3, 4], "the fourth runs");
    assert_eq!(last["next_cursor"], json!(null));
}
