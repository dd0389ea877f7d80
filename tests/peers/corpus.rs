//! Programs as people write them, in each language: each handler of `examples/corpus` returns what its case says, with the mock
//! host of its language, whose tests `host build --test` runs, and in a cell.

use std::fs;
use std::path::{Path, PathBuf};

use host_tests::projects;
use host_tests::reflector::Reflector;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Returns the folder of the programs in a language.
fn folder(language: &str) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/corpus");
    corpus.join(language)
}

/// Returns the texts of all files in a folder by their names.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(folder).unwrap();
    let mut files: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Builds the programs in the folder `name`, and runs each case in a cell.
fn run(name: &str, lang: &str) {
    let files = files(&folder(name));
    let borrowed: Vec<_> = files
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let component = projects::component(&format!("corpus-{name}"), lang, &borrowed);
    let text = fs::read_to_string(folder(name).join("cases.json")).unwrap();
    let answers: Value = serde_json::from_str(&text).unwrap();
    let reflector = Reflector::with(move |head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default();
        let body = answers["answers"][path].to_string();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        );
        std::io::Write::write_all(stream, (head + &body).as_bytes()).is_ok()
    });
    let (data, origin) = (TempDir::new().unwrap(), reflector.origin());
    let server = reflector.host(&data);
    let client = server.client();
    let document: Value = serde_json::from_str(&text.replace("{origin}", &origin)).unwrap();
    let cases = document["cases"].as_array().unwrap();
    let grant = |case: &Value| {
        let handler = case["handler"].as_str().unwrap();
        let asks = case["params"].to_string().contains(&origin);
        let http = format!("[[handlers.{handler}.http]]\nto = \"{origin}\"\n");
        let state = format!("[handlers.{handler}.state]\n");
        [(asks, http), (case["state"] == true, state)]
    };
    let grants = cases.iter().flat_map(grant);
    let manifest: String = grants
        .filter_map(|(has, text)| has.then_some(text))
        .collect();
    let own = fs::read(component).unwrap();
    let answer = client
        .deploy_accepted("corpus", &own, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    for case in cases {
        let attempts = if case["retries"] == true { 2 } else { 1 };
        let job = client.run(&json!({
            "handler": case["handler"],
            "params": case["params"],
            "max_attempts": attempts,
        }));
        match case.get("failure") {
            Some(failure) => {
                assert_eq!(job["failure"]["user_kind"], failure["kind"], "{job}");
                assert_eq!(job["failure"]["message"], failure["message"], "{job}");
            }
            None => assert_eq!(job["result"], case["result"], "{job}"),
        }
    }
}

#[test]
fn javascript() {
    run("js", "js");
}
