//! A handler in any language that never ends by itself is stopped, and its slot runs the next job.

use std::time::Duration;

use host_tests::projects::languages::{Language, PYTHON, QUICKJS, STARLINGMONKEY, TYPESCRIPT};
use host_tests::{Options, Server, eventually};
use serde_json::json;
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_mins(3);

fn check(language: Language) {
    let folder = TempDir::new().unwrap();
    let mut options = Options::new(&folder.path().join("data"));
    let one = ["HOST_CELLS_COUNT", "HOST_CELLS_SLOTS"];
    options.env = one.map(|name| (name.to_owned(), "1".to_owned())).into();
    let server = Server::start(&options);
    let client = server.client();
    let component = std::fs::read(language.component()).unwrap();
    let answer = client.deploy("spinning", &component, None).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let spins = client.enqueue(&json!({"handler": "spin", "max_attempts": 1}));
    eventually("the guest runs", PATIENCE, || {
        let logs = client.get(&format!("/api/v1/jobs/{spins}/logs"));
        let line = logs.unwrap().body["items"][0]["message"].clone();
        (line == "spinning").then_some(())
    });
    let waits = client.enqueue(&json!({"handler": "count", "params": {"text": "one two\nthree"}}));
    assert_eq!(client.job(&waits)["state"], "available");
    let cancel = json!({"reason": "enough", "grace_seconds": 0});
    let cancelled = client.post(&format!("/api/v1/jobs/{spins}/cancel"), &cancel);
    assert_eq!(cancelled.unwrap().status, 200);
    // The only slot is free again.
    let counted = client.wait(&waits);
    assert_eq!(
        counted["result"],
        json!({"lines": 2, "words": 3}),
        "{counted}"
    );
    let stopped = client.job(&spins);
    assert_eq!(stopped["state"], "cancelled", "{stopped}");
    let attempts = client.items(&format!("/api/v1/jobs/{waits}/attempts"));
    let times = [&stopped["finished_at"], &attempts[0]["started_at"]];
    let [ended, started] = times.map(|time| time.as_str().unwrap());
    assert!(ended <= started, "{stopped} {attempts:?}");
}

#[test]
fn in_javascript() {
    check(QUICKJS);
    check(STARLINGMONKEY);
}

#[test]
fn in_typescript() {
    check(TYPESCRIPT);
}

#[test]
fn in_python() {
    check(PYTHON);
}
