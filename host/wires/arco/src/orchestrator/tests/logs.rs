//! What workers report beside their outcomes: logs, and facts about themselves.

use host_core::cell::{LogLine, LogSource};
use host_core::job::State;
use host_core::outcome::WorkerReport;
use host_core::time::Time;
use serde_json::{Value, json};

use super::fixture::{Plane, Setup, World};

fn log(attempt: u64) -> Value {
    json!({
        "taskKey": "analytics.daily_sales",
        "attempt": attempt,
        "stdout": "one\ntwo\n",
        "stderr": "three",
    })
}

fn texts(lines: &[LogLine]) -> Vec<(LogSource, &str)> {
    let guests = lines.iter().filter(|line| line.source != LogSource::Host);
    guests
        .map(|line| (line.source, line.message.as_str()))
        .collect()
}

#[tokio::test]
async fn a_log_is_kept_with_its_attempt() {
    let world = World::start().await;
    for run in [None, Some("run-1")] {
        let attributes: Vec<_> = run.iter().map(|run| ("arco.run_id", *run)).collect();
        let id = world.plane.enqueue_with(&attributes);
        let task = world.taken().await;
        world.plane.started(&task).await.ok();
        world.plane.model.clock.pass(2_000);
        let succeeded = json!({"outcome": "SUCCEEDED"});
        world.plane.completed(&task, succeeded).await.ok();
        let run = run.map_or_else(|| id.to_string(), str::to_owned);
        let answer = world.plane.log(&run, Some("s3cret"), &log(1)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        let path = format!("/api/v1/jobs/{id}/logs");
        assert_eq!(answer.body, json!({"path": path, "sizeBytes": 13}));
        let lines = world.plane.logged(id);
        let expected = [
            (LogSource::Stdout, "one"),
            (LogSource::Stdout, "two"),
            (LogSource::Stderr, "three"),
        ];
        assert_eq!(texts(&lines), expected);
        assert_eq!(lines.last().unwrap().at_ms, 2_000);
    }
    world.stop().await;
}

/// It knows only what is stored: another node has sent the task, or this one before a restart.
#[tokio::test]
async fn a_log_of_a_run_is_kept_at_a_node_that_has_not_sent_the_task() {
    let world = World::start().await;
    let id = world.plane.enqueue_with(&[("arco.run_id", "run-1")]);
    let task = world.taken().await;
    world.plane.started(&task).await.ok();
    let other = Plane::start(&Setup::nowhere(), &world.plane.model);
    let succeeded = json!({"outcome": "SUCCEEDED"});
    for ends in [false, true] {
        if ends {
            world.plane.completed(&task, succeeded.clone()).await.ok();
        }
        let answer = other.log("run-1", Some("s3cret"), &log(1)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(texts(&other.logged(id)).len(), 6);
    for (run, attempt) in [("run-2", 1), ("run-1", 2)] {
        let unknown = other.log(run, Some("s3cret"), &log(attempt)).await;
        unknown.refused(404, "task_not_found");
    }
    let stranger = other.log("run-1", Some("other"), &log(1)).await;
    stranger.refused(401, "unauthorized");
    other.stop().await;
    world.stop().await;
}

#[tokio::test]
async fn a_log_must_be_of_a_known_attempt_and_come_from_its_worker() {
    let world = World::start().await;
    let (id, task) = world.begun().await;
    let run = id.to_string();
    for key in [None, Some("other"), Some(task.token.as_str())] {
        let answer = world.plane.log(&run, key, &log(1)).await;
        answer.refused(401, "unauthorized");
    }
    let path = format!("/api/v1/workspaces/default/runs/{run}/logs");
    for kind in ["application/json", "image/png"] {
        let headers = [("content-type", kind), ("authorization", "Bearer other")];
        let answer = world.plane.send(&path, &headers, "{").await;
        answer.refused(401, "unauthorized");
    }
    let key = Some("s3cret");
    let unknown = "0192f0c4-5b7a-7c3d-8e9f-000000000001";
    for run in [unknown, "run-1"] {
        world
            .plane
            .log(run, key, &log(1))
            .await
            .refused(404, "task_not_found");
    }
    world
        .plane
        .log(&run, key, &log(2))
        .await
        .refused(404, "task_not_found");
    let mut other = log(1);
    other["taskKey"] = "other".into();
    world
        .plane
        .log(&run, key, &other)
        .await
        .refused(404, "task_not_found");
    world
        .plane
        .log(&run, key, &log(0))
        .await
        .refused(400, "invalid_request");
    world
        .plane
        .log(&run, key, &json!({"attempt": 1}))
        .await
        .refused(422, "invalid_field");
    assert_eq!(texts(&world.plane.logged(id)), []);
    // An attempt that still runs has one, too.
    assert_eq!(world.plane.log(&run, key, &log(1)).await.status, 200);
    assert_eq!(texts(&world.plane.logged(id)).len(), 3);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_reports_its_start_in_the_log_and_its_end_with_the_attempt() {
    let world = World::start().await;
    let (id, task) = world.begun().await;
    // A repetition is not noted.
    world.plane.started(&task).await.ok();
    let ended = json!({
        "outcome": "FAILED",
        "completedAt": "2020-01-01T00:00:05Z",
        "metrics": {"cpuTimeMs": 3, "ioReadBytes": 10, "ioWriteBytes": 20},
    });
    world.plane.completed(&task, ended).await.ok();
    let lines = world.plane.logged(id);
    let render = |line: &LogLine| {
        let fields = line
            .fields
            .iter()
            .map(|(name, value)| format!(" {name}={}", value.plain()));
        line.message.clone() + &fields.collect::<String>()
    };
    let shown: Vec<_> = lines.iter().map(render).collect();
    assert_eq!(
        shown,
        ["the worker has begun worker_id=w-1 started_at=2020-01-01T00:00:00Z",]
    );
    let reported = world
        .plane
        .model
        .look(id, |job| job.attempts[0].worker.clone());
    let expected = WorkerReport {
        name: Some("w-1".to_owned()),
        ended_at: Time::parse_rfc3339("2020-01-01T00:00:05Z"),
        read_bytes: Some(10),
        written_bytes: Some(20),
    };
    assert_eq!(reported.as_deref(), Some(&expected));
    world.stop().await;
}

#[tokio::test]
async fn the_final_state_is_that_of_the_job() {
    let world = World::start().await;
    let (id, task) = world.begun().await;
    world.plane.model.cancel(id, None).unwrap();
    let failed = json!({"outcome": "FAILED", "error": {"category": "USER_CODE", "message": "x"}});
    for _ in 0..2 {
        let answer = world.plane.completed(&task, failed.clone()).await;
        assert_eq!(answer.ok()["finalState"], "CANCELLED");
        assert_eq!(world.plane.model.state(id), State::Cancelled);
    }
    world.stop().await;
}

#[tokio::test]
async fn progress_is_any_number() {
    let world = World::start().await;
    let (id, task) = world.begun().await;
    for (stated, expected) in [
        ("45.5", 46.0),
        ("101", 100.0),
        ("-3", 0.0),
        ("1e9", 100.0),
        ("7", 7.0),
    ] {
        let percent: Value = serde_json::from_str(stated).unwrap();
        let body = json!({"attempt": 1, "progressPct": percent});
        world.plane.call(&task, "heartbeat", &body).await.ok();
        let progress = world
            .plane
            .model
            .look(id, |job| job.progress.clone())
            .unwrap();
        assert_eq!(progress.percent, Some(expected), "{stated}");
    }
    world.stop().await;
}
