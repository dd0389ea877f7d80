//! The dashboard of a real host, without scripts: what a person does with its links and forms.

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};

use host_tests::raw::{Raw, ask, connect};
use host_tests::{Options, Server};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::own;

/// Loads a page.
fn get(server: &Server, path: &str) -> (Option<u16>, String) {
    get_with(server, path, "")
}

/// Loads a page with a cookie.
pub(crate) fn get_with(server: &Server, path: &str, cookie: &str) -> (Option<u16>, String) {
    let address = server.address();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    );
    status_and_body(ask(address, request.as_bytes()))
}

/// Presents a token as a browser does, and returns its cookie.
pub(crate) fn log_in(server: &Server, token: &str) -> String {
    let (address, form) = (server.address(), format!("token={token}"));
    let length = form.len();
    let request = format!(
        "POST /login HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
    );
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let set = answer
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap_or_else(|| panic!("no cookie in {answer}"));
    set.split(';').next().unwrap().to_owned()
}

/// Sends a form as a browser does that shows a page of `origin`.
fn send(server: &Server, origin: &str, path: &str, form: &str) -> (Option<u16>, String) {
    let (address, length) = (server.address(), form.len());
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: {origin}\r\nConnection: close\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{form}"
    );
    status_and_body(ask(address, request.as_bytes()))
}

fn status_and_body(answer: Raw) -> (Option<u16>, String) {
    let text = match answer.body {
        Value::String(text) => text,
        other => other.to_string(),
    };
    (answer.status, text)
}

#[test]
fn jobs_are_run_watched_changed_and_forgotten_on_pages() {
    let own = own();
    let (server, client) = (&own.server, own.server.client());
    let origin = format!("http://{}", server.address());
    let click = |path: &str, form: &str| send(server, &origin, path, form);

    let params =
        "%7B%22n%22%3A9007199254740993%2C%22t%22%3A%22%3Cscript%3Ealert(1)%3C%2Fscript%3E%22%7D";
    let (status, page) = click("/jobs", &format!("handler=echo&queue=mail&params={params}"));
    assert_eq!(status, Some(303), "{page}");
    let job = client.items("/api/v1/jobs")[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    assert_eq!(client.wait(&job)["state"], "completed");
    let (status, page) = get(server, &format!("/jobs/{job}"));
    assert_eq!(status, Some(200), "{page}");
    assert!(
        page.contains("9007199254740993") && !page.contains("<script>"),
        "{page}"
    );
    for path in ["/", "/jobs?q=queue:mail+state:completed", "/queues"] {
        let (status, page) = get(server, path);
        assert_eq!(status, Some(200), "{path}: {page}");
        assert!(page.contains("mail"), "{path}: {page}");
    }

    let sleeps = client.enqueue(&json!({"handler": "sleep", "params": {"ms": 600_000}}));
    let (status, page) = click(&format!("/jobs/{sleeps}"), "action=cancel");
    assert_eq!(status, Some(303), "{page}");
    let cancelled = client.wait(&sleeps);
    assert_eq!(cancelled["state"], "cancelled", "{cancelled}");
    assert_eq!(cancelled["cancel_reason"], "cancelled on the dashboard");

    let fails =
        json!({"handler": "fail", "params": {"message": "x"}, "max_attempts": 1, "queue": "bad"});
    let failed = client.run(&fails);
    assert_eq!(failed["state"], "discarded", "{failed}");
    let all = "q=state:discarded+queue:bad&action=retry";
    let (status, page) = click("/jobs/change", all);
    assert_eq!(status, Some(200));
    assert!(page.contains("Retry 1 job that matches"), "{page}");
    let (_, page) = click("/jobs/change", &format!("{all}&sure=true"));
    assert!(page.contains("1 job changed"), "{page}");
    let id = failed["id"].as_str().unwrap();
    let again = client.wait(id);
    assert!(again["attempt"].as_u64() >= Some(2), "{again}");

    let path = format!("/jobs/{job}");
    let (status, page) = click(&path, "action=purge");
    assert_eq!(status, Some(200));
    assert!(
        page.contains("Purge it") && client.job(&job)["state"] == "completed",
        "{page}"
    );
    assert_eq!(click(&path, "action=purge&sure=true").0, Some(303));
    let (status, page) = get(server, &path);
    assert_eq!(status, Some(404));
    assert!(page.contains("no job has the id"), "{page}");

    assert_eq!(click("/queues/mail", "action=pause").0, Some(303));
    assert_eq!(
        client.get("/api/v1/queues/mail").unwrap().body["paused"],
        true
    );
    let (_, page) = get(server, "/queues");
    assert!(page.contains("Resume mail"), "{page}");
    // A form on a page of another site does nothing.
    let (status, page) = send(
        server,
        "http://elsewhere.example",
        "/queues/mail",
        "action=resume",
    );
    assert_eq!(status, Some(403), "{page}");
    assert_eq!(
        client.get("/api/v1/queues/mail").unwrap().body["paused"],
        true
    );
}

#[test]
fn a_host_without_its_dashboard_has_no_pages() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let off = ("HOST_HTTP_DASHBOARD".to_owned(), "false".to_owned());
    options.env.push(off);
    let server = Server::start(&options);
    assert_eq!(get(&server, "/").0, Some(404));
    assert_eq!(get(&server, "/api/v1/queues").0, Some(200));
}

/// Runs a line copied from a page, in a shell that finds `host`.
fn in_a_shell(line: &str, token: &str) -> String {
    let folder = TempDir::new().unwrap();
    let path = std::env::var("PATH").unwrap();
    let program = host_tests::server::host();
    let output = Command::new("sh")
        .args(["-c", line])
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env("XDG_CONFIG_HOME", folder.path())
        .env("HOST_TOKEN", token)
        .env_remove("HOST_SERVER")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {shown}{error}");
    shown
}

/// Returns the lines to copy of a page: that of the command line, and that with curl.
fn lines_of(page: &str) -> [String; 2] {
    ["cli", "curl"].map(|id| {
        let (_, rest) = page
            .split_once(&format!("<code id=\"{id}\">"))
            .unwrap_or_else(|| panic!("no line {id}: {page}"));
        let (line, _) = rest.split_once("</code>").unwrap();
        let signs = [("&#34;", "\""), ("&#39;", "'"), ("&#38;", "&")];
        let line = signs.iter().fold(line.to_owned(), |line, (code, sign)| {
            line.replace(code, sign)
        });
        assert!(!line.contains("&#"), "{line}");
        line
    })
}

/// Each line to copy is run and shows what its page shows.
#[test]
fn what_a_page_says_to_copy_shows_the_same_in_a_shell() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    let auth = ("HOST_AUTH_MODE".to_owned(), "tokens".to_owned());
    options.env.push(auth);
    let server = Server::start(&options);
    let file = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
    let token = file.trim();
    let client = server.client().with_token(token);
    crate::fixture::deploy(&client, "basics");
    let body = json!({"handler": "echo", "queue": "team/mail", "unique_key": "it's $(id) \"x\"", "params": {"customer": 1}});
    let job = client.run(&body);
    let id = job["id"].as_str().unwrap();
    client.run(&json!({"handler": "echo", "queue": "-x"}));
    let fails =
        json!({"handler": "fail", "params": {"message": "x"}, "max_attempts": 1, "queue": "bad"});
    let job = client.run(&fails);
    let failed = job["id"].as_str().unwrap();
    for (path, body) in [
        (
            "schedules/-nightly",
            json!({"when": {"every": "1h"}, "job": {"handler": "echo"}}),
        ),
        ("limits/by:a", json!({"key": "/customer", "concurrency": 3})),
    ] {
        let set = client.call("PUT", &format!("/api/v1/{path}"), Some(&body));
        assert_eq!(set.unwrap().status, 200, "{path}");
    }
    let callback = json!({"on_end": {"handler": "echo"}, "open": true});
    let answer = client.post("/api/v1/batches", &callback).unwrap().body;
    let batch = answer["batch"]["id"].as_str().unwrap();
    let cookie = log_in(&server, token);
    for (path, has) in [
        ("/".to_owned(), "team/mail"),
        ("/jobs".to_owned(), "team/mail"),
        (
            "/jobs?q=state%3Afailed+since%3A2h+sort%3Aoldest".to_owned(),
            "bad",
        ),
        (
            "/jobs?q=unique%3A%22it%27s+%24(id)+%5C%22x%5C%22%22".to_owned(),
            "team/mail",
        ),
        ("/jobs?q=queue%3A-x&live=on".to_owned(), "-x"),
        (format!("/jobs/{id}"), id),
        (format!("/jobs/{failed}?attempt=1&find=x"), "told_to_fail"),
        ("/find?q=e".to_owned(), ""),
        ("/failures".to_owned(), "told_to_fail"),
        ("/queues".to_owned(), "team/mail"),
        ("/batches".to_owned(), batch),
        (format!("/batches/{batch}"), batch),
        ("/schedules".to_owned(), "-nightly"),
        ("/schedules/-nightly".to_owned(), "1h"),
        ("/limits".to_owned(), "by:a"),
        ("/limits/by:a".to_owned(), "/customer"),
        ("/handlers".to_owned(), "echo"),
        ("/handlers/echo".to_owned(), "Returns its params"),
        ("/components".to_owned(), "basics"),
        ("/components/basics".to_owned(), "echo"),
        ("/executors".to_owned(), ""),
        ("/nodes".to_owned(), "live"),
        ("/tokens".to_owned(), "admin"),
        ("/audit?verb=deploy&principal=".to_owned(), "basics"),
    ] {
        let (status, page) = get_with(&server, &path, &cookie);
        assert_eq!(status, Some(200), "{path}: {page}");
        let [cli, curl] = lines_of(&page);
        assert!(
            !cli.contains(token) && !curl.contains(token),
            "{cli} {curl}"
        );
        let shown = in_a_shell(&cli, token);
        assert!(shown.contains(has), "{path}: {cli}: {shown}");
        let text = in_a_shell(&curl, token);
        let answer: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{path}: {curl}: {text}"));
        assert!(answer.get("status").is_none(), "{path}: {curl}: {answer}");
        assert!(answer.to_string().contains(has), "{path}: {curl}: {answer}");
    }
}
