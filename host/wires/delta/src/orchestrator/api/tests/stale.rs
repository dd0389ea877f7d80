//! Fences: a message about a lease that is over, or of another runner, changes nothing and gets the stale
//! answer.

use host_core::job::State;
use host_core::port::Clock as _;
use host_core::time::Time;
use serde_json::json;

use super::fixture::{Answer, Host};

/// Sends every message about a lease.
async fn all(host: &Host, lease: &str, runner: &str) -> Vec<Answer> {
    vec![
        host.ack(lease, runner).await,
        host.heartbeat(lease, runner).await,
        host.log(lease, runner, 0, "x\n").await,
        host.cancel_ack(lease, runner).await,
        host.complete(lease, runner, "SUCCEEDED").await,
    ]
}

#[tokio::test]
async fn a_runner_that_stalls_past_its_lease_changes_nothing_when_it_wakes_up() {
    let host = Host::start();
    let job = host.enqueue_long();
    let stalled = host.lease("first").await;
    host.ack(&stalled, "first").await.is(200);
    host.model.advance(119_999);
    assert_eq!(
        host.ask("second", &["os:linux"]).await.status,
        204,
        "the lease is live"
    );
    host.model.advance(1);
    let lease = host.lease("second").await;
    host.ack(&lease, "second").await.is(200);
    for answer in all(&host, &stalled, "first").await {
        answer.stale(&stalled, "LEASE_EXPIRED");
    }
    assert_eq!(host.model.state(job), State::Running);
    host.complete(&lease, "second", "SUCCEEDED").await.is(200);
    for answer in all(&host, &stalled, "first").await {
        answer.stale(&stalled, "LEASE_EXPIRED");
    }
    assert_eq!(host.model.state(job), State::Completed);
    assert_eq!(
        host.model.attempts(job),
        "1 ci/first lost, 2 ci/second completed"
    );
    assert_eq!(host.model.logged(), []);
}

#[tokio::test]
async fn a_lease_that_is_not_acknowledged_in_time_is_revoked() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.model.advance(29_999);
    host.heartbeat(&lease, "w1").await.refused(409, "E_STATE");
    host.model.advance(1);
    for answer in all(&host, &lease, "w1").await {
        answer.stale(&lease, "LEASE_REVOKED");
    }
    assert_eq!(host.model.state(job), State::Available);
}

#[tokio::test]
async fn heartbeats_extend_a_lease_and_the_clock_of_the_runner_does_not_count() {
    let host = Host::start();
    host.enqueue_long();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    for ts in ["2030-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "soon"] {
        host.model.advance(119_999);
        let beat = json!({"lease_id": lease, "runner_id": "w1", "ts": ts});
        host.post("heartbeat", beat.to_string()).await.is(200);
    }
    assert_eq!(host.refused(), ["E_CLOCK_SKEW"; 2], "and is noticed");
    for (ahead_ms, count) in [(60_000, 2), (60_001, 3), (-60_001, 4)] {
        let ts = Time(host.model.clock.wall().0 + ahead_ms).to_rfc3339();
        let beat = json!({"lease_id": lease, "runner_id": "w1", "ts": ts});
        host.post("heartbeat", beat.to_string()).await.is(200);
        assert_eq!(host.refused().len(), count, "{ahead_ms}");
    }
    host.model.advance(120_000);
    host.heartbeat(&lease, "w1")
        .await
        .stale(&lease, "LEASE_EXPIRED");
}

#[tokio::test]
async fn unknown_leases_and_those_of_others_look_the_same() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let mut digits = lease.clone().into_bytes();
    let last = digits.last_mut().unwrap();
    *last = if *last == b'0' { b'1' } else { b'0' };
    let near = String::from_utf8(digits).unwrap();
    let words = |answer: &Answer| answer.body["error"]["message"].clone();
    let unknown = host.heartbeat("lease_nope", "w1").await;
    unknown.stale("lease_nope", "UNKNOWN_LEASE");
    for (lease, runner) in [
        (near.as_str(), "w1"),
        (&lease, "w2"),
        ("", "w1"),
        ("../../x", "w1"),
    ] {
        for path in ["ack-lease", "heartbeat", "complete", "cancel-ack"] {
            let body = json!({
                "lease_id": lease, "runner_id": runner, "status": "SUCCEEDED",
                "final_status": "CANCELED",
            });
            let answer = host.post(path, body.to_string()).await;
            answer.stale(lease, "UNKNOWN_LEASE");
            assert_eq!(words(&answer), words(&unknown));
        }
    }
    // The right runner's name with the token of another pool.
    let beat = json!({"lease_id": lease, "runner_id": "w1"}).to_string();
    let answer = host.post_as("gpu-token", "heartbeat", beat.clone()).await;
    answer.stale(&lease, "UNKNOWN_LEASE");
    let refused = host.refused();
    let thefts = refused.iter().filter(|code| **code == "E_LEASE_THEFT");
    assert_eq!(thefts.count(), 5);
    host.post_as("ci-second", "heartbeat", beat).await.is(200);
    assert_eq!(host.model.state(job), State::Running);
}

#[tokio::test]
async fn a_lease_survives_a_restart_within_its_time() {
    let host = Host::start();
    let (kept, lost) = (host.enqueue_long(), host.enqueue_long());
    let kept_lease = host.lease("w1").await;
    host.ack(&kept_lease, "w1").await.is(200);
    let lost_lease = host.lease("w2").await;
    host.ack(&lost_lease, "w2").await.is(200);
    host.log(&kept_lease, "w1", 0, "one\n").await.is(200);
    host.model.advance(60_000);
    let host = host.restart();
    host.heartbeat(&kept_lease, "w2")
        .await
        .stale(&kept_lease, "UNKNOWN_LEASE");
    host.heartbeat(&kept_lease, "w1").await.is(200);
    // How much of the log was received is known, so that nothing is kept twice.
    for (offset, text, next) in [(0, "one\n", 4), (0, "one\ntwo\n", 8), (8, "three\n", 14)] {
        let logged = host.log(&kept_lease, "w1", offset, text).await.is(200);
        assert_eq!(logged["next_offset"], next, "{offset}");
    }
    let logged = host.model.logged();
    let lines: Vec<_> = logged.iter().map(|(_, _, line)| line.as_str()).collect();
    assert_eq!(lines, ["one", "two", "three"]);
    host.model.advance(60_000);
    host.heartbeat(&lost_lease, "w2")
        .await
        .stale(&lost_lease, "UNKNOWN_LEASE");
    host.complete(&kept_lease, "w1", "SUCCEEDED").await.is(200);
    host.complete(&kept_lease, "w1", "SUCCEEDED").await.is(200);
    assert_eq!(host.model.state(kept), State::Completed);
    assert_eq!(host.model.state(lost), State::Available);
    assert_eq!(host.model.attempts(lost), "1 ci/w2 lost");
}

#[tokio::test]
async fn an_end_is_recognized_after_a_restart() {
    for status in ["SUCCEEDED", "FAILED", "TIMED_OUT", "CANCELED"] {
        let host = Host::start();
        let job = host.enqueue();
        let lease = host.lease("w1").await;
        host.ack(&lease, "w1").await.is(200);
        host.complete(&lease, "w1", status).await.is(200);
        let before = host.model.state(job);
        let host = host.restart();
        host.complete(&lease, "w1", status).await.is(200);
        host.complete(&lease, "w2", status)
            .await
            .stale(&lease, "UNKNOWN_LEASE");
        let other = if status == "FAILED" {
            "SUCCEEDED"
        } else {
            "FAILED"
        };
        host.complete(&lease, "w1", other)
            .await
            .stale(&lease, "UNKNOWN_LEASE");
        assert_eq!(host.model.state(job), before);
    }
}

#[tokio::test]
async fn an_end_is_recognized_although_the_job_runs_again() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    host.complete(&lease, "w1", "FAILED").await.is(200);
    host.model.advance(60_000);
    let again = host.lease("w2").await;
    host.ack(&again, "w2").await.is(200);
    // As another node knows it.
    let host = host.restart();
    host.complete(&lease, "w1", "FAILED").await.is(200);
    host.complete(&lease, "w1", "SUCCEEDED")
        .await
        .stale(&lease, "UNKNOWN_LEASE");
    assert_eq!(host.model.state(job), State::Running);
}
