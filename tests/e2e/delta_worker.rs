//! The real `host worker delta` and the worker role of `host serve`, against a real host.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host_tests::delta::{Runner, TOKEN, config};
use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{Client, Options, Server, eventually, guests, secrets};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

const WAIT_MAX: Duration = Duration::from_mins(3);

/// A host with the pool `ci`, without handlers of its own.
fn orchestrator(folder: &Path, ttl_seconds: u64) -> Server {
    let mut options = Options::new(&folder.join("orchestrator"));
    let config = config(folder, ttl_seconds, "");
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    Server::start(&options)
}

/// A worker that is killed when the test ends.
struct Worker(Child, std::path::PathBuf);

impl Worker {
    fn start(folder: &Path, args: &[&str]) -> Self {
        let path = folder.join("worker.log");
        let log = std::fs::File::create(&path).unwrap();
        let child = Command::new(host())
            .args(["worker", "delta", "--handlers"])
            .arg(guests::folder())
            .args(args)
            .env("XDG_CACHE_HOME", cache())
            .env("CI_TOKEN", TOKEN)
            .envs([secrets::VARIABLE])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        Self(child.unwrap(), path)
    }

    fn ends(mut self, folder: &Path) -> (Option<i32>, String) {
        let code = self.0.wait().unwrap().code();
        let log = std::fs::read_to_string(folder.join("worker.log")).unwrap();
        assert!(!log.contains(TOKEN), "{log}");
        (code, log)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        if !std::thread::panicking() {
            let log = std::fs::read(&self.1).unwrap_or_default();
            assert!(!secrets::has_secret(&log), "its log has a secret");
        }
    }
}

fn job(steps: &Value) -> Value {
    json!({"handler": "ci#unit-tests", "params": {"steps": steps}, "max_attempts": 1})
}

fn is_running(client: &Client, id: &str) {
    eventually("the job to run", WAIT_MAX, || {
        let job = client.job(id);
        let step = job["progress"]["message"].as_str()?.contains("wasm:");
        step.then_some(())
    });
}

#[test]
fn a_worker_leases_jobs_over_the_network_until_it_is_stopped() {
    let folder = TempDir::new().unwrap();
    let server = orchestrator(folder.path(), 20);
    let client = server.client();
    let url = format!("http://{}", server.address());
    let args = [
        "--orchestrator",
        &url,
        "--runner-id",
        "r1",
        "--token-env",
        "CI_TOKEN",
        "--capability",
        "os:linux",
        "--concurrency",
        "2",
    ];
    let worker = Worker::start(folder.path(), &args);
    let step = json!({"run": "wasm:echo", "with": {"x": 1}});
    let done = client.run(&job(&json!([step])));
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(done["result"]["status"], "SUCCEEDED");
    let summary: Value = serde_json::from_str(done["result"]["summary"].as_str().unwrap()).unwrap();
    assert_eq!(
        summary,
        json!({"x": 1, "step": 0, "spec": {"name": "unit-tests", "steps": [step]}})
    );
    let logging = client.enqueue(&job(&json!([{"run": "wasm:log", "with": {"lines": 3}}])));
    assert_eq!(client.wait(&logging)["state"], "completed");
    eventually("the log to be kept", WAIT_MAX, || {
        let logs = client.get(&format!("/api/v1/jobs/{logging}/logs")).ok()?;
        let lines = logs.body["items"].as_array()?.len();
        (lines == 3).then_some(())
    });
    let failed = client.run(&job(&json!(["wasm:echo", "make test"])));
    assert_eq!(failed["state"], "discarded", "{failed}");
    let message = failed["failure"]["message"].as_str().unwrap();
    assert!(message.contains("make test"), "{message}");
    // A cancel reaches the guest immediately, because the worker's heartbeats wait for it.
    let endless = json!([{"run": "wasm:sleep", "with": {"ms": 600_000}}]);
    let id = client.enqueue(&job(&endless));
    let second = client.enqueue(&job(&endless));
    // The second heartbeat names the step.
    is_running(&client, &id);
    is_running(&client, &second);
    let cancel = client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!(cancel.unwrap().status, 200);
    assert_eq!(client.wait(&id)["state"], "cancelled");
    assert_eq!(client.job(&second)["state"], "running");
    let pid = Pid::from_child(&worker.0);
    kill_process(pid, Signal::TERM).unwrap();
    let (code, log) = worker.ends(folder.path());
    assert_eq!(code, Some(0), "{log}");
}

/// Writes a lease as an orchestrator would, and returns its job.
fn lease_file(server: &Server, folder: &Path, steps: &Value) -> (String, Value) {
    let id = server.client().enqueue(&job(steps));
    let lease = Runner::new(server.address(), "r1").lease();
    assert_eq!(lease["job_id"], id);
    std::fs::write(folder.join("lease.json"), lease.to_string()).unwrap();
    (id, lease)
}

/// Starts the worker as the project's orchestrator launches its runner.
fn launched(server: &Server, folder: &Path) -> Worker {
    let url = format!("http://{}", server.address());
    let (lease, log) = (folder.join("lease.json"), folder.join("job.log"));
    let args = [
        "-orchestrator",
        &url,
        "-runner-id",
        "r1",
        "-lease",
        lease.to_str().unwrap(),
        "-workdir",
        ".",
        "-s3-bucket=b",
        "-s3-prefix=p",
        "-s3-region=r",
        "-cache-dir=c",
        "-log",
        log.to_str().unwrap(),
        "--token-env=CI_TOKEN",
    ];
    Worker::start(folder, &args)
}

#[test]
fn a_worker_executes_the_lease_in_a_file() {
    let folder = TempDir::new().unwrap();
    let server = orchestrator(folder.path(), 30);
    let steps = json!([{"run": "wasm:log", "with": {"lines": 3}}, "wasm:echo"]);
    let (id, lease) = lease_file(&server, folder.path(), &steps);
    let (code, log) = launched(&server, folder.path()).ends(folder.path());
    assert_eq!(code, Some(0), "{log}");
    let secret = lease["lease_id"].as_str().unwrap();
    assert!(!log.contains(secret), "{log}");
    // The orchestrator may pass these options, and must not expect what they ask for.
    for option in [
        "s3-bucket",
        "s3-prefix",
        "s3-region",
        "cache-dir",
        "workdir",
    ] {
        assert!(log.contains(&format!("--{option} is ignored")), "{log}");
    }
    let done = server.client().wait(&id);
    assert_eq!(done["state"], "completed", "{done}");
    let artifacts = done["result"]["artifacts"].to_string();
    assert!(artifacts.contains("/job.log"), "{artifacts}");
    let written = std::fs::read_to_string(folder.path().join("job.log")).unwrap();
    assert_eq!(written.lines().count(), 3, "{written}");
}

#[test]
fn a_worker_whose_lease_is_over_stops_and_fails() {
    let folder = TempDir::new().unwrap();
    let server = orchestrator(folder.path(), 15);
    let endless = json!([{"run": "wasm:sleep", "with": {"ms": 600_000}}]);
    let (id, _) = lease_file(&server, folder.path(), &endless);
    let worker = launched(&server, folder.path());
    eventually("the lease to be acknowledged", WAIT_MAX, || {
        let attempts = server
            .client()
            .get(&format!("/api/v1/jobs/{id}"))
            .ok()?
            .body;
        attempts["progress"].is_object().then_some(())
    });
    // Suspended for longer than its lease, it learns on resuming that the lease is over.
    let pid = Pid::from_child(&worker.0);
    kill_process(pid, Signal::STOP).unwrap();
    eventually("the lease to run out", WAIT_MAX, || {
        let job = server.client().job(&id);
        (job["state"] != "running").then_some(())
    });
    kill_process(pid, Signal::CONT).unwrap();
    let (code, log) = worker.ends(folder.path());
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("lease"), "{log}");
}

#[test]
fn a_lease_file_that_cannot_be_read_fails_and_is_named() {
    let folder = TempDir::new().unwrap();
    let server = orchestrator(folder.path(), 30);
    for (text, expected) in [
        (None, "cannot read the lease file"),
        (Some("{}"), "expected"),
        (Some("not JSON"), "at byte"),
    ] {
        if let Some(text) = text {
            std::fs::write(folder.path().join("lease.json"), text).unwrap();
        }
        let (code, log) = launched(&server, folder.path()).ends(folder.path());
        assert_eq!(code, Some(1), "{log}");
        assert!(
            log.contains(expected) && log.contains("lease.json"),
            "{log}"
        );
    }
}

#[test]
fn a_host_executes_the_jobs_of_another_orchestrator() {
    let folder = TempDir::new().unwrap();
    let server = orchestrator(folder.path(), 30);
    let path = folder.path().join("worker.toml");
    let token = folder.path().join("ci.token");
    let config = format!(
        "[protocol.delta.orchestrators.up]\nurl = \"http://{}\"\nrunner_id = \"host-1\"\n\
         token_file = {:?}\ncapabilities = [\"os:linux\"]\nconcurrency = 4\n\
         [queues.default]\nretention_seconds = 3600\n",
        server.address(),
        token.display().to_string(),
    );
    std::fs::write(&path, config).unwrap();
    let mut options = Options::new(&folder.path().join("worker")).handlers(&guests::folder());
    options.args = vec!["--config".to_owned(), path.display().to_string()];
    let worker = Server::start(&options);
    let client = server.client();
    let jobs: Vec<_> = (0..20)
        .map(|_| client.enqueue(&job(&json!(["wasm:noop"]))))
        .collect();
    for id in &jobs {
        assert_eq!(client.wait(id)["state"], "completed");
    }
    let foreign = eventually("the work to be shown", WAIT_MAX, || {
        let list = worker.client().get("/api/v1/jobs?limit=100").ok()?.body;
        let foreign: Vec<_> = list["items"]
            .as_array()?
            .iter()
            .filter(|job| job["wire"] == "delta")
            .filter_map(|job| job["id"].as_str().map(str::to_owned))
            .collect();
        (foreign.len() == jobs.len()).then_some(foreign)
    });
    let shown = worker.client().job(&foreign[0]);
    assert_eq!(shown["retention_seconds"], 3_600.0, "its queue says so");
    assert_eq!(worker.stop(), Some(0));
}
