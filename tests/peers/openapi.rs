//! The `OpenAPI` document is valid, and a client that is generated from it works.

use std::process::Command;

use host_tests::{Options, Server, guests, peers};
use tempfile::TempDir;

/// What the generated client does.
const PROGRAM: &str = include_str!("openapi.py");

/// The only text type that the generator supports.
const CONFIG: &str = "content_type_overrides: {application/openmetrics-text: text/plain}";

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let message = [ran.stdout, ran.stderr].concat();
    assert!(
        ran.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&message)
    );
}

#[test]
fn the_document_is_valid_and_makes_a_client_that_works() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&Options::new(&folder.path().join("data")));
    let component = std::fs::read(guests::component("basics")).unwrap();
    let deployed = server.client().deploy("basics", &component, None).unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    let document = folder.path().join("openapi.json");
    let answer = server.client().get("/api/v1/openapi.json").unwrap();
    std::fs::write(&document, answer.body.to_string()).unwrap();
    let tools = peers::openapi();
    run(Command::new(tools.join("openapi-spec-validator")).arg(&document));
    std::fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    run(Command::new(tools.join("openapi-python-client"))
        .current_dir(folder.path())
        .env("PATH", &tools)
        .args([
            "generate",
            "--path",
            "openapi.json",
            "--output-path",
            "client",
        ])
        .args([
            "--meta",
            "none",
            "--config",
            "config.yaml",
            "--fail-on-warning",
        ]));
    run(Command::new(tools.join("python"))
        .current_dir(folder.path())
        .args(["-c", PROGRAM, &format!("http://{}", server.address())]));
}
