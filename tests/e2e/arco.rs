//! Arco's worker contract between real processes: a control plane and workers, and kills of each.

use std::path::Path;
use std::time::Duration;

use host_tests::{ArcoWorker, Client, Options, Server, eventually, guests, ports};
use serde_json::{Value, json};
use tempfile::TempDir;

const SECRET: &str = host_tests::secrets::ARCO_SECRET;

/// A control plane at a fixed address, with the worker `spark` at another.
struct Plane {
    folder: TempDir,
    port: u16,
    worker_port: u16,
}

impl Plane {
    fn new() -> Self {
        let first = ports::free(2);
        Self {
            folder: TempDir::new().unwrap(),
            port: first,
            worker_port: first + 1,
        }
    }

    fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    fn start(&self) -> Server {
        let folder = self.folder.path();
        let secret = folder.join("secret");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        let config = folder.join("plane.toml");
        let text = format!(
            "[protocol.arco]\nheartbeat_interval_ms = 200\nheartbeat_timeout_ms = 60000\n\
             cancel_grace_period_ms = 1000\n\
             [protocol.arco.workers.spark]\nurl = \"http://127.0.0.1:{}\"\n\
             secret_file = \"{}\"\nmax_in_flight = 8\n",
            self.worker_port,
            secret.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut options = Options::new(&folder.join("plane"));
        options.listen = format!("127.0.0.1:{}", self.port);
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        let server = Server::start(&options);
        assert_eq!(server.listener("arco"), "spark", "it names its workers");
        server
    }

    fn worker(&self) -> ArcoWorker {
        ArcoWorker::start(self.folder.path(), self.worker_port, SECRET, &self.origin())
    }

    /// Starts a whole host as the worker.
    fn serving_worker(&self) -> Server {
        let folder = self.folder.path();
        let config = folder.join("worker.toml");
        let text = format!(
            "[protocol.arco.worker]\nlisten = \"127.0.0.1:{}\"\nsecret_file = \"{}\"\n\
             callback_origins = [\"{}\"]\n",
            self.worker_port,
            folder.join("secret").display(),
            self.origin()
        );
        std::fs::write(&config, text).unwrap();
        let mut options = Options::new(&folder.join("worker")).handlers(&guests::folder());
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        Server::start(&options)
    }
}

fn until(client: &Client, id: &str, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
    eventually(what, Duration::from_mins(1), || {
        let job = client.job(id);
        is_it(&job).then_some(job)
    })
}

fn wait_for_end(client: &Client, id: &str) -> Value {
    until(client, id, "the end of a job", |job| {
        job["finished_at"].is_string()
    })
}

fn attempts(client: &Client, id: &str) -> Vec<Value> {
    let answer = client.get(&format!("/api/v1/jobs/{id}/attempts")).unwrap();
    let items = answer.body["items"].as_array().or(answer.body.as_array());
    items.unwrap().clone()
}

fn has_heartbeat(job: &Value) -> bool {
    job["last_heartbeat_at"].is_string()
}

#[test]
fn a_worker_executes_jobs_of_a_control_plane() {
    let plane = Plane::new();
    let server = plane.start();
    let client = server.client();
    // The jobs wait for their worker.
    let ids: Vec<String> = (0..50)
        .map(|n| client.enqueue(&json!({"handler": "spark#echo", "params": {"n": n}})))
        .collect();
    let why = eventually("the reason why a job waits", Duration::from_mins(1), || {
        let job = client.job(&ids[0]);
        let why = job["waits_because"].as_str()?;
        why.contains("cannot connect").then(|| why.to_owned())
    });
    assert!(
        why.starts_with("the worker spark/1 takes no jobs: "),
        "{why}"
    );
    let worker = plane.worker();
    assert!(
        worker
            .address()
            .ends_with(&format!(":{}", plane.worker_port))
    );
    for (n, id) in ids.iter().enumerate() {
        let job = wait_for_end(&client, id);
        assert_eq!(job["state"], "completed", "{job}");
        assert_eq!(job["result"]["output"], json!({"n": n}));
        assert!(
            job["result"]["metrics"]["peakMemoryBytes"].is_u64(),
            "{job}"
        );
    }
    for (handler, params, kind, category) in [
        ("missing", json!({}), "user_error", "CONFIGURATION"),
        ("sleep", json!({"ms": "x"}), "user_error", "DATA_QUALITY"),
        (
            "fail",
            json!({"message": "no", "retryable": false}),
            "user_error",
            "USER_CODE",
        ),
    ] {
        let id = client.enqueue(&json!({"handler": format!("spark#{handler}"), "params": params}));
        let job = wait_for_end(&client, &id);
        assert_eq!(job["state"], "discarded", "{job}");
        let failure = &job["failure"];
        assert_eq!(
            (&failure["kind"], &failure["category"]),
            (&json!(kind), &json!(category)),
            "{job}"
        );
    }
    let id = client.enqueue(&json!({"handler": "spark#spin", "timeout_seconds": 600}));
    until(&client, &id, "a heartbeat", has_heartbeat);
    cancel(&client, &id);
    assert_eq!(wait_for_end(&client, &id)["state"], "cancelled");
    let runners = client.get("/api/v1/runners").unwrap().body.to_string();
    assert!(
        runners.contains("spark") && runners.contains("\"up\""),
        "{runners}"
    );
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(server.stop(), Some(0));
    assert_no_secret(plane.folder.path());
}

/// Searches the processes' logs for secrets.
fn assert_no_secret(folder: &Path) {
    for log in ["plane/serve.log", "arco-worker.log"] {
        let text = std::fs::read_to_string(folder.join(log)).unwrap();
        assert!(!text.contains(SECRET), "{log} has the secret");
        assert!(!text.contains("eyJ"), "{log} has a token");
    }
}

#[test]
fn a_control_plane_that_is_killed_goes_on_with_the_same_attempt() {
    let plane = Plane::new();
    let server = plane.start();
    let worker = plane.worker();
    let client = server.client();
    let sleep = json!({"handler": "spark#sleep", "params": {"ms": 10_000}});
    let ids: Vec<String> = (0..4).map(|_| client.enqueue(&sleep)).collect();
    for id in &ids {
        until(&client, id, "a heartbeat", has_heartbeat);
    }
    server.kill();
    let server = plane.start();
    let client = server.client();
    for id in &ids {
        let job = wait_for_end(&client, id);
        assert_eq!(job["state"], "completed", "{job}");
        let attempts = attempts(&client, id);
        assert_eq!(attempts.len(), 1, "{attempts:?}");
        assert_eq!(attempts[0]["number"], 1);
    }
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn an_end_survives_the_kill_of_both_sides() {
    let plane = Plane::new();
    let server = plane.start();
    let worker = plane.serving_worker();
    assert!(worker.arco_address().is_some());
    let client = server.client();
    let id = client.enqueue(&json!({"handler": "spark#sleep", "params": {"ms": 10_000}}));
    until(&client, &id, "a heartbeat", has_heartbeat);
    server.kill();
    // The task ends while the control plane is down.
    let outbox = plane.folder.path().join("worker/arco-worker");
    eventually("an end on disk", Duration::from_mins(1), || {
        let mut entries = std::fs::read_dir(&outbox).ok()?.flatten();
        entries.find(|entry| entry.path().extension().is_some_and(|it| it == "json"))
    });
    worker.kill();
    let worker = plane.serving_worker();
    let server = plane.start();
    let client = server.client();
    let job = wait_for_end(&client, &id);
    assert_eq!(job["state"], "completed", "{job}");
    assert_eq!(attempts(&client, &id).len(), 1);
    eventually("an empty outbox", Duration::from_mins(1), || {
        let entries = std::fs::read_dir(&outbox).ok()?.flatten();
        let pending =
            entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "json"));
        (pending.count() == 0).then_some(())
    });
    assert_eq!(worker.stop(), Some(0));
}

/// Cancels a job that runs.
fn cancel(client: &Client, id: &str) {
    let answer = client
        .post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}))
        .unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_task_that_ignores_its_cancel_ends_alone() {
    let plane = Plane::new();
    let server = plane.start();
    let worker = plane.worker();
    let client = server.client();
    let spin = json!({"handler": "spark#spin", "timeout_seconds": 600});
    let [stubborn, neighbor] = [(); 2].map(|()| client.enqueue(&spin));
    for id in [&stubborn, &neighbor] {
        until(&client, id, "a heartbeat", has_heartbeat);
    }
    cancel(&client, &stubborn);
    let job = wait_for_end(&client, &stubborn);
    assert_eq!(job["state"], "cancelled", "{job}");
    assert_eq!(attempts(&client, &stubborn).len(), 1);
    // Its neighbour continues with the same attempt and gets no cancel.
    let over = job["finished_at"].as_str().unwrap();
    let job = until(&client, &neighbor, "a later heartbeat", |job| {
        job["last_heartbeat_at"].as_str() > Some(over)
    });
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("running"), &json!(1))
    );
    assert!(job["cancel_requested_at"].is_null(), "{job}");
    cancel(&client, &neighbor);
    assert_eq!(wait_for_end(&client, &neighbor)["state"], "cancelled");
    assert_eq!(attempts(&client, &neighbor).len(), 1);
    assert_eq!(worker.stop().0, Some(0));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn logs_of_guests_are_on_the_standard_output_of_a_worker() {
    for is_on in [true, false] {
        let plane = Plane::new();
        let server = plane.start();
        let args = if is_on {
            vec![]
        } else {
            vec!["--log-jobs".to_owned(), "off".to_owned()]
        };
        let worker = ArcoWorker::start_with(
            plane.folder.path(),
            plane.worker_port,
            SECRET,
            &plane.origin(),
            &args,
        );
        let client = server.client();
        let id = client.enqueue(&json!({"handler": "spark#log", "params": {"lines": 3}}));
        assert_eq!(wait_for_end(&client, &id)["state"], "completed");
        let printed = worker.stop_and_read();
        let lines: Vec<Value> = printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let expected = if is_on { 3 } else { 0 };
        assert_eq!(lines.len(), expected, "{printed}");
        for (n, line) in (1..).zip(&lines) {
            let shown = (&line["job"], &line["level"], &line["message"]);
            let message = json!(format!("line {n} of 3"));
            assert_eq!(shown, (&json!(id), &json!("info"), &message));
        }
        assert_eq!(server.stop(), Some(0));
    }
}
