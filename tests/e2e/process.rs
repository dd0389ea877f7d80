//! The environment of a host's process: its log, signals, limits, mounts, and its place in a container.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Options, Server, eventually, processes};
use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{deploy, own};

/// How long each wait may take.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Writes a program that runs `HOST "$@"` as `script` says.
fn wrapper(folder: &Path, script: &str) -> PathBuf {
    let path = folder.join("wrapper");
    let script = script.replace("HOST", &host().display().to_string());
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
    path
}

/// Returns a script that runs another one in namespaces of its own.
fn in_namespaces(namespaces: &str, script: &str) -> String {
    let map_root = if geteuid().is_root() {
        ""
    } else {
        "--map-root-user"
    };
    format!("exec unshare {map_root} {namespaces} sh -c '{script}' sh \"$@\"")
}

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

#[test]
fn a_host_outlives_its_log() {
    let folder = TempDir::new().unwrap();
    let mut options = Options::new(&folder.path().join("data"));
    options.program = Some(wrapper(folder.path(), "exec HOST \"$@\" 2>/dev/full"));
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "basics");
    let id = client.enqueue(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(client.wait(&id)["result"], json!([1]));
    let answer = client.get("/metrics").unwrap();
    let metrics = answer.body.as_str().unwrap();
    let metric = "host_log_lines_lost_total ";
    let lost = metrics.lines().find_map(|line| line.strip_prefix(metric));
    assert!(lost.unwrap().parse::<u64>().unwrap() > 0, "{metrics}");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_log_that_was_moved_is_opened_again() {
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    let log = data.path().join("serve.log");
    let moved = data.path().join("serve.log.1");
    fs::rename(&log, &moved).unwrap();
    signal(server.pid(), Signal::HUP);
    eventually("a new log", WAIT_MAX, || {
        let text = fs::read_to_string(&log).ok()?;
        text.contains("opened again").then_some(())
    });
    assert_eq!(server.stop(), Some(0));
    assert!(fs::read_to_string(&log).unwrap().contains("stopping"));
    assert!(!fs::read_to_string(&moved).unwrap().contains("stopping"));
}

#[test]
fn only_a_signal_to_stop_ends_a_host_which_drains_first() {
    let own = own();
    let client = own.server.client();
    let id = client.enqueue(&json!({"handler": "sleep", "params": {"ms": 3_000}}));
    eventually("the job to run", WAIT_MAX, || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    let pid = own.server.pid();
    let all = processes::children(pid).into_iter().chain([pid]);
    for process in all {
        for ignored in [
            Signal::HUP,
            Signal::USR1,
            Signal::USR2,
            Signal::ALARM,
            Signal::VTALARM,
            Signal::PROF,
            Signal::IO,
            Signal::POWER,
        ] {
            signal(process, ignored);
        }
    }
    signal(pid, Signal::QUIT);
    assert_eq!(own.server.wait(), Some(0));
    let again = Server::start(&Options::new(own.data.path()));
    let job = again.client().job(&id);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("completed"), &json!(1)),
        "{job}"
    );
}

/// Starts a host and its doctor as `script` says. Both must say all of `words`.
fn expect_refusal(script: &str, words: &[&str]) {
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let script = script.replace("DATA", &data.display().to_string());
    let mut options = Options::new(&data);
    let program = wrapper(folder.path(), &script);
    options.program = Some(program.clone());
    let log = Server::try_start(&options).err().unwrap();
    let doctor = Command::new(program)
        .args(["doctor", "-o", "json", "--data"])
        .arg(&data)
        .output()
        .unwrap();
    assert_eq!(doctor.status.code(), Some(1));
    let found = String::from_utf8_lossy(&doctor.stdout);
    for word in words {
        assert!(log.contains(word), "{script}: {log}");
        assert!(found.contains(word), "{script}: {found}");
    }
}

#[test]
fn a_host_that_could_run_no_job_does_not_start() {
    let mount = "mount -t tmpfs -o noexec tmpfs DATA && exec HOST \"$@\"";
    let noexec = in_namespaces("--mount", mount);
    expect_refusal(&noexec, &["noexec", "mount it with exec"]);
    expect_refusal("ulimit -n 48; exec HOST \"$@\"", &["48", "ulimit -n 1024"]);
    expect_refusal("ulimit -f 1000; exec HOST \"$@\"", &["ulimit -f unlimited"]);
    expect_refusal(
        "ulimit -v 16000000; exec HOST \"$@\"",
        &["ulimit -v unlimited"],
    );
}

/// Returns whether a process has a child that has ended and was not reaped.
fn has_defunct_child(pid: u32) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let defunct = format!(") Z {pid} ");
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("stat")).ok())
        .any(|stat| stat.contains(&defunct))
}

#[test]
fn the_first_process_of_a_container_reaps_orphans() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo");
    // The shell leaves its child to the host, which takes its place.
    let orphan = "mkfifo FIFO; (cat FIFO >/dev/null &); exec HOST \"$@\""
        .replace("FIFO", &fifo.display().to_string());
    let script = in_namespaces("--pid --fork --kill-child --mount-proc", &orphan);
    let mut options = Options::new(&folder.path().join("data"));
    options.program = Some(wrapper(folder.path(), &script));
    let server = Server::start(&options);
    let first = processes::children(server.pid())[0];
    let orphan = || processes::children(first).len() == 2;
    eventually("the orphan to start", WAIT_MAX, || orphan().then_some(()));
    drop(File::options().write(true).open(&fifo).unwrap());
    eventually("the orphan to be gone", WAIT_MAX, || {
        (!orphan() && !has_defunct_child(first)).then_some(())
    });
    let client = server.client();
    deploy(&client, "basics");
    let id = client.enqueue(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(client.wait(&id)["result"], json!([1]));
    signal(first, Signal::TERM);
    assert_eq!(server.wait(), Some(0));
}
