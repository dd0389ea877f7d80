//! Files that are sent for jobs to read, with the whole program, on both stores.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use host_tests::server::host;
use host_tests::{Client, Options, Server, postgres, projects, raw};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::artifacts::{MANIFEST, deploy, example, start};
use crate::backup::{run as host_command, text};

fn upload(client: &Client, content: &str) -> Value {
    let sent = client.call_text("PUT", "/api/v1/artifacts", Some(content));
    let (status, answer) = sent.unwrap();
    assert_eq!(status, 201, "{answer}");
    serde_json::from_str(&answer).unwrap()
}

fn reading(read: &[&str], files: &Value) -> Value {
    json!({"handler": "open_files", "params": {"read": read}, "files": files, "max_attempts": 1})
}

/// Returns how many files are in the folder of artifacts.
fn count_files(data: &TempDir) -> usize {
    fs::read_dir(data.path().join("artifacts")).unwrap().count()
}

#[test]
fn a_job_reads_uploads_and_artifacts_of_jobs_before_it() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let rows = upload(&client, "a,1\n");
    let large = upload(&client, &"x".repeat(3 << 20));
    assert_eq!(
        (&rows["bytes"], &large["bytes"]),
        (&json!(4), &json!(3 << 20))
    );
    assert_eq!(rows["content_type"], "application/json");
    let produce =
        json!({"handler": "artifacts", "params": {"files": [{"name": "b.csv", "text": "b,2\n"}]}});
    let mut read = reading(
        &["rows", "large", "produced", "rows", "other"],
        &json!({"rows": rows["id"], "large": large["id"], "produced": "#0/b.csv", "missing": "#0/c.csv"}),
    );
    read["depends_on"] = json!(["#0"]);
    read["params"]["read"]
        .as_array_mut()
        .unwrap()
        .push("missing".into());
    let accepted = client
        .post("/api/v1/jobs", &json!([produce, read]))
        .unwrap();
    assert_eq!(accepted.status, 201, "{accepted:?}");
    let [produced, read] = [0, 1].map(|n| accepted.body[n]["id"].as_str().unwrap().to_owned());
    let done = client.wait(&read);
    let result = &done["result"];
    assert_eq!(result[0], "a,1\n", "{done}");
    assert_eq!(
        (&result[1], &result[2], &result[3]),
        (&json!(3 << 20), &json!("b,2\n"), &json!("a,1\n"))
    );
    for (place, words) in [(4, "without a file \"other\""), (5, "did not keep it")] {
        let refusal = result[place].as_str().unwrap();
        assert!(refusal.contains(words), "{refusal}");
    }
    assert_eq!(done["files"]["rows"], rows["id"]);
    assert_eq!(done["files"]["produced"], format!("{produced}/b.csv"));
}

#[test]
fn files_that_a_job_cannot_have_are_refused_with_one_sentence() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let unknown = "01990f3c-0000-7000-8000-000000000000";
    for (files, code, words) in [
        (json!({"a": unknown}), "unknown_upload", unknown),
        (
            json!({"a": "x"}),
            "invalid_request",
            "neither the id of an upload nor JOB/NAME",
        ),
        (json!({"a": "#0/b"}), "invalid_request", "depends_on"),
        (
            json!({"a/b": unknown}),
            "invalid_request",
            "the name of an artifact",
        ),
        (
            json!({"a": format!("{unknown}/b")}),
            "invalid_request",
            "depends_on",
        ),
    ] {
        let refused = client
            .post("/api/v1/jobs", &json!([reading(&[], &files)]))
            .unwrap();
        assert_eq!(refused.body["code"], code, "{files}: {refused:?}");
        assert!(
            refused.body.to_string().contains(words),
            "{files}: {refused:?}"
        );
    }
    let half = "PUT /api/v1/artifacts HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\ncontent-type: a/b\r\n\r\nhalf";
    let address = client.base().trim_start_matches("http://").to_owned();
    raw::exchange(&address, half.replace("127.0.0.1", &address).as_bytes());
    let bad = half.replace("a/b", "text").replace("127.0.0.1", &address);
    let refused = raw::exchange(&address, bad.as_bytes());
    assert!(
        refused.body.to_string().contains("content type"),
        "{refused:?}"
    );
    server.stop();
    assert_eq!(count_files(&data), 0, "half a file is removed");
}

#[test]
fn a_token_keeps_no_more_uploads_than_it_may_and_reads_only_its_own() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let file = folder.path().join("host.toml");
    fs::write(&file, "[artifacts]\ntoken_max_mib = 1\n").unwrap();
    let mut options = Options::new(data.path());
    options.args = vec!["--config".to_owned(), text(&file).to_owned()];
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
        let token = made.body["token"].as_str().unwrap();
        server.client().with_token(token)
    };
    let [one, other] = ["one", "other"].map(|name| client(name, &["enqueue", "read", "read_own"]));
    let kept = upload(&one, &"x".repeat(1_014 << 10));
    let more = "x".repeat(20 << 10);
    let (status, refused) = one
        .call_text("PUT", "/api/v1/artifacts", Some(&more))
        .unwrap();
    assert_eq!(status, 409, "{refused}");
    assert!(refused.contains("artifacts.token_max_mib"), "{refused}");
    upload(&other, &more);
    let job = reading(&["a"], &json!({"a": kept["id"]}));
    let refused = other.post("/api/v1/jobs", &job).unwrap();
    assert_eq!(refused.body["code"], "unknown_upload", "{refused:?}");
    assert_eq!(one.run(&job)["result"], json!([1_014 << 10]));
    let reader = client("reader", &["read"]);
    let (status, refused) = reader
        .call_text("PUT", "/api/v1/artifacts", Some("x"))
        .unwrap();
    assert_eq!(status, 403, "{refused}");
}

#[test]
fn a_database_has_uploads_and_refuses_larger_ones() {
    let url = postgres::schema("uploads");
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    for (name, value) in [("STORE_URL", &*url), ("STORE_ALLOW_UNSAFE", "true")] {
        options.env.push((format!("HOST_{name}"), value.to_owned()));
    }
    let server = start(&options);
    let client = server.client();
    let rows = upload(&client, "a,1\n");
    let large = "x".repeat((1 << 20) + 1);
    let (status, refused) = client
        .call_text("PUT", "/api/v1/artifacts", Some(&large))
        .unwrap();
    assert_eq!(status, 413, "{refused}");
    let done = client.run(&reading(&["rows"], &json!({"rows": rows["id"]})));
    assert_eq!(done["result"], json!(["a,1\n"]), "{done}");
}

#[test]
fn what_cannot_be_read_is_no_failure_of_the_host() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = Server::start(&Options::new(data.path()));
    let base = server.client().base().to_owned();
    let (code, said) = host_command(&["artifact", "put", text(folder.path()), "--server", &base]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("cannot send") && said.contains("Is a directory"),
        "{said}"
    );
    assert!(!said.contains(&base), "{said}");
}

#[test]
fn a_command_sends_a_file_and_a_backup_has_it() {
    let (data, folder) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let server = start(&Options::new(data.path()));
    let base = server.client().base().to_owned();
    let file = folder.path().join("rows.csv");
    fs::write(&file, "a,1\n").unwrap();
    let command = |args: &[&str], input: &str| {
        let mut command = Command::new(host());
        command.args(args).env("HOST_SERVER", &base);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let id = command(
        &["artifact", "put", text(&file), "--content-type", "text/csv"],
        "",
    );
    let json = command(&["artifact", "put", "-", "-o", "json"], "from a pipe");
    let piped: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(piped["bytes"], 11);
    let [rows, piped] = [
        format!("rows={id}"),
        format!("piped={}", piped["id"].as_str().unwrap()),
    ];
    let params = r#"{"read": ["rows", "piped"]}"#;
    let enqueue = ["job", "enqueue", "open_files", "--params", params, "--wait"];
    let with = |more: &[&str]| command(&[&enqueue[..], more].concat(), "");
    let result: Value = serde_json::from_str(&with(&["--file", &rows, "--file", &piped])).unwrap();
    assert_eq!(result, json!(["a,1\n", "from a pipe"]));

    let [copy, restored] = ["copy", "restored"].map(|name| folder.path().join(name));
    let backup = ["backup", "--data", text(data.path()), "--to", text(&copy)];
    let restore = ["restore", text(&copy), "--data", text(&restored)];
    for args in [&backup[..], &restore] {
        let (code, message) = host_command(args);
        assert_eq!(code, Some(0), "{message}");
    }
    server.kill();
    let server = Server::start(&Options::new(&restored));
    let done = server
        .client()
        .run(&reading(&["rows"], &json!({"rows": id})));
    assert_eq!(done["result"], json!(["a,1\n"]), "{done}");
}

/// Sends a request for an artifact with these headers, and returns the status and the whole answer.
fn part(address: &str, path: &str, headers: &str) -> (u16, String) {
    use std::io::Read as _;
    let mut stream = raw::connect(address);
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer[9..12].parse().unwrap(), answer.to_lowercase())
}

#[test]
fn a_part_of_an_artifact_is_sent_if_the_client_asks_for_one() {
    let data = TempDir::new().unwrap();
    let server = start(&Options::new(data.path()));
    let client = server.client();
    let files = json!([{"name": "a", "text": "0123456789", "kib": 200}]);
    let done = client.run(&json!({"handler": "artifacts", "params": {"files": files}}));
    let id = done["id"].as_str().unwrap();
    let path = format!("/api/v1/jobs/{id}/artifacts/a");
    let address = client.base().trim_start_matches("http://").to_owned();
    let get = |headers: &str| part(&address, &path, headers);
    let all = (200 << 10) + 10;
    let tag = format!("\"{}\"", done["artifacts"][0]["sha256"].as_str().unwrap());
    let (status, answer) = get("range: bytes=2-5\r\n");
    assert_eq!(status, 206, "{answer}");
    assert!(
        answer.contains(&format!("content-range: bytes 2-5/{all}\r\n")),
        "{answer}"
    );
    assert!(
        answer.contains("content-length: 4\r\n") && answer.ends_with("\r\n\r\n2345"),
        "{answer}"
    );
    assert!(answer.contains(&format!("etag: {tag}\r\n")), "{answer}");
    let (status, answer) = get(&format!("range: bytes={}-\r\n", all - 3));
    assert!(status == 206 && answer.ends_with("\r\n\r\nxxx"), "{answer}");
    let (status, answer) = get(&format!("range: bytes={all}-\r\n"));
    assert!(
        status == 416 && answer.contains(&format!("content-range: bytes */{all}\r\n")),
        "{answer}"
    );
    let (status, _) = get(&format!("range: bytes=0-0\r\nif-range: {tag}\r\n"));
    assert_eq!(status, 206);
    let (status, answer) = get("range: bytes=0-0\r\nif-range: \"other\"\r\n");
    assert!(status == 200 && answer.contains(&format!("content-length: {all}\r\n")));
    let (status, answer) = get(&format!("if-none-match: {tag}\r\n"));
    assert!(status == 304 && answer.ends_with("\r\n\r\n"), "{answer}");
}

/// Runs the handler of an example with a file of 11 bytes, two rows, and returns its result.
fn run_example(lang: &str, handlers: &str, tests: &str, handler: &str, file: &str) -> Value {
    let name = format!("files-{lang}");
    let example = example(
        lang,
        &format!("artifacts.open(\"{file}\")").replace('"', quote(lang)),
    );
    let component = projects::component(&name, lang, &[(handlers, example), (tests, "")]);
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(data.path()));
    let client = server.client();
    let component = fs::read(component).unwrap();
    let answer = client.deploy(&name, &component, Some(MANIFEST)).unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let sent = upload(&client, "a,10\r\nb,5\r\n");
    let mut job = json!({"handler": handler, "files": {}});
    job["files"][file] = sent["id"].clone();
    client.run(&job)["result"].clone()
}

fn quote(lang: &str) -> &str {
    if lang == "js" { "'" } else { "\"" }
}

#[test]
fn the_example_in_python_reads_a_file() {
    let total = run_example("python", "handlers.py", "test_handlers.py", "total", "rows");
    assert_eq!(total, 15);
}

#[test]
fn the_example_in_javascript_reads_a_file() {
    let size = run_example("js", "handlers.js", "handlers.test.js", "size", "photo");
    assert_eq!(size, 11);
}
