//! The clients in `clients`: what is generated is of the current document, types fit, and each does what
//! `docs/http.md` shows at a real host with tokens that is killed on the way, and whose answers get lost.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_tests::{Balancer, Options, Server, guests, peers};
use tempfile::TempDir;

/// What the generator writes.
const GENERATED: [&str; 3] = [
    "python/host_jobs_client/api.py",
    "typescript/src/api.js",
    "typescript/src/api.d.ts",
];

/// Checked as strictly as the compiler can.
const COMPILER: &str = r#"{"compilerOptions": {
    "strict": true, "noUncheckedIndexedAccess": true, "target": "es2022", "module": "node16",
    "moduleResolution": "node16", "lib": ["es2023", "dom", "dom.iterable"], "types": []
}, "files": ["client.ts"]}"#;

/// Set to write it.
const UPDATE: &str = "UPDATE_CLIENTS";

fn clients() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients")
}

fn program(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/clients");
    folder.join(name)
}

fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let message = [ran.stdout, ran.stderr].concat();
    assert!(
        ran.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&message)
    );
}

/// A host with tokens behind a balancer.
struct Own {
    options: Options,
    server: Option<Server>,
    balancer: Balancer,
    folder: TempDir,
}

impl Own {
    fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let mut options = Options::new(&folder.path().join("data"));
        options.args = ["--auth-mode", "tokens"].map(str::to_owned).to_vec();
        let mut own = Self {
            options,
            server: None,
            balancer: Balancer::start(),
            folder,
        };
        own.restart();
        own
    }

    fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        let server = Server::start(&self.options);
        self.balancer.set(vec![server.address().to_owned()]);
        self.server = Some(server);
    }

    /// Runs a program that uses a client, and does what it asks for.
    fn serve(&mut self, command: &mut Command) {
        let mut child = command
            .arg(guests::component("basics"))
            .env("HOST_SERVER", format!("http://{}", self.balancer.address()))
            .env("HOST_TOKEN_FILE", self.options.data.join("admin.token"))
            .env("XDG_CONFIG_HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut answers = child.stdin.take().unwrap();
        let asked = BufReader::new(child.stdout.take().unwrap());
        for asked in asked.lines() {
            match asked.unwrap().as_str() {
                "restart" => self.restart(),
                "swallow" => self.balancer.swallow_next(),
                other => panic!("it asks for {other}"),
            }
            answers.write_all(b"done\n").unwrap();
        }
        let ran = child.wait_with_output().unwrap();
        let message = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{command:?}: {message}");
    }
}

#[test]
fn the_document_is_valid_and_the_clients_are_of_it() {
    let folder = TempDir::new().unwrap();
    let server = Server::start(&Options::new(&folder.path().join("data")));
    let answer = server.client().get("/api/v1/openapi.json").unwrap();
    let document = folder.path().join("openapi.json");
    fs::write(&document, answer.body.to_string()).unwrap();
    run(Command::new(peers::mypy().join("openapi-spec-validator")).arg(&document));
    let updates = std::env::var_os(UPDATE).is_some();
    let written = if updates {
        clients()
    } else {
        folder.path().to_owned()
    };
    run(Command::new("python3")
        .arg(clients().join("generate.py"))
        .args([&document, &written]));
    for file in GENERATED {
        let [kept, current] =
            [clients(), written.clone()].map(|it| fs::read_to_string(it.join(file)));
        assert!(
            kept.unwrap_or_default() == current.unwrap(),
            "clients/{file} is not of the current document: {UPDATE}=1 cargo test --workspace --test peers clients_are_of"
        );
    }
}

#[test]
fn the_client_in_python() {
    let package = clients().join("python");
    let python = |arguments: &[&str]| {
        let mut command = Command::new("python3");
        command.current_dir(&package).args(arguments);
        command.env("PYTHONPATH", &package);
        command
    };
    run(&mut python(&[
        "-B", "-m", "unittest", "discover", "-s", "tests",
    ]));
    let mut own = Own::start();
    run(Command::new(peers::mypy().join("mypy"))
        .current_dir(&package)
        .args(["--strict", "host_jobs_client"])
        .arg(program("client.py"))
        .arg("--cache-dir")
        .arg(peers::mypy().join("../types")));
    own.serve(python(&["-B"]).arg(program("client.py")));
}

#[test]
fn the_client_in_typescript() {
    let package = clients().join("typescript");
    run(Command::new("node")
        .current_dir(&package)
        .args(["--test", "test/"]));
    let mut own = Own::start();
    let folder = own.folder.path().join("typescript");
    fs::create_dir_all(folder.join("node_modules")).unwrap();
    symlink(&package, folder.join("node_modules/host-jobs-client")).unwrap();
    fs::copy(program("client.ts"), folder.join("client.ts")).unwrap();
    fs::write(folder.join("tsconfig.json"), COMPILER).unwrap();
    fs::write(folder.join("package.json"), r#"{"type": "module"}"#).unwrap();
    let compiler = peers::typescript().join("node_modules/.bin/tsc");
    run(Command::new(compiler).current_dir(&folder));
    own.serve(Command::new("node").arg(folder.join("client.js")));
}
