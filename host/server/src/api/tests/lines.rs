//! Lines of jobs: each is accepted or refused alone.

use std::convert::Infallible;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fixture::{Answer, Host};

const JOBS: &str = "/api/v1/jobs";

fn lines_of(answer: &Answer) -> Vec<Value> {
    let lines = answer.text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn lines_are_accepted_or_refused_each_alone_and_answered_in_their_order() {
    let host = Host::start().await;
    let send = |text: String| host.send("POST", JOBS, "application/x-ndjson; charset=utf-8", text);
    let keyed = r#"{"handler":"noop","unique":{"key":"k"}}"#;
    let long = format!(r#"{{"handler":"noop","params":"{}"}}"#, "x".repeat(1 << 20));
    let text = format!(
        "{keyed}\r\n\n{{\"handler\":\"nop\"}}\n{{\n[{keyed}]\n  \n{keyed}\n{{\"handler\":\"noop\"}}"
    );
    let answer = send(text).await.is(StatusCode::OK);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    let answers = lines_of(&answer);
    let codes: Vec<_> = answers.iter().map(|it| it["code"].as_str()).collect();
    let (unknown, invalid) = (Some("handler_not_found"), Some("invalid_json"));
    assert_eq!(
        codes,
        [None, unknown, invalid, Some("invalid_request"), None, None]
    );
    assert_eq!(answers[4]["id"], answers[0]["id"]);
    assert_eq!(
        (&answers[0]["existing"], &answers[4]["existing"]),
        (&json!(false), &json!(true))
    );
    let many = format!("{}\n", json!({"handler": "noop", "queue": "many"})).repeat(1_000);
    let answers = lines_of(&send(many).await);
    assert_eq!(answers.len(), 1_000);
    assert_eq!(answers[999]["existing"], false, "{}", answers[999]);
    let queue = host.get("/api/v1/queues/many").await.body;
    assert_eq!(queue["counts"]["available"], 1_000);
    // What cannot be a line ends the request.
    let answers = lines_of(&send(format!("{keyed}\n{long}\n{keyed}\n")).await);
    assert_eq!(answers.len(), 2, "{answers:?}");
    assert_eq!(answers[1]["code"], "body_too_large");
    assert_eq!(
        answers[1]["detail"],
        "line: the body has more than 1048576 bytes"
    );
}

#[tokio::test]
async fn a_line_is_answered_before_the_next_is_sent() {
    let host = Host::start().await;
    let (sender, mut lines) = mpsc::channel::<&[u8]>(1);
    let body = stream::poll_fn(move |cx| lines.poll_recv(cx)).map(Ok::<_, Infallible>);
    let request = HttpRequest::post(JOBS)
        .header("host", "127.0.0.1:7700")
        .header("content-type", "application/x-ndjson")
        .body(Body::from_stream(body))
        .unwrap();
    sender
        .send(b"{\"handler\":\"noop\"}\n{\"handler\"")
        .await
        .unwrap();
    let service = TowerToHyperService::new(host.router.clone());
    let mut answer = service.call(request).await.unwrap().into_body();
    for rest in [&b":\"noop\"}\n"[..], b"{\"handler\":\"noop\"}\n"] {
        let line = answer.frame().await.unwrap().unwrap().into_data().unwrap();
        let accepted: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(accepted["existing"], false, "{accepted}");
        sender.send(rest).await.unwrap();
    }
    drop(sender);
    assert_eq!(
        answer
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .split(|byte| *byte == b'\n')
            .count(),
        2
    );
}
