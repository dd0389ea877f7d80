//! What the Go runner and clients of the Go orchestrator sent, replayed with ids of ours: the messages
//! are taken as the decisions say, and nothing in them breaks anything.

use host_core::job::State;
use serde_json::Value;

use super::fixture::Host;

const SUCCESS: &str = include_str!("../../../../tests/golden/delta-go-runner-success.jsonl");
const CANCEL: &str =
    include_str!("../../../../tests/golden/delta-go-runner-cancel-and-failure.jsonl");
const EDGES: &str = include_str!("../../../../tests/golden/delta-go-edge-cases.jsonl");

/// One request: its path below the prefix, its body, and the status of the Go orchestrator.
fn requests(capture: &str) -> Vec<(String, Value, u64)> {
    let lines = capture.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let (request, response) = (&line["request"], &line["response"]);
        let path = request["path"]
            .as_str()
            .unwrap()
            .strip_prefix("/api/v1/internal/")
            .unwrap();
        let body = serde_json::from_str(request["body"].as_str().unwrap()).unwrap();
        (path.to_owned(), body, response["status"].as_u64().unwrap())
    });
    lines.collect()
}

#[tokio::test]
async fn the_go_runner_completes_jobs() {
    let host = Host::start();
    let jobs = [host.enqueue(), host.enqueue()];
    let (mut lease, mut job_id) = (String::new(), String::new());
    for (path, mut body, status) in requests(SUCCESS) {
        if path == "ack-lease" {
            let ask = r#"{"runner_id":"w1","capabilities":["os:linux"],"wait_seconds":0}"#;
            let granted = host.post("lease", ask).await.is(200);
            lease = granted["lease_id"].as_str().unwrap().to_owned();
            job_id = granted["job_id"].as_str().unwrap().to_owned();
            body["job_id"] = job_id.clone().into();
        }
        body["lease_id"] = lease.clone().into();
        let answer = host.post(&path, body.to_string()).await;
        assert_eq!(
            u64::from(answer.status),
            status,
            "{path} {job_id}: {answer:?}"
        );
    }
    for job in jobs {
        assert_eq!(host.model.state(job), State::Completed);
        let result = host.model.look(job, |job| job.result.clone().unwrap());
        assert!(result.as_str().contains("\"summary\":\"succeeded\""));
        // The strict dialect has the time of the end beside `timings`.
        assert!(
            result.as_str().contains("\"finished_at\":\"2026-"),
            "{}",
            result.as_str()
        );
    }
}

#[tokio::test]
async fn the_go_runner_answers_a_cancel_and_reports_a_failure() {
    let host = Host::start();
    let cancelled = host.enqueue();
    let mut failed = None;
    let mut lease = host.lease("w1").await;
    let mut beats = 0;
    for (path, mut body, status) in requests(CANCEL) {
        if path == "ack-lease" {
            if host.model.state(cancelled).is_terminal() {
                failed = Some(host.enqueue());
                lease = host.lease("w1").await;
            }
            let job = failed.unwrap_or(cancelled);
            body["job_id"] = job.to_string().into();
        }
        if path == "heartbeat" {
            beats += 1;
            if beats == 2 {
                host.model.cancel(cancelled, None).unwrap();
            }
        }
        body["lease_id"] = lease.clone().into();
        let answer = host.post(&path, body.to_string()).await;
        assert_eq!(u64::from(answer.status), status, "{path}: {answer:?}");
        if path == "heartbeat" {
            assert_eq!(answer.body["cancel_requested"], beats == 2);
        }
    }
    assert_eq!(host.model.state(cancelled), State::Cancelled);
    let failed = failed.unwrap();
    assert_eq!(host.model.state(failed), State::Retryable);
    let failure = host.model.look(failed, |job| job.failure.clone().unwrap());
    assert_eq!(
        (failure.message.as_str(), failure.code.as_deref()),
        ("exit status 3", Some("3"))
    );
}

/// What ours answers to the edge cases that were tried on the Go orchestrator, in order: it refuses
/// documented fields and knows no stale answer but 409.
const OURS: &[(&str, u16)] = &[
    ("heartbeat", 409),
    ("ack-lease", 409),
    ("ack-lease", 200),
    ("ack-lease", 200),
    ("heartbeat", 200),
    ("heartbeat", 422),
    ("heartbeat", 200),
    ("cancel-ack", 409),
    ("complete", 200),
    ("heartbeat", 409),
    ("complete", 409),
    ("cancel-ack", 409),
    ("cancel-ack", 409),
    ("heartbeat", 409),
    ("complete", 409),
];

#[tokio::test]
async fn edge_cases_of_the_go_orchestrator_get_the_answers_of_the_document() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    let requests = requests(EDGES);
    assert_eq!(requests.len(), OURS.len());
    for (at, ((path, mut body, _), (expected, status))) in
        requests.into_iter().zip(OURS).enumerate()
    {
        assert_eq!(path, *expected);
        if at > 0 {
            body["lease_id"] = lease.clone().into();
        }
        if path == "ack-lease" {
            body["job_id"] = job.to_string().into();
        }
        let answer = host.post(&path, body.to_string()).await;
        assert_eq!(answer.status, *status, "{at} {path}: {answer:?}");
    }
    // TIMED_OUT came first, and it stays.
    assert_eq!(host.model.attempts(job), "1 ci/w1 failed");
    assert_eq!(host.model.state(job), State::Retryable);
}
