//! `host store copy`: the jobs of a stopped host continue in a database.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually, postgres};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;

/// Options for a host whose jobs are in `store`, an empty address for its data directory.
fn options(data: &Path, store: &str) -> Options {
    let mut options = Options::new(data);
    for (name, value) in [("STORE_URL", store), ("STORE_ALLOW_UNSAFE", "true")] {
        options.env.push((format!("HOST_{name}"), value.to_owned()));
    }
    options
}

/// Runs `host store …`. Returns its exit code, standard output and standard error.
fn store(args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(host());
    command.arg("store").args(args);
    command.env("HOST_STORE_ALLOW_UNSAFE", "true");
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (printed, errors) = (text(&output.stdout), text(&output.stderr));
    (output.status.code(), printed, errors)
}

fn act(client: &Client, path: &str) {
    let answer = client.post(path, &json!({})).unwrap();
    assert!(answer.status < 300, "{path}: {}", answer.body);
}

/// Puts a job into each state. Returns their ids by state.
fn fill(client: &Client) -> Vec<(&'static str, String)> {
    let with = |mut job: Value, more: Value| {
        job.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        client.enqueue(&job)
    };
    let noop = || json!({"handler": "noop"});
    let paused = client.post("/api/v1/queues/paused/pause", &json!({"create": true}));
    assert_eq!(paused.unwrap().status, 200);
    let key = json!({"queue": "paused", "unique": {"key": "k", "scope": "retained"}});
    let available = with(noop(), key);
    let pending = with(noop(), json!({"depends_on": [available]}));
    let scheduled = with(noop(), json!({"delay_seconds": 3600}));
    let cancelled = with(noop(), json!({"delay_seconds": 3600}));
    act(client, &format!("/api/v1/jobs/{cancelled}/cancel"));
    let completed = with(json!({"handler": "echo", "params": {"a": "ä"}}), json!({}));
    let fail = json!({"handler": "fail", "params": {"message": "no", "retryable": true}});
    let retryable = with(fail.clone(), json!({"max_attempts": 25}));
    let discarded = with(fail, json!({"max_attempts": 1}));
    let running = with(json!({"handler": "spin"}), json!({"max_attempts": 3}));
    let jobs = vec![
        ("available", available),
        ("pending", pending),
        ("scheduled", scheduled),
        ("cancelled", cancelled),
        ("completed", completed),
        ("retryable", retryable),
        ("discarded", discarded),
        ("running", running),
    ];
    for (state, id) in &jobs {
        eventually(state, Duration::from_secs(30), || {
            (client.job(id)["state"] == *state).then_some(())
        });
    }
    jobs
}

/// Removes from a job what grows while it waits.
fn still(mut job: Value) -> Value {
    job.as_object_mut().unwrap().remove("waited_ms");
    job
}

#[test]
fn jobs_in_every_state_go_on_in_a_database() {
    let data = TempDir::new().unwrap();
    let server = Server::start(&options(data.path(), ""));
    let client = server.client();
    deploy(&client, "basics");
    let jobs = fill(&client);
    let before: Vec<Value> = jobs.iter().map(|(_, id)| client.job(id)).collect();
    let (from, url) = (data.path().to_str().unwrap(), postgres::schema("copied"));
    let copy = ["copy", "--from", from, "--to", &url, "-o", "json"];
    let (code, _, errors) = store(&copy);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("stop the host first"), "{errors}");
    server.kill();

    let (code, printed, errors) = store(&copy);
    assert_eq!(code, Some(0), "{errors}");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (&printed["jobs"], &printed["components"]),
        (&json!(8), &json!(1))
    );
    let (code, _, errors) = store(&copy);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("a host has used it"), "{errors}");

    let server = Server::start(&options(data.path(), &url));
    let client = server.client();
    for ((state, id), before) in jobs.iter().zip(&before) {
        let now = client.job(id);
        match *state {
            "running" => assert_eq!(now["id"], before["id"]),
            "retryable" => assert_eq!(now["params"], before["params"]),
            _ => assert_eq!(still(now), still(before.clone()), "{state}"),
        }
    }
    eventually("the entry of the copy", Duration::from_mins(1), || {
        let listed = client.get("/api/v1/audit?verb=copy").unwrap().body;
        let object = listed["items"][0]["record"]["object"].as_str()?.to_owned();
        assert!(object.contains(from), "{object}");
        Some(())
    });
    let id = |state| &jobs.iter().find(|(name, _)| *name == state).unwrap().1;
    let keyed = json!({
        "handler": "noop", "queue": "paused", "unique": {"key": "k", "scope": "retained"},
    });
    let kept = client.post("/api/v1/jobs", &keyed).unwrap().body;
    assert_eq!(
        (&kept["id"], &kept["existing"]),
        (&json!(id("available")), &json!(true))
    );
    act(&client, "/api/v1/queues/paused/resume");
    for state in ["available", "pending"] {
        assert_eq!(client.wait(id(state))["state"], "completed");
    }
    eventually(
        "the running job to run again",
        Duration::from_secs(30),
        || {
            let job = client.job(id("running"));
            (job["state"] == "running" && job["attempt"] == 2).then_some(())
        },
    );
    act(&client, &format!("/api/v1/jobs/{}/cancel", id("running")));
    assert_eq!(client.wait(id("running"))["state"], "cancelled");
    assert_eq!(server.stop(), Some(0));
    let (code, found, errors) = store(&["check", "--store", &url, "-o", "json"]);
    assert_eq!((code, found.trim()), (Some(0), "[]"), "{errors}");

    let back = TempDir::new().unwrap();
    let (code, _, errors) = store(&[
        "copy",
        "--from",
        &url,
        "--to",
        back.path().to_str().unwrap(),
    ]);
    assert_eq!(code, Some(0), "{errors}");
    let server = Server::start(&options(back.path(), ""));
    assert_eq!(
        server.client().job(id("completed"))["result"],
        json!({"a": "ä"})
    );
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn what_cannot_be_copied_is_reported() {
    let folder = TempDir::new().unwrap();
    let from = folder.path().to_str().unwrap();
    let url = postgres::schema("copied_not");
    let (code, _, errors) = store(&["copy", "--from", from, "--to", &url]);
    assert_eq!(code, Some(5), "{errors}");
    let (code, _, errors) = store(&["copy", "--from", from, "--to", from]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("the other a database"), "{errors}");
    let secret = url.replace("postgres@", "postgres:geheim@");
    let (code, _, errors) = store(&["copy", "--from", from, "--to", &secret]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("other users can see command-line flags") && !errors.contains("geheim"),
        "{errors}"
    );
    let (code, _, errors) = store(&["copy", "--from", from]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("HOST_STORE_URL"), "{errors}");
}
