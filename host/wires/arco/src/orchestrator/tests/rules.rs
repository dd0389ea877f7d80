//! The effect of callbacks on a job in each of its states.

use std::sync::Arc;

use host_core::failure::FailureKind;
use host_core::id::JobId;
use host_core::job::State;
use host_core::lease::Fence;
use host_core::policy::Policy;
use host_core::port::lease::{LeaseMessage, Leases as _};
use host_runtime::mailbox::respond;
use host_testing::{LeaseHost, Log};
use serde_json::{Value, json};

use super::super::read::Report;
use super::fixture::{Plane, Setup, World};
use crate::tests::peer::Peer;
use crate::token::key::Keys;

const HEARTBEAT: LeaseMessage = LeaseMessage::Heartbeat {
    progress: None,
    wait_ms: 0,
};

fn succeeded() -> Value {
    json!({
        "outcome": "SUCCEEDED",
        "output": {"rowCount": 7, "deltaTable": "t", "more": [1.50]},
        "metrics": {"cpuTimeMs": 45, "peakMemoryBytes": 4096, "ioReadBytes": 1, "gpu": 2},
    })
}

fn failed(category: &str, retryable: Option<bool>) -> Value {
    let mut error = json!({"category": category, "message": "no luck", "stackTrace": "at x"});
    if let Some(retryable) = retryable {
        error["retryable"] = retryable.into();
    }
    json!({"outcome": "FAILED", "error": error})
}

fn failure_kind(plane: &Plane, id: JobId) -> Option<FailureKind> {
    plane.model.kept(id).unwrap().job.lifecycle.failure
}

#[tokio::test]
async fn an_attempt_is_dispatched_begins_lives_and_ends() {
    let world = World::start().await;
    let plane = &world.plane;
    let attributes = [
        ("arco.run_id", "run-1"),
        ("arco.tenant_id", "acme"),
        ("arco.asset_id", "a"),
        ("arco.partition_key", "2026-01-01"),
    ];
    let id = plane.enqueue_with(&attributes);
    let dispatch = world.spark.dispatched().await;
    assert_eq!(dispatch.headers["x-arco-dispatch-secret"], "s3cret");
    assert_eq!(dispatch.headers["content-type"], "application/json");
    let expected = json!({
        "taskId": id.to_string(),
        "runId": "run-1",
        "assetId": "a",
        "taskKey": "analytics.daily_sales",
        "tenantId": "acme",
        "workspaceId": "default",
        "attempt": 1,
        "attemptId": format!("{id}:1"),
        "dispatchId": format!("dispatch:{id}:1"),
        "resources": {},
        "partitionKey": "2026-01-01",
        "workerQueue": "default",
        "enqueuedAt": "2027-01-15T08:00:00.000Z",
        "deadline": "2027-01-15T08:00:30.000Z",
        "callbackBaseUrl": "http://127.0.0.1:7700",
        "taskToken": dispatch.body["taskToken"],
        "tokenExpiresAt": "2027-01-15T09:00:00.000Z",
        "heartbeatIntervalMs": 30_000,
        "heartbeatTimeoutMs": 90_000,
        "heartbeatTimeoutSec": 90,
        "cancelGracePeriodMs": 20_000,
        "traceparent": "00-1-2-01",
        "payload": {"partition": "date=2026-01-01"},
    });
    assert_eq!(dispatch.body, expected);
    let task = dispatch.task();
    dispatch.answer(200, &[], "ok");

    plane.started(&task).await.ok();
    // `started` may be repeated: the answer may have been lost.
    plane.started(&task).await.ok();
    plane.model.clock.pass(10_000);
    let body = json!({"attempt": 1, "attempt_id": format!("{id}:1"), "progress_pct": 45, "message": "half"});
    let answer = plane.call(&task, "heartbeat", &body).await;
    assert_eq!(answer.ok()["shouldCancel"], false);
    assert!(answer.body.get("cancelReason").is_none());
    let lease = plane.model.kept(id).unwrap().job.lifecycle.lease.unwrap();
    let now = lease.last_heartbeat_at().unwrap();
    assert_eq!(now.since_ms(lease.granted_at), 10_000);

    let answer = plane.completed(&task, succeeded()).await;
    assert_eq!(answer.ok()["finalState"], "SUCCEEDED");
    let kept = plane.model.kept(id).unwrap();
    assert_eq!(kept.job.lifecycle.state, State::Completed);
    assert_eq!(
        kept.job.result.unwrap().as_str(),
        r#"{"output":{"deltaTable":"t","more":[1.5],"rowCount":7},"metrics":{"cpuTimeMs":45,"gpu":2,"ioReadBytes":1,"peakMemoryBytes":4096}}"#
    );
    assert_eq!(kept.attempts[0].meter.cpu_us, 45_000);
    assert_eq!(kept.attempts[0].executor, "spark/1");

    let answer = plane.completed(&task, succeeded()).await;
    assert_eq!(answer.ok()["finalState"], "SUCCEEDED");
    let other = json!({"outcome": "SUCCEEDED", "result": 1});
    let answer = plane.completed(&task, other).await;
    assert_eq!(
        answer.refused(409, "task_already_terminal")["state"],
        "SUCCEEDED"
    );
    let answer = plane.started(&task).await;
    assert_eq!(
        answer.refused(409, "task_already_terminal")["state"],
        "SUCCEEDED"
    );
    let answer = plane.heartbeat(&task).await;
    assert_eq!(answer.refused(410, "task_expired")["state"], "SUCCEEDED");
    assert_eq!(
        *plane.refusals.codes.borrow(),
        ["E_TERMINAL", "E_TERMINAL", "E_EXPIRED"]
    );
    world.stop().await;
}

#[tokio::test]
async fn the_current_prefix_and_opaque_ids_are_accepted_too() {
    let world = World::start().await;
    let plane = &world.plane;
    let id = plane.enqueue_with(&[("arco.run_id", "run-1")]);
    let mut task = world.taken().await;
    let bearer = format!("bearer {}", task.token);
    let opaque = crate::tests::opaque_id("run-1", "analytics.daily_sales");
    let path = format!("/api/v1/tasks/{opaque}/started");
    let body = r#"{"attempt":1,"attempt_id":null,"worker_id":"w"}"#;
    plane
        .send(&path, &[("authorization", &bearer)], body)
        .await
        .ok();
    task.id = crate::tests::opaque_id("run-2", "analytics.daily_sales");
    plane.heartbeat(&task).await.refused(404, "task_not_found");
    let path = format!("/api/v1/tasks/{id}/completed");
    let body = r#"{"attempt":1,"outcome":"SUCCEEDED","result":[true],"metrics":null,"error":null}"#;
    plane
        .send(&path, &[("authorization", &bearer)], body)
        .await
        .ok();
    let result = plane.model.kept(id).unwrap().job.result.unwrap();
    assert_eq!(result.as_str(), r#"{"output":[true],"metrics":null}"#);
    world.stop().await;
}

#[tokio::test]
async fn lost_messages_are_tolerated() {
    let world = World::start().await;
    let plane = &world.plane;
    let (first, task) = world.dispatched().await;
    // `started` was lost.
    plane.heartbeat(&task).await.ok();
    plane.completed(&task, succeeded()).await.ok();
    assert_eq!(plane.model.state(first), State::Completed);
    let (second, task) = world.dispatched().await;
    // All but the end was lost.
    plane.completed(&task, succeeded()).await.ok();
    assert_eq!(plane.model.state(second), State::Completed);
    world.stop().await;
}

#[tokio::test]
async fn a_cancel_reaches_a_worker_with_its_next_heartbeat() {
    let world = World::start().await;
    let plane = &world.plane;
    for (reason, shown) in [(None, "user_requested"), (Some("too late"), "too late")] {
        let (id, task) = world.begun().await;
        plane.model.cancel(id, reason).unwrap();
        let answer = plane.heartbeat(&task).await;
        assert_eq!(answer.ok()["shouldCancel"], true);
        assert_eq!(answer.body["cancelReason"], shown);
        let stopped = json!({
            "outcome": "CANCELLED",
            "cancelledDuringPhase": "processing",
            "partialProgress": {"recordsProcessed": 5},
        });
        let answer = plane.completed(&task, stopped.clone()).await;
        assert_eq!(answer.ok()["finalState"], "CANCELLED");
        plane.completed(&task, stopped).await.ok();
        let kept = plane.model.kept(id).unwrap();
        assert_eq!(kept.job.lifecycle.state, State::Cancelled);
        assert_eq!(
            kept.job.result.unwrap().as_str(),
            r#"{"cancelledDuringPhase":"processing","partialProgress":{"recordsProcessed":5}}"#
        );
    }
    // A worker may stop by itself, and work that is done counts.
    let (id, task) = world.begun().await;
    plane
        .completed(&task, json!({"outcome": "CANCELLED"}))
        .await
        .ok();
    assert_eq!(plane.model.state(id), State::Cancelled);
    let (id, task) = world.begun().await;
    plane.model.cancel(id, None).unwrap();
    plane.completed(&task, succeeded()).await.ok();
    assert_eq!(plane.model.state(id), State::Completed);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_that_begins_after_a_cancel_is_turned_away() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.dispatched().await;
    plane.model.cancel(id, None).unwrap();
    let answer = plane.started(&task).await;
    assert_eq!(
        answer.refused(409, "task_already_terminal")["state"],
        "CANCELLED"
    );
    assert_eq!(plane.model.state(id), State::Cancelled);
    let answer = plane.started(&task).await;
    assert_eq!(
        answer.refused(409, "task_already_terminal")["state"],
        "CANCELLED"
    );
    world.stop().await;
}

#[tokio::test]
async fn a_worker_that_ignores_a_cancel_is_given_up() {
    let world = World::start().await;
    let plane = &world.plane;
    let policy = Policy {
        timeout_ms: Some(600_000),
        ..plane.policy()
    };
    let id = plane.model.enqueue(("spark", "key"), "{}", policy, &[]);
    let task = world.taken().await;
    plane.started(&task).await.ok();
    plane.model.cancel(id, None).unwrap();
    plane.model.clock.pass(51_999);
    plane.model.tick();
    assert_eq!(plane.heartbeat(&task).await.ok()["shouldCancel"], true);
    plane.model.clock.pass(1);
    plane.model.tick();
    assert_eq!(plane.model.state(id), State::Discarded);
    assert_eq!(failure_kind(plane, id), Some(FailureKind::CancelTimeout));
    let answer = plane.heartbeat(&task).await;
    assert_eq!(answer.refused(410, "task_expired")["state"], "FAILED");
    let (log, _guard) = Log::of_this_thread();
    plane
        .completed(&task, succeeded())
        .await
        .refused(409, "task_already_terminal");
    let late = log.lines_with("a late result does not count");
    assert!(late.len() == 1 && late[0].contains(&task.id), "{late:?}");
    world.stop().await;
}

#[tokio::test]
async fn a_silent_worker_loses_its_attempt_and_its_late_callbacks_are_refused() {
    let spark = Peer::start().await;
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::to(spark.address), &model);
    let id = plane.enqueue();
    let dispatch = spark.dispatched().await;
    let task = dispatch.task();
    dispatch.answer(200, &[], "ok");
    plane.started(&task).await.ok();
    // No worker asks for the next attempt yet.
    plane.stop().await;
    model.clock.pass(90_000);
    model.tick();
    model.restart();
    let kept = model.kept(id).unwrap();
    assert_eq!(
        kept.attempts[0].failure.as_ref().unwrap().code.as_deref(),
        Some("HEARTBEAT_TIMEOUT")
    );
    assert_eq!(kept.job.lifecycle.attempts_charged(), 0);
    assert_eq!(kept.job.lifecycle.state, State::Available);
    for (kind, status, error) in [
        ("heartbeat", 410, "task_expired"),
        ("started", 409, "task_already_terminal"),
        ("completed", 409, "task_already_terminal"),
    ] {
        let (report, message) = match kind {
            "heartbeat" => (Report::Heartbeat(None), HEARTBEAT),
            _ => (Report::Started, LeaseMessage::Ack),
        };
        let (respond, mut answer) = respond();
        let fence = Fence::Attempt(1);
        model.first().send(id, fence, message, respond);
        let why = answer.try_recv().unwrap().unwrap_err();
        let refused = super::super::explain::explain(why, 1, &report);
        assert_eq!(
            (refused.status, refused.body.error.as_str()),
            (status, error),
            "{kind}"
        );
        assert_eq!(refused.body.state.as_deref(), Some("FAILED"));
    }
    // The next attempt is out.
    let plane = Plane::start(&Setup::nowhere(), &model);
    model
        .until(id, |kept| kept.job.lifecycle.attempt == 2)
        .await;
    let answer = plane.heartbeat(&task).await;
    let body = answer.refused(409, "attempt_mismatch");
    assert_eq!(
        (&body["expectedAttempt"], &body["receivedAttempt"]),
        (&json!(2), &json!(1))
    );
    plane
        .completed(&task, succeeded())
        .await
        .refused(409, "attempt_mismatch");
    plane.started(&task).await.refused(409, "attempt_mismatch");
    plane.stop().await;
}

#[tokio::test]
async fn failures_are_retried_by_category_unless_they_say_so() {
    let world = World::start().await;
    let plane = &world.plane;
    for (category, retryable, retried) in [
        ("USER_CODE", None, true),
        ("USER_CODE", Some(false), false),
        ("DATA_QUALITY", None, false),
        ("DATA_QUALITY", Some(true), true),
        ("INFRASTRUCTURE", None, true),
        ("CONFIGURATION", None, false),
        ("TIMEOUT", None, true),
        ("TIMEOUT", Some(false), false),
        ("CANCELLED", None, false),
    ] {
        let (id, task) = world.begun().await;
        let answer = plane.completed(&task, failed(category, retryable)).await;
        assert_eq!(answer.ok()["finalState"], "FAILED");
        let expected = if retried {
            State::Retryable
        } else {
            State::Discarded
        };
        assert_eq!(plane.model.state(id), expected, "{category} {retryable:?}");
        plane
            .completed(&task, failed(category, retryable))
            .await
            .ok();
        let failure = plane.model.kept(id).unwrap().job.failure.unwrap();
        assert_eq!(
            (failure.message.as_str(), failure.stack.as_deref()),
            ("no luck", Some("at x"))
        );
        assert_eq!(failure.category().as_str(), category);
    }
    world.stop().await;
}

#[tokio::test]
async fn an_overdue_attempt_is_asked_to_stop_and_then_ended() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    plane.model.clock.pass(30_000);
    let answer = plane.heartbeat(&task).await;
    assert_eq!(answer.ok()["shouldCancel"], true);
    assert_eq!(answer.body["cancelReason"], "deadline_exceeded");
    plane.model.advance(20_999);
    plane.heartbeat(&task).await.ok();
    plane.model.advance(1);
    assert_eq!(failure_kind(plane, id), Some(FailureKind::TimedOut));
    let answer = plane.heartbeat(&task).await;
    answer.refused(410, "task_expired");
    world.stop().await;
}

#[tokio::test]
async fn attempts_and_tokens_survive_a_restart_and_a_new_key() {
    let world = World::start().await;
    let (begun, begun_task) = world.begun().await;
    let (sent, sent_task) = world.dispatched().await;
    let World { plane, spark } = world;
    let model = Arc::clone(&plane.model);
    plane.stop().await;
    model.restart();
    model.clock.pass(20_000);
    let setup = Setup {
        keys: Keys::new(
            b"another key of at least 32 bytes",
            Some(super::fixture::KEY),
        )
        .unwrap(),
        ..Setup::to(spark.address)
    };
    let plane = Plane::start(&setup, &model);
    // The attempt that had not begun is sent again, with the same ids and a token of the new key.
    let again = spark.dispatched().await;
    assert_eq!(again.text("dispatchId"), format!("dispatch:{sent}:1"));
    assert_ne!(again.text("taskToken"), sent_task.token);
    let again_task = again.task();
    again.answer(503, &[("retry-after", "1")], "it runs");
    plane.heartbeat(&begun_task).await.ok();
    plane.started(&sent_task).await.ok();
    plane.heartbeat(&again_task).await.ok();
    for (id, task) in [(begun, &begun_task), (sent, &again_task)] {
        plane.completed(task, succeeded()).await.ok();
        let kept = model.kept(id).unwrap();
        assert_eq!(
            (kept.job.lifecycle.state, kept.attempts.len()),
            (State::Completed, 1)
        );
    }
    plane.stop().await;
}
