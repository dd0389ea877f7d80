//! Handlers in Python and TypeScript, built by `host build`: their exceptions are reported with the lines of the author,
//! sockets fail, and requests reach servers with a secret that no guest sees.

use host_tests::projects;
use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::{Client, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

const PYTHON: &[(&str, &str)] = &[
    ("handlers.py", include_str!("languages/handlers.py")),
    (
        "test_handlers.py",
        include_str!("languages/test_handlers.py"),
    ),
    ("pyproject.toml", include_str!("languages/pyproject.toml")),
    (
        "outgoing/__init__.py",
        include_str!("languages/outgoing/__init__.py"),
    ),
    (
        "outgoing/componentize-py.toml",
        include_str!("languages/outgoing/componentize-py.toml"),
    ),
    (
        "outgoing/bindings/__init__.py",
        include_str!("languages/outgoing/bindings/__init__.py"),
    ),
    (
        "outgoing/requests.wit",
        include_str!("languages/outgoing/requests.wit"),
    ),
];

const TYPESCRIPT: &[(&str, &str)] = &[
    ("handlers.ts", include_str!("languages/handlers.ts")),
    (
        "handlers.test.ts",
        include_str!("languages/handlers.test.ts"),
    ),
];

/// A failing handler, the handler's own name for the failure, and parts of its message and of its stack.
type Failing = (
    &'static str,
    Option<&'static str>,
    &'static str,
    &'static [&'static str],
);

/// Deploys a component to a host of its own, whose handlers may send requests to `reflector`.
fn deploy(reflector: &Reflector, folder: &TempDir, component: &std::path::Path) -> Server {
    let server = reflector.host(folder);
    let grant = |handler: &str| {
        let (origin, header) = (reflector.origin(), "Bearer {secret:api}");
        format!(
            "[[handlers.{handler}.http]]\nto = \"{origin}\"\nheaders = {{ authorization = \"{header}\" }}\n"
        )
    };
    let own = std::fs::read(component).unwrap();
    let manifest = ["fetches", "fetches-itself"].map(grant).concat();
    let is_python = component.ends_with("failing-python.wasm");
    let answer = server
        .client()
        .deploy_accepted("failing", &own, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let stubbed = answer.body["stubbed"].to_string();
    assert_eq!(stubbed.contains("wasi:sockets/"), is_python, "{stubbed}");
    server
}

fn run(client: &Client, handler: &str, params: &Value) -> Value {
    client.run(&json!({"handler": handler, "params": params, "max_attempts": 1}))
}

fn assert_fails(client: &Client, (handler, own_kind, message, stack): Failing) {
    let job = run(client, handler, &json!({}));
    let failure = &job["failure"];
    let text = |key: &str| failure[key].as_str().unwrap_or_default();
    assert_eq!(
        failure["user_kind"].as_str(),
        own_kind,
        "{handler}: {failure}"
    );
    assert!(text("message").contains(message), "{handler}: {failure}");
    for part in stack {
        assert!(text("stack").contains(part), "{handler}: {failure}");
    }
    assert!(
        !text("stack").contains("host-jobs/"),
        "{handler}: {failure}"
    );
}

/// Requests reach the server with the secret, and the handler gets the answer without it.
fn assert_fetches(client: &Client, reflector: &Reflector, handler: &str) {
    let job = run(client, handler, &json!({"url": reflector.url("/first")}));
    assert_eq!(job["result"][0], 200, "{job}");
    let body = job["result"][1].as_str().unwrap();
    assert!(body.contains("Bearer {secret:api}"), "{job}");
    assert!(body.ends_with("\r\n\r\nhello"), "{job}");
    assert!(!job.to_string().contains(SECRET), "{job}");
    let head = reflector.requests.recv_timeout(SOON).unwrap();
    assert!(head.starts_with("POST /first "), "{head}");
    assert!(head.contains("x-from: handler\r\n"), "{head}");
    assert!(head.contains(&format!("Bearer {SECRET}\r\n")), "{head}");
    let refused = run(client, handler, &json!({"url": "http://127.0.0.1:1/"}));
    assert_eq!(refused["failure"]["kind"], "user_error", "{refused}");
}

/// Each attempt begins with what the imports have made, but with random numbers of its own.
fn assert_starts_warm(client: &Client) {
    let twice = |handler| {
        [(); 2].map(|()| {
            let job = run(client, handler, &json!({}));
            assert_eq!(job["state"], "completed", "{job}");
            job["result"].clone()
        })
    };
    let [first, second] = twice("at-import");
    assert_eq!(first, second, "what is made at import is made once");
    let [first, second] = twice("random");
    let numbers = |it: &Value| match it {
        Value::Array(numbers) => numbers.clone(),
        number => vec![number.clone()],
    };
    for (first, second) in numbers(&first).iter().zip(numbers(&second)) {
        assert_ne!(*first, second, "attempts do not share random numbers");
    }
}

#[test]
fn python() {
    let (folder, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let component = projects::component("failing-python", "python", PYTHON);
    let server = deploy(&reflector, &folder, &component);
    let client = server.client();
    let stack: &[&str] = &[
        "File \"handlers.py\", line 19, in deep",
        "ValueError: not caught here",
    ];
    assert_fails(
        &client,
        ("throws", Some("ValueError"), "not caught here", stack),
    );
    assert_fails(
        &client,
        (
            "connects",
            Some("OSError"),
            "a component has no sockets except for HTTP requests",
            &["in connects"],
        ),
    );
    assert_fetches(&client, &reflector, "fetches");
    assert_fetches(&client, &reflector, "fetches-itself");
    assert_starts_warm(&client);
}

#[test]
fn typescript_in_quickjs() {
    let (folder, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let component = projects::component("failing-quickjs", "ts", TYPESCRIPT);
    let server = deploy(&reflector, &folder, &component);
    let client = server.client();
    let stack: &[&str] = &["RangeError: not caught here", "(handlers.ts:16)"];
    assert_fails(
        &client,
        ("throws", Some("RangeError"), "not caught here", stack),
    );
    let message = "cannot read property 'below' of undefined";
    assert_fails(
        &client,
        ("reads", Some("TypeError"), message, &["(handlers.ts:21)"]),
    );
    assert_fetches(&client, &reflector, "fetches");
    assert_fetches(&client, &reflector, "fetches-itself");
    assert_starts_warm(&client);
}

#[test]
fn typescript_in_starlingmonkey() {
    let (folder, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let package = projects::starlingmonkey("failing-starlingmonkey", "typescript");
    let files = [TYPESCRIPT, &[("package.json", &*package)]].concat();
    let component = projects::component("failing-starlingmonkey", "ts", &files);
    let server = deploy(&reflector, &folder, &component);
    let client = server.client();
    let stack: &[&str] = &["RangeError: not caught here", "(handlers.ts:16)"];
    assert_fails(
        &client,
        ("throws", Some("RangeError"), "not caught here", stack),
    );
    assert_fetches(&client, &reflector, "fetches");
    assert_fetches(&client, &reflector, "fetches-itself");
    assert_starts_warm(&client);
}

/// Imports what is there, and in four ways what is not.
const LATE_IMPORTS: &str = "import { handler } from 'host-jobs';

handler('late', {}, async (ctx, name) => {
  const { sum } = await import('./sum.js');
  const other = await import(name);
  const called = require(name);
  const absent = await import('left-pad').catch(() => sum);
  return [other, called, absent, require].length;
});
";

#[test]
fn a_build_names_what_javascript_imports_only_when_it_runs() {
    let files = [
        ("handlers.js", LATE_IMPORTS),
        ("handlers.test.js", ""),
        (
            "sum.js",
            "export const sum = (one, other) => one + other;\n",
        ),
    ];
    let component = projects::component("late-imports", "js", &files);
    let project = component.parent().unwrap().parent().unwrap();
    let output = projects::build(project).output().unwrap();
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{shown}");
    let said: Vec<&str> = shown
        .lines()
        .filter(|line| line.starts_with("warning: "))
        .collect();
    let late = "a module that is named only when this runs is not in the component";
    let expected = [
        format!("warning: handlers.js:5: {late}: const other = await import(name);"),
        format!("warning: handlers.js:6: {late}: const called = require(name);"),
        "warning: handlers.js:7: \"left-pad\" is not installed, so what imports it will fail"
            .to_owned(),
        format!("warning: handlers.js:8: {late}: return [other, called, absent, require].length;"),
    ];
    let mut sorted = said.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, expected, "{shown}");
    let strict = projects::build(project).arg("--strict").output().unwrap();
    let shown = String::from_utf8_lossy(&strict.stderr);
    assert!(!strict.status.success(), "{shown}");
    assert!(shown.contains("build without --strict"), "{shown}");
}
