//! Pools whose runners the host starts: one process for each job, with our own worker as the program.

use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host_tests::delta::worker_command;
use host_tests::processes::is_alive;
use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{Client, Options, Server, eventually, secrets};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

const WAIT_MAX: Duration = Duration::from_mins(3);

/// Writes a configuration whose pool `ci` is started by the host, and returns the options for it.
fn options(folder: &Path) -> Options {
    let command = worker_command();
    let text = format!(
        "[protocol.delta]\nlease_ttl_seconds = 60\nheartbeat_interval_seconds = 1\n\
         [protocol.delta.runners.ci]\ncmd = {command:?}\npool_size = 2\n\
         env = {{XDG_CACHE_HOME = {:?}, {} = {:?}}}\n",
        cache().display().to_string(),
        secrets::VARIABLE.0,
        secrets::VARIABLE.1,
    );
    let config = folder.join("delta.toml");
    std::fs::write(&config, text).unwrap();
    let mut options = Options::new(&folder.join("data"));
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    options
}

fn job(steps: &Value) -> Value {
    json!({
        "handler": "ci#unit-tests", "params": {"steps": steps}, "max_attempts": 2,
        "timeout_seconds": 600,
    })
}

fn endless() -> Value {
    job(&json!([{"run": "wasm:sleep", "with": {"ms": 600_000}}]))
}

/// Waits until a step of an attempt of the job runs.
fn is_running(client: &Client, id: &str, attempt: u64) {
    eventually("the job to run", WAIT_MAX, || {
        let job = client.job(id);
        let step = job["progress"]["message"].as_str()?.contains("wasm:");
        (step && job["state"] == "running" && job["attempt"] == attempt).then_some(())
    });
}

/// Returns the process of the runner that has a job.
fn runner(client: &Client) -> u32 {
    let pool = client.get("/api/v1/runners/ci").unwrap().body;
    let runners = pool["runners"].as_array().unwrap();
    let busy = runners.iter().find(|it| it["in_flight"] == 1);
    let pid = busy
        .and_then(|it| it["pid"].as_u64())
        .unwrap_or_else(|| panic!("no runner is busy: {pool}"));
    u32::try_from(pid).unwrap()
}

fn attempts(client: &Client, id: &str) -> Vec<String> {
    let answer = client.get(&format!("/api/v1/jobs/{id}/attempts")).unwrap();
    let shown = |it: &Value| {
        let (executor, outcome) = (it["executor"].as_str(), it["outcome"].as_str());
        format!("{} {}", executor.unwrap(), outcome.unwrap())
    };
    let items = answer.body["items"].as_array().unwrap().clone();
    items.iter().map(shown).collect()
}

#[test]
fn a_runner_is_started_for_each_job() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&options(folder.path()));
    let client = server.client();
    let steps =
        json!([{"run": "wasm:log", "with": {"lines": 3}}, {"run": "wasm:echo", "with": {"x": 1}}]);
    let ids: Vec<String> = (0..3).map(|_| client.enqueue(&job(&steps))).collect();
    for id in &ids {
        let done = client.wait(id);
        assert_eq!(done["state"], "completed", "{done}");
        assert_eq!(done["result"]["status"], "SUCCEEDED");
        assert!(attempts(&client, id)[0].starts_with("ci/"));
        let lines = eventually("the log to be kept", WAIT_MAX, || {
            let logs = client.get(&format!("/api/v1/jobs/{id}/logs")).ok()?.body;
            let lines: Vec<_> = logs["items"]
                .as_array()?
                .iter()
                .map(|line| line["message"].to_string())
                .collect();
            let guest = lines.iter().filter(|line| line.contains("info line"));
            (guest.count() == 3).then_some(lines)
        });
        assert!(!lines.concat().contains("lease_0"), "{lines:?}");
        let files = folder.path().join("data/delta").join(id).join("1");
        eventually("the lease to be removed", WAIT_MAX, || {
            let is_clean = !files.join("run.partial/lease.json").exists()
                && !files.join("run.partial/work").exists();
            (is_clean && files.join("log").exists()).then_some(())
        });
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_cancel_reaches_the_runner_and_a_killed_one_loses_its_lease_at_once() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&options(folder.path()));
    let client = server.client();
    let id = client.enqueue(&endless());
    is_running(&client, &id, 1);
    let first = i32::try_from(runner(&client)).unwrap();
    kill_process(Pid::from_raw(first).unwrap(), Signal::KILL).unwrap();
    is_running(&client, &id, 2);
    assert!(attempts(&client, &id)[0].ends_with(" lost"));
    let second = runner(&client);
    let cancel = client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!(cancel.unwrap().status, 200);
    let done = client.wait(&id);
    assert_eq!(done["state"], "cancelled", "{done}");
    assert_eq!(done["failure"]["kind"], "cancelled", "{done}");
    let message = done["failure"]["message"].as_str().unwrap();
    assert!(message.starts_with("wasm:sleep: "), "{message}");
    eventually("the runner to end", WAIT_MAX, || {
        (!is_alive(second)).then_some(())
    });
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn the_runners_of_a_killed_host_are_gone_and_their_jobs_run_again() {
    let folder = TempDir::new().unwrap();
    let options = options(folder.path());
    let server = Server::start(&options);
    let id = server.client().enqueue(&endless());
    is_running(&server.client(), &id, 1);
    let lost = runner(&server.client());
    server.kill();
    let server = Server::start(&options);
    let client = server.client();
    is_running(&client, &id, 2);
    assert!(!is_alive(lost), "the first runner has ended");
    let first = folder.path().join("data/delta").join(&id).join("1");
    assert!(!first.join("run.partial/lease.json").exists());
    assert!(attempts(&client, &id)[0].ends_with(" lost"));
    let second = runner(&client);
    // A stopping host ends its runners.
    assert_eq!(server.stop(), Some(0));
    assert!(!is_alive(second));
}

/// Starts a host with a runner that leaves its process group, and returns the process that it becomes there.
fn stray(folder: &Path, timeout_seconds: u64) -> (Server, String, u32) {
    let witness = folder.join("witness");
    let script = leaving(&witness);
    let config = folder.join("delta.toml");
    let command = ["/bin/sh", "-c", &script];
    std::fs::write(
        &config,
        format!("[protocol.delta.runners.ci]\ncmd = {command:?}\n"),
    )
    .unwrap();
    let mut options = Options::new(&folder.join("data"));
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    let server = Server::start(&options);
    let id = server.client().enqueue(&json!({
        "handler": "ci#unit-tests", "max_attempts": 1, "timeout_seconds": timeout_seconds,
    }));
    (server, id, left(&witness))
}

/// Returns a script that starts a process outside its group, which writes its id to `witness`.
fn leaving(witness: &Path) -> String {
    format!(
        "setsid sh -c 'trap \"\" TERM; echo $$ >{0}.new && mv {0}.new {0}; while :; do sleep 1; done' & wait",
        witness.display()
    )
}

/// Waits for that process.
fn left(witness: &Path) -> u32 {
    let pid = eventually("the process", WAIT_MAX, || {
        std::fs::read_to_string(witness).ok()?.trim().parse().ok()
    });
    assert!(is_alive(pid));
    pid
}

#[test]
fn all_that_a_runner_started_ends_with_a_killed_host() {
    let folder = TempDir::new().unwrap();
    let (server, _, pid) = stray(folder.path(), 600);
    server.kill();
    eventually("its processes to end", WAIT_MAX, || {
        (!is_alive(pid)).then_some(())
    });
}

/// The host is killed before its supervisor could say that the runner has started.
#[test]
fn all_that_a_runner_started_ends_if_the_host_was_killed_meanwhile() {
    let folder = TempDir::new().unwrap();
    let witness = folder.path().join("witness");
    let (host_end, mut supervisor_end) = UnixStream::pair().unwrap();
    // No process reads, so the supervisor waits when it writes.
    supervisor_end.set_nonblocking(true).unwrap();
    while supervisor_end.write(&[0]).is_ok() {}
    supervisor_end.set_nonblocking(false).unwrap();
    let mut supervisor = Command::new(host())
        .args([
            "cell",
            "supervise",
            "--",
            "/bin/sh",
            "-c",
            &leaving(&witness),
        ])
        .stdin(OwnedFd::from(supervisor_end))
        .spawn()
        .unwrap();
    let pid = left(&witness);
    drop(host_end);
    supervisor.wait().unwrap();
    assert!(!is_alive(pid));
}

#[test]
fn all_that_a_runner_started_ends_at_the_time_limit_of_its_job() {
    let folder = TempDir::new().unwrap();
    let (server, id, pid) = stray(folder.path(), 1);
    let done = server.client().wait(&id);
    assert_eq!(done["state"], "discarded", "{done}");
    assert!(!is_alive(pid));
    assert_eq!(server.stop(), Some(0));
}
