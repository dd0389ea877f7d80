//! `host backup` of a host under load, and `host restore` of the copy.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host_core::id::JobId;
use host_store::sqlite::open_reader;
use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::own;

/// How many clients enqueue during a backup.
const CLIENTS: usize = 8;

/// How many jobs exist before the backup begins.
const JOBS_BEFORE: usize = 500;

pub(crate) fn run(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(host()).args(args).output().unwrap();
    let message = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (output.status.code(), message.into_owned())
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Enqueues jobs until stopped, and records each acknowledged one.
fn load(client: &Client, stop: &AtomicBool, acknowledged: &Mutex<Vec<String>>) {
    while !stop.load(Ordering::Relaxed) {
        let id = client.enqueue(&json!({"handler": "echo", "params": {"a": 1}}));
        acknowledged.lock().unwrap().push(id);
    }
}

#[test]
fn a_backup_under_load_has_each_acknowledged_job_and_can_be_restored() {
    let own = own();
    let client = own.server.client();
    let folder = TempDir::new().unwrap();
    let [copy, file, data] = ["copy", "copy.db", "data"].map(|name| folder.path().join(name));
    let (stop, acknowledged) = (AtomicBool::new(false), Mutex::new(Vec::new()));
    let before = std::thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let client = client.clone();
            scope.spawn(|| {
                let client = client;
                load(&client, &stop, &acknowledged);
            });
        }
        eventually("a load", Duration::from_mins(1), || {
            (acknowledged.lock().unwrap().len() >= JOBS_BEFORE).then_some(())
        });
        let mut before = Vec::new();
        for to in [&copy, &file] {
            before.clone_from(&acknowledged.lock().unwrap());
            let from = text(own.data.path());
            let (code, message) = run(&["backup", "--data", from, "--to", text(to)]);
            assert_eq!(code, Some(0), "{message}");
        }
        stop.store(true, Ordering::Relaxed);
        before
    });
    let (code, message) = run(&["store", "check", "--data", text(&copy)]);
    assert_eq!(code, Some(0), "{message}");
    let reader = open_reader(&file).unwrap();
    for id in &before {
        let id: JobId = serde_json::from_value(json!(id)).unwrap();
        assert!(
            reader.state(id).unwrap().is_some(),
            "{id:?} is not in the copy"
        );
    }
    assert!(copy.join("logs.db").exists(), "the logs are in the copy");

    let (code, message) = run(&["restore", text(&file), "--data", text(&data)]);
    assert_eq!(code, Some(0), "{message}");
    for path in [&data, &data.join("host.db"), &copy, &file] {
        let mode = path.metadata().unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
    }
    let restored = Server::start(&Options::new(&data));
    let client = restored.client();
    for id in before.iter().rev().take(100) {
        assert_eq!(client.wait(id)["state"], "completed");
    }
    let job = client.run(&json!({"handler": "echo", "params": {"b": 2}}));
    assert_eq!(job["result"], json!({"b": 2}), "its components are there");
    eventually("the entry of the restore", Duration::from_mins(1), || {
        let listed = client.get("/api/v1/audit?verb=restore").unwrap().body;
        let object = listed["items"][0]["record"]["object"].as_str()?.to_owned();
        assert!(
            object.contains(text(&file)) && object.contains(text(&data)),
            "{object}"
        );
        Some(())
    });
}

#[test]
fn what_is_there_is_not_overwritten() {
    let own = own();
    let folder = TempDir::new().unwrap();
    let copy = folder.path().join("copy");
    let from = text(own.data.path());
    let backup = || run(&["backup", "--data", from, "--to", text(&copy)]);
    assert_eq!(backup().0, Some(0));
    let entry = eventually("the backup in the audit", Duration::from_mins(1), || {
        let path = "/api/v1/audit?verb=backup";
        let page = own.server.client().get(path).unwrap().body;
        page["items"].get(0).map(|item| item["record"].clone())
    });
    let object = entry["object"].as_str().unwrap();
    assert!(object.ends_with(text(&copy)), "{entry}");
    assert!(
        entry["principal"].as_str().unwrap().starts_with("uid:"),
        "{entry}"
    );
    let (code, message) = backup();
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("not empty"), "{message}");
    let (code, message) = run(&["restore", text(&copy), "--data", from]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("stop the host first"), "{message}");
    let (code, message) = run(&["restore", text(&copy), "--data", text(&copy)]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("already has a store"), "{message}");
    let nowhere = text(folder.path()).to_owned() + "/nowhere";
    assert_eq!(run(&["restore", &nowhere, "--data", from]).0, Some(5));
    assert_eq!(
        run(&["backup", "--data", &nowhere, "--to", text(&copy)]).0,
        Some(5)
    );
}

#[test]
fn a_damaged_backup_is_not_restored_in_silence() {
    let own = own();
    let folder = TempDir::new().unwrap();
    let [copy, data] = ["copy.db", "data"].map(|name| folder.path().join(name));
    let from = text(own.data.path());
    assert_eq!(
        run(&["backup", "--data", from, "--to", text(&copy)]).0,
        Some(0)
    );
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 8_192].fill(0xa5);
    std::fs::write(&copy, bytes).unwrap();
    let (code, message) = run(&["restore", text(&copy), "--data", text(&data)]);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("damaged"), "{message}");
}
