//! Lines of jobs: each is accepted or refused alone.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use futures_util::{StreamExt as _, stream};
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::access::{Guarded, proof};
use super::fixture::{Answer, Host};
use crate::api::enqueue::LINE_REQUESTS_MAX;

const JOBS: &str = "/api/v1/jobs";

const LINE: &[u8] = b"{\"handler\":\"noop\"}\n";

/// A request whose lines are sent one by one.
struct Sending {
    lines: mpsc::Sender<&'static [u8]>,
    status: StatusCode,
    answer: Body,
}

impl Sending {
    /// Begins a request with `first`, without a token if it is empty. Returns once a line is answered.
    async fn open(router: &Router, token: &str, first: &'static [u8]) -> Self {
        let (lines, mut sent) = mpsc::channel(1);
        lines.send(first).await.unwrap();
        let body = stream::poll_fn(move |cx| sent.poll_recv(cx)).map(Ok::<_, Infallible>);
        let mut request = HttpRequest::post(JOBS)
            .header("host", "127.0.0.1:7700")
            .header("content-type", "application/x-ndjson");
        if !token.is_empty() {
            let (name, value) = proof(token);
            request = request.header(name, value);
        }
        let request = request.body(Body::from_stream(body)).unwrap();
        let service = TowerToHyperService::new(router.clone());
        let answer = service.call(request).await.unwrap();
        Self {
            lines,
            status: answer.status(),
            answer: answer.into_body(),
        }
    }

    /// Returns the next answer, `None` at the end.
    async fn next(&mut self) -> Option<Value> {
        let line = self.answer.frame().await?.unwrap().into_data().unwrap();
        Some(serde_json::from_slice(&line).unwrap())
    }
}

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
    let first = b"{\"handler\":\"noop\"}\n{\"handler\"";
    let mut sending = Sending::open(&host.router, "", first).await;
    for rest in [&b":\"noop\"}\n"[..], LINE] {
        let accepted = sending.next().await.unwrap();
        assert_eq!(accepted["existing"], false, "{accepted}");
        sending.lines.send(rest).await.unwrap();
    }
    let Sending { lines, answer, .. } = sending;
    drop(lines);
    let rest = answer.collect().await.unwrap().to_bytes();
    assert_eq!(rest.split(|byte| *byte == b'\n').count(), 2);
}

#[tokio::test]
async fn a_revoked_token_enqueues_no_more_lines() {
    let guarded = Guarded::start().await;
    let token = guarded
        .make(&json!({"name": "p", "role": "producer"}))
        .await;
    let mut sending = Sending::open(&guarded.host.router, &token, LINE).await;
    assert_eq!(sending.next().await.unwrap()["existing"], false);
    let revoke = format!("/api/v1/tokens/{}", &token[4..16]);
    let revoked = guarded.send(&guarded.admin, ("DELETE", &revoke), None);
    revoked.await.is(StatusCode::OK);
    // What arrives after that is not read.
    sending.lines.send(LINE).await.unwrap();
    assert_eq!(sending.next().await.unwrap()["code"], "unauthenticated");
    assert_eq!(sending.next().await, None);
    let route = ("GET", "/api/v1/queues/default");
    let queue = guarded.send(&guarded.admin, route, None).await;
    assert_eq!(queue.is(StatusCode::OK).body["counts"]["available"], 1);
}

#[tokio::test]
async fn only_so_many_requests_with_lines_are_open_at_once() {
    let host = Host::start().await;
    let open = || Sending::open(&host.router, "", LINE);
    let mut all = Vec::new();
    for _ in 0..LINE_REQUESTS_MAX {
        all.push(open().await);
    }
    assert!(all.iter().all(|it| it.status == StatusCode::OK));
    assert_eq!(open().await.status, StatusCode::SERVICE_UNAVAILABLE);
    host.enqueue(r#"{"handler":"noop"}"#).await;
    all.pop();
    assert_eq!(open().await.status, StatusCode::OK);
}

#[tokio::test]
async fn one_token_leaves_requests_with_lines_for_others() {
    let guarded = Guarded::start().await;
    let body = json!({"name": "p", "role": "producer"});
    let (one, two) = (guarded.make(&body).await, guarded.make(&body).await);
    let open = |token| Sending::open(&guarded.host.router, token, LINE);
    let mut all = Vec::new();
    for token in [&one, &two] {
        for _ in 0..LINE_REQUESTS_MAX / 2 {
            all.push(open(token).await);
        }
        assert!(all.iter().all(|it| it.status == StatusCode::OK));
        assert_eq!(open(token).await.status, StatusCode::TOO_MANY_REQUESTS);
    }
    all.remove(0);
    assert_eq!(open(&one).await.status, StatusCode::OK);
    // They are no streams of events.
    assert_eq!(
        guarded.open(&one, "/api/v1/events").await.status(),
        StatusCode::OK
    );
}
