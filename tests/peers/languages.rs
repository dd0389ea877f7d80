//! Components built with componentize-py and componentize-js deploy and run, exceptions of either language
//! arrive with their message and stack, and requests reach servers with a secret that no guest sees.

use std::time::Duration;

use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::{Client, eventually, peers};
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
        "js-rejects",
        "user_error",
        Some("NoLuck"),
        "no luck later",
        "run@",
    ),
    (
        "js-uncaught",
        "trapped",
        None,
        "RangeError: nobody catches this",
        "handle@",
    ),
];

/// Deploys the component of a language, whose handlers named `fetches` may send requests to the origin. Returns
/// its stubbed interfaces.
fn deploy(client: &Client, language: &str, prefix: &str, origin: &str) -> Vec<String> {
    let component = std::fs::read(peers::in_language(language)).unwrap();
    let manifest = format!(
        "[[handlers.{prefix}-fetches.http]]\nto = \"{origin}\"\nheaders = {{ authorization = \"Bearer {{secret:api}}\" }}\n"
    );
    let answer = client.deploy_accepted(language, &component, Some(&manifest));
    let answer = answer.unwrap();
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
    let (folder, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&folder);
    let (client, origin) = (server.client(), reflector.origin());
    let (python, javascript) = std::thread::scope(|scope| {
        let python = scope.spawn(|| deploy(&server.client(), "python", "py", &origin));
        let javascript = deploy(&client, "javascript", "js", &origin);
        (python.join().unwrap(), javascript)
    });
    let has = |stubbed: &[String], package: &str| stubbed.iter().any(|it| it.starts_with(package));
    assert!(has(&python, "wasi:sockets/"), "{python:?}");
    assert!(!has(&python, "wasi:http/"), "{python:?}");
    assert!(javascript.is_empty(), "{javascript:?}");
    check(&client, "py", PYTHON);
    check(&client, "js", JAVASCRIPT);
    fetch(&client, &reflector);
}

/// Requests of Python by each interface and of `fetch`, several at once, reach the server.
fn fetch(client: &Client, reflector: &Reflector) {
    let (first, second) = (reflector.url("/first"), reflector.url("/second"));
    let python = json!({"url": first, "body": "hello"});
    let python = run(client, "py-fetches", &python, 1);
    let javascript = json!({"urls": [first, second], "body": "hello"});
    let javascript = run(client, "js-fetches", &javascript, 1);
    for (job, language) in [(&python, "py"), (&javascript, "js")] {
        let answers = job["result"].as_array().unwrap();
        assert_eq!(answers.len(), 2, "{job}");
        for answer in answers {
            assert_eq!(answer[0], 200, "{job}");
            let body = answer[1].as_str().unwrap();
            assert!(body.contains("Bearer {secret:api}"), "{job}");
            assert!(body.ends_with("\r\n\r\nhello"), "{job}");
        }
        for _ in answers {
            let head = reflector.requests.recv_timeout(SOON).unwrap();
            assert!(head.starts_with("POST /"), "{head}");
            assert!(head.contains(&format!("x-from: {language}\r\n")), "{head}");
            assert!(head.contains(&format!("Bearer {SECRET}\r\n")), "{head}");
        }
        assert!(!job.to_string().contains(SECRET), "{job}");
    }
    let refused = run(
        client,
        "py-fetches",
        &json!({"url": "http://127.0.0.1:1/"}),
        1,
    );
    assert_eq!(
        refused["failure"]["user_kind"], "http_not_granted",
        "{refused}"
    );
    let refused = run(
        client,
        "js-fetches",
        &json!({"urls": ["http://127.0.0.1:1/"]}),
        1,
    );
    assert_eq!(refused["failure"]["kind"], "user_error", "{refused}");
    let id = refused["id"].as_str().unwrap();
    eventually("the reason in the log", SOON, || {
        let log = client.get(&format!("/api/v1/jobs/{id}/logs")).unwrap().body;
        log.to_string()
            .contains("grants js-fetches no requests to http://127.0.0.1:1")
            .then_some(())
    });
}
