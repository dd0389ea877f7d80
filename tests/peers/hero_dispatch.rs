//! `host serve` sends jobs to foreign Hero workers, even if the worker, Redis or the host is killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use host_tests::{Redis, Server, eventually};
use redis::Commands as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::hero_foreign::{Worker, sender, started};
use crate::hero_serve::{Fixture, WAIT_MAX};

fn enqueue(host: &Server, handler: &str, params: &Value) -> String {
    enqueue_with(host, handler, params, &json!({}))
}

fn enqueue_with(host: &Server, handler: &str, params: &Value, more: &Value) -> String {
    let mut job = json!({"handler": handler, "params": params, "max_attempts": 1});
    for (key, value) in more.as_object().unwrap() {
        job[key] = value.clone();
    }
    host.client().enqueue(&job)
}

/// Returns for each attempt its executor, its outcome and the kind of its failure.
fn attempts(host: &Server, id: &str) -> Vec<[String; 3]> {
    let path = format!("/api/v1/jobs/{id}/attempts");
    let list = host.client().get(&path).unwrap().body;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let items = list["items"].as_array().unwrap().iter();
    let attempt = |it: &Value| {
        [
            text(&it["executor"]),
            text(&it["outcome"]),
            text(&it["failure"]["kind"]),
        ]
    };
    items.map(attempt).collect()
}

fn single_attempt(executor: &str, outcome: &str, kind: &str) -> Vec<[String; 3]> {
    vec![[executor, outcome, kind].map(str::to_owned)]
}

fn length(redis: &Redis, key: &str) -> usize {
    redis.connection().llen(key).unwrap()
}

/// Waits until Redis contains only hashes of ended jobs, and checks that they expire.
fn until_tidy(redis: &Redis) {
    let mut connection = redis.connection();
    eventually("nothing to be left in Redis", WAIT_MAX, || {
        let keys: Vec<String> = connection.keys("hero:*").unwrap();
        keys.iter()
            .all(|key| key.starts_with("hero:job:"))
            .then_some(())
    });
    let keys: Vec<String> = connection.keys("hero:*").unwrap();
    for key in keys {
        let status: String = connection.hget(&key, "status").unwrap();
        assert!(status == "finished" || status == "error", "{key}: {status}");
        let ttl: i64 = connection.ttl(&key).unwrap();
        assert!((1..=3_600).contains(&ttl), "{key}: {ttl}");
    }
}

#[test]
fn a_worker_written_from_the_document_executes_our_jobs() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "");
    let _worker = Worker::start(&redis, "w1");
    let client = host.client();
    let echo = client.wait(&enqueue(&host, "hero-w1#echo", &json!({"a": [1, "ü"]})));
    assert_eq!(echo["state"], "completed", "{echo}");
    assert_eq!(echo["result"], json!({"a": [1, "ü"]}));
    let id = echo["id"].as_str().unwrap();
    assert_eq!(
        attempts(&host, id),
        single_attempt("hero-w1", "completed", "")
    );
    let params = json!({"script": "40 + 2"});
    let script = client.wait(&enqueue(&host, "hero-w1#script", &params));
    assert_eq!(script["result"], "ran 40 + 2", "{script}");
    let fails = client.wait(&enqueue(&host, "hero-w1#fail", &json!({})));
    assert_eq!(fails["state"], "discarded", "{fails}");
    assert_eq!(fails["failure"]["kind"], "user_error");
    assert_eq!(fails["failure"]["message"], "boom: told to");
    let unknown = client.wait(&enqueue(&host, "hero-w1#missing", &json!({})));
    assert_eq!(unknown["failure"]["kind"], "handler_not_found", "{unknown}");
    let limit = json!({"timeout_seconds": 1});
    let id = enqueue_with(&host, "hero-w1#sleep", &json!({"ms": 60_000}), &limit);
    let long = client.wait(&id);
    assert_eq!(long["failure"]["kind"], "timed_out", "{long}");
    until_tidy(&redis);
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_job_can_be_stopped_queued_or_running() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "");
    let _worker = Worker::start(&redis, "w1");
    let client = host.client();
    let running = enqueue(&host, "hero-w1#sleep", &json!({"ms": 60_000}));
    started(&redis, "sleep");
    let waiting = enqueue(&host, "hero-w1#echo", &json!({}));
    let queue = "hero:work_queue:w1";
    eventually("the other one to wait", WAIT_MAX, || {
        (length(&redis, queue) == 1).then_some(())
    });
    for id in [&waiting, &running] {
        let path = format!("/api/v1/jobs/{id}/cancel");
        client.post(&path, &json!({})).unwrap();
        let job = client.wait(id);
        assert_eq!(job["state"], "cancelled", "{job}");
        let cancelled = single_attempt("hero-w1", "cancelled", "cancelled");
        assert_eq!(attempts(&host, id), cancelled);
    }
    // A job whose worker ignores the stop request is given up.
    let deaf = enqueue(&host, "hero-w1#deaf", &json!({"ms": 10_000}));
    started(&redis, "deaf");
    let path = format!("/api/v1/jobs/{deaf}/cancel");
    let grace = json!({"grace_seconds": 0.1});
    client.post(&path, &grace).unwrap();
    assert_eq!(client.wait(&deaf)["state"], "cancelled");
    let failed = single_attempt("hero-w1", "failed", "cancel_timeout");
    assert_eq!(attempts(&host, &deaf), failed);
    let next = client.wait(&enqueue(&host, "hero-w1#echo", &json!({})));
    assert_eq!(next["state"], "completed", "{next}");
}

#[test]
fn a_job_whose_worker_dies_runs_on_another_worker() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "");
    let mut jobs = Vec::new();
    for handler in ["die_taken", "die_started"] {
        let dies = Worker::start(&redis, "w1");
        let limit = json!({"timeout_seconds": 1, "max_attempts": 2});
        let params = json!({"key": handler});
        let name = format!("hero-w1#{handler}");
        jobs.push(enqueue_with(&host, &name, &params, &limit));
        dies.wait();
    }
    assert_eq!(length(&redis, "hero:work_queue:w1"), 0);
    let _worker = Worker::start(&redis, "w1");
    // Once a job has started, a dead worker cannot be told from a slow one: the run times out.
    for (id, runs) in jobs.into_iter().zip([1, 2]) {
        let job = host.client().wait(&id);
        assert_eq!(job["result"], "survived", "{job}");
        let attempts = attempts(&host, &id);
        assert_eq!(attempts.len(), runs, "{attempts:?}");
        assert_eq!(
            attempts.last(),
            single_attempt("hero-w1", "completed", "").last(),
            "{job}"
        );
    }
    // The stop of the run that timed out stays, because its worker may still be busy.
}

#[test]
fn a_started_job_of_a_dead_worker_times_out_and_is_tried_again() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "");
    let limit = json!({"timeout_seconds": 1, "max_attempts": 2});
    let id = enqueue_with(&host, "hero-w1#deaf", &json!({"ms": 60_000}), &limit);
    let dies = Worker::start(&redis, "w1");
    started(&redis, "deaf");
    drop(dies);
    // A dead worker cannot be told from a slow one.
    eventually("the first attempt to time out", WAIT_MAX, || {
        let attempts = attempts(&host, &id);
        (attempts.first()? == &["hero-w1", "failed", "timed_out"]).then_some(())
    });
    eventually("the job to be queued again", WAIT_MAX, || {
        (length(&redis, "hero:work_queue:w1") == 1).then_some(())
    });
}

#[test]
fn sent_jobs_survive_a_killed_redis() {
    let (mut redis, data) = (Redis::durable(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "");
    let _workers = [Worker::start(&redis, "w1"), Worker::start(&redis, "w1")];
    let jobs: Vec<String> = (0..60)
        .map(|n| enqueue(&host, "hero-w1#sleep", &json!({"ms": n % 7 * 30})))
        .collect();
    host.client().wait(&jobs[10]);
    redis.kill();
    let runner = |host: &Server| host.client().get("/api/v1/runners/hero-w1").unwrap().body;
    let down = eventually("the via to be down", WAIT_MAX, || {
        let via = runner(&host);
        (via["runners"][0]["state"] == "down").then_some(via)
    });
    assert!(down["runners"][0]["reason"].is_string(), "{down}");
    let during = enqueue(&host, "hero-w1#echo", &json!({}));
    redis.start_again();
    for id in jobs.iter().chain([&during]) {
        let job = host.client().wait(id);
        assert_eq!(job["state"], "completed", "{job}");
        let attempts = attempts(&host, id);
        assert_eq!(
            attempts,
            single_attempt("hero-w1", "completed", ""),
            "{job}"
        );
    }
    assert_eq!(runner(&host)["up"], 1);
    until_tidy(&redis);
    let log = std::fs::read_to_string(data.path().join("serve.log")).unwrap();
    assert!(log.contains("Redis cannot be reached; jobs for Hero workers wait"));
}

#[test]
fn a_repeatedly_killed_host_completes_every_job_once() {
    const JOBS: usize = 90;
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let _workers: Vec<Worker> = (0..3).map(|_| Worker::start(&redis, "w1")).collect();
    let mut host = sender(data.path(), &redis, "");
    let ids: Vec<String> = (0..JOBS)
        .map(|_| enqueue(&host, "hero-w1#sleep", &json!({"ms": 60})))
        .collect();
    for done in [8, 30, 60] {
        host.client().wait(&ids[done]);
        host.kill();
        host = sender(data.path(), &redis, "");
    }
    let mut lost = 0;
    for id in &ids {
        let job = host.client().wait(id);
        assert_eq!(job["state"], "completed", "{job}");
        let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
        for [_, outcome, _] in attempts(&host, id) {
            *outcomes.entry(outcome).or_default() += 1;
        }
        assert_eq!(outcomes.remove("completed"), Some(1), "{job}");
        lost += outcomes.remove("lost").unwrap_or_default();
        assert!(outcomes.is_empty(), "{id}: {outcomes:?}");
    }
    assert!(lost > 0, "jobs had been sent when the host was killed");
    until_tidy(&redis);
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn one_host_sends_jobs_to_another_one() {
    let fixture = Fixture::new(Redis::start());
    let (data, worker) = (TempDir::new().unwrap(), fixture.host("worker"));
    let queues =
        "[queues.night]\nrunner = \"hero-w2\"\n[protocol.rrq]\ndefault_runner = \"hero-w1\"\n";
    let host = sender(data.path(), &fixture.redis, queues);
    let client = host.client();
    let run = |handler: &str, params: &Value, more: &Value| {
        client.wait(&enqueue_with(&host, handler, params, more))
    };
    let none = json!({});
    let rhai = json!({"script": "[40 + 2, CALLER_ID]"});
    let alice = json!({"attributes": {"caller_id": "alice"}});
    let rhai = run("hero-w1#script", &rhai, &alice);
    assert_eq!(rhai["result"], json!([42, "alice"]), "{rhai}");
    let params = json!({"script": "!!vm.define name:'box' cpu:2"});
    let actions = run("hero-w1#script", &params, &none);
    assert_eq!(actions["result"][0]["name"], "box", "{actions}");
    let echo = run("hero-w2#echo", &json!({"a": 1}), &none);
    assert_eq!(echo["result"], json!({"a": 1}), "{echo}");
    // Routed by the queue, and by the default runner because the handler is not deployed.
    let night = run("echo", &json!({"b": 2}), &json!({"queue": "night"}));
    assert_eq!(night["result"], json!({"b": 2}), "{night}");
    let id = night["id"].as_str().unwrap();
    assert_eq!(
        attempts(&host, id),
        single_attempt("hero-w2", "completed", "")
    );
    let unknown = run("echo", &json!({"c": 3}), &none);
    assert_eq!(unknown["result"], json!({"c": 3}), "{unknown}");
    let script = json!({"script": "7"});
    let night = run("script", &script, &json!({"queue": "night"}));
    assert_eq!(night["result"], 7, "{night}");
    let failures = [
        ("hero-w1#missing", json!({}), "handler_not_found"),
        (
            "hero-w1#script",
            json!({"script": "let x = "}),
            "user_error",
        ),
        ("hero-w1#spin", json!({}), "timed_out"),
    ];
    for (handler, params, kind) in failures {
        let seconds = if kind == "timed_out" { 1 } else { 60 };
        let failed = run(handler, &params, &json!({"timeout_seconds": seconds}));
        assert_eq!(failed["failure"]["kind"], kind, "{failed}");
    }
    let spins = enqueue(&host, "hero-w1#spin", &none);
    started(&fixture.redis, "spin");
    let path = format!("/api/v1/jobs/{spins}/cancel");
    client.post(&path, &none).unwrap();
    assert_eq!(client.wait(&spins)["state"], "cancelled");
    until_tidy(&fixture.redis);
    assert_eq!(host.stop(), Some(0));
    assert_eq!(worker.stop(), Some(0));
}

#[test]
fn a_host_sends_jobs_to_itself() {
    let fixture = Fixture::new(Redis::start());
    let host = fixture.host("data");
    let job = host.client().run(&json!({
        "handler": "hero-w1#script", "params": {"script": "40 + 2"},
    }));
    assert_eq!(job["result"], 42, "{job}");
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn a_stopping_host_does_not_wait_for_missing_workers() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "[shutdown]\ngrace_seconds = 600\n");
    enqueue(&host, "hero-w1#echo", &json!({}));
    let queue = "hero:work_queue:w1";
    eventually("a job to wait", WAIT_MAX, || {
        (length(&redis, queue) == 1).then_some(())
    });
    let begun = Instant::now();
    assert_eq!(host.stop(), Some(0));
    assert!(begun.elapsed() < WAIT_MAX, "{:?}", begun.elapsed());
    assert_eq!(length(&redis, queue), 0);
}

#[test]
fn a_stopping_host_takes_back_sent_jobs() {
    let (redis, data) = (Redis::start(), TempDir::new().unwrap());
    let host = sender(data.path(), &redis, "[shutdown]\ngrace_seconds = 0.2\n");
    let _worker = Worker::start(&redis, "w1");
    let running = enqueue(&host, "hero-w1#sleep", &json!({"ms": 60_000}));
    let key = started(&redis, "sleep");
    let waiting = enqueue(&host, "hero-w1#echo", &json!({}));
    let queue = "hero:work_queue:w1";
    eventually("the other one to wait", WAIT_MAX, || {
        (length(&redis, queue) == 1).then_some(())
    });
    assert_eq!(host.stop(), Some(0));
    assert_eq!(length(&redis, "hero:work_queue:w1"), 0);
    eventually("the worker to stop the job", WAIT_MAX, || {
        let error: Option<String> = redis.connection().hget(&key, "error").unwrap();
        (error.as_deref() == Some("stopped_by_request")).then_some(())
    });
    let host = sender(data.path(), &redis, "");
    let path = format!("/api/v1/jobs/{running}/cancel");
    host.client().post(&path, &json!({})).unwrap();
    assert_eq!(host.client().wait(&running)["state"], "cancelled");
    assert_eq!(host.client().wait(&waiting)["state"], "completed");
    let begun = single_attempt("hero-w1", "completed", "");
    assert_eq!(attempts(&host, &waiting), begun, "no worker had started it");
    assert!(Path::new(data.path()).join("hero-instance").exists());
}
