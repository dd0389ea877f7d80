//! Health, numbers, and the document of the routes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request as HttpRequest, StatusCode};
use host_core::access::{Access, Verb};
use host_dispatch::readers::{Readers, SCANS};
use host_dispatch::{Dispatch, Request, SubmitError, TakenFlag};
use host_http::door::DOORS;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_testing::store::MemoryStore;
use serde_json::Value;
use tokio::sync::mpsc;

use super::fixture::{Host, Lines, api, call, doorway};
use crate::api::{ServedApi, routes};

#[tokio::test]
async fn the_openapi_document_has_exactly_the_routes() {
    let host = Host::start().await;
    let document = host
        .get("/api/v1/openapi.json")
        .await
        .is(StatusCode::OK)
        .body;
    let mut described = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let name = format!("{} {path}", method.to_uppercase());
            assert!(operation["responses"]["default"].is_object(), "{name}");
            assert!(operation["summary"].is_string(), "{name}");
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id), "{name} has the id of another");
            let mut answers = operation["responses"].as_object().unwrap().values();
            assert!(answers.all(|it| it["description"].is_string()), "{name}");
            let parameters = operation["parameters"].as_array().into_iter().flatten();
            let in_path = parameters.filter(|it| it["in"] == "path").count();
            assert_eq!(in_path, path.matches('{').count(), "{name}");
            described.insert(name);
        }
    }
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let groups = api(&dispatch, &Arc::default(), &tasks, clock).wire_routes;
    let of_wires = groups
        .iter()
        .flat_map(|group| &group.routes)
        .map(|route| format!("{} {}", route.method, route.path));
    let own = routes::list()
        .into_iter()
        .map(|route| format!("{} {}", route.method, route.path));
    assert_eq!(described, own.chain(of_wires).collect());
}

/// The changes that cannot be asked for without a body.
const BODIES: &[&str] = &[
    "/api/v1/jobs",
    "/api/v1/jobs/priority",
    "/api/v1/jobs/{id}/priority",
    "/api/v1/jobs/{id}/reschedule",
    "/api/v1/components/{name}/rollback",
    "/api/v1/batches",
    "/api/v1/batches/{id}/jobs",
    "/api/v1/webhooks/test",
    "/api/v1/schedules/{name}/backfill",
    "/api/v1/tokens",
    "/api/v1/hero/jobs",
];

#[tokio::test]
async fn a_change_without_a_body_needs_no_content_type() {
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let groups = api(&dispatch, &Arc::default(), &tasks, clock).wire_routes;
    let of_wires = groups.iter().flat_map(|group| &group.routes);
    let of_hero = of_wires
        .filter(|route| route.path.starts_with("/api/v1/hero/"))
        .map(|route| (route.method, route.path, route.is_body_optional));
    let own = routes::list()
        .into_iter()
        .map(|route| (route.method, route.path, route.is_body_optional));
    for (method, path, is_body_optional) in own.chain(of_hero) {
        let is_needed = method == "PUT" || (method == "POST" && BODIES.contains(&path));
        assert_eq!(is_body_optional, !is_needed, "{method} {path}");
    }
    let host = Host::start().await;
    host.enqueue(r#"{"handler":"noop","queue":"mail"}"#).await;
    let request = |path: &str| {
        let request = HttpRequest::post(path).header("host", "127.0.0.1:7700");
        request.body(Body::empty()).unwrap()
    };
    let paused = call(&host.router, request("/api/v1/queues/mail/pause")).await;
    assert_eq!(paused.is(StatusCode::OK).body["paused"], true);
    let refused = call(&host.router, request("/api/v1/jobs")).await;
    refused.fails(415, "unsupported_media_type");
}

/// A word beside an id in a path is not the start of an id, so a client can tell them apart.
#[test]
fn no_fixed_word_of_a_path_is_taken_for_an_id_or_a_name() {
    let all = routes::list();
    let paths: BTreeSet<&str> = all.iter().map(|route| route.path).collect();
    for path in &paths {
        let Some((before, after)) = path
            .rsplit_once('/')
            .filter(|(_, last)| !last.starts_with('{'))
        else {
            continue;
        };
        for (parameter, has_digits) in [("{id}", true), ("{name}", false)] {
            if paths.contains(format!("{before}/{parameter}").as_str()) {
                assert!(has_digits, "{path} is in the way of a name");
                assert!(!after.chars().all(|c| c.is_ascii_hexdigit()), "{path}");
            }
        }
    }
}

#[tokio::test]
async fn the_openapi_document_refers_to_nothing_that_it_does_not_have() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(reference)) = fields.get("$ref") {
                    found.insert(reference.clone());
                }
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let host = Host::start().await;
    let document = host.get("/api/v1/openapi.json").await.body;
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    assert!(found.len() > 10, "{found:?}");
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

/// Numbers of requests without an upper bound, or whose bound is a key of the configuration.
const UNBOUNDED: &[&str] = &[
    "NewJob.max_attempts",
    "NewTokenBody.max_waiting",
    "RestartBody.runner",
    "RollbackBody.revision",
    "UniqueScope.seconds",
];

/// Places in what is read, and the beginning of the names of another project's schemas.
const PLACES: &[&str] = &["cursor", "offset", "Last-Event-ID"];
const FOREIGN: &str = "Arco";

/// The numbers of a schema and of those that it refers to, and which of them have no bounds.
#[derive(Default)]
struct Numbers {
    all: BTreeSet<String>,
    unbounded: BTreeSet<String>,
}

impl Numbers {
    fn look(&mut self, name: &str, schema: &Value, document: &Value) {
        if let Some(reference) = schema["$ref"].as_str() {
            if self.all.insert(reference.to_owned()) {
                let name = reference.rsplit('/').next().unwrap();
                let schema = document.pointer(&reference[1..]).unwrap();
                self.look(name, schema, document);
            }
            return;
        }
        let kind = schema["type"].to_string();
        if kind.contains("integer") || kind.contains("number") {
            let has = |key: &str| schema.get(key).is_some();
            if !(has("minimum") || has("exclusiveMinimum")) || !has("maximum") {
                self.unbounded.insert(name.to_owned());
            }
            self.all.insert(name.to_owned());
        }
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            self.look(&format!("{name}.{field}"), schema, document);
        }
        for of in ["oneOf", "allOf", "anyOf"].map(|of| &schema[of]) {
            for schema in of.as_array().into_iter().flatten() {
                self.look(name, schema, document);
            }
        }
        if let Some(items) = schema.get("items") {
            self.look(name, items, document);
        }
    }
}

/// Clients that are made of the document refuse what the host would.
#[tokio::test]
async fn numbers_of_requests_have_bounds() {
    let host = Host::start().await;
    let document = host.get("/api/v1/openapi.json").await.body;
    let mut numbers = Numbers::default();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for operation in methods.as_object().unwrap().values() {
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = format!("{path} {}", parameter["name"].as_str().unwrap());
                numbers.look(&name, &parameter["schema"], &document);
            }
            let bodies = operation["requestBody"]["content"].as_object();
            for body in bodies.into_iter().flat_map(|it| it.values()) {
                numbers.look(path, &body["schema"], &document);
            }
        }
    }
    let is_place = |name: &str| PLACES.iter().any(|place| name.ends_with(place));
    let unbounded = numbers
        .unbounded
        .iter()
        .map(String::as_str)
        .filter(|it| !is_place(it) && !it.starts_with(FOREIGN));
    assert_eq!(unbounded.collect::<Vec<_>>(), UNBOUNDED);
    for name in [
        "NewJob.priority",
        "NewLimit.concurrency",
        "/api/v1/audit limit",
    ] {
        assert!(numbers.all.contains(name), "{name} in {:?}", numbers.all);
    }
}

/// What wires have from their peers is whatever these send, and a problem has the state of any resource.
#[tokio::test]
async fn states_are_closed_lists_of_words() {
    let host = Host::start().await;
    let document = host.get("/api/v1/openapi.json").await.body;
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut states = Vec::new();
    for (name, schema) in schemas {
        if ["Arco", "Delta", "Hero", "Problem", "WaitsFor", "Health"]
            .iter()
            .any(|it| name.starts_with(it))
        {
            continue;
        }
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (property, of) in properties {
            if ["state", "status", "level", "role"].contains(&property.as_str()) {
                states.push(format!("{name}.{property}"));
                let is_text = of["type"].to_string().contains("string");
                assert!(!is_text, "{name}.{property} is {of}");
            }
        }
    }
    for name in ["Job.state", "Runner.state", "Batch.state", "LineView.level"] {
        assert!(states.iter().any(|it| it == name), "{name} in {states:?}");
    }
}

/// Health and look-ups have readers of their own.
#[tokio::test]
async fn while_all_scans_are_busy_health_and_look_ups_answer() {
    let host = Host::start().await;
    let id = host.enqueue(r#"{"handler":"noop"}"#).await;
    let (started, mut starts) = mpsc::channel(SCANS);
    let mut stops = Vec::new();
    for _ in 0..SCANS {
        let (stop, stopped) = std::sync::mpsc::sync_channel::<()>(1);
        stops.push(stop);
        let (started, dispatch) = (started.clone(), host.dispatch.clone());
        host.tasks.spawn(async move {
            let scan = dispatch.scan(move |_| {
                started.blocking_send(()).unwrap();
                let _ = stopped.recv_timeout(Duration::from_mins(1));
                Ok(())
            });
            scan.await.unwrap();
        });
        starts.recv().await.unwrap();
    }
    let count = host.get("/api/v1/jobs/count?attribute=team%3Da");
    let others = async {
        let job = format!("/api/v1/jobs/{id}");
        for path in ["/healthz", "/readyz", &job, "/api/v1/queues"] {
            host.get(path).await.is(StatusCode::OK);
        }
        // Only now may the count begin.
        stops.clear();
    };
    let (count, ()) = tokio::join!(count, others);
    assert_eq!(count.is(StatusCode::OK).body["jobs"], 0);
}

#[tokio::test]
async fn health_and_numbers() {
    let host = Host::start().await;
    assert_eq!(
        host.get("/healthz").await.is(StatusCode::OK).body["status"],
        "ok"
    );
    assert_eq!(
        host.get("/readyz").await.is(StatusCode::OK).body["status"],
        "ok"
    );
    host.enqueue(r#"{"handler":"noop"}"#).await;
    host.post("/api/v1/jobs", "{").await;
    let numbers = host.get("/metrics").await.is(StatusCode::OK).text;
    for line in [
        r#"host_http_requests_total{method="POST",route="/api/v1/jobs",status="201"} 1"#,
        r#"host_http_requests_total{method="POST",route="/api/v1/jobs",status="400"} 1"#,
        r#"host_http_request_seconds_count{method="POST",route="/api/v1/jobs"} 2"#,
        r#"host_jobs{queue="default",state="available"} 1"#,
        r#"host_jobs{queue="default",state="completed"} 0"#,
    ] {
        assert!(
            numbers.lines().any(|it| it == line),
            "{line} is not in\n{numbers}"
        );
    }
    let full = &host.dispatch.shared().store_full;
    full.store(true, Ordering::Relaxed);
    host.get("/readyz").await.fails(507, "store_full");
    full.store(false, Ordering::Relaxed);
    let moved = &host.dispatch.shared().store_moved;
    moved.store(true, Ordering::Relaxed);
    host.get("/readyz").await.fails(503, "store_moved");
    moved.store(false, Ordering::Relaxed);
    assert_eq!(host.get("/readyz").await.status, 200);
    host.tasks.stop();
    host.get("/readyz").await.fails(503, "stopping");
    assert_eq!(host.get("/healthz").await.status, 200);
}

/// Answers every command with the same error.
async fn refuse(mut requests: mpsc::Receiver<Request>, error: SubmitError) {
    while let Some(request) = requests.recv().await {
        let _ = request.reply.send(Err(error.clone()));
    }
}

fn broken(requests: mpsc::Sender<Request>, tasks: &Tasks) -> Host {
    let readers = Readers::open(&MemoryStore::default(), 1).unwrap();
    let dispatch = Dispatch::new(requests, readers.clone(), readers, Arc::default());
    let logs = Arc::new(Lines::default());
    let api = api(&dispatch, &logs, tasks, Clock::start());
    Host {
        router: ServedApi::new(api, tasks).router(&doorway(&DOORS)),
        dispatch,
        tasks: tasks.clone(),
        logs,
    }
}

#[tokio::test]
async fn a_host_that_cannot_says_why() {
    let pause = "/api/v1/queues/q/pause";
    let tasks = Tasks::default();
    for (error, status, code, retry) in [
        (SubmitError::StoreFull, 507, "store_full", false),
        (SubmitError::StoreMoved, 503, "store_moved", false),
        (SubmitError::Busy, 503, "busy", true),
        (
            SubmitError::Failed("no".to_owned()),
            500,
            "store_failed",
            false,
        ),
        (SubmitError::Stopping, 503, "stopping", true),
        (SubmitError::StoreAway, 503, "store_away", true),
        (SubmitError::OutcomeUnknown, 504, "outcome_unknown", false),
    ] {
        let (sender, requests) = mpsc::channel(1);
        tasks.spawn(refuse(requests, error));
        let answer = broken(sender, &tasks)
            .post(pause, r#"{"create":true}"#)
            .await;
        answer.fails(status, code);
        assert_eq!(answer.headers.contains_key("retry-after"), retry, "{code}");
    }
    let (sender, requests) = mpsc::channel(1);
    let (reply, _answer) = tokio::sync::oneshot::channel();
    let command = host_engine::node::Recover {
        after: 0,
        node: host_core::id::NodeId::NIL,
        living: Vec::new(),
    };
    let taken = TakenFlag::default();
    sender
        .try_send(Request {
            command: command.into(),
            reply,
            taken,
        })
        .unwrap();
    let full = broken(sender, &tasks)
        .post(pause, r#"{"create":true}"#)
        .await;
    full.fails(503, "busy");
    drop(requests);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_not_waited_for_for_ever() {
    let (sender, _requests) = mpsc::channel(1);
    let host = broken(sender, &Tasks::default());
    let answer = host
        .post("/api/v1/queues/q/pause", r#"{"create":true}"#)
        .await;
    answer.fails(504, "timed_out");
}

/// What says nothing about jobs, so that load balancers and programs may look without a token.
const OPEN: &[&str] = &["/api/v1/openapi.json", "/healthz", "/readyz"];

/// Where wires check the proofs of their peers.
const PROOFS: &[&str] = &[
    "/api/v1/internal/",
    "/api/v1/tasks/",
    "/v1/tasks/",
    "/api/v1/workspaces/",
];

/// Each route says who may use it: the type of a route demands it. This checks that it says the right thing.
#[tokio::test]
async fn each_route_names_its_verb() {
    let (tasks, clock) = (Tasks::default(), Clock::start());
    let dispatch = Host::run_loop(&tasks, clock);
    let groups = api(&dispatch, &Arc::default(), &tasks, clock).wire_routes;
    let of_wires = groups
        .iter()
        .flat_map(|group| &group.routes)
        .map(|route| (route.method, route.path, route.access));
    let own = routes::list()
        .into_iter()
        .map(|route| (route.method, route.path, route.access));
    for (method, path, access) in own.chain(of_wires) {
        let name = format!("{method} {path}");
        let is_proof = PROOFS.iter().any(|prefix| path.starts_with(prefix));
        assert_eq!(access == Access::Open, OPEN.contains(&path), "{name}");
        assert_eq!(access == Access::Proof, is_proof, "{name}");
        if let Some(verb) = access.verb() {
            let looks = [Verb::Read, Verb::ReadPayload, Verb::Metrics, Verb::Audit];
            let is_look = looks.contains(&verb) || (verb == Verb::Tokens && method == "GET");
            assert_eq!(is_look, method == "GET", "{name} needs {verb}");
        }
    }
}
