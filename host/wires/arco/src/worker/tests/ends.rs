//! The end of a task, whatever stands between it and the control plane.

use serde_json::{Value, json};

use super::fixture::{World, answered};
use crate::tests::peer::Incoming;

/// Begins a task whose heartbeats are far apart, and returns its end, which is not answered yet.
async fn ended(world: &World, handler: &str) -> (super::fixture::DispatchReply, Incoming) {
    let mut envelope = world.envelope(1, handler);
    envelope["heartbeatIntervalMs"] = 30_000.into();
    let waiting = world.begin(&envelope);
    world.plane.expect("started").await.acknowledge(false);
    let completed = world.plane.expect("completed").await;
    (waiting, completed)
}

#[tokio::test]
async fn it_is_sent_again_after_answers_of_others() {
    let world = World::start().await;
    let (waiting, first) = ended(&world, "echo").await;
    let body = first.body.clone();
    first.answer(404, &[], "<html>nginx</html>");
    for (status, page) in [
        (401, "<html>sign in</html>"),
        (400, ""),
        (403, r#"{"message":"Forbidden"}"#),
        (405, "<html>nginx</html>"),
        (302, ""),
    ] {
        let again = world.plane.expect("completed").await;
        assert_eq!(again.body, body);
        again.answer(status, &[], page);
    }
    // An empty acknowledgement is one.
    world.plane.expect("completed").await.answer(204, &[], "");
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn it_is_sent_no_more_when_its_token_has_expired() {
    let world = World::start().await;
    let mut envelope = world.envelope(1, "echo");
    envelope["heartbeatIntervalMs"] = 30_000.into();
    envelope["tokenExpiresAt"] = "2027-01-15T08:00:20Z".into();
    let waiting = world.begin(&envelope);
    world.plane.expect("started").await.acknowledge(false);
    let mut sent = 0;
    let refusing = async {
        loop {
            let again = world.plane.expect("completed").await;
            sent += 1;
            again.answer(503, &[], "");
        }
    };
    tokio::select! {
        answer = answered(waiting) => assert_eq!(answer.0, 200),
        () = refusing => {}
    }
    assert!(sent > 2, "{sent}");
    world.stop_all().await;
}

/// Plays an end that is answered `status` and `body`, and returns the end that follows.
async fn replaced(handler: &str, status: u16, body: &str) -> Value {
    let world = World::start().await;
    let (waiting, first) = ended(&world, handler).await;
    first.answer(status, &[], body);
    let second = world.plane.expect("completed").await;
    let body = second.body.clone();
    second.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
    body
}

#[tokio::test]
async fn a_result_that_is_too_large_on_the_way_becomes_a_failure() {
    let body = replaced("echo", 413, "<html>Payload Too Large</html>").await;
    assert_eq!(body["outcome"], "FAILED");
    assert_eq!(
        body["error"],
        json!({
            "category": "USER_CODE",
            "message": "the result has 7 bytes, which is too large for the control plane",
            "retryable": false,
        })
    );
    assert_eq!(
        (&body["output"], &body["attemptId"]),
        (&Value::Null, &json!("att-1"))
    );
}

#[tokio::test]
async fn a_result_that_the_control_plane_refuses_becomes_a_failure() {
    let error = r#"{"error":"invalid_argument","message":"output: not known"}"#;
    for (status, body, why) in [
        (
            422,
            "output.rowCount: invalid type",
            "output.rowCount: invalid type",
        ),
        (400, error, "output: not known"),
    ] {
        let body = replaced("echo", status, body).await;
        assert_eq!(body["outcome"], "FAILED");
        assert_eq!(
            body["error"],
            json!({
                "category": "DATA_QUALITY",
                "message": format!("the control plane refuses the result: {why}"),
                "retryable": false,
            })
        );
        assert_eq!(body["output"], Value::Null);
    }
}

#[tokio::test]
async fn a_refusal_of_the_contract_ends_it() {
    for (handler, status, error) in [
        ("echo", 401, "invalid_token"),
        ("echo", 404, "task_not_found"),
        ("fail", 400, "invalid_argument"),
    ] {
        let world = World::start().await;
        let (waiting, completed) = ended(&world, handler).await;
        completed.answer(status, &[], &json!({"error": error, "message": "no"}));
        assert_eq!(answered(waiting).await.0, 200);
        assert!(!world.plane.has_more().await, "{status}");
        world.stop_all().await;
    }
}
