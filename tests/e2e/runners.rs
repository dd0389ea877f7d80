//! Foreign RRQ runners execute our jobs. The runner is our own worker, started by the host.

use std::time::{Duration, Instant};

use host_tests::eventually;
use host_tests::pool::{Pool, launch_config, worker_env, workers};
use host_tests::processes::{children, is_alive};
use host_tests::worker::{self, Worker};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;

/// How long a runner may take to end, or the host to notice.
const WAIT_MAX: Duration = Duration::from_mins(2);

fn signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn a_runner_executes_its_jobs() {
    let host = Pool::of_workers(2, 4);
    host.loaded();
    let client = host.client();
    let params = json!({"a": [1, "ü", null]});
    let job = client.run(&json!({"handler": "own#echo", "params": params}));
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(job["result"], params);
    assert_eq!(job["handler"], "own#echo");
    let attempts = host.attempts(job["id"].as_str().unwrap());
    let executor = attempts[0]["executor"].as_str().unwrap();
    assert!(["own/1", "own/2"].contains(&executor), "{executor}");
    let absent = client.run(&json!({"handler": "own#echo"}));
    assert_eq!(
        absent["result"],
        json!({}),
        "absent params are sent as an object"
    );
    let jobs: Vec<_> = (0..100)
        .map(|n| json!({"handler": "own#echo", "params": {"n": n}}))
        .collect();
    let answer = client.post("/api/v1/jobs", &json!(jobs)).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let mut executors = std::collections::BTreeSet::new();
    for (n, entry) in answer.body.as_array().unwrap().iter().enumerate() {
        let id = entry["id"].as_str().unwrap();
        assert_eq!(client.wait(id)["result"], json!({"n": n}));
        executors.insert(host.attempts(id)[0]["executor"].to_string());
    }
    assert_eq!(executors.len(), 2, "{executors:?}");
}

#[test]
fn failures_are_recorded_and_retried_by_the_rules_of_the_host() {
    let host = Pool::of_workers(1, 4);
    let client = host.client();
    let params = json!({"message": "no such customer"});
    let once = json!({"handler": "own#fail", "params": params, "max_attempts": 1});
    let failed = client.run(&once);
    assert_eq!(failed["state"], "discarded", "{failed}");
    let failure = &failed["failure"];
    assert_eq!(failure["kind"], "user_error", "{failure}");
    assert_eq!(failure["user_kind"], "told_to_fail", "{failure}");
    assert_eq!(failure["message"], "no such customer", "{failure}");

    let body = json!({"handler": "own#flaky", "params": {"fail_times": 2}});
    let flaky = client.run(&body);
    assert_eq!(
        (&flaky["state"], &flaky["attempt"]),
        (&json!("completed"), &json!(3)),
        "{flaky}"
    );

    let unknown = client.run(&json!({"handler": "own#missing"}));
    assert_eq!(unknown["state"], "discarded", "{unknown}");
    assert_eq!(unknown["failure"]["kind"], "handler_not_found");
    assert_eq!(unknown["attempt"], 1);
}

#[test]
fn jobs_find_their_runner_by_prefix_queue_and_default() {
    let rest = "[protocol.rrq]\ndefault_runner = \"own\"\n[queues.theirs]\nrunner = \"own\"";
    let host = Pool::start(&workers(1, 4), rest);
    let client = host.client();
    let executor = |job: Value| {
        let job = client.run(&job);
        assert_eq!(job["state"], "completed", "{job}");
        let attempts = host.attempts(job["id"].as_str().unwrap());
        attempts[0]["executor"].as_str().unwrap().to_owned()
    };
    assert_eq!(executor(json!({"handler": "echo"})), "own/1");
    deploy(&client, "basics");
    assert!(executor(json!({"handler": "echo"})).starts_with("cell-"));
    let in_queue = json!({"handler": "echo", "queue": "theirs"});
    assert_eq!(executor(in_queue), "own/1");
    assert_eq!(executor(json!({"handler": "own#echo"})), "own/1");
    let refused = client
        .post("/api/v1/jobs", &json!({"handler": "other#echo"}))
        .unwrap();
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert_eq!(refused.body["code"], "handler_not_found");
}

#[test]
fn a_timed_out_job_does_not_end_its_runner() {
    let host = Pool::of_workers(1, 4);
    let client = host.client();
    let pids = host.loaded();
    let start = Instant::now();
    let job = client.run(&json!({
        "handler": "own#spin", "timeout_seconds": 0.5,
    }));
    assert_eq!(job["state"], "discarded", "{job}");
    assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert_eq!(host.up(), pids, "the runner was not restarted");
    assert_eq!(
        client.run(&json!({"handler": "own#echo"}))["state"],
        "completed"
    );
}

#[test]
fn a_cancel_reaches_the_runner() {
    let host = Pool::of_workers(1, 4);
    let client = host.client();
    let pids = host.loaded();
    for handler in ["own#sleep", "own#spin", "own#cooperate"] {
        let id = host.running(&json!({
            "handler": handler, "params": {"ms": 60_000}, "timeout_seconds": 60,
        }));
        let start = Instant::now();
        let cancel = format!("/api/v1/jobs/{id}/cancel");
        let answer = client.post(&cancel, &json!({})).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        let job = client.wait(&id);
        assert_eq!(job["state"], "cancelled", "{handler}: {job}");
        assert!(start.elapsed() < Duration::from_secs(10), "{handler}");
    }
    assert_eq!(host.up(), pids, "the runner was not restarted");
}

#[test]
fn limits_schedules_and_batches_are_for_the_jobs_of_a_runner_too() {
    let host = Pool::of_workers(1, 4);
    let client = host.client();
    host.loaded();
    let put = |path: &str, body: Value| {
        let answer = client.call("PUT", path, Some(&body)).unwrap();
        assert!(answer.status < 300, "{}", answer.body);
    };
    let limit = json!({"match": {"queue": "theirs"}, "concurrency": 1});
    put("/api/v1/limits/one", limit);
    let in_queue = |handler: &str, params: Value| json!({"handler": handler, "params": params, "queue": "theirs"});
    let first = host.running(&in_queue("own#sleep", json!({"ms": 60_000})));
    let second = client.enqueue(&in_queue("own#echo", json!({"n": 2})));
    let waits = client.job(&second);
    assert_eq!(waits["state"], "pending", "{waits}");
    let because = waits["waits_because"].as_str().unwrap();
    assert!(because.starts_with("the limit one is full"), "{waits}");
    let schedule = json!({"when": {"every": "24h"}, "job": in_queue("own#echo", json!({"n": 3}))});
    put("/api/v1/schedules/daily", schedule);
    let fired = client
        .post("/api/v1/schedules/daily/trigger", &json!({}))
        .unwrap()
        .body["jobs"][0]
        .clone();
    let body = json!({
        "jobs": [in_queue("own#echo", json!({"n": 4}))], "on_success": {"handler": "own#echo"},
    });
    let batch = client.post("/api/v1/batches", &body).unwrap().body["batch"]["id"].clone();
    let cancel = format!("/api/v1/jobs/{first}/cancel");
    assert_eq!(client.post(&cancel, &json!({})).unwrap().status, 200);
    for (id, n) in [(second.as_str(), 2), (fired.as_str().unwrap(), 3)] {
        assert_eq!(client.wait(id)["result"], json!({"n": n}));
    }
    let path = format!("/api/v1/batches/{}", batch.as_str().unwrap());
    let callback = eventually("the callback", WAIT_MAX, || {
        let batch = client.get(&path).unwrap().body;
        let callback = &batch["callbacks"][0];
        let is_there = callback["enqueued"] == true;
        is_there.then(|| callback["job"].as_str().unwrap().to_owned())
    });
    let called = client.wait(&callback);
    assert_eq!(called["result"]["counts"]["completed"], 1, "{called}");
}

#[test]
fn jobs_of_a_killed_runner_run_again_without_counting_an_attempt() {
    let host = Pool::of_workers(1, 4);
    let client = host.client();
    let first = host.loaded();
    let sleep = json!({
        "handler": "own#sleep", "params": {"ms": 10_000}, "max_attempts": 1, "timeout_seconds": 60,
    });
    let ids = [host.running(&sleep), host.running(&sleep)];
    signal(first[0], Signal::KILL);
    for id in &ids {
        let job = client.wait(id);
        assert_eq!(job["state"], "completed", "{job}");
        let attempts = host.attempts(id);
        let (end, lost) = attempts.split_last().unwrap();
        assert_eq!(end["outcome"], "completed", "{attempts:?}");
        // A job that the runner did not receive has no attempt there.
        assert!(!lost.is_empty() || *id != ids[0], "{attempts:?}");
        for attempt in lost {
            assert_eq!(attempt["outcome"], "lost", "{attempts:?}");
            assert_eq!(attempt["failure"]["kind"], "lease_lost", "{attempts:?}");
        }
    }
    assert_ne!(host.up(), first);
}

#[test]
fn the_jobs_of_a_killed_runner_run_again_at_once_beside_each_other() {
    let host = Pool::of_workers(2, 16);
    let client = host.client();
    let first = host.loaded();
    let sleep = json!({
        "handler": "own#sleep", "params": {"ms": 3_600_000}, "timeout_seconds": 3600,
    });
    let ids: Vec<String> = (0..32).map(|_| client.enqueue(&sleep)).collect();
    host.until_running(&ids);
    signal(first[0], Signal::KILL);
    eventually("the loss to be noticed", WAIT_MAX, || {
        let is_lost = |id: &String| client.job(id)["attempt"] == 2;
        ids.iter().any(is_lost).then_some(())
    });
    host.until_running(&ids);
}

#[test]
fn a_runner_that_hangs_is_replaced_and_its_job_ends_in_time() {
    let host = Pool::of_workers(1, 2);
    let client = host.client();
    let first = host.loaded();
    let id = host.running(&json!({
        "handler": "own#sleep", "params": {"ms": 60_000}, "timeout_seconds": 10,
    }));
    signal(first[0], Signal::STOP);
    let job = client.wait(&id);
    assert_eq!(job["failure"]["kind"], "timed_out", "{job}");
    // A job that was sent before the hang would wait for its whole time limit.
    let next = client.run(&json!({"handler": "own#echo"}));
    assert_eq!(next["state"], "completed", "{next}");
    assert_ne!(host.up(), first);
    assert!(!is_alive(first[0]));
}

#[test]
fn a_restart_waits_for_running_jobs_and_starts_a_new_process() {
    let host = Pool::of_workers(2, 2);
    let client = host.client();
    let first = host.loaded();
    let sleep = json!({"handler": "own#sleep", "params": {"ms": 5_000}});
    let id = host.running(&sleep);
    let restart = "/api/v1/runners/own/restart";
    let answer = client.post(restart, &json!({"runner": 1})).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let job = client.wait(&id);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("completed"), &json!(1))
    );
    eventually("a new process", WAIT_MAX, || {
        (host.up()[0] != first[0]).then_some(())
    });
    assert_eq!(host.up()[1], first[1], "the other one stays");
    assert_eq!(
        client.run(&json!({"handler": "own#echo"}))["state"],
        "completed"
    );
}

#[test]
fn an_external_runner_is_used_while_it_is_reachable() {
    let folder = TempDir::new().unwrap();
    let theirs = Worker::start(folder.path());
    let host = Pool::start(&format!("external = \"{}\"", theirs.address()), "");
    let client = host.client();
    assert_eq!(
        client.run(&json!({"handler": "own#echo"}))["state"],
        "completed"
    );
    assert!(host.status()["runners"][0].get("pid").is_none());
    let id = host.running(&json!({"handler": "own#sleep", "params": {"ms": 60_000}}));
    drop(theirs);
    eventually("the runner to be missed", WAIT_MAX, || {
        let missed = host.status()["up"] == 0 && client.job(&id)["state"] == "available";
        missed.then_some(())
    });
}

#[test]
fn runners_end_with_the_host_and_their_jobs_run_again_after_a_restart() {
    let host = Pool::of_workers(1, 2);
    let pids = host.loaded();
    assert!(children(host.server().pid()).contains(&pids[0]));
    let id = host.running(&json!({
        "handler": "own#sleep", "params": {"ms": 5_000}, "max_attempts": 1,
    }));
    let host = host.killed(|| {
        eventually("the runner to end", WAIT_MAX, || {
            (!is_alive(pids[0])).then_some(())
        });
    });
    let job = host.client().wait(&id);
    assert_eq!(job["state"], "completed", "{job}");
    let pids = host.up();
    assert_eq!(host.stop(), Some(0));
    assert!(!is_alive(pids[0]));
}

#[test]
fn output_of_a_runner_goes_to_the_log_of_its_job() {
    let script = "echo before; exec \"$@\"";
    let mut command = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
    command.push("sh".to_owned());
    command.extend(worker::command());
    let env = worker_env(&[("HOST_LOG", "debug")]);
    let keys = launch_config(&command, &env) + "max_in_flight = 1";
    let host = Pool::start(&keys, "");
    let client = host.client();
    let job = client.run(&json!({"handler": "own#log", "params": {"lines": 2}}));
    let path = format!("/api/v1/jobs/{}/logs", job["id"].as_str().unwrap());
    let line = eventually("what the runner wrote", WAIT_MAX, || {
        let log = client.get(&path).unwrap().body;
        let output = |line: &&Value| {
            line["message"]
                .as_str()
                .unwrap()
                .contains("a run has ended")
        };
        log["items"]
            .as_array()
            .unwrap()
            .iter()
            .find(output)
            .cloned()
    });
    assert_eq!(
        (&line["source"], &line["attempt"]),
        (&json!("stderr"), &json!(1))
    );
    let served = host.log();
    assert!(served.contains("before runner=\"own/1\""), "{served}");
    assert!(!served.contains("a run has ended"), "{served}");
}

#[test]
fn a_runner_inherits_only_the_variables_it_needs() {
    let folder = TempDir::new().unwrap();
    let written = folder.path().join("env");
    let script = format!(
        "env > {0}.new && mv {0}.new {0}; exec sleep 600",
        written.display()
    );
    let command = ["/bin/sh".to_owned(), "-c".to_owned(), script];
    let given = [("GIVEN".to_owned(), "a secret".to_owned())];
    // Cargo sets variables for this test, and the host inherits them from it.
    let keys =
        launch_config(&command, &given) + "inherit_env = [\"CARGO_MANIFEST_DIR\", \"NO_SUCH\"]\n";
    let _host = Pool::start(&keys, "");
    let text = eventually("the runner to report its variables", WAIT_MAX, || {
        std::fs::read_to_string(&written).ok()
    });
    let names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    for name in [
        "PATH",
        "GIVEN",
        "CARGO_MANIFEST_DIR",
        "RRQ_RUNNER_TCP_SOCKET",
    ] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    let known = [
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "XDG_CACHE_HOME",
        "RRQ_RUNNER_TCP_SOCKET",
        "GIVEN",
        "CARGO_MANIFEST_DIR",
        // Variables that the shell sets itself.
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    for name in names {
        assert!(known.contains(&name), "the runner must not get {name}");
    }
}
