//! Requests about Hero jobs, as far as no Redis is needed: what is refused without it, and
//! the messages where there is none.

mod fixture;

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::Request;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use self::fixture::{Answer, Host, call};

const JOBS: &str = "/api/v1/hero/jobs";
const ID: &str = "3f2b8a1c-0000-4000-8000-000000000001";

/// A Redis that is not there.
const AWAY: &str = "redis://127.0.0.1:1";

/// Asks everything that can be asked.
async fn all(host: &Host) -> Vec<(String, Answer)> {
    let one = format!("{JOBS}/{ID}");
    let job = json!({"worker_id": "w1", "script": "1"}).to_string();
    let mut answers = Vec::new();
    for path in [
        JOBS.to_owned(),
        one.clone(),
        format!("{one}/wait?timeout_seconds=0"),
        format!("{one}/logs"),
        "/api/v1/hero/workers/w1".to_owned(),
    ] {
        answers.push((path.clone(), host.get(&path).await));
    }
    for (path, body) in [
        (JOBS.to_owned(), job.as_str()),
        (format!("{one}/stop"), "{}"),
        (format!("{one}/requeue"), ""),
        ("/api/v1/hero/workers/w1/requeue".to_owned(), "{}"),
    ] {
        answers.push((path.clone(), host.post(&path, body).await));
    }
    answers
}

#[tokio::test]
async fn without_a_redis_the_answer_says_what_to_set() {
    let host = Host::without_redis();
    for (path, answer) in all(&host).await {
        let detail = answer.refused(409, "hero_off");
        assert!(detail.contains("protocol.hero.url"), "{path}: {detail}");
        assert!(detail.contains("HOST_HERO_URL"), "{path}: {detail}");
    }
}

#[tokio::test]
async fn a_redis_that_is_away_is_worth_another_try() {
    let host = Host::with_redis(AWAY, Some(Path::new("/logs")));
    for (path, answer) in all(&host).await {
        answer.refused(503, "hero_redis_away");
        assert_eq!(answer.headers["retry-after"], "1", "{path}");
    }
    let job = json!({"id": ID, "worker_id": "w1", "script": "1"}).to_string();
    let answer = host.post(JOBS, job).await;
    let detail = answer.refused(503, "hero_redis_away");
    assert!(
        detail.contains(&format!("job {ID} may or may not be stored")),
        "{detail}"
    );
}

#[tokio::test]
async fn what_no_worker_would_run_is_refused_before_redis_is_asked() {
    let host = Host::with_redis(AWAY, None);
    for (change, message) in [
        (
            json!({"id": "*"}),
            "E_ID id: expected a UUID, found a text of 1 bytes",
        ),
        (json!({"id": format!("{ID}\n")}), "E_ID"),
        (json!({"worker_id": "a\nb"}), "E_FIELD_RANGE worker_id"),
        (json!({"worker_id": 1}), "worker_id: expected a string"),
        (json!({"timeout_seconds": 0}), "E_FIELD_RANGE timeout"),
        (json!({"timeout_seconds": 700_000}), "E_FIELD_RANGE timeout"),
        (json!({"retries": 1_001}), "E_FIELD_RANGE retries"),
        (json!({"script_type": "perl"}), "E_FIELD_RANGE script_type"),
        (
            json!({"script": "x".repeat(1_048_577)}),
            "E_FIELD_RANGE script",
        ),
        (json!({"script": null}), "one of them is required"),
        (json!({"params": {}}), "only a handler takes params"),
        (json!({"handler": "echo"}), "expected only one of them"),
        (
            json!({"script": null, "handler": "e", "script_type": "rhai"}),
            "only a script has a language",
        ),
        (
            json!({"script": null, "handler": "no name"}),
            "E_FIELD_RANGE handler",
        ),
        (json!({"dependencies": ["x"]}), "E_FIELD_RANGE dependencies"),
        (json!({"env_vars": {"1": "x"}}), "E_FIELD_RANGE env_vars"),
        (json!({"log_path": "a.log"}), "E_LOG_PATH"),
        (json!({"workerid": "w1"}), "did you mean `worker_id`?"),
    ] {
        let mut job = json!({"worker_id": "w1", "script": "1"});
        job.as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let answer = host.post(JOBS, job.to_string()).await;
        let detail = answer.refused(422, "invalid_request");
        assert!(detail.contains(message), "{message}: {detail}");
    }
    let itself = json!({"id": ID, "worker_id": "w1", "script": "1", "dependencies": [ID]});
    let answer = host.post(JOBS, itself.to_string()).await;
    let detail = answer.refused(422, "dependency_cycle");
    assert!(detail.ends_with(&format!("{ID} -> {ID}")), "{detail}");
}

#[tokio::test]
async fn a_log_path_is_one_below_the_folder() {
    let host = Host::with_redis(AWAY, Some(Path::new("/logs")));
    for (path, taken) in [
        ("a/b.log", true),
        ("/logs/a.log", true),
        ("../a.log", false),
        ("/etc/passwd", false),
        ("/logs/../etc/passwd", false),
        ("a\nb", false),
    ] {
        let job = json!({"worker_id": "w1", "script": "1", "log_path": path});
        let answer = host.post(JOBS, job.to_string()).await;
        if taken {
            answer.refused(503, "hero_redis_away");
        } else {
            let detail = answer.refused(422, "invalid_request");
            assert!(detail.contains("E_LOG_PATH"), "{path}: {detail}");
        }
    }
    let nowhere = Host::with_redis(AWAY, None);
    let answer = nowhere.get(&format!("{JOBS}/{ID}/logs")).await;
    let detail = answer.refused(409, "hero_off");
    assert!(detail.contains("protocol.hero.log_dir"), "{detail}");
}

#[tokio::test]
async fn ids_and_parameters_are_checked() {
    let host = Host::with_redis(AWAY, Some(Path::new("/logs")));
    let simple = ID.replace('-', "");
    for id in [
        "*",
        "%0A",
        "3f2b8a1c",
        &simple,
        &format!("{{{ID}}}"),
        &format!("{ID}%0A"),
    ] {
        for verb in ["", "/wait", "/logs"] {
            let answer = host.get(&format!("{JOBS}/{id}{verb}")).await;
            answer.refused(404, "hero_job_not_found");
        }
        let answer = host.post(&format!("{JOBS}/{id}/stop"), "{}").await;
        answer.refused(404, "hero_job_not_found");
    }
    for query in [
        format!("{JOBS}?limit=0"),
        format!("{JOBS}?limit=1001"),
        format!("{JOBS}?cursor=x"),
        format!("{JOBS}?worker=w1"),
        format!("{JOBS}/{ID}/wait?timeout_seconds=301"),
        format!("{JOBS}/{ID}/logs?tail_bytes=0"),
        format!("{JOBS}/{ID}/logs?tail_bytes=16777217"),
    ] {
        host.get(&query).await.refused(400, "invalid_query");
    }
    let worker = host.get("/api/v1/hero/workers/a%20b").await;
    worker.refused(422, "invalid_request");
    let body = br#"{"worker_id":"w1","script":"1"}"#.to_vec();
    let answer = host.send("POST", JOBS, "application/wasm", body).await;
    answer.refused(415, "unsupported_media_type");
    let document = super::description().document.to_json().unwrap();
    let shown: Value = serde_json::from_str(&document).unwrap();
    assert!(shown["paths"][JOBS]["post"].is_object());
}

#[tokio::test]
async fn a_refusal_leaves_no_body_unread() {
    let without = Host::without_redis();
    let with = Host::with_redis(AWAY, None);
    for (host, status) in [(&without, 409), (&with, 404)] {
        for path in [format!("{JOBS}/x/stop"), format!("{JOBS}/x/requeue")] {
            let (read, body) = watched("{}");
            let answer = call(&host.router, posted(&path, body)).await;
            assert_eq!(answer.status, status, "{path}");
            assert!(read.load(Ordering::Relaxed), "{path}");
        }
    }
    let (read, body) = watched("{}");
    call(&without.router, posted(JOBS, body)).await;
    assert!(read.load(Ordering::Relaxed));
}

/// Makes a body that says whether it was read to its end.
fn watched(text: &'static str) -> (Arc<AtomicBool>, Body) {
    let read = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&read);
    let pieces = stream::iter([text, ""]).map(move |piece| {
        told.fetch_or(piece.is_empty(), Ordering::Relaxed);
        Ok::<_, Infallible>(piece)
    });
    (read, Body::from_stream(pieces))
}

fn posted(path: &str, body: Body) -> Request<Body> {
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json");
    request.body(body).unwrap()
}
