//! Starting and stopping a host.

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Client, Options, Server, Supervisor, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::{Own, own};

/// How long a host may take to stop if no jobs run.
const WAIT_MAX: Duration = Duration::from_mins(3);

fn serve(arguments: &[&str]) -> Output {
    let mut command = Command::new(host());
    let rrq = ["--rrq-listen", "127.0.0.1:0"];
    command
        .arg("serve")
        .args(rrq)
        .args(arguments)
        .output()
        .unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn running(client: &Client, job: &serde_json::Value) -> String {
    let id = client.enqueue(job);
    eventually("the job to run", WAIT_MAX, || {
        (client.job(&id)["state"] == "running").then_some(())
    });
    id
}

/// Returns the child processes of `pid`.
fn children(pid: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let path = task.unwrap().path().join("children");
        let listed = std::fs::read_to_string(path).unwrap_or_default();
        children.extend(listed.split(' ').filter_map(|pid| pid.parse::<u32>().ok()));
    }
    children
}

/// A supervisor would restart a host whose health it cannot ask for.
#[test]
fn clients_are_answered_when_silent_ones_take_all_connections() {
    let folder = TempDir::new().unwrap();
    let few_files = folder.path().join("few-files");
    let script = format!(
        "#!/bin/sh\nulimit -n 256\nexec {} \"$@\"\n",
        host().display()
    );
    std::fs::write(&few_files, script).unwrap();
    std::fs::set_permissions(&few_files, Permissions::from_mode(0o700)).unwrap();
    let mut options = Options::new(&folder.path().join("data"));
    options.program = Some(few_files);
    let server = Server::start(&options);
    // Half of the files are for connections.
    let connect = |_| TcpStream::connect(server.address()).unwrap();
    let silent: Vec<TcpStream> = (0..200).map(connect).collect();
    // Each request has a connection of its own.
    for path in ["/healthz", "/readyz", "/api/v1/jobs"] {
        let answer = Client::new(server.address()).get(path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
    drop(silent);
    let log = std::fs::read_to_string(folder.path().join("data/serve.log")).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    assert_eq!(log.contains("the host runs as root"), is_root, "{log}");
}

#[test]
fn a_second_host_on_the_same_data_is_refused() {
    let Own { server, data } = own();
    let path = data.path().to_str().unwrap();
    let second = serve(&["--data", path, "--listen", "127.0.0.1:0"]);
    assert_eq!(second.status.code(), Some(1), "{}", stderr(&second));
    let pid = server.pid().to_string();
    assert!(stderr(&second).contains(&pid), "{}", stderr(&second));
    assert!(server.client().get("/readyz").unwrap().status == 200);
}

#[test]
fn the_data_directory_is_private_to_its_user() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_STORE_URL".to_owned(), String::new()));
    let server = Server::start(&options);
    assert_eq!(server.stop(), Some(0));
    for name in ["host.db", "logs.db", "host.lock", "cells.lock", "cache"] {
        let path = data.path().join(name);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
}

#[test]
fn an_address_in_use_is_named() {
    let Own { server, .. } = own();
    let data = TempDir::new().unwrap();
    let path = data.path().to_str().unwrap();
    let second = serve(&["--data", path, "--listen", server.address()]);
    assert_eq!(second.status.code(), Some(1), "{}", stderr(&second));
    assert!(
        stderr(&second).contains(server.address()),
        "{}",
        stderr(&second)
    );
}

#[test]
fn public_addresses_and_unknown_keys_are_refused() {
    let data = TempDir::new().unwrap();
    let path = data.path().to_str().unwrap();
    let open = serve(&["--data", path, "--listen", "0.0.0.0:0"]);
    assert_eq!(open.status.code(), Some(2), "{}", stderr(&open));
    assert!(stderr(&open).contains("loopback"), "{}", stderr(&open));
    let file = data.path().join("host.toml");
    std::fs::write(&file, "[cells]\ncuont = 3\n").unwrap();
    let unknown = serve(&["--config", file.to_str().unwrap()]);
    assert_eq!(unknown.status.code(), Some(2), "{}", stderr(&unknown));
    assert!(
        stderr(&unknown).contains("cells.count"),
        "{}",
        stderr(&unknown)
    );
}

#[test]
fn a_stopping_host_lets_running_jobs_end() {
    let Own { server, data } = own();
    let client = server.client();
    let id = running(
        &client,
        &json!({"handler": "sleep", "params": {"ms": 5_000}}),
    );
    // Terminals and service managers send the signal to all processes at the same time.
    for (child, signal) in children(server.pid())
        .into_iter()
        .flat_map(|child| [Signal::INT, Signal::TERM, Signal::HUP].map(|signal| (child, signal)))
    {
        let child = Pid::from_raw(child.cast_signed()).unwrap();
        kill_process(child, signal).unwrap();
    }
    assert_eq!(server.stop(), Some(0));
    let again = Server::start(&Options::new(data.path()));
    let job = again.client().job(&id);
    assert_eq!(
        (&job["state"], &job["attempt"]),
        (&json!("completed"), &json!(1)),
        "{job}"
    );
}

#[test]
fn a_second_stop_request_ends_jobs_which_run_again_later() {
    let Own { server, data } = own();
    let client = server.client();
    let sleep = json!({"handler": "sleep", "params": {"ms": 25_000}, "max_attempts": 1});
    let (asleep, looping) = (
        running(&client, &sleep),
        running(&client, &json!({"handler": "spin", "max_attempts": 1})),
    );
    let waiting = client.clone();
    let waiter = asleep.clone();
    let waits = std::thread::spawn(move || {
        let path = format!("/api/v1/jobs/{waiter}/wait?timeout_seconds=60");
        waiting.get(&path).map(|answer| answer.status)
    });
    server.ask_to_stop();
    eventually("the host to drain", WAIT_MAX, || {
        (client.get("/readyz").unwrap().status == 503).then_some(())
    });
    server.ask_to_stop();
    assert_eq!(server.wait(), Some(0));
    assert!(
        !matches!(waits.join().unwrap(), Ok(status) if status >= 500),
        "a waiting client is answered or disconnected"
    );
    let again = Server::start(&Options::new(data.path()));
    let client = again.client();
    for id in [asleep, looping] {
        eventually("the job to run again", WAIT_MAX, || {
            (client.job(&id)["state"] == "running").then_some(())
        });
        let job = client.job(&id);
        assert_eq!(job["attempt"], 2, "the lost attempt was free: {job}");
        let cancel = json!({"grace_seconds": 0});
        client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
            .unwrap();
        assert_eq!(client.wait(&id)["state"], "cancelled");
    }
}

#[test]
fn a_killed_host_leaves_no_process_behind() {
    let Own { server, data } = own();
    let client = server.client();
    running(&client, &json!({"handler": "spin"}));
    let cells = children(server.pid());
    assert!(cells.len() >= 2, "{cells:?}");
    server.kill();
    eventually("its cells to be gone", WAIT_MAX, || {
        let gone = |pid: &u32| {
            let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        cells.iter().all(gone).then_some(())
    });
    Server::start(&Options::new(data.path()));
}

#[test]
fn a_folder_of_components_is_deployed_at_start() {
    let folder = TempDir::new().unwrap();
    let component = host_tests::guests::component("markdown");
    std::fs::copy(&component, folder.path().join("pages.wasm")).unwrap();
    std::fs::write(
        folder.path().join("pages.toml"),
        "[defaults]\nmemory_mib = 32\n",
    )
    .unwrap();
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path()).handlers(folder.path());
    let server = Server::start(&options);
    let shown = server.client().get("/api/v1/components/pages").unwrap();
    assert_eq!(shown.body["current"], 1, "{}", shown.body);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(&options);
    let shown = server.client().get("/api/v1/components/pages").unwrap();
    assert_eq!(
        shown.body["current"], 1,
        "nothing has changed: {}",
        shown.body
    );
    assert_eq!(server.stop(), Some(0));
    std::fs::write(folder.path().join("bad.wasm"), "not a component").unwrap();
    let refused = serve(&[
        "--data",
        data.path().to_str().unwrap(),
        "--handlers",
        folder.path().to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
    ]);
    assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
    assert!(
        stderr(&refused).contains("bad.wasm"),
        "{}",
        stderr(&refused)
    );
}

#[test]
fn a_store_can_be_checked_while_it_is_used() {
    let Own { server, data } = own();
    server.client().run(&json!({"handler": "noop"}));
    let check = |data: &std::path::Path| {
        let mut program = Command::new(host());
        let command = program.args(["store", "check", "--data"]).arg(data);
        command.output().unwrap()
    };
    let checked = check(data.path());
    assert_eq!(checked.status.code(), Some(0), "{}", stderr(&checked));
    let nowhere = check(&data.path().join("nowhere"));
    assert_eq!(nowhere.status.code(), Some(5), "{}", stderr(&nowhere));
    server.kill();
    let copy = TempDir::new().unwrap();
    let mut bytes = std::fs::read(data.path().join("host.db")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 2_048].fill(0xa5);
    std::fs::write(copy.path().join("host.db"), bytes).unwrap();
    let damaged = check(copy.path());
    assert_eq!(damaged.status.code(), Some(1), "{}", stderr(&damaged));
}

#[test]
fn a_supervisor_gets_the_state_of_the_host() {
    let data = TempDir::new().unwrap();
    let supervisor = Supervisor::start(data.path());
    let mut options = Options::new(&data.path().join("data"));
    supervisor.supervise(&mut options, Duration::from_millis(150));
    let server = Server::start(&options);
    let next = || supervisor.next();
    assert_eq!(next(), "READY=1");
    assert_eq!([next(), next()], ["WATCHDOG=1", "WATCHDOG=1"]);
    server.ask_to_stop();
    let last = std::iter::repeat_with(next).find(|word| word != "WATCHDOG=1");
    assert_eq!(last.as_deref(), Some("STOPPING=1"));
    assert_eq!(server.wait(), Some(0));
}

/// The clock is behind if the store was changed later than it shows.
#[test]
fn a_clock_that_was_set_back_before_a_start_is_named() {
    let Own { server, data } = own();
    server.client().enqueue(&json!({"handler": "noop"}));
    assert_eq!(server.stop(), Some(0));
    let log = || std::fs::read_to_string(data.path().join("serve.log")).unwrap();
    let words = "the clock is behind the last change of the store";
    let doctor = || {
        let mut command = Command::new(host());
        command.args(["doctor", "--data"]).arg(data.path());
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let server = Server::start(&Options::new(data.path()));
    assert_eq!(server.stop(), Some(0));
    assert!(!log().contains(words), "{}", log());
    assert!(!doctor().contains("behind the last change"));

    let store = rusqlite::Connection::open(data.path().join("host.db")).unwrap();
    let hours = 5 * 3_600_000;
    let moved = store.execute("UPDATE changes SET at = at + ?1", [hours]);
    assert!(moved.unwrap() > 0);
    drop(store);
    let found = doctor();
    assert!(found.contains("behind the last change"), "{found}");
    let server = Server::start(&Options::new(data.path()));
    assert_eq!(
        server.client().run(&json!({"handler": "noop"}))["state"],
        "completed"
    );
    assert_eq!(server.stop(), Some(0));
    assert_eq!(log().matches(words).count(), 1, "{}", log());
}
