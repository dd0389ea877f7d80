//! `host worker beads`: executes the tasks of our own orchestrator and of one written in Bash.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use host_tests::beads::Socat;
use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{Options, Server, eventually, guests, secrets};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::{NamedTempFile, TempDir};

/// The limit for every wait.
const WAIT_MAX: Duration = Duration::from_mins(2);

/// Makes the command line of a worker with all built components.
pub(crate) fn worker(socket: &Path, handler: &str, args: &[&str]) -> Command {
    let mut command = Command::new(host());
    command
        .args([
            "worker",
            "beads",
            "--handler",
            handler,
            "--cells",
            "2",
            "--handlers",
        ])
        .arg(guests::folder())
        .arg("--socket")
        .arg(socket)
        .args(args)
        .env("XDG_CACHE_HOME", cache())
        .envs([secrets::VARIABLE])
        .stdin(Stdio::null());
    command
}

/// A worker that is killed when dropped. Its output is then searched for planted secrets.
pub(crate) struct Running(pub(crate) Child, NamedTempFile);

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        let log = NamedTempFile::new().unwrap();
        let output = log.reopen().unwrap();
        let errors = output.try_clone().unwrap();
        command.env("HOST_LOG", "debug");
        let child = command.stdout(output).stderr(errors).spawn().unwrap();
        Self(child, log)
    }

    pub(crate) fn wait(mut self) -> Option<i32> {
        self.0.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let log = std::fs::read(self.1.path()).unwrap_or_default();
        if std::thread::panicking() {
            eprintln!("{}", String::from_utf8_lossy(&log));
        } else {
            assert!(!log.is_empty(), "a worker says what it does");
            assert!(!secrets::has_secret(&log), "its output has a secret");
        }
    }
}

/// Makes a program that records its calls. Returns it and the file.
pub(crate) fn bd(folder: &Path) -> (PathBuf, PathBuf) {
    let (program, calls) = (folder.join("bd"), folder.join("calls"));
    let text = format!("#!/bin/sh\necho \"$*\" >>'{}'\n", calls.display());
    std::fs::write(&program, text).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    (program, calls)
}

#[test]
fn our_workers_do_the_tasks_of_our_orchestrator_in_both_dialects() {
    for framed in [&[][..], &["--framed"]] {
        let data = TempDir::new().unwrap();
        let socket = data.path().join("b.sock");
        let mut options = Options::new(data.path());
        options.args = vec!["--beads-socket".to_owned(), socket.display().to_string()];
        let server = Server::start(&options);
        let client = server.client();
        let jobs = vec![json!({"handler": "beads#tidy", "params": {"title": "a title"}}); 40];
        let accepted = client.post("/api/v1/jobs", &json!(jobs)).unwrap().body;
        let (program, calls) = bd(data.path());
        let mut args = vec!["--concurrency", "4", "--bd", program.to_str().unwrap()];
        args.extend(framed);
        let worker = Running::start(&mut worker(&socket, "echo", &args));
        for entry in accepted.as_array().unwrap() {
            let id = entry["id"].as_str().unwrap();
            let job = client.wait(id);
            assert_eq!(job["state"], "completed", "{job}");
            assert_eq!(job["attempt"], 1, "{job}");
            let calls = std::fs::read_to_string(&calls).unwrap();
            assert!(calls.contains(&format!("update {id} --status=in_progress\n")));
            assert!(calls.contains(&format!("close {id}\n")));
        }
        assert_eq!(server.stop(), Some(0));
        assert_eq!(worker.wait(), Some(0), "SHUTDOWN ends the worker");
    }
}

#[test]
fn an_orchestrator_written_in_bash_is_served() {
    let folder = TempDir::new().unwrap();
    let (socket, witness) = (folder.path().join("b.sock"), folder.path().join("witness"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/beads_orchestrator.sh");
    let _orchestrator = Socat::orchestrator(&socket, &script, &witness);
    eventually("the socket", WAIT_MAX, || socket.exists().then_some(()));
    let (program, calls) = bd(folder.path());
    let args = ["--bd", program.to_str().unwrap()];
    let worker = Running::start(&mut worker(&socket, "echo", &args));
    assert_eq!(worker.wait(), Some(0));
    let messages: Vec<Value> = std::fs::read_to_string(&witness)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let types: Vec<_> = messages
        .iter()
        .map(|it| it["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        types,
        ["READY", "DONE", "READY", "FAILED", "READY", "READY"]
    );
    assert_eq!(messages[1]["issue_id"], "beads-workers-abc");
    assert!(
        messages[3]["error"]
            .as_str()
            .unwrap()
            .contains("begins with"),
        "{}",
        messages[3]
    );
    let calls = std::fs::read_to_string(&calls).unwrap();
    assert_eq!(
        calls,
        "update beads-workers-abc --status=in_progress\nclose beads-workers-abc\n"
    );
}

#[test]
fn sigterm_ends_a_worker_and_its_task_goes_back() {
    let data = TempDir::new().unwrap();
    let socket = data.path().join("b.sock");
    let mut options = Options::new(data.path());
    options.args = vec!["--beads-socket".to_owned(), socket.display().to_string()];
    let server = Server::start(&options);
    let client = server.client();
    let id = client.enqueue(&json!({"handler": "beads#tidy"}));
    let (program, calls) = bd(data.path());
    let args = ["--bd", program.to_str().unwrap()];
    let worker = Running::start(&mut worker(&socket, "busy_loop", &args));
    eventually("the task to run", WAIT_MAX, || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    eventually("the claim", WAIT_MAX, || calls.exists().then_some(()));
    kill_process(Pid::from_child(&worker.0), Signal::TERM).unwrap();
    assert_eq!(worker.wait(), Some(0));
    eventually("the task to be available", WAIT_MAX, || {
        (client.job(&id)["state"] == "available").then_some(())
    });
    let calls = std::fs::read_to_string(&calls).unwrap();
    assert_eq!(
        calls.lines().last(),
        Some(format!("update {id} --status=open").as_str())
    );
}

#[test]
fn a_worker_does_not_start_without_its_handler() {
    let folder = TempDir::new().unwrap();
    let output = worker(&folder.path().join("b.sock"), "no_such_handler", &[])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("no_such_handler"), "{message}");
    assert!(output.stdout.is_empty());
}
