//! Components and handlers over HTTP, with a deployer of documents.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use futures_util::future::BoxFuture;
use futures_util::{StreamExt as _, stream};
use host_cells::deploy::examine::Component;
use host_core::cost::Sample;
use host_core::name::Name;
use host_core::outcome::Meter;
use host_core::policy::Backoff;
use host_engine::audit::Note;
use host_engine::component::Manifest;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::fixture::{Answer, HANDLERS, Host};
use crate::api::ports::{Consent, DeployError, Deployed, DeployedBy, Deployer};

const OTHER: &str = r#"[{"name":"other"}]"#;

/// Makes a multipart body of parts.
fn form(parts: &[(&str, &str)]) -> (String, Vec<u8>) {
    let mut body = String::new();
    for (name, text) in parts {
        let _ = write!(
            body,
            "--B0\r\ncontent-disposition: form-data; name=\"{name}\"; filename=\"{name}\"\r\n\
             content-type: application/octet-stream\r\n\r\n{text}\r\n"
        );
    }
    body += "--B0--\r\n";
    (
        "multipart/form-data; boundary=B0".to_owned(),
        body.into_bytes(),
    )
}

pub(super) async fn deploy(host: &Host, name: &str, parts: &[(&str, &str)]) -> Answer {
    let (kind, body) = form(parts);
    host.send("PUT", &format!("/api/v1/components/{name}"), &kind, body)
        .await
}

fn without(mut value: Value, changing: &[&str]) -> Value {
    for field in changing {
        assert!(
            value.as_object_mut().unwrap().remove(*field).is_some(),
            "{field}"
        );
    }
    value
}

/// An alert on the first failed job of a handler needs the zero before it.
#[tokio::test]
async fn the_series_of_a_handler_begin_at_zero_with_its_deploy() {
    let host = Host::start().await;
    let line = r#"host_job_changes_total{queue="default",handler="other",state="discarded"} 0"#;
    let has_line = async || host.get("/metrics").await.text.lines().any(|it| it == line);
    assert!(!has_line().await);
    let deployed = deploy(&host, "mine", &[("component", OTHER)]).await;
    deployed.is(StatusCode::CREATED);
    assert!(has_line().await);
}

#[tokio::test]
async fn a_component_is_deployed_taken_back_and_removed() {
    let host = Host::start().await;
    let manifest = "[defaults]\nenv = [\"HOME\"]\n[handlers.other]\nmemory_mib = 1\n";
    let parts = [("component", OTHER), ("manifest", manifest)];
    let first = deploy(&host, "mine", &parts).await.is(StatusCode::CREATED);
    assert_eq!(
        without(first.body, &["digest", "deployed_at"]),
        json!({
            "component": "mine", "revision": 1, "handlers": ["other"], "unchanged": false,
            "handlers_removed": [], "grants_added": ["HOME"], "grants_removed": [], "limits_changed": [], "stubbed": [], "nodes_ready": 0, "nodes_all": 2,
        })
    );
    let same = deploy(&host, "mine", &parts).await.is(StatusCode::OK);
    assert_eq!(
        (&same.body["revision"], &same.body["unchanged"]),
        (&json!(1), &json!(true))
    );
    let path = "/api/v1/components/mine";
    let bytes = OTHER.as_bytes().to_vec();
    let second = host.send("PUT", path, "application/wasm", bytes).await;
    assert_eq!(second.is(StatusCode::CREATED).body["revision"], 2);
    let shown = host.get(path).await.is(StatusCode::OK).body;
    assert_eq!(
        (&shown["component"], &shown["current"]),
        (&json!("mine"), &json!(2))
    );
    let numbers: Vec<_> = shown["revisions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["revision"])
        .collect();
    assert_eq!(numbers, [2, 1]);
    let back = host
        .post(&format!("{path}/rollback"), r#"{"revision":1}"#)
        .await;
    assert_eq!(back.is(StatusCode::OK).body["revision"], 1);
    let list = host.get("/api/v1/components").await.body;
    assert_eq!(list["items"][1]["revision"], 1);
    assert_eq!(host.get(path).await.body["current"], 1);

    host.enqueue(r#"{"handler":"other"}"#).await;
    let refused = host.send("DELETE", path, "", Vec::new()).await;
    let detail = refused.fails(409, "component_in_use");
    assert_eq!(detail, "component mine has 1 jobs that have not ended");
    let claimed = host.claim().await;
    host.complete(
        &claimed,
        host_core::outcome::Outcome::Completed { result: None },
    )
    .await;
    let removed = host
        .send("DELETE", path, "", Vec::new())
        .await
        .is(StatusCode::OK);
    assert_eq!(removed.body, json!({"component": "mine", "removed": true}));
    host.get(path).await.fails(404, "component_not_found");
    host.get("/api/v1/handlers/other")
        .await
        .fails(404, "handler_not_found");
}

#[tokio::test]
async fn what_cannot_be_deployed_is_refused() {
    let host = Host::start().await;
    let large = "x".repeat((32 << 20) + 1);
    let long = format!("# {}", "x".repeat(64 << 10));
    let good = ("component", OTHER);
    for (parts, status, code, detail) in [
        (
            vec![],
            400,
            "invalid_multipart",
            "missing the part component",
        ),
        (
            vec![("manifest", "")],
            400,
            "invalid_multipart",
            "missing the part component",
        ),
        (
            vec![good, good],
            400,
            "invalid_multipart",
            "the part component occurs twice",
        ),
        (
            vec![good, ("x", "")],
            400,
            "invalid_multipart",
            "unexpected part \"x\"",
        ),
        (
            vec![("component", "x")],
            422,
            "component_invalid",
            "these bytes are no list",
        ),
        (
            vec![("component", large.as_str())],
            413,
            "component_too_large",
            "33554432 bytes",
        ),
        (
            vec![good, ("manifest", long.as_str())],
            413,
            "body_too_large",
            "65536 bytes",
        ),
        (
            vec![good, ("manifest", "[")],
            422,
            "manifest_invalid",
            "line 1",
        ),
        (
            vec![good, ("manifest", "[defaults]\nmemory_mb = 1")],
            422,
            "manifest_invalid",
            "did you mean `memory_mib`?",
        ),
        (
            vec![good, ("manifest", "name = \"you\"")],
            422,
            "manifest_invalid",
            "names the component you, the path names mine",
        ),
        (
            vec![("component", HANDLERS)],
            409,
            "handler_owned",
            "belongs to component basics",
        ),
    ] {
        let answer = deploy(&host, "mine", &parts).await;
        let message = answer.fails(status, code);
        assert!(message.contains(detail), "{message}");
    }
}

#[tokio::test]
async fn requests_about_components_that_make_no_sense() {
    let host = Host::start().await;
    let good = ("component", OTHER);
    let path = "/api/v1/components/mine";
    for (kind, status, code) in [
        ("application/json", 415, "unsupported_media_type"),
        ("multipart/form-data", 400, "invalid_multipart"),
        ("multipart/form-data; boundary=C", 400, "invalid_multipart"),
    ] {
        let (_, body) = form(&[good]);
        host.send("PUT", path, kind, body).await.fails(status, code);
    }
    let huge = vec![b'x'; 34 << 20];
    let answer = host.send("PUT", path, "application/wasm", huge).await;
    answer.fails(413, "body_too_large");
    deploy(&host, "a%20b", &[good])
        .await
        .fails(400, "invalid_name");
    for (path, body, status, code) in [
        ("none", r#"{"revision":1}"#, 404, "component_not_found"),
        ("basics", r#"{"revision":9}"#, 404, "revision_not_found"),
        ("basics", "{}", 422, "invalid_request"),
        ("basics", "", 400, "invalid_json"),
        ("basics", r#"{"revision":"1"}"#, 422, "invalid_request"),
    ] {
        let path = format!("/api/v1/components/{path}/rollback");
        host.post(&path, body).await.fails(status, code);
    }
    let answer = host.send("DELETE", path, "", Vec::new()).await;
    answer.fails(404, "component_not_found");
}

#[tokio::test]
async fn handlers_show_what_they_may() {
    let host = Host::start().await;
    let list = host.get("/api/v1/handlers").await.is(StatusCode::OK).body;
    let names: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|h| &h["name"])
        .collect();
    assert_eq!(names, ["a/b", "noop", "typed"]);
    assert!(list["items"][2].get("params_schema").is_none());
    assert_eq!(
        host.get("/api/v1/handlers/a%2Fb")
            .await
            .is(StatusCode::OK)
            .body,
        json!({
            "name": "a/b", "description": "Does little.", "component": "basics", "revision": 1,
            "limits": {
                "memory_bytes": 67_108_864, "timeout_ms": 30_000, "grace_ms": 5_000,
                "result_bytes_max": 1_048_576, "log_bytes_max": 1_048_576,
            },
            "grants": {"env": [], "read_dirs": [], "http": [], "tcp": [], "sql": [], "jobs": [], "secrets": [], "hold": [], "notify": []},
            "max_attempts": 20, "backoff": {"base_ms": 1_000, "max_ms": 3_600_000},
            "cost": [],
        })
    );
    let typed = host.get("/api/v1/handlers/typed").await.body;
    assert_eq!(typed["params_schema"]["required"], json!(["n"]));
    let unknown = host.get("/api/v1/handlers/nop").await;
    let detail = unknown.fails(404, "handler_not_found");
    assert_eq!(detail, "no handler is named nop; did you mean noop?");
}

#[tokio::test]
async fn a_manifest_decides_how_often_jobs_are_tried_and_when() {
    let host = Host::start().await;
    let manifest = "[defaults]\nmax_attempts = 7\nbackoff = { base_seconds = 0.5 }\n\
                    [handlers.noop]\nmax_attempts = 2\n\
                    [handlers.typed]\nbackoff = { max_seconds = 60 }";
    let parts = [("component", HANDLERS), ("manifest", manifest)];
    deploy(&host, "basics", &parts)
        .await
        .is(StatusCode::CREATED);
    for (job, max_attempts, base_ms, max_ms) in [
        (r#"{"handler":"a/b"}"#, 7, 500, 3_600_000),
        (r#"{"handler":"noop"}"#, 2, 500, 3_600_000),
        (r#"{"handler":"noop","max_attempts":9}"#, 9, 500, 3_600_000),
        (r#"{"handler":"typed","params":{"n":1}}"#, 7, 1_000, 60_000),
    ] {
        let id = host.enqueue(job).await.parse().unwrap();
        let read = host.dispatch.read(move |reader| reader.job(id)).await;
        let policy = read.unwrap().unwrap().lifecycle.policy;
        let backoff = Backoff { base_ms, max_ms };
        assert_eq!(
            (policy.max_attempts, policy.backoff),
            (max_attempts, backoff),
            "{job}"
        );
    }
    let shown = host.get("/api/v1/handlers/noop").await.body;
    assert_eq!(
        (&shown["max_attempts"], &shown["backoff"]),
        (&json!(2), &json!({"base_ms": 500, "max_ms": 3_600_000}))
    );
}

#[tokio::test]
async fn a_manifest_gives_no_more_attempts_than_the_host_allows() {
    let host = Host::start().await;
    let parts = [
        ("component", HANDLERS),
        ("manifest", "[defaults]\nmax_attempts = 1001"),
    ];
    deploy(&host, "basics", &parts)
        .await
        .is(StatusCode::CREATED);
    let refused = host.post("/api/v1/jobs", r#"{"handler":"noop"}"#).await;
    let detail = refused.fails(422, "invalid_request");
    assert!(
        detail.contains("1001") && detail.contains("1000"),
        "{detail}"
    );
    let fewer = r#"{"handler":"noop","max_attempts":1000}"#;
    let accepted = host.post("/api/v1/jobs", fewer).await;
    accepted.is(StatusCode::CREATED);
}

#[tokio::test]
async fn handlers_show_what_their_revisions_cost() {
    let host = Host::start_as(|api| {
        let meter = |n| Meter {
            fuel: 1_000 * n,
            cpu_us: 100 * n,
            peak_memory_bytes: 1 << 20,
        };
        let at = api.clock.now();
        for (revision, ran_ms, is_failure) in [(1, 2, false), (1, 4, true), (2, 64, false)] {
            let sample = Sample {
                ran_ms,
                is_failure,
                meter: meter(ran_ms),
            };
            api.numbers
                .costs()
                .add("noop", ("basics", revision), at, sample);
        }
    })
    .await;
    let body = host.get("/api/v1/handlers/noop").await.body;
    let (second, first) = (&body["cost"][0], &body["cost"][1]);
    assert_eq!(
        (&second["revision"], &first["revision"]),
        (&json!(2), &json!(1))
    );
    let mib = 1 << 20;
    assert_eq!(
        first["last_hour"],
        json!({
            "runs": 2, "failures": 1,
            "ran_ms": {"p50": 2, "p99": 4, "max": 4},
            "fuel": {"p50": 2_047, "p99": 4_000, "max": 4_000},
            "cpu_us": {"p50": 207, "p99": 400, "max": 400},
            "peak_memory_bytes": {"p50": mib, "p99": mib, "max": mib},
        })
    );
    assert_eq!(first["last_day"], first["last_hour"]);
    assert_eq!(second["last_day"]["ran_ms"]["p50"], 64);
    let list = host.get("/api/v1/handlers").await.body;
    assert_eq!(list["items"][1]["cost"], body["cost"]);
}

/// Counts the deploys that begin.
struct Counted {
    below: Arc<dyn Deployer>,
    begun: Arc<AtomicUsize>,
}

impl Deployer for Counted {
    fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        consent: Consent,
        by: DeployedBy,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.below.deploy(name, manifest, component, consent, by)
    }

    fn rollback(
        &self,
        name: Name,
        revision: u32,
        consent: Consent,
        note: Note,
    ) -> BoxFuture<'_, Result<Deployed, DeployError>> {
        self.below.rollback(name, revision, consent, note)
    }

    fn remove(&self, name: Name, note: Note) -> BoxFuture<'_, Result<(), DeployError>> {
        self.below.remove(name, note)
    }
}

/// Starts a host that counts the deploys which begin. Returns it with the count and with what it is already.
async fn counting(stopping: &CancellationToken) -> (Host, Arc<AtomicUsize>, usize) {
    let begun = Arc::new(AtomicUsize::new(0));
    let host = Host::start_as(|api| {
        api.stopping = stopping.clone();
        api.deployer = Arc::new(Counted {
            below: Arc::clone(&api.deployer),
            begun: Arc::clone(&begun),
        });
    })
    .await;
    let before = begun.load(Ordering::Relaxed);
    (host, begun, before)
}

/// Lets other tasks of this thread run until so many deploys have begun, and then for a while.
async fn rest(begun: &AtomicUsize, expected: usize) {
    let beginning = async {
        while begun.load(Ordering::Relaxed) < expected {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(30), beginning).await;
    waited.expect("the first deploys begin");
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
}

const NEVER_ENDS: &str = "/api/v1/components/never-ends";

/// Each of these deploys has a body as large as an eighth of the memory for all other bodies.
#[tokio::test]
async fn deploys_that_take_long_leave_room_for_other_requests() {
    let (host, begun, before) = counting(&CancellationToken::new()).await;
    let kind = "application/wasm";
    let deploys =
        (0..8).map(|_| Box::pin(host.send("PUT", NEVER_ENDS, kind, vec![b'x'; 32 << 20])));
    let mut deploys: Vec<_> = deploys.collect();
    for deploy in &mut deploys {
        assert!(
            futures_util::poll!(deploy).is_pending(),
            "it waits or compiles"
        );
    }
    rest(&begun, before + 2).await;
    assert_eq!(begun.load(Ordering::Relaxed) - before, 2);
    let params = "x".repeat(1 << 20);
    let body = json!({"handler": "noop", "params": params}).to_string();
    host.enqueue(body).await;
}

#[tokio::test]
async fn a_deploy_is_answered_when_the_host_stops() {
    let stopping = CancellationToken::new();
    let (host, begun, before) = counting(&stopping).await;
    let deploys = (0..3).map(|_| Box::pin(host.send("PUT", NEVER_ENDS, "application/wasm", "x")));
    let mut deploys: Vec<_> = deploys.collect();
    for deploy in &mut deploys {
        assert!(
            futures_util::poll!(deploy).is_pending(),
            "it waits or compiles"
        );
    }
    rest(&begun, before + 2).await;
    stopping.cancel();
    for (deploy, detail) in deploys.into_iter().zip([
        "whether the component was deployed is unknown",
        "whether the component was deployed is unknown",
        "nothing was deployed",
    ]) {
        let answer = deploy.await;
        assert_eq!(answer.fails(503, "stopping"), detail);
    }
}

#[tokio::test]
async fn a_deploy_whose_client_is_gone_keeps_its_turn() {
    let (host, begun, before) = counting(&CancellationToken::new()).await;
    for n in 1..=4 {
        let mut deploy = Box::pin(host.send("PUT", NEVER_ENDS, "application/wasm", "x"));
        assert!(futures_util::poll!(&mut deploy).is_pending());
        rest(&begun, before + n.min(2)).await;
    }
    assert_eq!(begun.load(Ordering::Relaxed) - before, 2);
}

#[tokio::test]
async fn uploads_that_stall_keep_no_deploy_waiting() {
    let host = Host::start().await;
    let uploads = (0..60).map(|_| {
        let sent = stream::iter([Ok::<_, Infallible>(vec![b'x'; 4 << 10])]);
        let body = Body::from_stream(sent.chain(stream::pending()));
        Box::pin(host.send("PUT", "/api/v1/components/stalls", "application/wasm", body))
    });
    let mut uploads: Vec<_> = uploads.collect();
    for upload in &mut uploads {
        assert!(futures_util::poll!(upload).is_pending(), "it is not whole");
    }
    let answer = deploy(&host, "mail", &[("component", OTHER)]).await;
    assert_eq!(answer.status, 201, "{:?}", answer.body);
}
