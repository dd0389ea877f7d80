//! The host as an orchestrator of beads workers: workers written in Bash, and test workers.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use host_tests::beads::{BeadsWorker, Socat};
use host_tests::server::host as program;
use host_tests::{Client, Options, Server, eventually};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The limit for every wait.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// A host with a socket for workers.
pub(crate) struct Orchestrator {
    server: Option<Server>,
    options: Options,
    pub(crate) socket: PathBuf,
    data: TempDir,
}

impl Orchestrator {
    /// Starts a host that holds a READY for ten seconds.
    pub(crate) fn start() -> Self {
        Self::with("hold_seconds = 10")
    }

    fn with(keys: &str) -> Self {
        let data = TempDir::new().unwrap();
        let socket = data.path().join("b.sock");
        let config = data.path().join("host.toml");
        let text = format!(
            "[protocol.beads]\nsocket = \"{}\"\n{keys}\n",
            socket.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut options = Options::new(data.path());
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        Self {
            server: Some(Server::start(&options)),
            options,
            socket,
            data,
        }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        self.server().client()
    }

    fn connect(&self, id: &str) -> BeadsWorker {
        BeadsWorker::connect(&self.socket, id).unwrap()
    }

    fn attempts(&self, job: &str) -> Vec<Value> {
        let answer = self.client().get(&format!("/api/v1/jobs/{job}/attempts"));
        answer.unwrap().body["items"].as_array().unwrap().clone()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.data.path().join("serve.log")).unwrap()
    }

    pub(crate) fn stop(&mut self) -> Option<i32> {
        self.server.take().unwrap().stop()
    }
}

impl Drop for Orchestrator {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn until_state(client: &Client, job: &str, state: &str) {
    eventually(state, WAIT_MAX, || {
        (client.job(job)["state"] == state).then_some(())
    });
}

#[test]
fn workers_written_in_bash_do_tasks_fail_them_and_end() {
    let mut host = Orchestrator::start();
    let client = host.client();
    let witness = host.data.path().join("witness");
    std::fs::write(&witness, "").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/beads_worker.sh");
    let workers = ["W1", "W2"].map(|id| Socat::worker(&host.socket, &script, id, &witness));
    let title = "Fix ]}{ \"it\" für alle";
    let done =
        client.run(&json!({"handler": "beads#tidy", "params": {"title": title}, "priority": 9}));
    assert_eq!(done["state"], "completed", "{done}");
    assert_eq!(done["result"]["duration_ms"], 1);
    let worker = done["result"]["worker_id"].as_str().unwrap();
    assert!(["W1", "W2"].contains(&worker), "{worker}");
    let failing = json!({"handler": "beads#fail-it", "params": {}, "max_attempts": 1});
    let failed = client.run(&failing);
    assert_eq!(failed["state"], "discarded", "{failed}");
    let attempt = &host.attempts(failed["id"].as_str().unwrap())[0];
    assert_eq!(
        attempt["failure"]["message"], "command not found",
        "{attempt}"
    );
    let executor = attempt["executor"].as_str().unwrap();
    assert!(["beads/1", "beads/2"].contains(&executor), "{executor}");
    assert_eq!(host.stop(), Some(0));
    for worker in workers {
        assert_eq!(worker.wait(), Some(0));
    }
    let seen = std::fs::read_to_string(&witness).unwrap();
    let id = done["id"].as_str().unwrap();
    assert!(
        seen.contains(&format!("works on {id}: {title}\n")),
        "{seen}"
    );
    assert!(
        seen.contains("W1 ends\n") && seen.contains("W2 ends\n"),
        "{seen}"
    );
    assert!(!host.socket.exists());
}

#[test]
fn a_task_goes_to_another_worker_when_its_own_is_gone() {
    let host = Orchestrator::start();
    let client = host.client();
    let id = client.enqueue(&json!({"handler": "beads#tidy"}));
    let mut first = host.connect("W1");
    assert_eq!(first.task()["issue_id"], id.as_str());
    assert_eq!(client.job(&id)["state"], "running");
    let mut second = host.connect("W2");
    second.ready();
    drop(first);
    let task = second.message().unwrap();
    assert_eq!(
        (&task["type"], &task["issue_id"]),
        (&json!("TASK"), &json!(id))
    );
    second.done(&task);
    let job = client.wait(&id);
    assert_eq!(job["state"], "completed");
    let attempts = host.attempts(&id);
    let kinds: Vec<_> = attempts
        .iter()
        .map(|it| it["failure"]["kind"].as_str())
        .collect();
    assert_eq!(kinds, [Some("lease_lost"), None], "{attempts:?}");
}

#[test]
fn people_see_who_does_what() {
    let host = Orchestrator::start();
    let id = host.client().enqueue(&json!({"handler": "beads#tidy"}));
    let mut busy = host.connect("builder\u{1b}[31m");
    busy.task();
    let mut idle = host.connect("W7");
    idle.ready();
    let seen = eventually("both workers", WAIT_MAX, || {
        let shown = Command::new(program())
            .args(["runner", "show", "beads", "--server"])
            .arg(format!("http://{}", host.server().address()))
            .output()
            .unwrap();
        let text = String::from_utf8(shown.stdout).unwrap();
        text.contains("W7 waits for a task").then_some(text)
    });
    assert!(
        seen.contains("beads/1") && seen.contains("beads/2"),
        "{seen}"
    );
    assert!(seen.contains(&format!("works on {id}")), "{seen}");
    assert!(!seen.contains('\u{1b}'), "{seen:?}");
}

#[test]
fn a_cancelled_task_ends_after_its_grace() {
    let host = Orchestrator::start();
    let client = host.client();
    let id = client.enqueue(&json!({"handler": "beads#tidy"}));
    let mut worker = host.connect("W1");
    let task = worker.task();
    let answer = client.post(
        &format!("/api/v1/jobs/{id}/cancel"),
        &json!({"grace_seconds": 0.2}),
    );
    assert_eq!(answer.unwrap().status, 200);
    assert_eq!(client.wait(&id)["state"], "cancelled");
    worker.done(&task);
    assert_eq!(worker.message().unwrap()["type"], "WAIT");
}

#[test]
fn a_host_that_stops_gives_back_what_its_workers_do_not_end() {
    let mut host = Orchestrator::start();
    let client = host.client();
    let ids = [0, 1].map(|_| client.enqueue(&json!({"handler": "beads#tidy"})));
    let (mut leaves, mut ends) = (host.connect("W1"), host.connect("W2"));
    let (left, task) = (leaves.task(), ends.task());
    host.server().ask_to_stop();
    assert_eq!(leaves.message().unwrap()["type"], "SHUTDOWN");
    assert_eq!(ends.message().unwrap()["type"], "SHUTDOWN");
    drop(leaves);
    ends.done(&task);
    drop(ends);
    assert_eq!(host.server.take().unwrap().wait(), Some(0));
    host.server = Some(Server::start(&host.options));
    let client = host.client();
    for id in ids {
        let state = if left["issue_id"] == id.as_str() {
            "available"
        } else {
            "completed"
        };
        assert_eq!(client.job(&id)["state"], state);
    }
}

#[test]
fn a_start_names_what_is_in_the_way() {
    let host = Orchestrator::start();
    let folder = TempDir::new().unwrap();
    let start = |path: &Path| {
        let output = Command::new(program())
            .args(["serve", "--listen", "off", "--data"])
            .arg(folder.path().join("data"))
            .arg("--beads-socket")
            .arg(path)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let printed = start(&host.socket);
    assert!(
        printed.contains("another process is listening"),
        "{printed}"
    );
    assert!(printed.contains(host.socket.to_str().unwrap()), "{printed}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(start(&file).contains("not a socket"));
    let mut worker = host.connect("W1");
    worker.send_line("still here?");
}

/// The work of 50 workers: issues in progress and issues done.
#[derive(Default)]
struct Witness {
    running: Mutex<BTreeSet<String>>,
    may_end: AtomicBool,
    is_over: AtomicBool,
}

impl Witness {
    /// Works until the test is over. The end of the connection ends the task.
    fn work(&self, path: &Path, id: &str) {
        while !self.is_over.load(Ordering::SeqCst) {
            let Ok(mut worker) = BeadsWorker::connect(path, id) else {
                std::thread::yield_now();
                continue;
            };
            worker.ready();
            while let Some(message) = worker.message() {
                match message["type"].as_str().unwrap() {
                    "TASK" => self.execute(&mut worker, &message),
                    "WAIT" if self.is_over.load(Ordering::SeqCst) => break,
                    "WAIT" => worker.ready(),
                    _ => break,
                }
            }
        }
    }

    fn execute(&self, worker: &mut BeadsWorker, task: &Value) {
        let issue = task["issue_id"].as_str().unwrap().to_owned();
        let is_alone = self.running.lock().unwrap().insert(issue.clone());
        assert!(is_alone, "{issue} runs twice at the same time");
        if self.may_end.load(Ordering::SeqCst) {
            self.running.lock().unwrap().remove(&issue);
            worker.done(task);
            worker.ready();
        } else {
            // Nothing arrives but the end of the connection.
            assert_eq!(worker.message(), None);
            self.running.lock().unwrap().remove(&issue);
        }
    }
}

#[test]
fn no_task_is_lost_or_done_twice_when_the_host_is_killed_under_busy_workers() {
    const WORKERS: usize = 50;
    const TASKS: usize = 120;
    let mut host = Orchestrator::with("hold_seconds = 1");
    let client = host.client();
    let jobs = vec![json!({"handler": "beads#tidy"}); TASKS];
    let accepted = client.post("/api/v1/jobs", &json!(jobs)).unwrap().body;
    let ids: Vec<String> = accepted
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["id"].as_str().unwrap().to_owned())
        .collect();
    let witness = Arc::new(Witness::default());
    let threads: Vec<_> = (0..WORKERS)
        .map(|number| {
            let (witness, path) = (Arc::clone(&witness), host.socket.clone());
            std::thread::spawn(move || witness.work(&path, &format!("W{number}")))
        })
        .collect();
    let running = |count: usize| {
        eventually("the workers", WAIT_MAX, || {
            (witness.running.lock().unwrap().len() == count).then_some(())
        });
    };
    running(WORKERS);
    host.server.take().unwrap().kill();
    running(0);
    witness.may_end.store(true, Ordering::SeqCst);
    host.server = Some(Server::start(&host.options));
    let client = host.client();
    for id in &ids {
        let job = client.wait(id);
        assert_eq!(job["state"], "completed", "{job}");
    }
    witness.is_over.store(true, Ordering::SeqCst);
    assert_eq!(host.stop(), Some(0));
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn bad_lines_are_logged_cut_and_the_connection_goes_on() {
    let host = Orchestrator::with("wait_seconds = 30");
    let mut worker = host.connect("W1");
    worker.send_line("\u{1b}]0;evil\u{7} GET / HTTP/1.1");
    worker.send_line(&"x".repeat(2 << 20));
    for n in 0..60 {
        worker.send_line(&format!("{{\"type\":\"STATUS{n}\",\"worker_id\":\"W1\"}}"));
    }
    worker.ready();
    assert_eq!(worker.message().unwrap()["type"], "WAIT");
    let answer = host.client().get("/metrics").unwrap();
    let metrics = answer.body.as_str().unwrap();
    for (code, count) in [
        ("E_JSON", 1),
        ("E_LINE_TOO_LONG", 1),
        ("E_UNKNOWN_TYPE", 60),
    ] {
        let line = format!("wire_refusals_total{{wire=\"beads\",code=\"{code}\"}} {count}");
        assert!(metrics.contains(&line), "{metrics}");
    }
    let log = host.log();
    assert!(
        log.contains("E_LINE_TOO_LONG") && !log.contains('\u{7}'),
        "{log}"
    );
    assert!(log.len() < 16 << 10, "{} bytes", log.len());
    until_state(
        &host.client(),
        &host.client().enqueue(&json!({"handler": "beads#tidy"})),
        "available",
    );
}
