//! Artifacts: files that jobs produce, with the whole program, on both stores.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually, guests, postgres, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::backup::{run as host_command, text};

const PAGE: &str = include_str!("../../docs/files.md");

pub(crate) const MANIFEST: &str = "[defaults]\nartifact_mib = 4\ntimeout_seconds = 30\n";

const PATIENCE: Duration = Duration::from_mins(2);

/// How many jobs run when a host is killed, and how many of them have completed by then.
const JOBS: usize = 40;
const COMPLETED: usize = 5;

/// Starts a host with handlers that keep artifacts.
pub(crate) fn start(options: &Options) -> Server {
    let server = Server::start(options);
    deploy(&server.client());
    server
}

pub(crate) fn deploy(client: &Client) {
    let component = fs::read(guests::component("hostile")).unwrap();
    let answer = client
        .deploy("hostile", &component, Some(MANIFEST))
        .unwrap();
    // 200 if it was deployed before.
    assert!([200, 201].contains(&answer.status), "{answer:?}");
}

fn job(files: &Value, fails: bool) -> Value {
    json!({"handler": "artifacts", "params": {"files": files, "fails": fails}, "max_attempts": 1})
}

fn get(client: &Client, job: &Value, name: &str) -> (u16, String) {
    let id = job["id"].as_str().unwrap();
    let path = format!("/api/v1/jobs/{id}/artifacts/{name}");
    client.call_text("GET", &path, None).unwrap()
}

fn purge(client: &Client, job: &Value) {
    let path = format!("/api/v1/jobs/{}/purge", job["id"].as_str().unwrap());
    assert_eq!(client.post(&path, &json!({})).unwrap().status, 200);
}

fn names(job: &Value) -> Vec<&str> {
    let artifacts = job["artifacts"].as_array().into_iter().flatten();
    artifacts.map(|it| it["name"].as_str().unwrap()).collect()
}

/// Returns how many files are in the folder of artifacts.
fn count_files(data: &Path) -> usize {
    fs::read_dir(data.join("artifacts")).unwrap().count()
}

#[test]
fn artifacts_are_kept_exactly_if_the_attempt_completes() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let server = start(&options);
    let client = server.client();
    let files = json!([
        {"name": "rows.csv", "text": "a,1\n", "content_type": "text/csv"},
        {"name": "large", "kib": 3_000},
        {"name": "open", "text": "x", "stays_open": true},
        {"name": "a/b"},
        {"name": "bad", "content_type": "text/html\r\nx: y"},
        {"name": "too-large", "kib": 2_000},
    ]);
    let done = client.run(&job(&files, false));
    let outcomes = done["result"].as_array().unwrap();
    assert_eq!(outcomes[..3], [json!("kept"), json!("kept"), json!("kept")]);
    for (place, words) in [(3, "the name of"), (4, "content type"), (5, "artifact_mib")] {
        let refusal = outcomes[place].as_str().unwrap();
        assert!(refusal.contains(words), "{refusal}");
    }
    assert_eq!(names(&done), ["large", "rows.csv"], "{done}");
    assert_eq!(done["artifacts"][1]["bytes"], 4);
    assert_eq!(done["artifacts"][1]["content_type"], "text/csv");
    assert_eq!(get(&client, &done, "rows.csv"), (200, "a,1\n".to_owned()));
    assert_eq!(get(&client, &done, "large").1.len(), 3_000 << 10);
    assert_eq!(get(&client, &done, "open").0, 404);

    let failed = client.run(&job(&json!([{"name": "rows.csv", "text": "x"}]), true));
    assert_eq!(failed["state"], "discarded", "{failed}");
    assert_eq!(failed["artifacts"], Value::Null);
    assert_eq!(get(&client, &failed, "rows.csv").0, 404);
    // The third file is that of the failed attempt, which a start removes.
    assert_eq!(count_files(data.path()), 3);
    server.kill();
    let again = start(&options);
    assert_eq!(count_files(data.path()), 2);
    assert_eq!(get(&again.client(), &done, "rows.csv").1, "a,1\n");
    purge(&again.client(), &done);
    assert_eq!(get(&again.client(), &done, "rows.csv").0, 404);
    again.stop();
    start(&options).stop();
    assert_eq!(count_files(data.path()), 0);
}

#[test]
fn a_host_keeps_no_more_artifacts_than_it_may() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = folder.path().join("host.toml");
    fs::write(&file, "[artifacts]\nmax_mib = 2\n").unwrap();
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), text(&file).to_owned()];
    let server = start(&options);
    let files = json!([{"name": "a", "kib": 1_500}, {"name": "b", "kib": 1_500}]);
    let done = server.client().run(&job(&files, false));
    let refusal = done["result"][1].as_str().unwrap();
    assert!(refusal.contains("artifacts.max_mib"), "{refusal}");
    assert_eq!(names(&done), ["a"], "{done}");
}

#[test]
fn a_database_has_the_content_and_refuses_larger_files_by_name() {
    let url = postgres::schema("artifacts");
    let (first, second) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let options = |data: &TempDir| {
        let mut options = Options::new(data.path());
        for (name, value) in [("STORE_URL", &*url), ("STORE_ALLOW_UNSAFE", "true")] {
            let name = format!("HOST_{name}");
            options.env.push((name, value.to_owned()));
        }
        options
    };
    let server = start(&options(&first));
    let files = json!([
        {"name": "rows.csv", "text": "a,1\n", "content_type": "text/csv"},
        {"name": "whole", "kib": 1_024},
        {"name": "larger", "kib": 1_025},
    ]);
    let done = server.client().run(&job(&files, false));
    let refusal = done["result"][2].as_str().unwrap();
    assert!(
        refusal.contains("at most 1 MiB in the database"),
        "{refusal}"
    );
    assert_eq!(names(&done), ["rows.csv", "whole"], "{done}");
    let failed = server
        .client()
        .run(&job(&json!([{"name": "a", "text": "x"}]), true));
    assert_eq!(get(&server.client(), &failed, "a").0, 404);
    server.kill();

    let server = start(&options(&second));
    let client = server.client();
    assert_eq!(get(&client, &done, "rows.csv"), (200, "a,1\n".to_owned()));
    assert_eq!(get(&client, &done, "whole").1.len(), 1 << 20);
    purge(&client, &done);
    assert_eq!(get(&client, &done, "rows.csv").0, 404);
    assert!(!second.path().join("artifacts").exists());
}

/// A server that tells when a handler asks it, and answers when it may.
struct Gate(TcpListener);

impl Gate {
    fn open() -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        (Self(listener), origin)
    }

    /// Waits until a handler asks, calls `before`, and answers.
    fn pass(&self, before: impl FnOnce()) {
        let (mut stream, _) = self.0.accept().unwrap();
        let mut head = String::new();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while !head.ends_with("\r\n\r\n") {
            assert!(reader.read_line(&mut head).unwrap() > 0);
        }
        before();
        let answer = "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n";
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

/// When a host is killed, while an attempt that has written an artifact ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The file has its name, and the handler still runs.
    Running,
    /// The attempt ends, and the store cannot commit it.
    BeforeCommit,
    /// The store has committed it, and the client waits for the answer.
    AfterCommit,
}

fn gated(data: &TempDir, origin: &str) -> Options {
    let file = data.path().join("host.toml");
    let config = format!("[grants]\nhttp = [\"{origin}\"]\nhttp_networks = [\"127.0.0.1/32\"]\n");
    fs::write(&file, config).unwrap();
    let mut options = Options::new(&data.path().join("data"));
    options.args = vec!["--config".to_owned(), text(&file).to_owned()];
    options
}

fn kill_at(moment: Moment) {
    let (data, (gate, origin)) = (TempDir::new().unwrap(), Gate::open());
    let options = gated(&data, &origin);
    let own = data.path().join("data");
    let server = Server::start(&options);
    let component = fs::read(guests::component("hostile")).unwrap();
    let manifest = format!("{MANIFEST}[[handlers.artifacts.http]]\nto = \"{origin}\"\n");
    let client = server.client();
    let deployed = client.deploy_accepted("hostile", &component, Some(&manifest));
    assert_eq!(deployed.unwrap().status, 201);
    let files = json!([{"name": "a", "text": "content"}]);
    let params = json!({"files": files, "asks": origin});
    let id = client.enqueue(&json!({"handler": "artifacts", "params": params}));
    let store = rusqlite::Connection::open(own.join("host.db")).unwrap();
    let rows = || {
        let sql = "SELECT COUNT(*) FROM artifacts";
        store
            .query_row(sql, [], |row| row.get::<_, i64>(0))
            .unwrap()
    };
    match moment {
        Moment::Running => gate.pass(|| {
            assert_eq!(count_files(&own), 1);
            server.kill();
        }),
        Moment::BeforeCommit => {
            gate.pass(|| store.execute_batch("BEGIN IMMEDIATE").unwrap());
            // No commit can pass until this one ends, after the host.
            server.kill();
            store.execute_batch("ROLLBACK").unwrap();
        }
        Moment::AfterCommit => {
            gate.pass(|| {});
            eventually("the commit", PATIENCE, || (rows() == 1).then_some(()));
            server.kill();
        }
    }
    let committed = moment == Moment::AfterCommit;
    assert_eq!(
        (rows(), count_files(&own)),
        (committed.into(), 1),
        "{moment:?}"
    );
    drop(store);

    let server = Server::start(&options);
    let client = server.client();
    if !committed {
        gate.pass(|| assert_eq!(names(&client.job(&id)), [""; 0], "{moment:?}"));
    }
    let done = client.wait(&id);
    assert_eq!(
        (&done["state"], names(&done)),
        (&json!("completed"), vec!["a"])
    );
    assert_eq!(get(&client, &done, "a"), (200, "content".to_owned()));
    assert_eq!(
        done["attempt"],
        if committed { 1 } else { 2 },
        "{moment:?}: {done}"
    );
    assert_eq!(
        count_files(&own),
        1,
        "{moment:?}: the other file was removed"
    );
}

#[test]
fn a_host_that_is_killed_while_an_attempt_ends_keeps_its_artifact_exactly_if_that_was_committed() {
    for moment in [Moment::Running, Moment::BeforeCommit, Moment::AfterCommit] {
        kill_at(moment);
    }
}

/// A start removes each file that no row names, so the files that are left are those of jobs that completed.
#[test]
fn a_killed_host_leaves_an_artifact_exactly_if_the_attempt_completed() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path());
    let server = start(&options);
    let client = server.client();
    let of_job = |n: usize| {
        let files = json!([{"name": "a", "text": format!("{n}\n"), "kib": 64}]);
        json!({"handler": "artifacts", "params": {"files": files}})
    };
    let jobs: Vec<Value> = (0..JOBS).map(of_job).collect();
    let ids: Vec<String> = jobs.iter().map(|job| client.enqueue(job)).collect();
    eventually("some jobs complete", PATIENCE, || {
        let listed = client.items("/api/v1/jobs?state=completed");
        (listed.len() >= COMPLETED).then_some(())
    });
    server.kill();

    let server = Server::start(&options);
    let client = server.client();
    for (n, id) in ids.iter().enumerate() {
        let job = client.job(id);
        let (status, content) = get(&client, &job, "a");
        if names(&job).is_empty() {
            continue;
        }
        assert_eq!(
            (status, content.lines().next()),
            (200, Some(&*n.to_string()))
        );
        assert_eq!(job["state"], "completed", "{job}");
    }
    for id in &ids {
        let job = client.wait(id);
        assert_eq!(
            (&job["state"], names(&job)),
            (&json!("completed"), vec!["a"])
        );
        assert_eq!(get(&client, &job, "a").0, 200);
    }
    assert_eq!(count_files(data.path()), JOBS);
}

#[test]
fn who_may_read_a_result_may_read_artifacts() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options
        .env
        .push(("HOST_AUTH_MODE".to_owned(), "tokens".to_owned()));
    let server = Server::start(&options);
    let first_token = fs::read_to_string(data.path().join("admin.token")).unwrap();
    let admin = server.client().with_token(first_token.trim());
    deploy(&admin);
    let client = |name: &str, allow: &[&str]| {
        let body = json!({"name": name, "allow": allow});
        let made = admin.post("/api/v1/tokens", &body).unwrap();
        assert_eq!(made.status, 201, "{made:?}");
        server
            .client()
            .with_token(made.body["token"].as_str().unwrap())
    };
    let files = json!([{"name": "a", "text": "secret"}]);
    let owner = client("owner", &["enqueue", "read", "read_own"]);
    let done = owner.run(&job(&files, false));
    assert_eq!(get(&owner, &done, "a"), (200, "secret".to_owned()));
    let reader = client("reader", &["read", "read_payload"]);
    assert_eq!(get(&reader, &done, "a").0, 200);
    let watcher = client("watcher", &["read", "enqueue", "read_own"]);
    let (status, refused) = get(&watcher, &done, "a");
    assert_eq!(status, 403, "{refused}");
    assert!(refused.contains("read_payload"), "{refused}");
    let seen = watcher.job(done["id"].as_str().unwrap());
    assert_eq!(seen["artifacts"], Value::Null);
    assert_eq!(seen["withheld"], json!(["params", "result", "artifacts"]));
    assert_eq!(get(&client("sender", &["enqueue"]), &done, "a").0, 403);
}

#[test]
fn a_command_saves_an_artifact_and_a_backup_has_it() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = start(&Options::new(data.path()));
    let files = json!([{"name": "rows.csv", "text": "a,1\nb,2\n"}]);
    let done = server.client().run(&job(&files, false));
    let id = done["id"].as_str().unwrap();
    let base = server.client().base().to_owned();
    let command = |args: &[&str]| {
        let mut command = Command::new(host());
        command.args(["job", "artifact", id]).args(args);
        command.env("HOST_SERVER", &base).output().unwrap()
    };
    assert_eq!(command(&["rows.csv"]).stdout, b"a,1\nb,2\n");
    let saved = folder.path().join("saved.csv");
    let output = command(&["rows.csv", "-O", text(&saved)]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(fs::read(&saved).unwrap(), b"a,1\nb,2\n");
    let missing = folder.path().join("missing.csv");
    let output = command(&["other", "-O", text(&missing)]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && message.contains("host job show"),
        "{message}"
    );
    assert!(!missing.exists());

    let [copy, restored] = ["copy", "restored"].map(|name| folder.path().join(name));
    let backup = ["backup", "--data", text(data.path()), "--to", text(&copy)];
    let restore = ["restore", text(&copy), "--data", text(&restored)];
    for args in [&backup[..], &restore] {
        let (code, message) = host_command(args);
        assert_eq!(code, Some(0), "{message}");
    }
    server.kill();
    let server = Server::start(&Options::new(&restored));
    let (status, content) = get(&server.client(), &done, "rows.csv");
    assert_eq!((status, &*content), (200, "a,1\nb,2\n"));
}

/// Returns the examples of the page in a language, with these words in them.
pub(crate) fn example<'a>(language: &str, words: &str) -> &'a str {
    let fence = format!("```{language}\n");
    let mut blocks = PAGE.split(&fence).skip(1);
    let found = blocks.find_map(|it| it.split("```").next().filter(|it| it.contains(words)));
    found.unwrap()
}

fn keep_counts(lang: &str, handlers: &str, tests: &str, example: &str) {
    let name = format!("artifacts-{lang}");
    let component = projects::component(&name, lang, &[(handlers, example), (tests, "")]);
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    let client = server.client();
    let component = fs::read(component).unwrap();
    let answer = client.deploy("report", &component, Some(MANIFEST)).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let done = client.run(&json!({"handler": "report", "params": {"a": 1, "b": 2}}));
    assert_eq!(done["result"], 2, "{done}");
    let (status, content) = get(&client, &done, "counts.csv");
    assert_eq!((status, &*content.replace('\r', "")), (200, "a,1\nb,2\n"));
}

#[test]
fn the_example_in_python_keeps_a_file() {
    let example = example("python", "artifacts");
    keep_counts("python", "handlers.py", "test_handlers.py", example);
}

#[test]
fn the_example_in_javascript_keeps_a_file() {
    let example = example("js", "artifacts");
    keep_counts("js", "handlers.js", "handlers.test.js", example);
}
