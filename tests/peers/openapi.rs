//! The `OpenAPI` document is valid, and clients that are generated from it do what `docs/http.md` shows.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use host_tests::{Options, Server, guests, peers};
use tempfile::TempDir;

/// What the generated clients do.
const PYTHON: &str = include_str!("openapi/client.py");
const TYPESCRIPT: &str = include_str!("openapi/client.ts");

/// The only text type that the generator for Python supports.
const CONFIG: &str = "content_type_overrides: {application/openmetrics-text: text/plain}";

/// Checked as strictly as the compiler can.
const COMPILER: &str = r#"{"compilerOptions": {
    "strict": true, "noUncheckedIndexedAccess": true, "exactOptionalPropertyTypes": false,
    "target": "es2022", "module": "node16", "moduleResolution": "node16", "lib": ["es2023", "dom"], "types": []
}, "files": ["client.ts"]}"#;

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let message = [ran.stdout, ran.stderr].concat();
    assert!(
        ran.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&message)
    );
}

/// Starts a host with the example handlers, and writes its document into the folder.
fn start(folder: &Path) -> Server {
    let server = Server::start(&Options::new(&folder.join("data")));
    let component = std::fs::read(guests::component("basics")).unwrap();
    let deployed = server.client().deploy("basics", &component, None).unwrap();
    assert_eq!(deployed.status, 201, "{deployed:?}");
    let answer = server.client().get("/api/v1/openapi.json").unwrap();
    std::fs::write(folder.join("openapi.json"), answer.body.to_string()).unwrap();
    server
}

#[test]
fn the_document_is_valid_and_a_client_in_python_works() {
    let folder = TempDir::new().unwrap();
    let server = start(folder.path());
    let tools = peers::openapi();
    run(Command::new(tools.join("openapi-spec-validator"))
        .current_dir(folder.path())
        .arg("openapi.json"));
    std::fs::write(folder.path().join("config.yaml"), CONFIG).unwrap();
    run(Command::new(tools.join("openapi-python-client"))
        .current_dir(folder.path())
        .env("PATH", &tools)
        .args(["generate", "--path", "openapi.json"])
        .args(["--output-path", "client", "--meta", "none"])
        .args(["--config", "config.yaml", "--fail-on-warning"]));
    run(Command::new(tools.join("python"))
        .current_dir(folder.path())
        .args(["-c", PYTHON, &format!("http://{}", server.address())]));
}

#[test]
fn a_client_in_typescript_compiles_and_works() {
    let folder = TempDir::new().unwrap();
    let server = start(folder.path());
    let packages = peers::openapi_typescript().join("node_modules");
    symlink(&packages, folder.path().join("node_modules")).unwrap();
    for (file, text) in [
        ("client.ts", TYPESCRIPT),
        ("tsconfig.json", COMPILER),
        ("package.json", r#"{"type": "module"}"#),
    ] {
        std::fs::write(folder.path().join(file), text).unwrap();
    }
    let program = |name: &str| {
        let mut command = Command::new(packages.join(".bin").join(name));
        command.current_dir(folder.path());
        command
    };
    run(program("openapi-typescript").args(["openapi.json", "--output", "schema.ts"]));
    run(&mut program("tsc"));
    run(Command::new("node")
        .current_dir(folder.path())
        .args(["client.js", &format!("http://{}", server.address())]));
}
