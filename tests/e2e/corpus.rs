//! Small real programs of `examples/corpus`: each case gives its result in a cell, as it does through the mock host in the
//! tests of its project.

use std::fs;
use std::path::Path;

use host_tests::reflector::Reflector;
use host_tests::{Client, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the texts of a project, by their paths.
pub(crate) fn texts(folder: &Path, top: &Path) -> Vec<(String, String)> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("target") && !path.ends_with("__pycache__"))
        .collect();
    entries.sort();
    let files = entries.into_iter().flat_map(|path| {
        if path.is_dir() {
            return texts(&path, top);
        }
        let name = path.strip_prefix(top).unwrap().display().to_string();
        vec![(name, fs::read_to_string(path).unwrap())]
    });
    files.collect()
}

/// Builds the project of a language, which runs its tests with the mock host, and runs its cases in a cell.
fn check(language: &str) {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/corpus");
    let top = top.join(language);
    let files = texts(&top, &top);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), text.as_str()))
        .collect();
    let component = projects::component(&format!("corpus-{language}"), language, &files);
    let answers: Value = read(&top.join("answers.json"));
    let reflector = Reflector::with(move |head, stream| answer(&answers, head, stream));
    let folder = TempDir::new().unwrap();
    let server = reflector.host(&folder);
    let client = server.client();
    let cases: Value = serde_json::from_str(
        &fs::read_to_string(top.join("cases.json"))
            .unwrap()
            .replace("{origin}", &reflector.origin()),
    )
    .unwrap();
    let cases = cases.as_array().unwrap();
    deploy(&client, &component, cases, &reflector.origin());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| difference(&client, case))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn read(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn answer(answers: &Value, head: &str, stream: &mut std::net::TcpStream) -> bool {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let Some(status) = answers[path][0].as_u64() else {
        return false;
    };
    let body = answers[path][1].as_str().unwrap();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Any\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    std::io::Write::write_all(stream, (head + body).as_bytes()).is_ok()
}

/// Deploys a component whose handlers may send requests to `origin`.
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
    let job = client
        .run(&json!({"handler": case["handler"], "params": case["params"], "max_attempts": 1}));
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
fn python() {
    check("python");
}
