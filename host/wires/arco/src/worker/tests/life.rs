//! The life of a dispatched task, whatever the control plane answers.

use host_core::port::Stop;
use serde_json::json;

use super::fixture::{World, answered};

#[tokio::test]
async fn a_task_is_started_executed_and_completed() {
    let world = World::start().await;
    let waiting = world.begin(&world.envelope(1, "echo"));
    let started = world.plane.expect("started").await;
    assert_eq!(started.path, "/v1/tasks/task-1/started");
    assert_eq!(started.headers["authorization"], "Bearer tok");
    let id = format!("host-{}", world.url.origin()).replace("http://", "");
    let expected = json!({
        "attempt": 1,
        "attemptId": "att-1",
        "workerId": id,
        "startedAt": "2027-01-15T08:00:00.000Z",
    });
    assert_eq!(started.body, expected);
    started.acknowledge(false);
    let completed = world.plane.expect("completed").await;
    let expected = json!({
        "attempt": 1,
        "attemptId": "att-1",
        "workerId": id,
        "outcome": "SUCCEEDED",
        "completedAt": "2027-01-15T08:00:00.000Z",
        "output": {"a": 1},
        "metrics": {"cpuTimeMs": 2, "peakMemoryBytes": 65_536, "fuel": 5},
    });
    assert_eq!(completed.body, expected);
    completed.acknowledge(false);
    assert_eq!(answered(waiting).await, (200, "ok".to_owned()));
    let job = world.sandbox.jobs.borrow()[0].clone();
    assert_eq!(
        (job.wire, job.external_id.as_str(), job.attempt),
        ("arco", "task-1", 1)
    );
    // The deadline is ten minutes away, by whatever clock.
    assert_eq!(job.deadline.unwrap().0, world.now_ms() + 600_000);
    let attributes: Vec<_> = job
        .attributes
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(
        attributes,
        ["arco.tenant_id", "arco.workspace_id", "arco.run_id"]
    );
    world.stop_all().await;
}

#[tokio::test]
async fn clocks_may_differ_by_an_hour() {
    for ahead_ms in [3_600_000, -3_600_000] {
        let world = World::start().await;
        world.clock.set_wall_ahead(ahead_ms);
        let begun_ms = world.now_ms();
        let mut envelope = world.envelope(1, "echo");
        envelope["heartbeatIntervalMs"] = 30_000.into();
        let waiting = world.begin(&envelope);
        world.plane.expect("started").await.acknowledge(false);
        // The first try is lost; the token has not ended, though our clock may say so.
        world
            .plane
            .expect("completed")
            .await
            .answer(500, &[], &json!({}));
        world.plane.expect("completed").await.acknowledge(false);
        assert_eq!(answered(waiting).await.0, 200);
        let deadline = world.sandbox.jobs.borrow()[0].deadline.unwrap();
        assert_eq!(deadline.0, begun_ms + 600_000);
        world.stop_all().await;
    }
}

#[tokio::test]
async fn heartbeats_go_out_while_the_guest_runs_and_bring_a_cancel() {
    let world = World::start().await;
    let waiting = world.hanging(1).await;
    let heartbeat = world.plane.expect("heartbeat").await;
    assert_eq!(heartbeat.path, "/v1/tasks/task-1/heartbeat");
    assert_eq!(heartbeat.body["progressPct"], 50);
    assert_eq!(heartbeat.body["message"], "half");
    heartbeat.acknowledge(false);
    // Answers that are none, and lost ones, are made up for.
    world
        .plane
        .expect("heartbeat")
        .await
        .answer(200, &[], &json!("<html>"));
    world
        .plane
        .expect("heartbeat")
        .await
        .answer(200, &[], &json!({"shouldCancel": "yes"}));
    world
        .plane
        .expect("heartbeat")
        .await
        .answer(503, &[], &json!({}));
    drop(world.plane.expect("heartbeat").await);
    assert_eq!(*world.sandbox.stops.borrow(), []);
    world.plane.expect("heartbeat").await.acknowledge(true);
    assert_eq!(world.until_stopped().await, (7_000, Stop::Cancelled));
    let completed = world.plane.expect("completed").await;
    assert_eq!(completed.body["outcome"], "CANCELLED");
    completed.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn a_refused_start_executes_nothing() {
    for (status, answer, is_done) in [
        (409, 200, true),
        (410, 200, true),
        (401, 500, false),
        (404, 500, false),
    ] {
        let world = World::start().await;
        let waiting = world.begin(&world.envelope(1, "echo"));
        world.plane.expect("started").await.answer(
            status,
            &[],
            &json!({"error": "task_already_terminal", "message": "it is over"}),
        );
        assert_eq!(answered(waiting).await.0, answer, "{status}");
        assert!(world.sandbox.jobs.borrow().is_empty());
        assert!(!world.plane.has_more().await);
        if is_done {
            assert_eq!(world.dispatch(&world.envelope(1, "echo")).await.status, 200);
        }
        world.stop_all().await;
    }
}

#[tokio::test]
async fn a_heartbeat_that_says_it_is_over_stops_the_guest_at_once() {
    for status in [410, 409] {
        let world = World::start().await;
        let waiting = world.hanging(1).await;
        world.plane.expect("heartbeat").await.answer(
            status,
            &[],
            &json!({"error": "task_expired"}),
        );
        assert_eq!(world.until_stopped().await, (0, Stop::Disconnected));
        assert_eq!(answered(waiting).await.0, 200);
        assert!(
            !world.plane.has_more().await,
            "something is sent after {status}"
        );
        world.stop_all().await;
    }
}

#[tokio::test]
async fn a_heartbeat_that_is_refused_otherwise_is_made_up_for() {
    let world = World::start().await;
    let waiting = world.hanging(1).await;
    for (status, error) in [
        (400, "invalid_argument"),
        (401, "invalid_token"),
        (404, "task_not_found"),
        (413, ""),
    ] {
        let body = json!({"error": error, "message": "no"});
        world
            .plane
            .expect("heartbeat")
            .await
            .answer(status, &[], &body);
    }
    world.plane.expect("heartbeat").await.acknowledge(false);
    assert_eq!(*world.sandbox.stops.borrow(), []);
    world.plane.expect("heartbeat").await.acknowledge(true);
    world.plane.expect("completed").await.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn a_guest_is_stopped_when_no_heartbeat_is_accepted_in_time() {
    let world = World::start().await;
    let mut envelope = world.envelope(1, "hang");
    envelope["heartbeatTimeoutMs"] = 300.into();
    let waiting = world.begin(&envelope);
    world.plane.expect("started").await.acknowledge(false);
    let refusing = async {
        loop {
            world
                .plane
                .expect("heartbeat")
                .await
                .answer(503, &[], &json!({}));
        }
    };
    let stopped = tokio::select! {
        stopped = world.until_stopped() => stopped,
        () = refusing => unreachable!(),
    };
    assert_eq!(stopped, (0, Stop::Disconnected));
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn lost_callbacks_are_sent_again() {
    let world = World::start().await;
    let mut envelope = world.envelope(1, "fail");
    envelope["heartbeatIntervalMs"] = 30_000.into();
    let waiting = world.begin(&envelope);
    drop(world.plane.expect("started").await);
    world
        .plane
        .expect("started")
        .await
        .answer(503, &[("retry-after", "0")], &json!({}));
    world.plane.expect("started").await.acknowledge(false);
    let first = world.plane.expect("completed").await;
    let body = first.body.clone();
    let error = json!({"category": "TIMEOUT", "message": "no fuel left", "retryable": false});
    assert_eq!(
        (&body["outcome"], &body["error"]),
        (&json!("FAILED"), &error)
    );
    drop(first);
    let second = world.plane.expect("completed").await;
    assert_eq!(second.body, body, "a repetition differs");
    second.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn tasks_that_run_when_the_worker_stops_are_reported_as_retryable() {
    let world = World::start().await;
    let waiting = world.hanging(1).await;
    let plane = world.plane.clone();
    let stopping = world.stop();
    let reported = async {
        loop {
            let callback = plane.next().await;
            if callback.verb() == "completed" {
                let body = callback.body.clone();
                callback.acknowledge(false);
                break body;
            }
            callback.acknowledge(false);
        }
    };
    let ((), body) = tokio::join!(stopping, reported);
    assert_eq!(body["outcome"], "FAILED");
    assert_eq!(body["error"]["category"], "INFRASTRUCTURE");
    assert_eq!(body["error"]["retryable"], true);
    drop(waiting);
}
