//! Invalid callbacks: each gets its answer, and none changes a job.

use host_core::job::State;
use serde_json::{Value, json};

use super::fixture::{KEY, Task, World};
use crate::orchestrator::envelope;
use crate::token::{Scope, Tokens, key::Keys};

fn scope(task: &Task) -> Scope {
    let job = crate::task_id::job(&task.id).unwrap();
    envelope::scope(job, 1, &[])
}

#[tokio::test]
async fn a_callback_needs_the_token_of_its_task_and_attempt() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    let (_, other) = world.begun().await;
    let path = format!("/v1/tasks/{id}/heartbeat");
    let body = r#"{"attempt":1,"workerId":"w"}"#;
    let token = &task.token;
    let bearer = format!("Bearer {token}");
    let now = host_core::port::Clock::now(&*plane.model.clock);
    let signed = |change: fn(&mut Scope)| {
        let mut scope = scope(&task);
        change(&mut scope);
        let (token, _) = plane.tokens.sign(now, &scope, 3_600);
        format!("Bearer {}", token.expose())
    };
    let foreign = Tokens::new(&Keys::new(&[7; 32], None).unwrap());
    let (forged, _) = foreign.sign(now, &scope(&task), 3_600);
    let refused = [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Bearer  {token}"),
        format!("Bearer {token} "),
        format!("Bearer {token}, {token}"),
        format!("Basic {token}"),
        token.clone(),
        format!("Bearer {}", other.token),
        format!("Bearer {}", forged.expose()),
        signed(|scope| scope.tenant = "other".to_owned()),
        signed(|scope| scope.workspace = "other".to_owned()),
        signed(|scope| scope.run = "other".to_owned()),
        signed(|scope| scope.attempt = 2),
        signed(|scope| scope.job.0 = uuid::Uuid::from_u128(5)),
    ];
    for value in &refused {
        let answer = plane.send(&path, &[("authorization", value)], body).await;
        answer.refused(401, "unauthorized");
        assert_eq!(answer.headers["www-authenticate"], "Bearer");
        assert!(
            !answer.body.to_string().contains(token),
            "the token is shown"
        );
    }
    let missing = plane.send(&path, &[], body).await;
    missing.refused(401, "unauthorized");
    let twice = [
        ("authorization", bearer.as_str()),
        ("authorization", bearer.as_str()),
    ];
    plane
        .send(&path, &twice, body)
        .await
        .refused(401, "unauthorized");
    let in_query = format!("{path}?access_token={token}&token={token}");
    plane
        .send(&in_query, &[], body)
        .await
        .refused(401, "unauthorized");
    // The body names another attempt than the token.
    let answer = plane
        .send(&path, &[("authorization", &bearer)], r#"{"attempt":2}"#)
        .await;
    answer.refused(401, "unauthorized");
    let lower = format!("bearer {token}");
    plane
        .send(&path, &[("authorization", &lower)], body)
        .await
        .ok();
    plane.model.clock.pass(3_600_000 + 30_000);
    plane.heartbeat(&task).await.refused(401, "unauthorized");
    world.stop().await;
}

#[tokio::test]
async fn a_body_is_judged_after_its_token() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    let (_, other) = world.begun().await;
    let [own, other] = [&task, &other].map(|task| format!("Bearer {}", task.token));
    let large = "x".repeat(17 << 20);
    let json = ("content-type", "application/json");
    let requests: [(&[(&str, &str)], &str, u16); 5] = [
        (&[json], "{", 400),
        (&[json], r#"{"attempt":0}"#, 400),
        (&[json], &large, 413),
        (&[("content-type", "text/plain")], "{}", 415),
        (&[("content-encoding", "gzip")], "{}", 415),
    ];
    for verb in ["started", "heartbeat", "completed"] {
        let path = format!("/v1/tasks/{id}/{verb}");
        for (headers, body, status) in requests {
            let with = |token| [headers, &[("authorization", token)]].concat();
            for token in ["Bearer x", other.as_str()] {
                let answer = plane.send(&path, &with(token), body).await;
                answer.refused(401, "unauthorized");
            }
            let answer = plane.send(&path, &with(own.as_str()), body).await;
            assert_eq!(answer.status, status, "{verb}: {answer:?}");
        }
    }
    let unknown = "/v1/tasks/0192f0c4-5b7a-7c3d-8e9f-000000000001/started";
    plane
        .send(unknown, &[], "{")
        .await
        .refused(404, "task_not_found");
    assert_eq!(plane.model.state(id), State::Running);
    world.stop().await;
}

#[tokio::test]
async fn the_first_error_is_named() {
    let world = World::start().await;
    let plane = &world.plane;
    let (_, task) = world.begun().await;
    let unknown = Task {
        id: "0192f0c4-5b7a-7c3d-8e9f-000000000001".to_owned(),
        ..task.clone()
    };
    let zero = json!({"attempt": 0, "workerId": "w"});
    plane
        .call(&unknown, "heartbeat", &zero)
        .await
        .refused(404, "task_not_found");
    for attempt in [
        json!(0),
        json!(-1),
        json!(null),
        json!("1"),
        json!(1.5),
        json!(5_000_000_000_u64),
    ] {
        let body = json!({"attempt": attempt, "workerId": "w"});
        plane
            .call(&task, "heartbeat", &body)
            .await
            .refused(400, "invalid_request");
    }
    plane
        .call(&task, "heartbeat", &json!({}))
        .await
        .refused(400, "invalid_request");
    plane
        .heartbeat(&unknown)
        .await
        .refused(404, "task_not_found");
    let unauthorized = Task {
        token: "x".to_owned(),
        ..task.clone()
    };
    let bad = json!({"attempt": 1, "outcome": "nonsense"});
    plane
        .call(&unauthorized, "completed", &bad)
        .await
        .refused(401, "unauthorized");
    plane
        .call(&task, "completed", &bad)
        .await
        .refused(422, "invalid_field");
    let body = json!({"attempt": 1, "attemptId": "att-456"});
    let answer = plane.call(&task, "heartbeat", &body).await;
    let body = answer.refused(409, "attempt_id_mismatch");
    assert_eq!(body["expectedAttemptId"], format!("{}:1", task.id));
    assert_eq!(
        (&body["receivedAttemptId"], &body["state"]),
        (&json!("att-456"), &json!("RUNNING"))
    );
    world.stop().await;
}

#[tokio::test]
async fn invalid_fields_are_refused() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    let error = |error: Value| json!({"outcome": "FAILED", "error": error});
    let succeeded = |metrics: Value| json!({"outcome": "SUCCEEDED", "metrics": metrics});
    let bodies = [
        json!({}),
        json!({"outcome": null}),
        json!({"outcome": 7}),
        json!({"outcome": "succeeded"}),
        json!({"outcome": "DONE"}),
        json!({"outcome": "SUCCEEDED", "error": {"category": "USER_CODE", "message": "x"}}),
        error(json!({"category": "user_code", "message": "x"})),
        error(json!({"category": "COSMIC", "message": "x"})),
        error(json!({"message": "x"})),
        error(json!("x")),
        error(json!({"category": "TIMEOUT", "message": "x", "retryable": "yes"})),
        succeeded(json!({"cpuTimeMs": -1})),
        succeeded(json!({"cpuTimeMs": 1e308})),
        succeeded(json!({"peakMemoryBytes": 1.5})),
        succeeded(json!([1])),
        succeeded(json!("much")),
    ];
    for body in bodies {
        let shown = body.to_string();
        let answer = plane.completed(&task, body).await;
        assert_eq!(answer.status, 422, "{shown}: {answer:?}");
        answer.refused(422, "invalid_field");
    }
    for percent in [json!("45"), json!([45]), json!(true)] {
        let body = json!({"attempt": 1, "progressPct": percent});
        plane
            .call(&task, "heartbeat", &body)
            .await
            .refused(422, "invalid_field");
    }
    assert_eq!(plane.model.state(id), State::Running);
    let long = "x".repeat(100_000);
    let body = error(
        json!({"category": "USER_CODE", "message": long, "stackTrace": long, "retryable": false}),
    );
    plane.completed(&task, body.clone()).await.ok();
    plane.completed(&task, body).await.ok();
    let failure = plane.model.kept(id).unwrap().job.failure.unwrap();
    let stack = failure.stack.unwrap();
    assert_eq!(stack.len(), 64 << 10);
    assert!(stack.ends_with("… [cut]") && failure.message.ends_with("… [cut]"));
    world.stop().await;
}

#[tokio::test]
async fn bodies_are_small_json_objects() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    let bearer = format!("Bearer {}", task.token);
    let path = format!("/v1/tasks/{id}/completed");
    let authorized = [("authorization", bearer.as_str())];
    let large = format!(
        r#"{{"attempt":1,"outcome":"SUCCEEDED","output":"{}"}}"#,
        "x".repeat(17 << 20)
    );
    plane
        .send(&path, &authorized, large)
        .await
        .refused(413, "body_too_large");
    for body in [
        &b""[..],
        b"{",
        b"[]",
        b"null",
        b"\"attempt\"",
        b"{\"attempt\":1,\"attempt\":1}",
        b"{\"attempt\":1}x",
        b"{\"attempt\":1,\"message\":\"\xff\"}",
    ] {
        let answer = plane.send(&path, &authorized, body).await;
        assert_eq!(answer.status, 400, "{}", String::from_utf8_lossy(body));
        answer.refused(400, "invalid_request");
    }
    // One value under both of its names.
    let both = r#"{"attempt":1,"outcome":"SUCCEEDED","output":1,"result":1}"#;
    let answer = plane.send(&path, &authorized, both).await;
    assert!([400, 422].contains(&answer.status), "{answer:?}");
    for (name, value) in [
        ("content-type", "text/plain"),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-encoding", "gzip"),
    ] {
        let headers = [authorized[0], (name, value)];
        let answer = plane.send(&path, &headers, "{}").await;
        answer.refused(415, "unsupported_media_type");
    }
    assert_eq!(plane.model.state(id), State::Running);
    world.stop().await;
}

#[tokio::test]
async fn a_path_must_name_a_task() {
    let world = World::start().await;
    let plane = &world.plane;
    let (id, task) = world.begun().await;
    let bearer = format!("Bearer {}", task.token);
    let authorized = [("authorization", bearer.as_str())];
    let body = r#"{"attempt":1}"#;
    let long = "a".repeat(8_192);
    let upper = id.to_string().to_uppercase();
    for name in [
        "%2e%2e",
        "..",
        "%00",
        "%252e%252e",
        "raw.ok",
        "ct1_",
        long.as_str(),
        upper.as_str(),
    ] {
        for prefix in ["/v1", "/api/v1"] {
            let path = format!("{prefix}/tasks/{name}/heartbeat");
            let answer = plane.send(&path, &authorized, body).await;
            assert_eq!(answer.status, 404, "{path}");
        }
    }
    for path in [
        format!("/v1/tasks/{id}"),
        format!("/v1/tasks/{id}/stopped"),
        format!("/v1/tasks/{id}/heartbeat/x"),
    ] {
        plane
            .send(&path, &authorized, body)
            .await
            .refused(404, "not_found");
    }
    // One level of escapes is undone, as everywhere.
    let escaped = id.to_string().replace('-', "%2d");
    let path = format!("/v1/tasks/{escaped}/heartbeat");
    plane.send(&path, &authorized, body).await.ok();
    world.stop().await;
}

#[test]
fn the_key_of_these_tests_is_long_enough() {
    assert!(Keys::new(KEY, None).is_some());
}
