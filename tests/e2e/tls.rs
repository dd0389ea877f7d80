//! `host serve` with TLS, its listeners, and the command line as a client.

use std::io::{Read as _, Write as _};
use std::net::{TcpStream, UdpSocket};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use host_tests::certificates::{Authority, VALID};
use host_tests::server::host;
use host_tests::{Client, Options, Server, eventually, raw};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

const WAIT_MAX: Duration = Duration::from_mins(3);

struct Fixture {
    data: TempDir,
    authority: Authority,
}

impl Fixture {
    fn new() -> Self {
        let authority = Authority::default();
        authority.sign("server", &["localhost"], VALID);
        Self {
            data: TempDir::new().unwrap(),
            authority,
        }
    }

    /// Writes a configuration with the certificate, these keys of `[http]`, and what comes after.
    fn config(&self, http: &str, rest: &str) -> String {
        let (certificate, key) = (
            self.authority.text("server.pem"),
            self.authority.text("server.key"),
        );
        let text = format!(
            "[http]\ntls_cert_file = '{certificate}'\ntls_key_file = '{key}'\n{http}\n{rest}"
        );
        let path = self.data.path().join("host.toml");
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    fn options(&self, http: &str, rest: &str) -> Options {
        let config = self.config(http, rest);
        let mut options = Options::new(&self.data.path().join("data"));
        options.args = vec!["--config".to_owned(), config];
        options
    }

    fn start(&self, http: &str, rest: &str) -> Server {
        Server::start(&self.options(http, rest))
    }

    fn mutual(&self) -> String {
        let ca = self.authority.text("ca.pem");
        format!("client_ca_file = '{ca}'\nclient_names = ['*.ci.example.com']")
    }
}

/// Runs `host queue ls` as a client.
fn queues(server: &str, files: &[(&str, String)]) -> Output {
    run(&["queue", "ls"], server, files)
}

/// Runs a command as a client.
fn run(args: &[&str], server: &str, files: &[(&str, String)]) -> Output {
    let mut command = Command::new(host());
    command.args(args).args(["--server", server]);
    for (flag, path) in files {
        command.args([flag, path.as_str()]);
    }
    command.output().unwrap()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn port(address: &str) -> &str {
    address.rsplit(':').next().unwrap()
}

#[test]
fn a_host_with_tls_is_reached_by_its_name_and_errors_say_what_to_do() {
    let fixture = Fixture::new();
    let server = fixture.start("", "");
    let port = port(server.address());
    let url = format!("https://localhost:{port}");
    let ca = ("--ca-file", fixture.authority.text("ca.pem"));
    let reached = queues(&url, std::slice::from_ref(&ca));
    assert_eq!(reached.status.code(), Some(0), "{}", stderr_of(&reached));
    let other = Authority::default();
    let wrong = ("--ca-file", other.text("ca.pem"));
    let none = ("--ca-file", fixture.authority.text("server.key"));
    let gone = ("--ca-file", fixture.authority.text("gone.pem"));
    for (url, files, code, cause, next) in [
        (
            &*url,
            vec![],
            6,
            "not signed by an authority that this machine trusts",
            "--ca-file",
        ),
        (
            &url,
            vec![wrong],
            6,
            "not signed by an authority",
            "--ca-file",
        ),
        (
            &url,
            vec![none],
            2,
            "server.key has no certificate",
            "BEGIN CERTIFICATE",
        ),
        (&url, vec![gone], 2, "gone.pem", "a file in PEM"),
        (
            &format!("https://127.0.0.1:{port}"),
            vec![ca.clone()],
            6,
            "for other names: localhost",
            "a name of its certificate",
        ),
        (
            &format!("http://localhost:{port}"),
            vec![],
            6,
            "",
            "https://",
        ),
    ] {
        let refused = queues(url, &files);
        let stderr = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(code), "{url}: {stderr}");
        assert!(
            stderr.contains(cause) && stderr.contains(next),
            "{url}: {stderr}"
        );
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_client_needs_a_certificate_with_an_allowed_name() {
    let fixture = Fixture::new();
    let authority = &fixture.authority;
    let mut options = fixture.options(&fixture.mutual(), "");
    // Beyond loopback, because its clients are known.
    options.listen = "0.0.0.0:0".to_owned();
    let server = Server::start(&options);
    let url = format!("https://localhost:{}", port(server.address()));
    authority.sign("right", &["deploy.ci.example.com"], VALID);
    authority.sign("wrong", &["deploy.example.com"], VALID);
    authority.sign("old", &["deploy.ci.example.com"], (2000, 2001));
    let other = Authority::default();
    other.sign("stranger", &["deploy.ci.example.com"], VALID);
    let pair = |of: &Authority, file: &str| {
        vec![
            ("--ca-file", authority.text("ca.pem")),
            ("--client-cert", of.text(&format!("{file}.pem"))),
            ("--client-key", of.text(&format!("{file}.key"))),
        ]
    };
    let reached = queues(&url, &pair(authority, "right"));
    assert_eq!(reached.status.code(), Some(0), "{}", stderr_of(&reached));
    // The name of its certificate is the principal.
    let paused = run(
        &["queue", "pause", "mail", "--create"],
        &url,
        &pair(authority, "right"),
    );
    assert_eq!(paused.status.code(), Some(0), "{}", stderr_of(&paused));
    let name = ["--principal", "cert:deploy.ci.example.com"];
    let output = run(
        &[&["audit", "ls"][..], &name].concat(),
        &url,
        &pair(authority, "right"),
    );
    let listed = String::from_utf8(output.stdout).unwrap();
    assert!(listed.contains("queue mail"), "{listed}");
    // A context keeps the certificates of a client.
    let home = fixture.data.path();
    let in_home = |args: &[&str]| {
        let mut program = Command::new(host());
        let command = program.args(args).env("XDG_CONFIG_HOME", home);
        command.env_remove("HOST_SERVER").output().unwrap()
    };
    let files = pair(authority, "right");
    let mut add = vec!["context", "add", "tls", "--server", &url];
    add.extend(files.iter().flat_map(|(flag, path)| [*flag, path.as_str()]));
    let added = in_home(&add);
    assert_eq!(added.status.code(), Some(0), "{}", stderr_of(&added));
    let reached = in_home(&["queue", "ls"]);
    assert_eq!(reached.status.code(), Some(0), "{}", stderr_of(&reached));
    let nothing = vec![("--ca-file", authority.text("ca.pem"))];
    for (files, cause, next) in [
        (nothing, "requires a certificate", "--client-cert"),
        (
            pair(authority, "wrong"),
            "no client with the name",
            "http.client_names",
        ),
        (pair(authority, "old"), "has expired", "renew it"),
        (
            pair(&other, "stranger"),
            "does not know the authority",
            "http.client_ca_file",
        ),
    ] {
        let refused = queues(&url, &files);
        let stderr = stderr_of(&refused);
        assert_eq!(refused.status.code(), Some(6), "{stderr}");
        assert!(stderr.contains(cause) && stderr.contains(next), "{stderr}");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_renewed_certificate_is_used_under_load_and_a_bad_one_is_not() {
    let fixture = Fixture::new();
    let authority = &fixture.authority;
    let others = "[[listeners]]\naddress = '127.0.0.1:0'\ntls = false\nserves = ['metrics']";
    let server = fixture.start("", others);
    let url = format!("https://localhost:{}", port(server.address()));
    let ca = [("--ca-file", authority.text("ca.pem"))];
    let metrics = || {
        raw::ask(
            server.listener("metrics"),
            b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
        )
    };
    let shows = |line: &str| {
        eventually(line, WAIT_MAX, || {
            metrics().body.as_str()?.contains(line).then_some(())
        });
    };
    shows("host_http_certificate_reload_failures_total 0");
    let numbers = metrics().body.as_str().unwrap().to_owned();
    let days: f64 = numbers
        .lines()
        .find_map(|line| line.strip_prefix("host_http_certificate_days_left "))
        .unwrap()
        .parse()
        .unwrap();
    assert!(days > 10_000.0, "it ends in 2100: {days}");
    authority.sign("next", &["localhost"], (2020, 2101));
    let (done, reached) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let answered = queues(&url, &ca);
                    assert_eq!(answered.status.code(), Some(0), "{}", stderr_of(&answered));
                    reached.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
        for _ in 0..5 {
            let seen = reached.load(Ordering::Relaxed);
            authority.sign("next", &["localhost"], VALID);
            authority.replace("server", &authority.path("next"));
            kill_process(pid, Signal::HUP).unwrap();
            eventually("more answers", WAIT_MAX, || {
                (reached.load(Ordering::Relaxed) > seen + 2).then_some(())
            });
        }
        done.store(true, Ordering::Relaxed);
    });
    let log = || std::fs::read_to_string(fixture.data.path().join("data/serve.log")).unwrap();
    eventually("the new certificate", WAIT_MAX, || {
        log().contains("a new certificate is in use").then_some(())
    });
    // The host notices without a request.
    std::fs::write(authority.path("server.key"), "nothing").unwrap();
    shows("host_http_certificate_reload_failures_total 1");
    assert!(log().contains("the old one stays in use"), "{}", log());
    // It says once what is wrong, and again when asked.
    let pid = Pid::from_raw(server.pid().cast_signed()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    shows("host_http_certificate_reload_failures_total 2");
    let answered = queues(&url, &ca);
    assert_eq!(answered.status.code(), Some(0), "{}", stderr_of(&answered));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn doctor_looks_at_the_certificate() {
    let fixture = Fixture::new();
    let config = fixture.config("listen = '127.0.0.1:0'", "");
    let doctor = || {
        let output = Command::new(host())
            .args(["doctor", "-o", "json", "--config", &config])
            .output()
            .unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = document.as_array().unwrap().iter();
        let mut found = checks.filter(|check| check["name"] == "certificate");
        let check = found.next().unwrap();
        let text = |key: &str| check[key].as_str().unwrap().to_owned();
        (text("status"), text("found"))
    };
    for (names, years, status, found) in [
        (
            &["localhost", "jobs.example.com"][..],
            VALID,
            "ok",
            "jobs.example.com and valid for",
        ),
        (&["localhost"], (2000, 2001), "fail", "expired at"),
        (&["localhost"], (2099, 2100), "fail", "not valid before"),
        (&[], VALID, "fail", "no alternative name"),
    ] {
        fixture.authority.sign("server", names, years);
        let (its, says) = doctor();
        assert_eq!(its, status, "{says}");
        assert!(says.contains(found), "{says}");
    }
    std::fs::remove_file(fixture.authority.path("server.key")).unwrap();
    let (status, says) = doctor();
    assert!(status == "fail" && says.contains("server.key"), "{says}");
}

#[test]
fn a_certificate_that_cannot_be_used_keeps_the_host_from_starting() {
    let fixture = Fixture::new();
    std::fs::write(fixture.authority.path("server.pem"), "nothing").unwrap();
    let log = Server::try_start(&fixture.options("", ""))
        .map(drop)
        .unwrap_err();
    assert!(log.contains("server.pem has no certificate"), "{log}");
}

/// Sends a request for `path` and returns the status.
fn status(address: &str, path: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    raw::ask(address, request.as_bytes()).status.unwrap()
}

#[test]
fn listeners_have_doors_of_their_own() {
    let fixture = Fixture::new();
    let delta = "[protocol.delta.runners.ci]\ntoken_file = 'TOKEN'\n"
        .replace("TOKEN", &fixture.authority.text("token"));
    std::fs::write(fixture.authority.path("token"), "a-token-of-a-pool").unwrap();
    std::fs::write(fixture.authority.path("secret"), "a-secret-of-workers").unwrap();
    let arco = "[protocol.arco.workers.py]\nurl = 'http://127.0.0.1:9'\nsecret_file = 'SECRET'\n"
        .replace("SECRET", &fixture.authority.text("secret"));
    let rest = format!(
        "[[listeners]]\naddress = '127.0.0.1:0'\ntls = false\nserves = ['metrics']\n\
         [[listeners]]\naddress = '127.0.0.1:0'\ntls = false\nserves = ['callbacks']\n{delta}{arco}"
    );
    let server = fixture.start("", &rest);
    let (metrics, callbacks) = (server.listener("metrics"), server.listener("callbacks"));
    for (path, at_metrics, at_callbacks) in [
        ("/metrics", 200, 404),
        ("/healthz", 200, 404),
        ("/api/v1/jobs", 404, 404),
        ("/api/v1/openapi.json", 404, 404),
        // Its method is POST.
        ("/api/v1/internal/lease", 404, 405),
        ("/api/v1/tasks/x/started", 404, 405),
    ] {
        let found = (status(metrics, path), status(callbacks, path));
        assert_eq!(found, (at_metrics, at_callbacks), "{path}");
    }
    let lease = "POST /api/v1/internal/lease HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\
                 content-type: application/json\r\nconnection: close\r\n\r\n{}";
    let started = lease
        .replace("internal/lease", "tasks/x/started")
        .replace("content-length: 2", "content-length: 13")
        .replace("{}", "{\"attempt\":1}");
    for (callback, status, says) in [(lease, 401, "E_AUTH"), (&started, 404, "task_not_found")] {
        let answer = raw::ask(callbacks, callback.as_bytes());
        assert_eq!(answer.status, Some(status), "{answer:?}");
        assert!(answer.body.to_string().contains(says), "{answer:?}");
        let answer = raw::ask(metrics, callback.as_bytes());
        assert_eq!(answer.status, Some(404), "{answer:?}");
        assert!(!answer.body.to_string().contains(says), "{answer:?}");
    }
    // A wrong token of a pool is a denial like any other.
    let url = format!("https://localhost:{}", port(server.address()));
    let ca = [("--ca-file", fixture.authority.text("ca.pem"))];
    eventually("the denial to be recorded", WAIT_MAX, || {
        let output = run(&["audit", "ls", "-o", "jsonl"], &url, &ca);
        let audit = String::from_utf8(output.stdout).unwrap();
        let is_it = |line: &str| {
            line.contains("POST /api/v1/internal/lease") && line.contains("unauthenticated")
        };
        audit.lines().any(is_it).then_some(())
    });
    assert_eq!(server.stop(), Some(0));
}

/// Returns an address of this machine that is not a loopback one, if it has one.
fn own_address() -> Option<std::net::IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Nothing is sent.
    socket.connect("198.51.100.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback()).then_some(address)
}

/// Its own machine and the proxies may use a listener beyond loopback without TLS; others are told to use it.
#[test]
fn a_host_behind_a_trusted_proxy_listens_without_tls_for_the_proxy_alone() {
    let data = TempDir::new().unwrap();
    let mut options = Options::new(data.path());
    options.listen = "0.0.0.0:0".to_owned();
    let env = [
        ("HOST_AUTH_MODE", "tokens"),
        ("HOST_HTTP_TRUSTED_PROXIES", "203.0.113.0/24"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()));
    options.env.extend(env);
    let server = Server::start(&options);
    let port = port(server.address());
    let client = Client::new(&format!("127.0.0.1:{port}"));
    assert_eq!(client.get("/api/v1/jobs").unwrap().status, 401);
    let token = std::fs::read_to_string(data.path().join("admin.token")).unwrap();
    let client = client.with_token(token.trim());
    assert_eq!(client.get("/api/v1/jobs").unwrap().status, 200);
    // A machine without a network has only loopback.
    if let Some(address) = own_address() {
        // The answer needs no request.
        let mut far = String::new();
        let mut stream = raw::connect(&format!("{address}:{port}"));
        stream.read_to_string(&mut far).unwrap();
        assert!(far.contains(" 403 "), "{far}");
        assert!(
            far.contains("only trusted proxies may use this port"),
            "{far}"
        );
    }
    assert_eq!(server.stop(), Some(0));
}

/// Proxies are on loopback here, so that a test can be one.
#[test]
fn only_a_trusted_proxy_says_where_a_request_came_from_and_whether_with_tls() {
    let fixture = Fixture::new();
    for (proxies, is_believed) in [("trusted_proxies = ['127.0.0.0/8']", true), ("", false)] {
        let rest = "[[listeners]]\naddress = '127.0.0.1:0'\ntls = false\nserves = ['api']";
        let server = fixture.start(proxies, rest);
        let mut stream = TcpStream::connect(server.listener("api")).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        let request = "POST /api/v1/queues/mail/pause HTTP/1.1\r\nhost: localhost\r\n\
                       x-forwarded-proto: https\r\nx-forwarded-for: 192.0.2.1\r\n\
                       content-type: application/json\r\ncontent-length: 15\r\n\
                       connection: close\r\n\r\n{\"create\":true}";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let has_hsts = answer.contains("strict-transport-security: ");
        assert_eq!(has_hsts, is_believed, "{answer}");
        let url = format!("http://{}", server.listener("api"));
        let output = run(
            &["audit", "ls", "--verb", "operate", "-o", "jsonl"],
            &url,
            &[],
        );
        let audit = String::from_utf8(output.stdout).unwrap();
        let last = audit.lines().last().unwrap();
        assert_eq!(last.contains("\"192.0.2.1\""), is_believed, "{last}");
        assert_eq!(last.contains("\"127.0.0.1\""), !is_believed, "{last}");
        assert_eq!(server.stop(), Some(0));
    }
}
