//! Requests of handlers to HTTP servers, through the broker's process.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;

use host_tests::certificates::{Authority, VALID};
use host_tests::processes::{self, children, command, kill};
use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::server::host;
use host_tests::tls_server::TlsServer;
use host_tests::worker::cache;
use host_tests::{Client, Options, Server, eventually, guests};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

fn granted(reflector: &Reflector) -> String {
    let origin = reflector.origin();
    let handlers = ["request", "wasi_request"].map(|handler| {
        format!(
            "[[handlers.{handler}.http]]\nto = \"{origin}\"\nmethods = [\"GET\", \"POST\"]\n\
             headers = {{ authorization = \"Bearer {{secret:api}}\" }}\n"
        )
    });
    handlers.concat()
}

fn deploy(client: &Client, reflector: &Reflector) {
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let manifest = granted(reflector);
    let answer = client
        .deploy_accepted("hostile", &hostile, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
}

fn broker(server: &Server) -> Option<u32> {
    processes::broker(server.pid())
}

#[test]
fn a_request_carries_the_secret_and_nobody_else_sees_it() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let manifest = granted(&reflector);
    let answer = client.deploy("hostile", &hostile, Some(&manifest)).unwrap();
    assert_eq!(answer.body["code"], "grants_not_accepted", "{answer:?}");
    let detail = answer.body["detail"].as_str().unwrap();
    let grant = format!(
        "request: http {} GET POST any path, with the header authorization: Bearer {{secret:api}}",
        reflector.origin()
    );
    assert!(detail.contains(&grant), "{detail}");
    assert_eq!(broker(&server), None, "no run needs it yet");
    deploy(&client, &reflector);
    let params = json!({"requests": [
        {"url": reflector.url("/first")},
        {"method": "POST", "url": reflector.url("/second"), "body_bytes": 100},
        {"method": "DELETE", "url": reflector.url("/third")},
        {"url": "http://169.254.169.254/latest/meta-data"},
        {"url": reflector.url("/fourth"), "headers": [["authorization", "mine"]]},
        {"url": reflector.url("/fifth"), "headers": [["a\r\nb", "c"]]},
        {"url": "http://10.0.0.1\r\n/"},
    ]});
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let job = client.run(&json!({
        "handler": "request",
        "params": params,
        "max_attempts": 1,
        "trace_context": {"traceparent": traceparent},
    }));
    assert_eq!(job["state"], "completed", "{job}");
    let learned = job["result"].as_array().unwrap();
    assert_eq!(learned[0]["status"], 200, "{job}");
    assert!(
        learned[0]["body"]
            .as_str()
            .unwrap()
            .contains("Bearer {secret:api}"),
        "{job}"
    );
    assert_eq!(learned[1]["status"], 200, "{job}");
    for (index, kind) in [
        (2, "NotGranted"),
        (3, "NotGranted"),
        (4, "InvalidRequest"),
        (5, "InvalidRequest"),
        (6, "InvalidRequest"),
    ] {
        assert_eq!(learned[index]["kind"], kind, "{job}");
    }
    let attempts = client.items(&format!(
        "/api/v1/jobs/{}/attempts",
        job["id"].as_str().unwrap()
    ));
    assert_recorded(&attempts[0]["requests"], &reflector);
    let head = reflector.requests.recv_timeout(SOON).unwrap();
    assert!(
        head.contains(&format!("authorization: Bearer {SECRET}\r\n")),
        "{head}"
    );
    assert!(
        head.contains("traceparent: 00-0af7651916cd43dd8448eb211c80319c-"),
        "{head}"
    );
    assert!(
        reflector
            .requests
            .recv_timeout(SOON)
            .unwrap()
            .starts_with("POST /second ")
    );
    assert!(
        reflector.requests.try_recv().is_err(),
        "nothing else was sent"
    );
    assert!(broker(&server).is_some());
}

/// The record of the requests of the test above: servers and ends, but nothing that may be secret.
fn assert_recorded(requests: &Value, reflector: &Reflector) {
    let first = requests["first"].as_array().unwrap();
    let origin = reflector.origin();
    let expected = [
        (Some("GET"), Some(&*origin), Ok(200)),
        (Some("POST"), Some(&*origin), Ok(200)),
        (Some("DELETE"), Some(&*origin), Err("not_granted")),
        (
            Some("GET"),
            Some("http://169.254.169.254"),
            Err("not_granted"),
        ),
        (Some("GET"), Some(&*origin), Err("invalid_request")),
        (Some("GET"), Some(&*origin), Err("invalid_request")),
        (None, None, Err("invalid_request")),
    ];
    assert_eq!(first.len(), expected.len(), "{requests}");
    for (request, (method, origin, end)) in first.iter().zip(expected) {
        assert_eq!(request["method"].as_str(), method, "{request}");
        assert_eq!(request["origin"].as_str(), origin, "{request}");
        assert_eq!(request["status"].as_u64(), end.ok(), "{request}");
        assert_eq!(request["error"].as_str(), end.err(), "{request}");
    }
    assert_eq!(first[1]["sent_bytes"], 100, "{requests}");
    assert!(
        first[1]["received_bytes"].as_u64().unwrap() > 20,
        "{requests}"
    );
    let counts = ["total", "failed", "sent_bytes"].map(|it| requests[it].as_u64().unwrap());
    assert_eq!(counts, [7, 5, 100], "{requests}");
    let text = requests.to_string();
    for hidden in [SECRET, "first", "meta-data", "authorization"] {
        assert!(!text.replace("\"first\":", "").contains(hidden), "{text}");
    }
}

#[test]
fn a_handler_without_a_grant_gets_a_sentence() {
    let own = crate::fixture::own();
    let client = own.server.client();
    crate::fixture::deploy(&client, "hostile");
    let params = json!({"requests": [{"url": "https://example.com"}]});
    let job = client.run(&json!({"handler": "request", "params": params, "max_attempts": 1}));
    let learned = &job["result"][0];
    assert_eq!(learned["kind"], "NotGranted", "{job}");
    let message = learned["message"].as_str().unwrap();
    assert!(message.contains("[[handlers.NAME.http]]"), "{message}");
    assert_eq!(broker(&own.server), None);
}

#[test]
fn a_manifest_names_only_servers_and_secrets_of_the_configuration() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let refused = |manifest: &str| {
        let answer = client.deploy_accepted("hostile", &hostile, Some(manifest));
        let body = answer.unwrap().body;
        (
            body["code"].clone(),
            body["detail"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let other = "[[handlers.request.http]]\nto = \"https://example.com\"\n";
    let (code, detail) = refused(other);
    assert_eq!(code, "grant_missing");
    assert!(
        detail.contains("https://example.com, which is not in grants.http"),
        "{detail}"
    );
    let (code, detail) = refused(&granted(&reflector).replace("secret:api", "secret:other"));
    assert_eq!(code, "grant_missing");
    assert!(detail.contains("[secrets.other]"), "{detail}");
    let (code, detail) = refused(&granted(&reflector).replace("authorization", "host"));
    assert_eq!(code, "manifest_invalid", "{detail}");
    assert!(detail.contains("http.headers"), "{detail}");
}

#[test]
fn a_cancelled_attempt_and_a_dead_broker_cut_requests() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy(&client, &reflector);
    for (handler, gone) in [
        ("request", "http_unavailable"),
        ("wasi_request", "ErrorCode::InternalError"),
    ] {
        cancel_cuts(&client, &reflector, handler);
        broker_dies(&server, &reflector, handler, gone);
    }
}

fn waiting(reflector: &Reflector, handler: &str) -> Value {
    let params = json!({"requests": [{"url": reflector.url("/wait")}], "strict": true});
    json!({"handler": handler, "params": params})
}

fn cancel_cuts(client: &Client, reflector: &Reflector, handler: &str) {
    let id = client.enqueue(&waiting(reflector, handler));
    let mut stream = reflector.waiting.recv_timeout(SOON).unwrap();
    let cancelled = client.post(
        &format!("/api/v1/jobs/{id}/cancel"),
        &json!({"grace_seconds": 0}),
    );
    assert!(cancelled.unwrap().status < 300);
    stream.set_read_timeout(Some(SOON)).unwrap();
    let ended = stream.read(&mut [0]).unwrap_or(0) == 0;
    assert!(ended, "{handler}: the connection ends with the attempt");
    assert_eq!(client.wait(&id)["state"], "cancelled", "{handler}");
    let ends = ends(client, &id);
    assert_eq!(ends[0]["error"], "cut", "{handler}: {ends:?}");
}

/// Returns the first request of each attempt.
fn ends(client: &Client, id: &str) -> Vec<Value> {
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let first = attempts.iter().map(|it| it["requests"]["first"][0].clone());
    first.collect()
}

/// The attempt fails, and the next one goes through a new broker.
fn broker_dies(server: &Server, reflector: &Reflector, handler: &str, gone: &str) {
    let client = server.client();
    let id = client.enqueue(&waiting(reflector, handler));
    let _stream = reflector.waiting.recv_timeout(SOON).unwrap();
    let first = broker(server).unwrap();
    kill(first);
    let mut stream = reflector.waiting.recv_timeout(SOON).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .unwrap();
    let job = client.wait(&id);
    assert_eq!(job["state"], "completed", "{handler}: {job}");
    assert_eq!(job["result"][0]["body"], "ok", "{handler}: {job}");
    assert!(broker(server).is_some_and(|second| second != first));
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let text = json!(attempts).to_string();
    assert!(text.contains(gone), "{handler}: {text}");
    let ends = ends(&client, &id);
    // Which of the two depends on what the host notices first: that the attempt has ended, or the broker.
    let error = ends[0]["error"].as_str().unwrap();
    assert!(
        ["unavailable", "cut"].contains(&error),
        "{handler}: {ends:?}"
    );
    assert_eq!(ends.last().unwrap()["status"], 200, "{handler}: {ends:?}");
}

/// It is stopped, so it neither answers nor ends.
#[test]
fn a_broker_that_hangs_is_killed_and_started_again() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy(&client, &reflector);
    let params = json!({"requests": [{"url": reflector.url("/")}], "strict": true});
    let job = json!({"handler": "request", "params": params});
    assert_eq!(client.run(&job)["state"], "completed");
    let first = broker(&server).unwrap();
    let pid = Pid::from_raw(first.cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let id = client.enqueue(&job);
    let job = client.wait(&id);
    assert_eq!(job["state"], "completed", "{job}");
    assert!(broker(&server).is_some_and(|second| second != first));
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let text = json!(attempts).to_string();
    assert!(text.contains("http_unavailable"), "{text}");
}

#[test]
fn an_attempt_that_is_lost_keeps_its_requests() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy(&client, &reflector);
    let params =
        json!({"requests": [{"url": reflector.url("/a")}, {"url": reflector.url("/wait")}]});
    let id = client.enqueue(&json!({"handler": "request", "params": params}));
    let _stream = reflector.waiting.recv_timeout(SOON).unwrap();
    let cells = children(server.pid()).into_iter();
    for cell in cells.filter(|child| command(*child).contains(" cell")) {
        kill(cell);
    }
    let mut stream = reflector.waiting.recv_timeout(SOON).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .unwrap();
    let job = client.wait(&id);
    assert_eq!(job["state"], "completed", "{job}");
    let attempts = client.items(&format!("/api/v1/jobs/{id}/attempts"));
    let lost = attempts.iter().find(|it| it["outcome"] == "lost");
    let requests = &lost.unwrap()["requests"];
    assert_eq!(requests["total"], 2, "{requests}");
    assert_eq!(requests["first"][0]["status"], 200, "{requests}");
    assert_eq!(requests["first"][1]["error"], "cut", "{requests}");
}

/// The two components may send requests to the same server, one of them with the secret.
#[test]
fn a_kept_connection_of_another_component_or_revision_is_never_used() {
    let (data, (used_by, used)) = (TempDir::new().unwrap(), channel());
    let reflector = Reflector::with(move |head, stream| {
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let port = stream.peer_addr().map_or(0, |address| address.port());
        let has_secret = head.contains(SECRET);
        used_by.send((path, port, has_secret)).unwrap();
        false
    });
    let server = reflector.host(&data);
    let client = server.client();
    let deploy = |name: &str, manifest: &str| {
        let component = fs::read(guests::component(name)).unwrap();
        let answer = client.deploy_accepted(name, &component, Some(manifest));
        assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
    };
    let manifest = granted(&reflector);
    deploy("hostile", &manifest);
    let origin = reflector.origin();
    let rhai = format!("[[handlers.\"hero.rhai\".http]]\nto = \"{origin}\"\n");
    deploy("hero-rhai", &rhai);
    let run = |job: Value| assert_eq!(client.run(&job)["state"], "completed", "{job}");
    let with_secret = |path: &str| {
        let wanted = json!({"url": reflector.url(path)});
        run(json!({"handler": "request", "params": {"requests": [wanted, wanted]}}));
    };
    let script = format!("for n in 0..2 {{ http_get(\"{}\"); }}", reflector.url("/b"));
    for _ in 0..3 {
        with_secret("/a");
        run(json!({"handler": "hero.rhai", "params": {"script": script}}));
    }
    deploy("hostile", &format!("{manifest}max_requests = 9\n"));
    with_secret("/c");
    let requests: Vec<(String, u16, bool)> = used.try_iter().collect();
    assert_eq!(requests.len(), 14, "{requests:?}");
    let mut seen = BTreeSet::new();
    for (of, has_secret) in [("/a", true), ("/b", false), ("/c", true)] {
        let own = requests.iter().filter(|(path, ..)| path == of);
        assert!(own.clone().all(|it| it.2 == has_secret), "{requests:?}");
        let ports: BTreeSet<u16> = own.clone().map(|(_, port, _)| *port).collect();
        assert!(ports.len() < own.count(), "{of} keeps none: {requests:?}");
        assert!(seen.is_disjoint(&ports), "{of}: {requests:?}");
        seen.extend(ports);
    }
}

/// Other programs send requests where these variables say.
#[test]
fn variables_that_name_proxies_change_nothing() {
    let data = TempDir::new().unwrap();
    let (reflector, proxy) = (Reflector::start(), Reflector::start());
    let mut options = reflector.options(&data, "", "");
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        for name in [name.to_owned(), name.to_lowercase()] {
            options.env.push((name, proxy.origin()));
        }
    }
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, &reflector);
    for handler in ["request", "wasi_request"] {
        let params = json!({"requests": [{"url": reflector.url("/")}]});
        let job = client.run(&json!({"handler": handler, "params": params}));
        assert_eq!(job["result"][0]["status"], 200, "{job}");
        let request = reflector.requests.recv_timeout(SOON).unwrap();
        assert!(request.starts_with("GET / "), "{request}");
    }
    assert!(proxy.requests.try_recv().is_err(), "the proxy was asked");
    if rustix::process::geteuid().is_root() {
        let broker = broker(&server).unwrap();
        let variables = fs::read(format!("/proc/{broker}/environ")).unwrap();
        assert_eq!(String::from_utf8_lossy(&variables), "");
    }
}

/// Has both handlers send a request over TLS. Returns how each ended.
fn ends_over_tls(client: &Client, server: &TlsServer) -> Vec<Value> {
    let end = |handler: &str| {
        let params = json!({"requests": [{"url": server.url()}]});
        let job = json!({"handler": handler, "params": params, "max_attempts": 1});
        let id = client.enqueue(&job);
        client.wait(&id);
        let first = ends(client, &id).remove(0);
        let error = &first["error"];
        [error, &first["status"]][usize::from(error.is_null())].clone()
    };
    ["request", "wasi_request"].map(end).into()
}

#[test]
fn requests_over_tls_trust_the_authorities_of_the_configuration() {
    let (data, authority) = (TempDir::new().unwrap(), Authority::default());
    authority.sign("server", &["127.0.0.1"], VALID);
    let over_tls = TlsServer::start(&authority).unwrap();
    let trusted = authority.path("trusted.pem");
    let trust = |pem: &Path| {
        let half = authority.path("half");
        fs::copy(pem, &half).unwrap();
        fs::rename(half, &trusted).unwrap();
    };
    trust(&authority.path("ca.pem"));
    let start = |folder: &str, egress: &str| {
        let folder = data.path().join(folder);
        fs::create_dir(&folder).unwrap();
        let config = folder.join("host.toml");
        let origin = over_tls.origin();
        let text = format!(
            "[grants]\nhttp = [\"{origin}\"]\nhttp_networks = [\"127.0.0.1/32\"]\n{egress}"
        );
        fs::write(&config, text).unwrap();
        let mut options = Options::new(&folder.join("data"));
        options.args = vec!["--config".to_owned(), config.display().to_string()];
        let server = Server::start(&options);
        let grant = |it: &str| format!("[[handlers.{it}.http]]\nto = \"{origin}\"\n");
        let manifest = ["request", "wasi_request"].map(grant).concat();
        let hostile = fs::read(guests::component("hostile")).unwrap();
        let answer = server
            .client()
            .deploy_accepted("hostile", &hostile, Some(&manifest));
        assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
        server
    };
    let refused = vec![json!("certificate_refused"); 2];
    let without = start("without", "");
    assert_eq!(ends_over_tls(&without.client(), &over_tls), refused);
    let with = start("with", &format!("[egress]\nca_file = {trusted:?}\n"));
    let client = with.client();
    let answered = vec![json!(200); 2];
    assert_eq!(ends_over_tls(&client, &over_tls), answered);
    let first = broker(&with).unwrap();
    let other = Authority::default();
    let pid = Pid::from_raw(with.pid().cast_signed()).unwrap();
    for (pem, expected) in [
        ("ca.pem", &answered),
        ("other", &refused),
        ("ca.pem", &answered),
    ] {
        let pem = match pem {
            "other" => other.path("ca.pem"),
            own => authority.path(own),
        };
        trust(&pem);
        kill_process(pid, Signal::HUP).unwrap();
        eventually("the authorities of the file", SOON, || {
            (ends_over_tls(&client, &over_tls) == *expected).then_some(())
        });
    }
    assert_eq!(broker(&with), Some(first), "it is the same process");
}

/// A kept connection continues; a file that cannot be used changes nothing.
#[test]
fn a_changed_secret_is_used_for_further_requests() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let mut options = reflector.options(&data, "", "");
    let (secret, new) = ["secret", "new"].map(|it| data.path().join(it)).into();
    let config = data.path().join("host.toml");
    let text = fs::read_to_string(&config).unwrap();
    let source = format!("file = {secret:?}");
    fs::write(&config, text.replace("env = \"API_KEY\"", &source)).unwrap();
    options.env.clear();
    fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let server = Server::start(&options);
    let client = server.client();
    deploy(&client, &reflector);
    let first = reflector.authorization(&client);
    assert_eq!(first, format!("Bearer {SECRET}"));
    let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
    for (value, expected) in [("second", "second"), ("", "second"), ("third", "third")] {
        fs::write(&new, value).unwrap();
        fs::rename(&new, &secret).unwrap();
        kill_process(pid, Signal::HUP).unwrap();
        let wanted = format!("Bearer {expected}");
        eventually("the new value", SOON, || {
            (reflector.authorization(&client) == wanted).then_some(())
        });
    }
    let log = fs::read_to_string(options.data.join("serve.log")).unwrap();
    assert!(log.contains("a new value of a secret is in use"), "{log}");
}

#[test]
fn the_broker_has_rights_of_its_own() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let server = reflector.host(&data);
    let client = server.client();
    deploy(&client, &reflector);
    let params = json!({"requests": [{"url": reflector.url("/")}]});
    client.run(&json!({"handler": "request", "params": params}));
    let pid = eventually("a broker", SOON, || broker(&server));
    crate::grants::assert_confined(pid, server.pid(), &["ipc", "mnt", "pid", "uts"]);
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let size = limits.lines().find(|it| it.starts_with("Max file size"));
    let words: Vec<_> = size.unwrap().split_whitespace().collect();
    assert_eq!(words[3..5], ["0", "0"], "it can write to no file: {limits}");
    if rustix::process::geteuid().is_root() {
        for file in fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
            // What it is started with, and what its runtime makes.
            let target = fs::read_link(file.unwrap().path()).unwrap();
            let open = target.to_string_lossy();
            let kinds = ["socket:", "pipe:", "anon_inode:", "/dev/null"];
            assert!(kinds.iter().any(|it| open.starts_with(it)), "{open}");
        }
    }
    let arguments = command(pid);
    assert!(!arguments.contains(SECRET), "{arguments}");
}

#[test]
fn a_single_run_sends_requests_with_its_flags() {
    let (folder, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let manifest = folder.path().join("manifest.toml");
    fs::write(&manifest, granted(&reflector)).unwrap();
    let params = json!({"requests": [{"url": reflector.url("/")}]}).to_string();
    let ran = Command::new(host())
        .arg("run")
        .arg(guests::component("hostile"))
        .args(["request", "--params", &params, "--manifest"])
        .arg(&manifest)
        .args(["--grant-http", &reflector.origin()])
        .args([
            "--grant-http-networks",
            "127.0.0.0/8",
            "--secret",
            "api=API_KEY",
        ])
        .env("XDG_CACHE_HOME", cache())
        .env("API_KEY", SECRET)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{errors}");
    let learned: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(learned[0]["status"], 200, "{learned}");
    let head = reflector.requests.recv_timeout(SOON).unwrap();
    assert!(head.contains(SECRET), "{head}");
    assert!(!learned.to_string().contains(SECRET), "{learned}");
}
