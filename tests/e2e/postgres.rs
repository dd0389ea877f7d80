//! A host whose jobs are in a database: its status, what it refuses, and that no password shows.

use std::process::Command;

use host_tests::postgres;
use host_tests::server::host;
use host_tests::{Options, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;

/// Options for a host whose jobs are in the database at `url`.
fn stored(data: &TempDir, url: &str) -> Options {
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_STORE_URL".to_owned(), url.to_owned()));
    let allow = ("HOST_STORE_ALLOW_UNSAFE".to_owned(), "true".to_owned());
    options.env.push(allow);
    options
}

/// Runs `host` with arguments. Returns its exit code, standard output and standard error.
fn run(url: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(host());
    command.args(args).env("HOST_STORE_URL", url);
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn jobs_and_components_outlive_a_kill_and_the_data_directory() {
    let url = postgres::schema("outlives");
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Server::start(&stored(&first, &url));
    deploy(&server.client(), "basics");
    let echo = json!({"handler": "echo", "params": {"a": 5}});
    let id = server.client().enqueue(&echo);
    assert_eq!(server.client().wait(&id)["state"], "completed");
    let later = json!({"handler": "noop", "delay_seconds": 3600});
    let waiting = server.client().enqueue(&later);
    server.kill();
    assert!(!first.path().join("host.db").exists());

    let server = Server::start(&stored(&second, &url));
    assert_eq!(server.client().job(&id)["result"], echo["params"]);
    assert_eq!(server.client().job(&waiting)["state"], "scheduled");
    assert_eq!(server.client().run(&echo)["result"], echo["params"]);
    assert_eq!(server.stop(), Some(0));
    let (code, found, message) = run(&url, &["store", "check", "-o", "json"]);
    assert_eq!((code, found.trim()), (Some(0), "[]"), "{message}");
}

#[test]
fn a_database_is_migrated_shown_and_looked_over_without_a_host() {
    let url = postgres::schema("shown");
    let (code, migrated, message) = run(&url, &["store", "migrate", "-o", "json"]);
    assert_eq!(code, Some(0), "{message}");
    let migrated: Value = serde_json::from_str(&migrated).unwrap();
    assert_eq!(migrated[0]["before"], 0);
    let (_, status, _) = run(&url, &["store", "status", "-o", "json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status[0]["schema"], status[0]["schema_known"]);
    assert_eq!(status[0]["schema"], migrated[0]["after"]);
    let (_, checks, _) = run(&url, &["doctor", "-o", "json"]);
    let checks: Vec<Value> = serde_json::from_str(&checks).unwrap();
    let store = checks
        .iter()
        .find(|check| check["name"] == "store")
        .unwrap();
    assert_eq!(store["status"], "fail", "{store}");
    assert!(
        store["found"].as_str().unwrap().contains("fsync is off"),
        "{store}"
    );
}

#[test]
fn what_is_refused_shows_no_password() {
    let url = postgres::schema("refused").replace("postgres@", "postgres:geheim@");
    let folder = TempDir::new().unwrap();
    let data = folder.path().to_str().unwrap();
    for (url, args, reason) in [
        (&*url, &["serve", "--data", data][..], "fsync is off"),
        (
            "",
            &["serve", "--data", data, "--store", &*url][..],
            "other users can see command-line flags",
        ),
        (
            "postgres://u:geheim@127.0.0.1:1/x",
            &["store", "status"][..],
            "connect to the database",
        ),
    ] {
        let (code, printed, message) = run(url, args);
        assert_ne!(code, Some(0));
        assert!(message.contains(reason), "{message}");
        assert!(
            !format!("{printed}{message}").contains("geheim"),
            "{message}"
        );
    }
}
