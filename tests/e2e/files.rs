//! Files of handlers: scratch directories.

use std::fs;
use std::path::Path;

use host_tests::{Client, Options, Server, guests, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

const PAGE: &str = include_str!("../../docs/files.md");

const SCRATCH: &str = "[defaults]\nscratch = { mib = 4 }\ntimeout_seconds = 30\n";

fn deploy(client: &Client, name: &str, component: &Path, manifest: &str) {
    let bytes = fs::read(component).unwrap();
    let answer = client.deploy(name, &bytes, Some(manifest)).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

fn run(client: &Client, handler: &str, params: &Value) -> Value {
    let job = client.run(&json!({"handler": handler, "params": params, "max_attempts": 1}));
    assert_eq!(job["state"], "completed", "{job}");
    job["result"].clone()
}

/// Returns the files in a folder that are no compiled components.
fn others(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".tmp"))
        .collect()
}

#[test]
fn a_scratch_directory_is_as_large_as_the_manifest_says_and_ends_with_the_attempt() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, "hostile", &guests::component("hostile"), SCRATCH);
    let whole = (4 << 20) / 1_000 * 1_000;
    let full = json!([whole, "full"]);
    let attack = |attack: &str| run(&client, "scratch", &json!({ "attack": attack }));
    for _ in 0..2 {
        assert_eq!(attack("fill"), json!([full, full, full]));
    }
    // Without it there is nowhere to write.
    let manifest = "[defaults]\nscratch = { mib = 0 }\n";
    deploy(&client, "hostile", &guests::component("hostile"), manifest);
    assert_eq!(attack("small files")[0], 0);
    for folder in fs::read_dir(data.path()).unwrap() {
        let folder = folder.unwrap().path();
        if folder.is_dir() {
            assert_eq!(others(&folder), [""; 0], "{}", folder.display());
        }
    }
}

/// The example of the page, with Python's own library.
#[test]
fn python_keeps_files_in_its_scratch_directory() {
    let block = PAGE.split("```python\n").nth(1).unwrap();
    let example = block.split("```").next().unwrap();
    let more = "\n\n@handler(\"where\")\ndef where(ctx: Ctx, _: None) -> str:\n    \
                with tempfile.TemporaryFile() as file:\n        file.write(b\"x\" * 100_000)\n    \
                return tempfile.gettempdir()\n";
    let files = [
        ("handlers.py", &*format!("{example}{more}")),
        ("test_handlers.py", ""),
    ];
    let component = projects::component("files", "python", &files);
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    let client = server.client();
    deploy(&client, "files", &component, SCRATCH);
    assert_eq!(run(&client, "sort", &json!(["b", "a"])), json!(["a", "b"]));
    assert_eq!(run(&client, "where", &json!(null)), "/scratch");
}
