//! Popular packages of npm in a cell: each is bundled by `host build`, and does what it is for. `docs/packages.md` lists them.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use host_tests::projects;
use host_tests::reflector::{Reflector, answer_json};
use serde_json::{Value, json};
use tempfile::TempDir;

const CASES: &str = include_str!("npm/cases.json");
const LOCK: &str = include_str!("npm/package-lock.json");

/// Those that need a server, which answers with the line of the request.
const CLIENTS: &str = "clients";

fn cases() -> Vec<Value> {
    serde_json::from_str(CASES).unwrap()
}

/// Returns the name of the handler for a package: names have no `@`.
fn handler(case: &Value) -> &str {
    case["package"].as_str().unwrap().trim_start_matches('@')
}

/// Runs the handlers of a file, which are a component of their own: all packages together are larger than one may be.
fn run(project: &str, handlers: &str) {
    let name = format!("npm-{project}");
    let package = include_str!("npm/package.json.in")
        .replace("{{name}}", &name)
        .replace("{{main}}", "handlers");
    let files = [
        ("handlers.js", handlers),
        ("handlers.test.js", ""),
        ("package.json", &package),
        ("package-lock.json", LOCK),
    ];
    let component = projects::component(&name, "js", &files);
    assert_no_warnings(&component);
    let reflector = Reflector::with(|head, stream| {
        let first = head.lines().next().unwrap_or_default();
        let line = first.trim_end_matches(" HTTP/1.1");
        let body = json!({"ok": true, "url": line}).to_string();
        answer_json(stream, 200, &body)
    });
    let (data, origin) = (TempDir::new().unwrap(), reflector.origin());
    let server = reflector.host(&data);
    let client = server.client();
    let cases: Vec<_> = cases()
        .into_iter()
        .filter(|case| case["project"] == project)
        .collect();
    let grant = |case: &Value| {
        format!(
            "[[handlers.\"{}\".http]]\nto = \"{origin}\"\n",
            handler(case)
        )
    };
    let grants: String = cases.iter().map(grant).collect();
    let manifest = (project == CLIENTS).then_some(&*grants);
    let own = fs::read(component).unwrap();
    let answer = client.deploy_accepted(&name, &own, manifest).unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    for case in cases {
        let params = json!({"url": origin});
        let job =
            client.run(&json!({"handler": handler(&case), "params": params, "max_attempts": 1}));
        match case.get("fails") {
            Some(message) => assert_eq!(job["failure"]["message"], *message, "{job}"),
            None => assert_eq!(job["result"], case["result"], "{job}"),
        }
    }
}

/// What these packages look for when they run, they do without: a warning would be noise.
fn assert_no_warnings(component: &Path) {
    let report = component.with_file_name("javascript").join("report.json");
    let said: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!(said["warnings"], json!([]));
}

#[test]
fn clients_of_apis() {
    run(CLIENTS, include_str!("npm/clients.js"));
}

#[test]
fn documents() {
    run("documents", include_str!("npm/documents.js"));
}

#[test]
fn data() {
    run("data", include_str!("npm/data.js"));
}

#[test]
fn values() {
    run("values", include_str!("npm/values.js"));
}

/// The page is made of the cases. `UPDATE_DOCS=1` writes it.
#[test]
fn the_page_lists_them() {
    let lock: Value = serde_json::from_str(LOCK).unwrap();
    let cases = cases();
    let works = cases.iter().filter(|case| case.get("fails").is_none());
    let mut page = format!(
        "# Packages of npm\n\n{} of {} popular packages work in a component with QuickJS. A test bundles each of them, calls it in a \
         cell, and compares what it returns. The [SDK](../sdk/js/README.md#packages) says how packages are bundled.\n\n\
         | package | version | what the test does | result |\n|---|---|---|---|\n",
        works.count(),
        cases.len()
    );
    for case in &cases {
        let name = case["package"].as_str().unwrap();
        let version = lock["packages"][format!("node_modules/{name}")]["version"].as_str();
        let result = case["fails"].as_str().map_or_else(
            || "works".to_owned(),
            |message| format!("fails: `{message}`"),
        );
        let does = case["does"].as_str().unwrap();
        writeln!(
            page,
            "| `{name}` | {} | {does} | {result} |",
            version.unwrap()
        )
        .unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/packages.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert_eq!(kept, page, "run the test with UPDATE_DOCS=1");
}
