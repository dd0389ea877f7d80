//! Incoming dispatches: secrets, repetitions, limits, and origins that are not allowed.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use host_wire_kit::http_client::BaseUrl;
use serde_json::json;
use tokio::net::TcpListener;

use super::fixture::{World, answered};
use crate::messages::Secret;
use crate::settings::WorkerConfig;
use crate::tests::peer::Peer;

#[tokio::test]
async fn a_dispatch_presents_the_secret() {
    let world = World::start().await;
    let body = "{}".to_owned();
    let refused: &[&[(&'static str, &str)]] = &[
        &[],
        &[("x-arco-dispatch-secret", "")],
        &[("x-arco-dispatch-secret", "dsecre")],
        &[("x-arco-dispatch-secret", "dsecret2")],
        &[
            ("x-arco-dispatch-secret", "other"),
            ("authorization", "Bearer dsecret"),
        ],
        &[("authorization", "dsecret")],
        &[("authorization", "Basic dsecret")],
        &[("authorization", "Bearer dsecret ")],
        &[("authorization", "Bearer")],
    ];
    for headers in refused {
        let answer = world.send(headers, body.clone()).await;
        // Blanks around a header's value do not count.
        let is_trimmed = headers.iter().any(|(_, value)| value.ends_with("secret "));
        assert_eq!(
            answer.status,
            if is_trimmed { 400 } else { 401 },
            "{headers:?}"
        );
    }
    for headers in [
        [("x-arco-dispatch-secret", "dsecret")],
        [("authorization", "Bearer dsecret")],
        [("authorization", "bearer dsecret")],
    ] {
        let answer = world.send(&headers, body.clone()).await;
        assert_eq!(answer.status, 400, "{headers:?}");
    }
    let codes = world.refusals.codes.borrow().clone();
    assert_eq!(
        codes
            .iter()
            .filter(|code| **code == "E_DISPATCH_AUTH")
            .count(),
        8
    );
    world.stop_all().await;
}

#[tokio::test]
async fn a_proxy_may_pass_on_its_name() {
    let world = World::start().await;
    for (host, status) in [
        ("tasks.example", 400),
        ("tasks.example:8443", 400),
        ("localhost", 400),
        ("other.example", 403),
    ] {
        let headers = [("x-arco-dispatch-secret", "dsecret"), ("host", host)];
        let answer = world.send(&headers, "{}".to_owned()).await;
        assert_eq!(answer.status, status, "{host}");
    }
    world.stop_all().await;
}

#[tokio::test]
async fn a_repeated_dispatch_is_executed_once() {
    let world = World::start().await;
    let envelope = world.envelope(1, "hang");
    let waiting = world.hanging(1).await;
    let again = world.dispatch(&envelope).await;
    assert_eq!(
        (again.status, again.retry_after),
        (503, Some(Duration::from_secs(1)))
    );
    world.plane.expect("heartbeat").await.acknowledge(true);
    world.plane.expect("completed").await.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    let again = world.dispatch(&envelope).await;
    assert_eq!((again.status, &again.body[..]), (200, &b"ok"[..]));
    assert_eq!(world.sandbox.jobs.borrow().len(), 1);
    assert!(!world.plane.has_more().await);
    // The next attempt is another dispatch.
    let mut next = world.envelope(1, "echo");
    next["attempt"] = 2.into();
    let waiting = world.begin(&next);
    world.plane.expect("started").await.acknowledge(false);
    world.plane.expect("completed").await.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    world.stop_all().await;
}

#[tokio::test]
async fn no_more_tasks_run_than_configured() {
    let world = World::start().await;
    let begin = |number| world.begin(&world.envelope(number, "hang"));
    let (first, second) = (begin(1), begin(2));
    let started = [
        world.plane.expect("started").await,
        world.plane.expect("started").await,
    ];
    for started in started {
        started.acknowledge(false);
    }
    let mut third = None;
    // Heartbeats of the others come in between.
    for _ in 0..3 {
        let answer = world.dispatch(&world.envelope(3, "echo")).await;
        third = Some((answer.status, answer.retry_after));
    }
    assert_eq!(third, Some((503, Some(Duration::from_secs(1)))));
    assert_eq!(world.sandbox.jobs.borrow().len(), 2);
    drop((first, second));
    world.stop_unanswered().await;
}

#[tokio::test]
async fn callbacks_go_to_allowed_origins_only() {
    let elsewhere = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = elsewhere.local_addr().unwrap().port();
    let world = World::start().await;
    let own = world.plane.address.port();
    for url in [
        format!("http://127.0.0.1:{port}"),
        format!("http://localhost:{own}"),
        format!("http://[::1]:{own}"),
        format!("http://[::ffff:127.0.0.1]:{own}"),
        format!("http://127.0.0.1:{own}@127.0.0.1:{port}"),
        format!("http://api@127.0.0.1:{port}"),
        format!("http://127.0.0.1:{own}\\@127.0.0.1:{port}"),
        format!("http://127.0.0.1.:{own}"),
        format!("http://127.1:{own}"),
        format!("http://2130706433:{own}"),
        format!("http://0x7f000001:{own}"),
        format!("http://0177.0.0.1:{own}"),
        format!("https://127.0.0.1:{own}"),
        format!("//127.0.0.1:{own}"),
        format!("http://127.0.0.1:{own}/a/../b"),
        format!("http://127.0.0.1:{own}?x"),
        format!("http://127.0.0.1:{own}#x"),
        "http://169.254.169.254".to_owned(),
        "http://metadata.google.internal".to_owned(),
        String::new(),
    ] {
        let mut envelope = world.envelope(1, "echo");
        envelope["callbackBaseUrl"] = url.as_str().into();
        let answer = world.dispatch(&envelope).await;
        assert_eq!(answer.status, 400, "{url}");
        let words = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(words.starts_with("callbackBaseUrl"), "{words}");
    }
    assert!(
        world
            .refusals
            .codes
            .borrow()
            .iter()
            .all(|code| *code == "E_ORIGIN")
    );
    assert!(world.sandbox.jobs.borrow().is_empty() && !world.plane.has_more().await);
    // A redirect to there is not followed either.
    let waiting = world.begin(&world.envelope(2, "echo"));
    let location = format!("http://127.0.0.1:{port}/v1/tasks/task-2/started");
    world
        .plane
        .expect("started")
        .await
        .answer(307, &[("location", &location)], &json!({}));
    // It is no refusal: the start is sent to the same place again.
    world.plane.expect("started").await.acknowledge(false);
    world.plane.expect("completed").await.acknowledge(false);
    assert_eq!(answered(waiting).await.0, 200);
    let error = elsewhere.into_std().unwrap().accept().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "unexpected connection");
    world.stop_all().await;
}

#[tokio::test]
async fn a_log_goes_to_the_path_of_the_current_contract() {
    let plane = Arc::new(Peer::start().await);
    let origin: BaseUrl = format!("http://{}", plane.address).parse().unwrap();
    let config = WorkerConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        secret: Secret("dsecret".to_owned()),
        origins: vec![origin.origin().clone()],
        concurrency: 1,
        logs_token: Some(Secret("api".to_owned())),
        hosts: Vec::new(),
    };
    let world = World::start_as(plane, None, config).await;
    let waiting = world.begin(&world.envelope(1, "echo"));
    world.plane.expect("started").await.acknowledge(false);
    world.plane.expect("completed").await.acknowledge(false);
    let logs = world.plane.expect("logs").await;
    assert_eq!(logs.path, "/api/v1/workspaces/w/runs/run-1/logs");
    assert_eq!(logs.headers["authorization"], "Bearer api");
    let expected = json!({"taskKey": "echo", "attempt": 1, "stdout": "", "stderr": ""});
    assert_eq!(logs.body, expected);
    logs.answer(200, &[], &json!({"path": "x", "sizeBytes": 0}));
    assert_eq!(answered(waiting).await.0, 200);
    assert!(world.sandbox.jobs.borrow()[0].wants_log);
    world.stop_all().await;
}
