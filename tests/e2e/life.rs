//! The life of a job over HTTP, as a user sees it.

use std::time::Duration;

use host_tests::{Options, Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::{deploy, own, shared};

fn state(job: &Value) -> &str {
    job["state"].as_str().unwrap()
}

#[test]
fn a_job_returns_its_result() {
    let client = shared();
    let job = client.run(&json!({"handler": "echo", "params": {"a": [1, "ü", null]}}));
    assert_eq!(state(&job), "completed", "{job}");
    assert_eq!(job["result"], json!({"a": [1, "ü", null]}));
    let id = job["id"].as_str().unwrap();
    let attempts = client
        .get(&format!("/api/v1/jobs/{id}/attempts"))
        .unwrap()
        .body;
    let attempt = &attempts["items"][0];
    assert_eq!(attempt["number"], 1);
    assert!(attempt["fuel"].as_u64().unwrap() > 0, "{attempt}");
    assert!(
        attempt["peak_memory_bytes"].as_u64().unwrap() > 0,
        "{attempt}"
    );
    assert!(
        attempt["executor"].as_str().unwrap().starts_with("cell-"),
        "{attempt}"
    );
}

#[test]
fn a_failing_job_is_retried_until_it_succeeds() {
    let job = shared().run(&json!({"handler": "flaky", "params": {"fail_times": 2}}));
    assert_eq!(
        (state(&job), &job["attempt"]),
        ("completed", &json!(3)),
        "{job}"
    );
}

#[test]
fn a_job_that_keeps_failing_is_discarded_and_can_be_retried() {
    let client = shared();
    let job = client.run(&json!({
        "handler": "fail",
        "params": {"message": "no luck", "category": "data-quality", "retryable": false},
    }));
    assert_eq!(state(&job), "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "user_error");
    assert_eq!(job["failure"]["category"], "DATA_QUALITY");
    let id = job["id"].as_str().unwrap();
    let retried = client
        .post(&format!("/api/v1/jobs/{id}/retry"), &json!({}))
        .unwrap();
    assert_eq!(retried.status, 200, "{retried:?}");
    let job = client.wait(id);
    assert_eq!((state(&job), &job["attempt"]), ("discarded", &json!(2)));
}

#[test]
fn a_unique_key_returns_the_existing_job() {
    let client = shared();
    let job = json!({"handler": "noop", "queue": "unique",
        "unique": {"key": "only-once", "scope": "retained"}});
    let first = client.post("/api/v1/jobs", &job).unwrap();
    let second = client.post("/api/v1/jobs", &job).unwrap();
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!(first.body["id"], second.body["id"]);
}

#[test]
fn a_job_waits_for_its_prerequisites() {
    let client = shared();
    let answer = client
        .post(
            "/api/v1/jobs",
            &json!([
                {"handler": "noop", "depends_on": ["#1", "#2"]},
                {"handler": "sleep", "params": {"ms": 50}},
                {"handler": "noop"},
            ]),
        )
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    assert_eq!(answer.body[0]["state"], "pending");
    let last = client.wait(answer.body[0]["id"].as_str().unwrap());
    assert_eq!(state(&last), "completed");
    let first = client.job(answer.body[1]["id"].as_str().unwrap());
    assert_eq!(
        state(&first),
        "completed",
        "the prerequisite ended before the job that waits for it"
    );
}

#[test]
fn a_failed_prerequisite_discards_its_dependents() {
    let client = shared();
    let answer = client
        .post(
            "/api/v1/jobs",
            &json!([
                {"handler": "fail", "params": {"message": "x", "retryable": false}},
                {"handler": "noop", "depends_on": ["#0"]},
                {"handler": "noop", "depends_on": ["#1"]},
            ]),
        )
        .unwrap();
    let first = answer.body[0]["id"].as_str().unwrap();
    let job = client.wait(answer.body[1]["id"].as_str().unwrap());
    assert_eq!((state(&job), &job["attempt"]), ("discarded", &json!(0)));
    assert_eq!(
        job["failure"]["message"],
        format!("prerequisite_failed: {first}")
    );
    let last = client.wait(answer.body[2]["id"].as_str().unwrap());
    assert_eq!(state(&last), "discarded");
}

#[test]
fn a_job_that_tidies_up_after_a_failure_runs_only_then() {
    let client = shared();
    let on_failure = json!([{"job": "#0", "when": "failed"}]);
    for (first, ends) in [
        (
            json!({"handler": "fail", "params": {"message": "x", "retryable": false}}),
            "completed",
        ),
        (json!({"handler": "noop"}), "cancelled"),
    ] {
        let jobs = json!([
            first,
            {"handler": "noop", "depends_on": on_failure},
            {"handler": "noop", "depends_on": [{"job": "#1", "when": "ended"}]},
        ]);
        let answer = client.post("/api/v1/jobs", &jobs).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let id = |n: usize| answer.body[n]["id"].as_str().unwrap();
        let job = client.wait(id(1));
        assert_eq!(state(&job), ends, "{job}");
        assert_eq!(state(&client.wait(id(2))), "completed");
        if ends == "cancelled" {
            let reason = format!("not needed: job {} completed, and did not fail", id(0));
            assert_eq!(job["cancel_reason"], reason);
        }
    }
}

#[test]
fn a_job_gets_the_results_of_those_before_it() {
    let client = shared();
    let jobs = json!([
        {"handler": "echo", "params": {"rows": [1, 2]}},
        {"handler": "fail", "params": {"message": "x", "retryable": false}},
        {"handler": "echo", "params": {"own": true}, "inputs": {"first": "#0", "second": "#1"},
         "depends_on": ["#0", {"job": "#1", "when": "ended"}]},
        {"handler": "echo", "inputs": {"all": "#2"}, "depends_on": ["#2"]},
    ]);
    let answer = client.post("/api/v1/jobs", &jobs).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let last = client.wait(answer.body[3]["id"].as_str().unwrap());
    let third = json!({"own": true, "inputs": {"first": {"rows": [1, 2]}, "second": null}});
    assert_eq!(last["result"], json!({"inputs": {"all": third}}), "{last}");
}

#[test]
fn a_cycle_is_refused_with_its_path() {
    let answer = shared()
        .post(
            "/api/v1/jobs",
            &json!([
                {"handler": "noop", "depends_on": ["#1"]},
                {"handler": "noop", "depends_on": ["#0"]},
            ]),
        )
        .unwrap();
    assert_eq!(answer.status, 422);
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("#0") && detail.contains("#1"), "{detail}");
}

#[test]
fn a_running_job_is_cancelled_in_two_steps() {
    let client = shared();
    for (handler, grace_seconds) in [("cooperate", 5.0), ("spin", 0.1), ("sleep", 0.0)] {
        let id = client
            .enqueue(&json!({"handler": handler, "params": {"ms": 60_000}, "max_attempts": 1}));
        eventually("the job to run", Duration::from_mins(1), || {
            (state(&client.job(&id)) == "running").then_some(())
        });
        let cancel = json!({"reason": "enough", "grace_seconds": grace_seconds});
        let answer = client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
            .unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body["cancel_requested_at"].is_string(), "{answer:?}");
        let job = client.wait(&id);
        assert_eq!(state(&job), "cancelled", "{handler}: {job}");
        let again = client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
            .unwrap();
        assert_eq!(again.status, 409);
    }
}

#[test]
fn an_ended_job_is_forgotten_when_its_queue_says_so() {
    let data = TempDir::new().unwrap();
    let config = data.path().join("host.toml");
    std::fs::write(&config, "[queues.short]\nretention_seconds = 10\n").unwrap();
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    let kept = client.run(&json!({"handler": "noop"}));
    let short = client.run(&json!({"handler": "noop", "queue": "short"}));
    let body = json!({"handler": "noop", "queue": "short", "retention_seconds": 600});
    let longer = client.run(&body);
    let status = |job: &Value| {
        let id = job["id"].as_str().unwrap();
        client.get(&format!("/api/v1/jobs/{id}")).unwrap().status
    };
    eventually("the job to be forgotten", Duration::from_mins(1), || {
        (status(&short) == 404).then_some(())
    });
    assert_eq!((status(&kept), status(&longer)), (200, 200));
}

#[test]
fn a_paused_queue_keeps_its_jobs() {
    let own = own();
    let client = own.server.client();
    let pause = client
        .post("/api/v1/queues/slow/pause", &json!({"create": true}))
        .unwrap();
    assert_eq!(pause.status, 200, "{pause:?}");
    let waiting = client.enqueue(&json!({"handler": "noop", "queue": "slow"}));
    let other = client.run(&json!({"handler": "noop", "queue": "fast"}));
    assert_eq!(state(&other), "completed");
    assert_eq!(state(&client.job(&waiting)), "available");
    let resume = client
        .post("/api/v1/queues/slow/resume", &json!({}))
        .unwrap();
    assert_eq!(resume.status, 200);
    assert_eq!(state(&client.wait(&waiting)), "completed");
    assert_eq!(own.server.stop(), Some(0), "the host stops when asked to");
    drop(own.data);
}
