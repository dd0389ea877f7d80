//! The clients in `clients`: what is generated is of the current document, types fit, and each does what
//! `docs/http.md` shows at a real host with tokens that is killed on the way, and whose answers get lost.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use host_api::client::Choice;
use host_api::component::{DeployForm, DeployQuery};
use host_api::filter::FilterQuery;
use host_core::job::State;
use host_core::seconds::Seconds;
use host_jobs_client::{Client, Error, Event, EventsQuery, NewJob, WaitError, job};
use host_tests::{Balancer, Options, Server, guests, peers};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The output of the generator.
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

/// Makes a job for a queue that returns its params.
fn echo(queue: &str) -> NewJob {
    NewJob {
        queue: Some(queue.to_owned()),
        ..job("echo", &json!({"a": 1})).unwrap()
    }
}

fn in_queue(queue: &str) -> FilterQuery {
    FilterQuery {
        queue: Some(queue.parse().unwrap()),
        ..FilterQuery::default()
    }
}

#[test]
fn the_client_in_rust() {
    let mut own = Own::start();
    let choice = Choice {
        server: Some(format!("http://{}", own.balancer.address())),
        token_file: Some(own.options.data.join("admin.token")),
        ..Choice::default()
    };
    let client = Client::from(choice.open().unwrap());
    let component = fs::read(guests::component("basics")).unwrap();
    let form = DeployForm {
        component: &component,
        manifest: None,
        signature: None,
    };
    client
        .deploy("basics", &form, &DeployQuery::default())
        .unwrap();
    let result: Value = client.enqueue_and_wait(echo("one"), None).unwrap();
    assert_eq!(result, json!({"a": 1}));
    let mut pages = Vec::new();
    let many = (0..2_500).map(|_| echo("many"));
    let total = client.enqueue_many(many, |page| pages.push(page.len()));
    assert_eq!((total.unwrap(), pages), (2_500, vec![1_000, 1_000, 500]));
    let listed: Result<Vec<_>, _> = client.all_jobs(in_queue("many")).collect();
    assert_eq!(listed.unwrap().len(), 2_500);

    keeps_state_and_accepts_grants(&client, &component);
    own.balancer.swallow_next();
    let lost = client.enqueue(echo("lost")).unwrap();
    assert!(lost.existing, "the request was sent twice");
    own.balancer.swallow_next();
    let several = client.enqueue_array((0..3).map(|_| echo("lost"))).unwrap();
    assert_eq!(several.len(), 3);
    let count = client.count_jobs(&in_queue("lost")).unwrap();
    assert_eq!(count.view.jobs, 4);

    let spin = job("spin", &Value::Null).unwrap();
    let soon = Some(Duration::from_millis(100));
    let late = client.enqueue_and_wait::<Value>(spin, soon).unwrap_err();
    let WaitError::TimedOut(late) = late else {
        panic!("{late}")
    };
    client.cancel(&late.id, "enough").unwrap();
    let cancelled = client.result::<Value>(&late.id, None).unwrap_err();
    assert!(matches!(cancelled, WaitError::Ended(_)), "{cancelled}");
    let refused = client.enqueue(job("missing", &()).unwrap()).unwrap_err();
    assert!(matches!(refused, Error::Refused { .. }), "{refused}");
    goes_on_after_a_kill(&mut own, &client);
}

fn keeps_state_and_accepts_grants(client: &Client, component: &[u8]) {
    let (space, key) = ("handler:echo", "a/b c");
    client.set_state(space, key, b"17".to_vec()).unwrap();
    let value = client.state_value(space, key).unwrap();
    assert_eq!(value.view.value.as_deref(), Some("17"));
    assert_eq!(client.state_keys(space, Some("a/")).unwrap().items.len(), 1);
    client.remove_state(space, key).unwrap();
    assert!(client.state_spaces().unwrap().items.is_empty());
    let form = DeployForm {
        component,
        manifest: Some("[[handlers.echo.jobs]]\nhandlers = [\"noop\"]\nqueues = [\"default\"]\n"),
        signature: None,
    };
    let refused = client
        .deploy("basics", &form, &DeployQuery::default())
        .unwrap_err()
        .to_string();
    assert!(refused.contains("grants_not_accepted"), "{refused}");
    let accepting = DeployQuery {
        accept_grants: true,
        ..DeployQuery::default()
    };
    let deployed = client.deploy("basics", &form, &accepting).unwrap();
    assert_eq!(deployed.view.revision.revision, 2);
}

/// Kills the host in the middle of streams and of a wait.
fn goes_on_after_a_kill(own: &mut Own, client: &Client) {
    let of_queue = |name: &str| EventsQuery {
        queue: Some(name.parse().unwrap()),
        ..EventsQuery::default()
    };
    let mut quiet = client.events(of_queue("quiet"), None).unwrap();
    let mut events = client.events(of_queue("stream"), None).unwrap();
    let hundred = || {
        client
            .enqueue_array((0..100).map(|_| echo("stream")))
            .unwrap()
    };
    let mut accepted = hundred();
    let mut seen: Vec<_> = events.by_ref().take(10).collect();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let later = NewJob {
                delay_seconds: Some(Seconds { ms: 2_000 }),
                ..echo("one")
            };
            client.enqueue_and_wait::<Value>(later, None).unwrap()
        });
        own.restart();
        accepted.extend(hundred());
        client.enqueue(echo("quiet")).unwrap();
        assert_eq!(waiting.join().unwrap(), json!({"a": 1}));
    });
    let mut ended = Vec::new();
    while ended.len() < accepted.len() {
        let event = if seen.is_empty() {
            events.next().unwrap()
        } else {
            seen.remove(0)
        };
        let Event::Changed { change, .. } = event.unwrap() else {
            panic!("changes are missing")
        };
        if change.to == Some(State::Completed) {
            ended.push(change.job.to_string());
        }
    }
    let mut ids: Vec<String> = accepted.into_iter().map(|job| job.id).collect();
    let of_one = EventsQuery {
        job: Some(ids[0].parse().unwrap()),
        ..EventsQuery::default()
    };
    ids.sort();
    ended.sort();
    assert_eq!(ended, ids, "each job ends once in the stream");
    let first = quiet.next().unwrap().unwrap();
    assert!(matches!(first, Event::Changed { change, .. } if change.from.is_none()));
    let last = client
        .events(of_one, Some(0))
        .unwrap()
        .last()
        .unwrap()
        .unwrap();
    assert!(matches!(last, Event::Changed { change, .. } if change.to == Some(State::Completed)));
}
