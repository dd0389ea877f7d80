//! Components built with componentize-py and componentize-js deploy and run, and exceptions of either
//! language arrive with their message and stack.

use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, peers};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A failing handler: the failure's kind, the handler's own name for it, and parts of its message and stack.
type Failing = (
    &'static str,
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static str,
);

const PYTHON: &[Failing] = &[
    (
        "py-raises",
        "user_error",
        Some("ValueError"),
        "invalid literal for int() with base 10: 'x'",
        "in raises",
    ),
    (
        "py-fails",
        "user_error",
        Some("NoLuck"),
        "no luck",
        "in fails",
    ),
    (
        "py-uncaught",
        "trapped",
        None,
        "ValueError: nobody catches this",
        "in deep_again",
    ),
    (
        "py-connects",
        "grant_missing",
        None,
        "the handler called wasi:sockets/tcp-create-socket",
        "",
    ),
];

const JAVASCRIPT: &[Failing] = &[
    (
        "js-throws",
        "user_error",
        Some("TypeError"),
        "can't access property \"field\" of null",
        "run@",
    ),
    ("js-fails", "user_error", Some("NoLuck"), "no luck", "run@"),
    (
        "js-async",
        "user_error",
        Some("promise_returned"),
        "run must not return a promise",
        "handle@",
    ),
    (
        "js-uncaught",
        "trapped",
        None,
        "RangeError: nobody catches this",
        "handle@",
    ),
    (
        "js-fetches",
        "grant_missing",
        None,
        "the handler called wasi:http/",
        "",
    ),
];

/// Deploys the component of a language. Returns its stubbed interfaces.
fn deploy(client: &Client, language: &str) -> Vec<String> {
    let component = std::fs::read(peers::in_language(language)).unwrap();
    let answer = client.deploy(language, &component, None).unwrap();
    assert_eq!(answer.status, 201, "{language}: {answer:?}");
    let stubbed = answer.body["stubbed"].as_array().unwrap().iter();
    stubbed
        .map(|name| name.as_str().unwrap().to_owned())
        .collect()
}

fn run(client: &Client, handler: &str, params: &Value, attempts: u32) -> Value {
    client.run(&json!({"handler": handler, "params": params, "max_attempts": attempts}))
}

fn assert_fails(client: &Client, (handler, kind, own_kind, message, stack): Failing) {
    let job = run(client, handler, &json!({"n": "x"}), 1);
    let failure = &job["failure"];
    let text = |key: &str| failure[key].as_str();
    assert_eq!(text("kind"), Some(kind), "{handler}: {failure}");
    assert_eq!(text("user_kind"), own_kind, "{handler}: {failure}");
    let has = |key: &str, part: &str| text(key).unwrap_or_default().contains(part);
    assert!(has("message", message), "{handler}: {failure}");
    assert!(has("stack", stack), "{handler}: {failure}");
}

fn check(client: &Client, prefix: &str, failing: &[Failing]) {
    let handler = |name: &str| format!("{prefix}-{name}");
    let counted = run(client, &handler("word-count"), &json!({"text": "b a B"}), 1);
    assert_eq!(counted["result"], json!({"a": 1, "b": 2}), "{counted}");
    let id = counted["id"].as_str().unwrap();
    let log = eventually("the log to be kept", Duration::from_mins(1), || {
        let log = client.get(&format!("/api/v1/jobs/{id}/logs")).unwrap().body;
        log["items"][0].is_object().then_some(log)
    });
    let line = &log["items"][0];
    assert_eq!(line["message"], "counted", "{log}");
    assert_eq!(line["fields"]["words"], "3", "{log}");
    let refused = json!({"handler": handler("word-count"), "params": {"text": 1}});
    let refused = client.post("/api/v1/jobs", &refused).unwrap();
    assert_eq!(
        refused.body["code"], "invalid_params",
        "its schema is known"
    );
    let retried = run(client, &handler("retries"), &json!({}), 5);
    assert_eq!(retried["result"], 3, "{retried}");
    for case in failing {
        assert_fails(client, *case);
    }
}

#[test]
fn components_in_python_and_javascript_run_and_their_exceptions_are_reported() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&Options::new(folder.path()));
    let client = server.client();
    let (python, javascript) = std::thread::scope(|scope| {
        let python = scope.spawn(|| deploy(&server.client(), "python"));
        let javascript = deploy(&client, "javascript");
        (python.join().unwrap(), javascript)
    });
    let has = |stubbed: &[String], package: &str| stubbed.iter().any(|it| it.starts_with(package));
    assert!(has(&python, "wasi:sockets/"), "{python:?}");
    assert!(has(&javascript, "wasi:http/"), "{javascript:?}");
    check(&client, "py", PYTHON);
    check(&client, "js", JAVASCRIPT);
}
