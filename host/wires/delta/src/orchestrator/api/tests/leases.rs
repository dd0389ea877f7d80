//! The life of a lease, as its runner sees it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use futures_util::FutureExt as _;
use host_core::failure::FailureKind;
use host_core::id::NodeId;
use host_core::job::State;
use host_core::port::lease::{LeaseError, Leases};
use host_http::peer::ClientClosed;
use host_wire_kit::executors::Executors as _;
use serde_json::json;
use tokio::time::timeout;

use super::fixture::{Host, TIMES};
use crate::orchestrator::launched;

#[tokio::test]
async fn a_job_is_leased_acknowledged_and_completed() {
    let host = Host::start();
    assert_eq!(host.ask("w1", &["os:linux"]).await.status, 204);
    let mut policy = TIMES.policy();
    policy.timeout_ms = Some(1_500);
    let params = r#"{ "steps": ["make"], "env": {"CI": "true"}, "big": 12345678901234567890}"#;
    let job = host.model.enqueue(
        ("ci", "unit-tests"),
        params,
        policy,
        &[("delta.run_id", "run_7")],
    );
    let granted = host.ask("w1", &["os:linux"]).await;
    assert!(
        granted.text.contains("12345678901234567890"),
        "params are passed on as they are"
    );
    let granted = granted.is(200);
    let lease = granted["lease_id"].as_str().unwrap().to_owned();
    assert_eq!(
        granted,
        json!({
            "type": "LeaseGranted", "heartbeat_wait_seconds": 60, "log_uri": format!("/api/v1/jobs/{job}/logs"),
            "job_id": job.to_string(), "run_id": "run_7", "lease_id": lease,
            "lease_ttl_seconds": 120, "heartbeat_interval_seconds": 20, "max_runtime_seconds": 2,
            "job_spec": {
                "name": "unit-tests", "steps": ["make"], "env": {"CI": "true"},
                "big": 12_345_678_901_234_567_890_u64,
            },
        })
    );
    assert_eq!(host.ack(&lease, "w1").await.is(200), json!({}));
    assert_eq!(host.ack(&lease, "w1").await.is(200), json!({}), "again");
    let beat = json!({
        "type": "Heartbeat", "lease_id": lease, "runner_id": "w1",
        "progress": {"percent": 35, "current_step": "make", "step_index": 0, "message": "Running"},
        "log_cursor": {"bytes_sent": 1_048_576}, "ts": "2026-01-04T08:00:20Z", "unknown": [1],
    });
    assert_eq!(
        host.post("heartbeat", beat.to_string()).await.is(200),
        json!({
            "type": "HeartbeatAck", "lease_id": lease, "extend_lease": true,
            "new_lease_ttl_seconds": 120, "cancel_requested": false, "cancel_deadline_seconds": 0,
        })
    );
    let progress = host.model.look(job, |job| job.progress.clone().unwrap());
    assert_eq!(progress.percent, Some(35.0));
    assert_eq!(
        progress.message,
        "step 0 · make · Running · 1048576 bytes of log"
    );
    let end = json!({
        "type": "Complete", "lease_id": lease, "runner_id": "w1", "status": "SUCCEEDED",
        "exit_code": 0, "timings": {"started_at": "a", "finished_at": "b"},
        "artifacts": [{"type": "log", "uri": "s3://b/log.txt", "size": 7}], "summary": "All passed.",
    });
    assert_eq!(
        host.post("complete", end.to_string()).await.is(200),
        json!({"type": "CompleteAck", "lease_id": lease, "accepted": true})
    );
    assert_eq!(host.model.state(job), State::Completed);
    assert_eq!(host.model.attempts(job), "1 ci/w1 completed");
    let result = host.model.look(job, |job| job.result.clone().unwrap());
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(result.as_str()).unwrap(),
        json!({
            "status": "SUCCEEDED", "exit_code": 0, "summary": "All passed.",
            "artifacts": [{"type": "log", "uri": "s3://b/log.txt"}],
            "timings": {"started_at": "a", "finished_at": "b"},
        })
    );
}

#[tokio::test]
async fn each_status_ends_a_job_in_its_way() {
    for (status, state, failure) in [
        ("SUCCEEDED", State::Completed, None),
        ("FAILED", State::Retryable, Some(FailureKind::UserError)),
        ("TIMED_OUT", State::Retryable, Some(FailureKind::TimedOut)),
        ("CANCELED", State::Cancelled, Some(FailureKind::Cancelled)),
    ] {
        let host = Host::start();
        let job = host.enqueue();
        let lease = host.lease("w1").await;
        host.ack(&lease, "w1").await.is(200);
        host.complete(&lease, "w1", status).await.is(200);
        assert_eq!(host.model.state(job), state, "{status}");
        let found = host.model.look(job, |job| job.failure.clone());
        assert_eq!(
            found.as_ref().map(|failure| failure.kind),
            failure,
            "{status}"
        );
        if let Some(failure) = found {
            assert_eq!(failure.message, "what happened");
            assert!(failure.details.unwrap().as_str().contains(status));
        }
        let asked = host.model.look(job, |job| job.lifecycle.cancel.is_some());
        assert!(!asked, "{status}: no user has asked for a cancel");
    }
}

#[tokio::test]
async fn an_end_counts_once_and_is_answered_the_same_again() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    let early = host.complete(&lease, "w1", "SUCCEEDED").await;
    assert!(early.refused(409, "E_STATE").contains("AckLease first"));
    host.ack(&lease, "w1").await.is(200);
    let first = host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    let again = host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    assert_eq!(first, again);
    for other in [
        host.complete(&lease, "w1", "FAILED").await,
        host.cancel_ack(&lease, "w1").await,
    ] {
        other.refused(409, "E_ALREADY_COMPLETE");
        assert_eq!(other.body["status"], "SUCCEEDED");
    }
    host.heartbeat(&lease, "w1")
        .await
        .stale(&lease, "LEASE_REVOKED");
    assert_eq!(host.model.state(job), State::Completed);
    assert_eq!(host.model.attempts(job), "1 ci/w1 completed");
}

#[tokio::test]
async fn a_cancel_is_heard_with_the_next_heartbeat_and_acknowledged_once() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    host.cancel_ack(&lease, "w1").await.refused(409, "E_STATE");
    host.model.cancel(job, None).unwrap();
    host.model.advance(10_500);
    let ack = host.heartbeat(&lease, "w1").await.is(200);
    assert_eq!(ack["cancel_requested"], true);
    assert_eq!(ack["cancel_deadline_seconds"], 20);
    assert_eq!(host.cancel_ack(&lease, "w1").await.is(200), json!({}));
    assert_eq!(
        host.cancel_ack(&lease, "w1").await.is(200),
        json!({}),
        "again"
    );
    assert_eq!(host.model.state(job), State::Cancelled);
    let failure = host.model.look(job, |job| job.failure.clone().unwrap());
    assert_eq!(
        (failure.kind, failure.message.as_str()),
        (FailureKind::Cancelled, "stopped")
    );
    let partial = host.model.look(job, |job| job.result.clone().unwrap());
    assert!(
        partial.as_str().contains("\"summary\":\"stopped\""),
        "{}",
        partial.as_str()
    );
    let late = host.complete(&lease, "w1", "SUCCEEDED").await;
    late.refused(409, "E_ALREADY_COMPLETE");
    assert_eq!(late.body["status"], "CANCELED");
}

#[tokio::test]
async fn work_that_finished_in_spite_of_a_cancel_is_recorded_as_finished() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    host.model.cancel(job, None).unwrap();
    host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    assert_eq!(host.model.state(job), State::Completed);
}

#[tokio::test]
async fn a_runner_that_goes_on_past_the_time_limit_loses_its_lease() {
    // With a restart in between, and without.
    for restarts in [false, true] {
        let mut host = Host::start();
        let job = host.enqueue();
        let lease = host.lease("w1").await;
        host.ack(&lease, "w1").await.is(200);
        host.model.advance(60_000);
        if restarts {
            host = host.restart();
        }
        host.heartbeat(&lease, "w1").await.is(200);
        host.log(&lease, "w1", 0, "no end").await.is(200);
        // 30 s are the limit, 30 s the runner had to acknowledge, and 30 s to stop.
        host.model.advance(29_999);
        host.heartbeat(&lease, "w1").await.is(200);
        let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60});
        let waits = host.post("heartbeat", beat.to_string());
        host.model.advance(1);
        waits.await.stale(&lease, "LEASE_REVOKED");
        assert_eq!(host.model.state(job), State::Retryable);
        let failure = host.model.look(job, |job| job.failure.clone().unwrap());
        assert_eq!(failure.kind, FailureKind::TimedOut);
        assert!(failure.message.contains("60 s"), "{}", failure.message);
        let lines = host.model.logged();
        assert_eq!(
            lines.last().unwrap().2,
            "no end",
            "the log has its last line"
        );
        host.complete(&lease, "w1", "SUCCEEDED")
            .await
            .stale(&lease, "LEASE_REVOKED");
    }
}

#[tokio::test]
async fn one_attempt_is_granted_once() {
    let host = Host::start();
    host.enqueue();
    let (one, other) = tokio::join!(host.ask("w1", &["os:linux"]), host.ask("w2", &["os:linux"]));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 204]);
}

#[tokio::test]
async fn a_cancel_without_an_answer_ends_the_job_at_its_deadline() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    host.model.cancel(job, None).unwrap();
    host.model.advance(29_999);
    host.heartbeat(&lease, "w1").await.is(200);
    host.model.advance(1);
    assert_eq!(host.model.state(job), State::Cancelled);
    let late = host.cancel_ack(&lease, "w1").await;
    late.stale(&lease, "LEASE_REVOKED");
}

#[tokio::test]
async fn a_heartbeat_that_waits_is_answered_at_once_when_the_job_is_cancelled() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60}).to_string();
    let waits = host.post("heartbeat", beat.clone());
    let cancels = async {
        // The first part of the heartbeat is heard before the cancel.
        while host.model.look(job, |job| job.lifecycle.cancel.is_none()) {
            tokio::task::yield_now().await;
            host.model.cancel(job, None).unwrap();
        }
    };
    let (ack, ()) = tokio::join!(waits, cancels);
    assert_eq!(ack.is(200)["cancel_requested"], true);
    // While a cancel is requested, nothing waits.
    let ack = host.post("heartbeat", beat).await.is(200);
    assert_eq!(ack["cancel_requested"], true);
}

#[tokio::test]
async fn a_heartbeat_that_waits_after_a_restart_is_answered_at_once_too() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let host = host.restart();
    let leases = host.model.first() as Arc<dyn Leases>;
    launched::take_over(&host.pools, &leases).await;
    let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60}).to_string();
    let mut waits = pin!(host.post("heartbeat", beat));
    let early = waits.as_mut().now_or_never();
    assert!(early.is_none(), "it waits for the cancel");
    host.model.cancel(job, None).unwrap();
    let ack = timeout(Duration::from_secs(50), waits)
        .await
        .expect("an answer before the 60 s are over")
        .is(200);
    assert_eq!(ack["cancel_requested"], true);
}

#[tokio::test]
async fn a_heartbeat_that_waits_ends_with_its_lease_and_with_the_host() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60}).to_string();
    let expires = async {
        tokio::task::yield_now().await;
        host.model.advance(120_000);
    };
    let (ack, ()) = tokio::join!(host.post("heartbeat", beat), expires);
    ack.stale(&lease, "LEASE_EXPIRED");
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60}).to_string();
    let stops = async {
        tokio::task::yield_now().await;
        host.stopping.cancel();
        host.model.stop_waiting(NodeId::NIL);
    };
    let (ack, ()) = tokio::join!(host.post("heartbeat", beat), stops);
    assert_eq!(ack.is(200)["cancel_requested"], false);
}

#[tokio::test]
async fn a_request_waits_for_a_job_that_its_runner_can_execute() {
    let host = Host::start();
    let pools = &host.pools;
    let ci = "ci".parse().unwrap();
    let ask = |tags: &[&str]| {
        json!({"runner_id": "w1", "capabilities": tags, "wait_seconds": 20}).to_string()
    };
    let place = |tags: &str| pools.place(&ci, &[("delta.requires".to_owned(), tags.to_owned())]);
    let lane = place("arch:arm64,gpu").unwrap();
    assert_eq!(lane.as_str(), "ci/arch:arm64/gpu");
    assert_eq!(pools.place(&ci, &[]).unwrap().as_str(), "ci");
    assert!(place("a b").unwrap_err().contains("delta.requires"));
    let job = |lane: &str| {
        host.model
            .enqueue((lane, "unit-tests"), "{}", TIMES.policy(), &[])
    };
    let special = job(lane.as_str());
    let plain = job("ci");
    // A runner without all tags of the pool gets nothing; one without those of the job another job.
    assert_eq!(host.ask("w1", &["gpu", "arch:arm64"]).await.status, 204);
    let granted = host.ask("w1", &["os:linux", "gpu"]).await.is(200);
    assert_eq!(granted["job_id"], plain.to_string());
    let able = ["os:linux", "gpu", "arch:arm64"];
    let granted = host.ask("w1", &able).await.is(200);
    assert_eq!(granted["job_id"], special.to_string());
    // One that waits hears of a lane that is new.
    let waits = host.post("lease", ask(&["os:linux", "tpu"]));
    let comes = async {
        host.until_waiting(1).await;
        let lane = place("tpu").unwrap();
        host.model
            .enqueue((lane.as_str(), "unit-tests"), "{}", TIMES.policy(), &[])
    };
    let (granted, job) = tokio::join!(waits, comes);
    assert_eq!(granted.is(200)["job_id"], job.to_string());
    // No job comes, or the host stops.
    let ends = async {
        host.until_waiting(1).await;
        host.model.advance(20_000);
    };
    let (none, ()) = tokio::join!(host.post("lease", ask(&["os:linux"])), ends);
    assert_eq!(none.status, 204);
    let stops = async {
        host.until_waiting(1).await;
        host.stopping.cancel();
    };
    let (none, ()) = tokio::join!(host.post("lease", ask(&["os:linux"])), stops);
    assert_eq!(none.status, 204);
}

#[tokio::test]
async fn a_runner_that_closes_its_side_while_it_waits_is_leased_no_job() {
    let mut host = Host::start();
    let client = ClientClosed::default();
    host.router = host.router.clone().layer(Extension(client.clone()));
    let ask = json!({"runner_id": "w1", "capabilities": ["os:linux"], "wait_seconds": 9});
    let closing = async {
        host.until_waiting(1).await;
        client.0.cancel();
    };
    let (none, ()) = tokio::join!(host.post("lease", ask.to_string()), closing);
    assert_eq!(none.status, 204);
    host.until_waiting(0).await;
    let job = host.enqueue();
    assert_eq!(host.model.state(job), State::Available);
}

#[tokio::test]
async fn runners_that_wait_or_work_are_shown() {
    let host = Host::start();
    let pools = &host.pools;
    let shown = || {
        let workers = pools
            .health()
            .into_iter()
            .flat_map(|pool| pool.workers)
            .map(|worker| format!("{} {}", worker.name, worker.in_flight));
        workers.collect::<Vec<_>>()
    };
    assert_eq!(shown(), [""; 0]);
    host.enqueue();
    let lease = host.lease("w1").await;
    host.ack(&lease, "w1").await.is(200);
    let ask = json!({"runner_id": "w2", "capabilities": ["os:linux"], "wait_seconds": 9});
    let looks = async {
        host.until_waiting(1).await;
        let seen = shown();
        host.enqueue();
        seen
    };
    let (_, seen) = tokio::join!(host.post("lease", ask.to_string()), looks);
    assert_eq!(seen, ["ci/w1 1", "ci/w2 0"]);
    host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    assert_eq!(shown(), ["ci/w2 1"]);
    host.model.advance(120_000);
    assert_eq!(shown(), [""; 0]);
}

#[tokio::test]
async fn a_log_is_kept_by_the_offsets_of_its_chunks() {
    let host = Host::start();
    let job = host.enqueue();
    let lease = host.lease("w1").await;
    host.log(&lease, "w1", 0, "early")
        .await
        .refused(409, "E_STATE");
    host.ack(&lease, "w1").await.is(200);
    let next = |answer: super::fixture::Answer| answer.is(200)["next_offset"].as_u64().unwrap();
    assert_eq!(next(host.log(&lease, "w1", 0, "one\ntw").await), 6);
    assert_eq!(
        next(host.log(&lease, "w1", 0, "one\n").await),
        6,
        "received before"
    );
    assert_eq!(next(host.log(&lease, "w1", 4, "two\nthree").await), 13);
    let gap = host.log(&lease, "w1", 20, "x").await;
    gap.refused(409, "E_LOG_OFFSET");
    assert_eq!(gap.body["next_offset"], 13);
    host.log(&lease, "w2", 13, "x")
        .await
        .stale(&lease, "UNKNOWN_LEASE");
    host.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    let logged = host.model.logged();
    let lines: Vec<_> = logged.iter().map(|(_, _, line)| line.as_str()).collect();
    assert_eq!(lines, ["one", "two", "three"]);
    assert!(
        logged
            .iter()
            .all(|(of, attempt, _)| (*of, *attempt) == (job, 1))
    );
    host.log(&lease, "w1", 13, "late")
        .await
        .stale(&lease, "LEASE_REVOKED");
}

#[tokio::test]
async fn what_the_host_cannot_take_now_is_to_come_again() {
    let host = Host::start();
    host.enqueue();
    let lease = host.lease("w1").await;
    for (error, status, code) in [
        (LeaseError::Busy, 503, "E_BUSY"),
        (LeaseError::Stopping, 503, "E_BUSY"),
        (LeaseError::StoreFull, 507, "E_STORE_FULL"),
    ] {
        host.model.fail(Some(error));
        let answer = host.ack(&lease, "w1").await;
        answer.refused(status, code);
        assert_eq!(answer.headers["retry-after"], "1");
    }
    host.model.fail(None);
    host.ack(&lease, "w1").await.is(200);
}
