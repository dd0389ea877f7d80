//! Programs as people write them, in each language: each handler of `examples/corpus` gives what its case says in a cell, as it
//! does with the mock host of its language, whose tests `host build --test` runs.

use std::fs;
use std::path::{Path, PathBuf};

use host_tests::reflector::{Reflector, answer_json};
use host_tests::{Client, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Builds the programs in a language, and runs each case in a cell.
fn check(language: &str) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../examples/corpus")
        .join(language);
    let files = projects::files(&folder);
    let component = projects::component(&format!("corpus-{language}"), language, &files);
    let text = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let answers: Value = serde_json::from_str(&text("answers.json")).unwrap();
    let reflector = Reflector::with(move |head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let [status, body] = [&answers[path][0], &answers[path][1]];
        let status = status.as_u64().and_then(|it| u16::try_from(it).ok());
        status.is_some_and(|status| answer_json(stream, status, body.as_str().unwrap()))
    });
    let (data, origin) = (TempDir::new().unwrap(), reflector.origin());
    let server = reflector.host(&data);
    let client = server.client();
    let document = text("cases.json").replace("{origin}", &origin);
    let cases: Vec<Value> = serde_json::from_str(&document).unwrap();
    deploy(&client, &component, &cases, &origin);
    let differences: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(&client, case))
        .collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Deploys a component whose handlers may keep state and send requests to `origin`.
fn deploy(client: &Client, component: &Path, cases: &[Value], origin: &str) {
    let mut handlers: Vec<&str> = cases
        .iter()
        .map(|case| case["handler"].as_str().unwrap())
        .collect();
    handlers.sort_unstable();
    handlers.dedup();
    let grants = handlers.iter().map(|handler| {
        format!("[handlers.{handler}.state]\nquota_kib = 64\n[[handlers.{handler}.http]]\nto = \"{origin}\"\n")
    });
    let manifest: String = grants.collect();
    let component = fs::read(component).unwrap();
    let answer = client
        .deploy_accepted("corpus", &component, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

/// Runs a case and returns how it ends, if that is not as expected.
fn difference(client: &Client, case: &Value) -> Option<String> {
    let attempts = if case["retries"] == true { 2 } else { 1 };
    let job = client.run(&json!({
        "handler": case["handler"],
        "params": case["params"],
        "max_attempts": attempts,
    }));
    let (then, failure) = (&case["then"], &job["failure"]);
    let expected = &then["failure"];
    let agrees = if !expected.is_null() {
        failure["user_kind"] == expected["kind"]
            && failure["code"] == expected["code"]
            && failure["message"] == expected["message"]
    } else if !then["retry"].is_null() {
        job["state"] != "completed" && failure["kind"].is_string()
    } else {
        job["state"] == "completed" && job["result"] == then["result"]
    };
    (!agrees).then(|| {
        format!(
            "{case}\n  ended {} with {} {failure}",
            job["state"], job["result"]
        )
    })
}

#[test]
fn javascript() {
    check("js");
}

#[test]
fn python() {
    check("python");
}

#[test]
fn rust() {
    check("rust");
}
