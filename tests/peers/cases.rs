//! The cases of `sdk/cases.json`, on which the mock hosts of the SDKs agree, with the real host.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use host_tests::reflector::Reflector;
use host_tests::{Client, Server, eventually, guests, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

const CASES: &str = include_str!("../../sdk/cases.json");

const PYTHON: &[(&str, &str)] = &[(
    "handlers.py",
    include_str!("../../sdk/python/tests/cases.py"),
)];
const JAVASCRIPT: &[(&str, &str)] = &[("handlers.js", include_str!("../../sdk/js/test/cases.js"))];

/// The tests of a new project, which are about another handler, are replaced by none.
const NO_TESTS: [(&str, &str); 2] = [("test_handlers.py", ""), ("handlers.test.js", "")];

/// `{"ok":true}`, compressed.
const GZIP: [u8; 31] = [
    31, 139, 8, 0, 0, 0, 0, 0, 0, 3, 171, 86, 202, 207, 86, 178, 42, 41, 42, 77, 173, 5, 0, 144,
    95, 212, 167, 11, 0, 0, 0,
];

const PATIENCE: Duration = Duration::from_mins(3);

/// A host with the handlers of the cases.
struct Own {
    server: Server,
    origin: String,
    reflector: Reflector,
    /// A server of another origin.
    other: Reflector,
    _folder: TempDir,
}

fn host(component: &Path) -> Own {
    let other = Reflector::start();
    let elsewhere = other.url("/echo");
    let reflector = Reflector::with(move |head, stream| {
        let redirect = |status, to: &str| (status, "{}", format!("location: {to}\r\n"));
        let (status, body, location) = match head.split(' ').nth(1) {
            Some("/echo" | "/echo?x=1") => ("200 OK", "{\"ok\":true}", String::new()),
            Some("/see-other") => redirect("303 See Other", "/dir/found"),
            Some("/dir/found") => redirect("302 Found", "../echo?x=1"),
            Some("/elsewhere") => redirect("307 Temporary Redirect", &elsewhere),
            Some("/outside") => redirect("302 Found", "http://127.0.0.1:1/"),
            Some("/loop") => redirect("308 Permanent Redirect", "/loop"),
            _ => ("503 Service Unavailable", "{}", String::new()),
        };
        let offers = head.contains("accept-encoding: gzip, br, deflate")
            && head.contains("user-agent: host/");
        if offers && head.contains(" /gzip ") {
            let length = GZIP.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: {length}\r\n\r\n"
            );
            return std::io::Write::write_all(stream, &[head.as_bytes(), &GZIP].concat()).is_ok();
        }
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nconnection: close\r\n{location}content-length: {length}\r\n\r\n"
        );
        std::io::Write::write_all(stream, (head + body).as_bytes()).is_ok()
    });
    let folder = TempDir::new().unwrap();
    let settings = "secrets = [\"signing\"]\n[secrets.signing]\nenv = \"SIGNING\"\n";
    let to_other = other.origin();
    let mut options = reflector.options(&folder, &format!(", \"{to_other}\""), settings);
    let signing = ("SIGNING".to_owned(), "k-77aa-signing".to_owned());
    options.env.push(signing);
    let server = Server::start(&options);
    let origin = reflector.origin();
    let manifest = format!(
        "[handlers.\"case.keep\".state]\nquota_kib = 64\n[handlers.\"case.compare\".state]\nquota_kib = 64\n\
         [handlers.\"case.report\"]\nartifact_mib = 1\n[handlers.\"case.read\"]\nartifact_mib = 1\n\
         [handlers.\"case.sign\"]\nsecrets = [\"signing\"]\n[handlers.\"case.hold\"]\nhold = [\"by-case\", \"other\"]\n\
         [handlers.\"case.large\"]\nmemory_mib = 512\n\
         [[handlers.\"case.order\".jobs]]\nhandlers = [\"case.log\"]\nqueues = [\"rows\"]\n\
         [[handlers.\"case.call\".http]]\nto = \"{origin}\"\n\
         [[handlers.\"case.follow\".http]]\nto = \"{origin}\"\n\
         [[handlers.\"case.follow\".http]]\nto = \"{to_other}\"\n"
    );
    let component = fs::read(component).unwrap();
    let answer = server
        .client()
        .deploy_accepted("cases", &component, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    Own {
        server,
        origin,
        reflector,
        other,
        _folder: folder,
    }
}

fn check_all(component: &Path) {
    let own = host(component);
    let client = own.server.client();
    let text = CASES
        .replace("{origin}", &own.origin)
        .replace("{other}", &own.other.origin());
    let cases: Vec<Value> = serde_json::from_str(&text).unwrap();
    for case in cases {
        // Those of the case before.
        requests(&own).for_each(drop);
        check(&client, &case);
        assert_sent(&own, &case);
    }
    let job = json!({"handler": "case.follow", "params": {"url": format!("{}/outside", own.origin)}, "max_attempts": 1});
    let ended = client.wait(&client.enqueue(&job));
    assert_eq!(ended["failure"]["user_kind"], "http_not_granted", "{ended}");
}

/// Returns the requests that have reached the servers.
fn requests(own: &Own) -> impl Iterator<Item = String> {
    let Own {
        reflector, other, ..
    } = own;
    reflector
        .requests
        .try_iter()
        .chain(other.requests.try_iter())
}

/// Checks what has reached the servers: method, URL, the headers that handlers set, and the length of the body.
fn assert_sent(own: &Own, case: &Value) {
    let then = &case["then"]["sent"];
    if then.is_null() {
        return;
    }
    let sent = requests(own).map(|request| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let mut words = lines.next().unwrap().split(' ');
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(": ")).collect();
        let host = fields.iter().find(|(name, _)| *name == "host").unwrap().1;
        let mut names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
        names.retain(|name| ["accept", "authorization", "content-type", "x-key"].contains(name));
        names.sort_unstable();
        json!([
            method,
            format!("http://{host}{path}"),
            names.join(" "),
            body.len()
        ])
    });
    let expected = then.to_string().replace("/dir/../", "/");
    assert_eq!(sent.collect::<Value>().to_string(), expected, "{case}");
}

fn check(client: &Client, case: &Value) {
    let (then, given) = (&case["then"], &case["given"]);
    let attempts = if then["retry"].is_null() { 1 } else { 2 };
    let mut job =
        json!({"handler": case["handler"], "params": case["params"], "max_attempts": attempts});
    if given["attributes"].is_object() {
        job["attributes"] = given["attributes"].clone();
    }
    for (name, content) in given["files"].as_object().into_iter().flatten() {
        let (status, answer) = client
            .call_text("PUT", "/api/v1/artifacts", content.as_str())
            .unwrap();
        assert_eq!(status, 201, "{answer}");
        let upload: Value = serde_json::from_str(&answer).unwrap();
        job["files"][name] = upload["id"].clone();
    }
    if let Some(path) = then["refused"].as_str() {
        let refused = client.post("/api/v1/jobs", &job).unwrap().body;
        assert_eq!(refused["code"], "invalid_params", "{case}: {refused}");
        assert!(refused.to_string().contains(path), "{case}: {refused}");
        return;
    }
    forget(client, case);
    for name in given["limits"].as_array().into_iter().flatten() {
        let path = format!("/api/v1/limits/{}", name.as_str().unwrap());
        let limit = json!({"match": {"handler": case["handler"]}, "concurrency": 9});
        let set = client.call("PUT", &path, Some(&limit)).unwrap();
        assert_eq!(set.status, 200, "{set:?}");
    }
    let before = in_rows(client);
    let ended = wait_for_end(client, case, &client.enqueue(&job));
    for expected in ["result", "cancelled"].map(|key| &then[key]) {
        if !expected.is_null() {
            assert_eq!(&ended["result"], expected, "{case}: {ended}");
        }
    }
    assert_failed(case, &ended["failure"]);
    assert_left(client, case, &ended, &before);
}

/// Returns the ids of the jobs in the queue that `order` enqueues into.
fn in_rows(client: &Client) -> Vec<Value> {
    let jobs = client
        .items("/api/v1/jobs")
        .into_iter()
        .filter(|job| job["queue"] == "rows");
    jobs.map(|job| job["id"].clone()).collect()
}

/// Removes what earlier cases have kept and enqueued.
fn forget(client: &Client, case: &Value) {
    for key in case["then"]["state"].as_object().into_iter().flatten() {
        let path = value_of(case, key.0);
        client.call("DELETE", &path, None).unwrap();
    }
}

fn value_of(case: &Value, key: &str) -> String {
    let handler = case["handler"].as_str().unwrap();
    format!(
        "/api/v1/state/handler:{handler}/value?key={}",
        key.replace(' ', "%20")
    )
}

/// Waits until the job ends or waits for another attempt, and asks it to stop if the case says so.
fn wait_for_end(client: &Client, case: &Value, id: &str) -> Value {
    if let Some(reason) = case["given"]["cancelled"].as_str() {
        eventually("the handler runs", PATIENCE, || {
            (client.job(id)["state"] == "running").then_some(())
        });
        assert_progress(client, case, id);
        let cancel = json!({"reason": reason, "grace_seconds": 30});
        client
            .post(&format!("/api/v1/jobs/{id}/cancel"), &cancel)
            .unwrap();
    }
    if case["then"]["retry"].is_null() {
        return client.wait(id);
    }
    eventually("the handler asks for another attempt", PATIENCE, || {
        let job = client.job(id);
        (job["state"] == "retryable").then_some(job)
    })
}

/// Waits until the job shows the last progress that its handler reports.
fn assert_progress(client: &Client, case: &Value, id: &str) {
    let reports = case["then"]["progress"].as_array();
    let Some(last) = reports.and_then(|reports| reports.last()) else {
        return;
    };
    eventually("the progress of the handler", PATIENCE, || {
        let shown = client.job(id)["progress"].clone();
        let same = shown["percent"].as_f64() == last[0].as_f64() && shown["message"] == last[1];
        same.then_some(())
    });
}

fn assert_failed(case: &Value, failure: &Value) {
    let then = &case["then"];
    if let Some(reason) = then["retry"]["reason"].as_str() {
        assert!(failure.to_string().contains(reason), "{case}: {failure}");
    }
    for (key, expected) in then["failure"].as_object().into_iter().flatten() {
        let (key, expected) = match (&**key, expected) {
            ("kind", kind) => ("user_kind", kind.clone()),
            ("category", category) => {
                let category = category.as_str().unwrap();
                ("category", category.replace('-', "_").to_uppercase().into())
            }
            (key, expected) => (key, expected.clone()),
        };
        assert_eq!(failure[key], expected, "{case}: {failure}");
    }
}

/// Checks the log, the state, the files and the jobs that an attempt leaves.
fn assert_left(client: &Client, case: &Value, ended: &Value, before: &[Value]) {
    let then = &case["then"];
    let id = ended["id"].as_str().unwrap();
    for (at, line) in then["logs"].as_array().into_iter().flatten().enumerate() {
        let logs = format!("/api/v1/jobs/{id}/logs");
        let logged = eventually("the line in the log", PATIENCE, || {
            let line = client.get(&logs).unwrap().body["items"][at].clone();
            line.is_object().then_some(line)
        });
        let fields = match &logged["fields"] {
            Value::Null => json!({}),
            fields => fields.clone(),
        };
        assert_eq!(
            &json!([logged["level"], logged["message"], fields]),
            line,
            "{case}"
        );
    }
    for (key, expected) in then["state"].as_object().into_iter().flatten() {
        let kept = client.get(&value_of(case, key)).unwrap().body["value"]
            .clone()
            .as_str()
            .map_or(Value::Null, |text| serde_json::from_str(text).unwrap());
        assert_eq!(&kept, expected, "{case}: {key}");
    }
    for held in then["holds"].as_array().into_iter().flatten() {
        let path = format!("/api/v1/limits/{}", held[0].as_str().unwrap());
        let keys = client.get(&path).unwrap().body["keys"].clone();
        assert!(keys[0]["held_until"].is_string(), "{case}: {keys}");
        // It did not count, so there is another attempt.
        assert_eq!(ended["attempts_lost"], 0, "{case}: {ended}");
    }
    if let Some(expected) = then["artifacts"].as_object() {
        let artifacts = ended["artifacts"].as_array().cloned().unwrap_or_default();
        let kept = artifacts.iter().map(|it| {
            let name = it["name"].as_str().unwrap();
            let path = format!("/api/v1/jobs/{id}/artifacts/{name}");
            let (status, content) = client.call_text("GET", &path, None).unwrap();
            assert_eq!(status, 200, "{case}: {content}");
            (name.to_owned(), Value::from(content))
        });
        assert_eq!(&kept.collect::<serde_json::Map<_, _>>(), expected, "{case}");
    }
    if let Some(expected) = then["enqueued"].as_array() {
        let mut children: Vec<Value> = in_rows(client).into_iter().filter(|id| !before.contains(id))
            .map(|id| client.job(id.as_str().unwrap()))
            .map(|job| json!({"handler": job["handler"], "queue": job["queue"], "params": job["params"]}))
            .collect();
        children.sort_by_key(ToString::to_string);
        assert_eq!(&children, expected, "{case}");
    }
}

#[test]
fn the_cases_in_rust() {
    check_all(&guests::component("cases"));
}

#[test]
fn the_cases_in_python() {
    let files = [PYTHON, &NO_TESTS[..1]].concat();
    check_all(&projects::component("cases-python", "python", &files));
}

#[test]
fn the_cases_in_quickjs() {
    let files = [JAVASCRIPT, &NO_TESTS[1..]].concat();
    check_all(&projects::component("cases-quickjs", "js", &files));
}

#[test]
fn the_cases_in_starlingmonkey() {
    let package = projects::starlingmonkey("cases-starlingmonkey", "javascript");
    let files = [JAVASCRIPT, &NO_TESTS[1..], &[("package.json", &*package)]].concat();
    check_all(&projects::component("cases-starlingmonkey", "js", &files));
}

/// Those of the packages, in plain Python and Node.
#[test]
fn the_sdks_pass_their_own_tests() {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    let python = ["-B", "-m", "unittest", "discover", "-s", "tests"];
    let mut python_tests = Command::new("python3");
    python_tests.args(python).env("PYTHONPATH", ".");
    let mut node_tests = Command::new("node");
    node_tests.args(["--test", "test/"]);
    for (tests, folder) in [(&mut python_tests, "python"), (&mut node_tests, "js")] {
        let output = tests.current_dir(sdk.join(folder)).output().unwrap();
        let shown = [&output.stdout, &output.stderr]
            .map(|text| String::from_utf8_lossy(text))
            .concat();
        assert!(output.status.success(), "{folder}: {shown}");
    }
}
