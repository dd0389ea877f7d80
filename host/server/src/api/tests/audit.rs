//! What the audit has: an entry for each kind of change, before what no command changes, and one for each denial.

use std::sync::Arc;

use axum::http::StatusCode;
use host_core::access::Access;
use host_http::door::Door;
use host_http::route::{Group, Route};
use serde_json::{Value, json};

use super::fixture::Host;
use super::nodes::{Two, alone};
use super::sample_executors::Sample;
use crate::api::ports::Nodes as _;
use crate::executors::{Executors, Routes};

const NODE: &str = "node 00000001-0000-0000-0000-000000000000";

/// Returns the entries with a verb: object, detail and outcome of each.
async fn entries(host: &Host, verb: &str) -> Vec<[String; 3]> {
    let page = host.get(&format!("/api/v1/audit?verb={verb}")).await;
    let items = page.is(StatusCode::OK).body["items"].clone();
    let text = |record: &Value, field: &str| record[field].as_str().unwrap_or_default().to_owned();
    let entry =
        |item: &Value| ["object", "detail", "outcome"].map(|field| text(&item["record"], field));
    items.as_array().unwrap().iter().map(entry).collect()
}

/// Makes a change, and checks that it has one entry more, with this object, and a detail that has this text.
async fn change(
    host: &Host,
    (method, path, body): (&str, &str, &str),
    (verb, object, detail): (&str, &str, &str),
) {
    let before = entries(host, verb).await.len();
    let answer = host
        .send(method, path, "application/json", body.to_owned())
        .await;
    let context = format!("{method} {path}");
    assert!([200, 201].contains(&answer.status), "{context}: {answer:?}");
    let all = entries(host, verb).await;
    let [its_object, its_detail, outcome] = all.last().unwrap();
    assert_eq!(all.len(), before + 1, "{context}");
    let found = (its_object.as_str(), outcome.as_str());
    assert_eq!(found, (object, "done"), "{context}");
    assert!(its_detail.contains(detail), "{context}: {its_detail:?}");
}

#[tokio::test]
async fn each_change_has_its_entry() {
    let host = alone().await;
    for (asked, object, detail) in [
        ("POST nodes/one/drain", NODE, "drain"),
        ("POST nodes/one/resume", NODE, "resume"),
        ("POST runners/python/restart", "runner python", "restart"),
        ("PUT limits/few", "limit few", ""),
        ("DELETE limits/few", "limit few", "removed"),
        ("PUT schedules/daily", "schedule daily", ""),
        ("POST schedules/daily/pause", "schedule daily", ""),
        ("POST schedules/daily/trigger", "schedule daily", ""),
        ("DELETE schedules/daily", "schedule daily", "removed"),
    ] {
        let (method, path) = asked.split_once(' ').unwrap();
        let (body, verb) = match path.split_once('/').unwrap() {
            ("limits", _) => (r#"{"concurrency":3}"#, "operate"),
            ("schedules", "daily") => (
                r#"{"when":{"every":"24h"},"job":{"handler":"noop"}}"#,
                "schedule",
            ),
            ("schedules", _) => ("{}", "schedule"),
            _ => ("{}", "operate"),
        };
        let path = format!("/api/v1/{path}");
        change(&host, (method, &path, body), (verb, object, detail)).await;
    }
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    for verb in ["cancel", "retry"] {
        let path = format!("/api/v1/jobs/{id}/{verb}");
        let object = format!("job {id}");
        change(&host, ("POST", &path, "{}"), (verb, &object, "")).await;
    }
}

#[tokio::test]
async fn what_was_refused_has_no_entry_of_a_restart() {
    let host = alone().await;
    let refused = host.post("/api/v1/runners/python/restart", r#"{"runner":3}"#);
    refused.await.refused(422, "invalid_request");
    assert_eq!(entries(&host, "operate").await.len(), 0);
}

#[tokio::test]
async fn nothing_is_drained_or_restarted_without_an_entry() {
    let (sample, nodes) = (Arc::new(Sample::default()), Arc::new(Two::default()));
    let host = Host::start_as(|api| {
        api.executors = Executors::new(vec![Arc::clone(&sample) as _], Routes::default());
        api.nodes = Arc::clone(&nodes) as _;
        api.dispatch = Host::ended_loop();
    })
    .await;
    for path in ["/api/v1/nodes/one/drain", "/api/v1/runners/python/restart"] {
        let answer = host.post(path, "{}").await;
        assert!(answer.status >= 500, "{path}: {answer:?}");
    }
    assert_eq!(sample.restarts(), 0);
    let nodes = nodes.list().await.unwrap();
    assert!(nodes.iter().all(|node| !node.drain));
}

/// Refuses as a wire does that checks its peers' proofs itself: this proof is wrong.
fn sample_wire() -> Group {
    let lease = Route::post(Access::Proof, "/sample/lease", async || {
        StatusCode::UNAUTHORIZED
    });
    Group {
        prefix: "/sample",
        render: host_http::problem::render,
        routes: vec![lease.behind(&[Door::Callbacks])],
    }
}

#[tokio::test]
async fn denials_of_wires_and_of_a_host_without_tokens_are_recorded() {
    let mut auth = None;
    let host = Host::start_as(|api| {
        api.wire_routes.push(sample_wire());
        auth = Some(api.auth.clone());
    })
    .await;
    let wrong = [("authorization", "Bearer planted")];
    for _ in 0..3 {
        let lease = host.send_with("POST", "/sample/lease", &wrong, b"{}".to_vec());
        assert_eq!(lease.await.status, 401);
    }
    let foreign = [("origin", "http://evil.example"), ("x-request-id", "r-77")];
    let page = host.send_with("GET", "/api/v1/jobs", &foreign, Vec::new());
    page.await.is(StatusCode::FORBIDDEN);
    auth.unwrap().store_rest().await;
    let listed = host.get("/api/v1/audit").await;
    let items = listed.body["items"].as_array().unwrap();
    let seen = |item: &Value| {
        let record = &item["record"];
        (
            record["object"].clone(),
            record["outcome"].clone(),
            record["times"].clone(),
        )
    };
    let of_wire = |times: u32| {
        (
            json!("POST /sample/lease"),
            json!("unauthenticated"),
            json!(times),
        )
    };
    let of_page = (json!("GET /api/v1/jobs"), json!("forbidden"), json!(1));
    let expected = [of_wire(1), of_page, of_wire(2)];
    let denials = items
        .iter()
        .filter(|item| item["record"]["outcome"] != "done");
    assert_eq!(denials.map(seen).collect::<Vec<_>>(), expected);
    assert!(listed.text.contains("r-77") && !listed.text.contains("planted"));
}
