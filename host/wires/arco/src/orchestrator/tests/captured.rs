//! The callbacks of a real worker, replayed with our ids and tokens and otherwise unchanged.

use serde_json::Value;

use super::fixture::{Answer, Plane, Task, World};

const CALLBACKS: &str = include_str!("../../../tests/captures/callbacks.jsonl");

struct Captured {
    verb: String,
    body: Value,
    status: u16,
    answer: Value,
}

/// The callbacks of one run, in order.
fn of_run(run: &str) -> Vec<Captured> {
    let lines = CALLBACKS.lines().map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (request, response) = (&line["request"], &line["response"]);
        let verb = text(&request["path"])
            .rsplit('/')
            .next()
            .unwrap()
            .to_owned();
        (
            text(&request["headers"]["Authorization"]),
            Captured {
                verb,
                body: serde_json::from_str(&text(&request["body"])).unwrap(),
                status: u16::try_from(response["status"].as_u64().unwrap()).unwrap(),
                answer: serde_json::from_str(&text(&response["body"])).unwrap(),
            },
        )
    });
    let token = format!("Bearer tok-{run}");
    lines
        .filter(|(its, _)| *its == token)
        .map(|(_, it)| it)
        .collect()
}

async fn replay(plane: &Plane, task: &Task, captured: &Captured) -> Answer {
    let mut body = captured.body.clone();
    body["attemptId"] = format!("{}:1", task.id).into();
    let path = format!("/api/v1/tasks/{}/{}", task.id, captured.verb);
    let bearer = format!("Bearer {}", task.token);
    plane
        .send(&path, &[("authorization", &bearer)], body.to_string())
        .await
}

/// Checks that our answer has the status of the captured one, and its fields but for times.
fn assert_alike(answer: &Answer, captured: &Captured) {
    assert_eq!(answer.status, captured.status, "{answer:?}");
    for (field, value) in captured.answer.as_object().unwrap() {
        let ours = &answer.body[field];
        match field.as_str() {
            "serverTime" | "message" => assert!(ours.is_string(), "{field}"),
            _ => assert_eq!(ours, value, "{field}"),
        }
    }
}

#[tokio::test]
async fn runs_that_end_by_themselves() {
    let world = World::start().await;
    for run in ["run-ok", "run-boom", "run-missing"] {
        let (_, task) = world.dispatched().await;
        let captured = of_run(run);
        assert_eq!(captured.len(), 2, "{run}");
        for captured in &captured {
            assert_alike(&replay(&world.plane, &task, captured).await, captured);
        }
        // The same words again.
        assert_alike(
            &replay(&world.plane, &task, &captured[1]).await,
            &captured[1],
        );
    }
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_was_cancelled_before_it_began() {
    let world = World::start().await;
    let (id, task) = world.dispatched().await;
    world.plane.model.cancel(id, None).unwrap();
    let captured = of_run("run-terminal");
    assert_eq!(captured.len(), 1);
    assert_alike(
        &replay(&world.plane, &task, &captured[0]).await,
        &captured[0],
    );
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_ignores_its_cancel() {
    let world = World::start().await;
    let (id, task) = world.dispatched().await;
    let captured = of_run("run-cancel");
    assert_eq!(captured.len(), 4);
    for (number, captured) in captured.iter().enumerate() {
        if number == 1 {
            world.plane.model.cancel(id, None).unwrap();
        }
        assert_alike(&replay(&world.plane, &task, captured).await, captured);
    }
    world.stop().await;
}

#[tokio::test]
async fn a_run_that_was_given_up() {
    let world = World::start().await;
    let (id, task) = world.dispatched().await;
    let captured = of_run("run-gone");
    assert_eq!(captured.len(), 4);
    assert_alike(
        &replay(&world.plane, &task, &captured[0]).await,
        &captured[0],
    );
    world.plane.model.cancel(id, None).unwrap();
    world.plane.model.clock.pass(52_000);
    world.plane.model.tick();
    assert_alike(
        &replay(&world.plane, &task, &captured[1]).await,
        &captured[1],
    );
    assert_alike(
        &replay(&world.plane, &task, &captured[2]).await,
        &captured[2],
    );
    // The scripted control plane took this one; a result that comes too late is refused.
    let answer = replay(&world.plane, &task, &captured[3]).await;
    assert_eq!(
        answer.refused(409, "task_already_terminal")["state"],
        "FAILED"
    );
    world.stop().await;
}
