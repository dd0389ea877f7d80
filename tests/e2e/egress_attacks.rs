//! A hostile guest with grants tries to reach what they do not name, and to learn the secret that its requests
//! carry, by each of the two interfaces. The server that it may reach is hostile, too.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_tests::names::Names;
use host_tests::reflector::{Reflector, SECRET, SOON};
use host_tests::secrets::has_secret;
use host_tests::{Client, Server, guests};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The handlers that make requests, by interface.
const BOTH: [&str; 2] = ["request", "wasi_request"];

/// How often a name that changes its address is resolved.
const REBINDINGS: usize = 30;

/// What one attempt may send to the paths below `/counted/`, and how much it tries to.
const COUNTED_MAX: usize = 50;
const COUNTED: usize = 10_000;

/// What a bomb becomes when it is decompressed, in MiB.
const BOMB_MIB: usize = 64;

/// The time and the grants of a handler: the origin, and the port of the names. A loaded machine needs a while for
/// thousands of requests.
const MANIFEST: &str = r#"
[handlers.HANDLER]
timeout_seconds = 300

[[handlers.HANDLER.http]]
to = "ORIGIN"
paths = ["/counted/**"]
max_requests = 50

[[handlers.HANDLER.http]]
to = "ORIGIN"
paths = ["/slow/**"]
timeout_seconds = 0.3
headers = { authorization = "Bearer {secret:api}" }

[[handlers.HANDLER.http]]
to = "ORIGIN"
paths = ["/plain/**"]

[[handlers.HANDLER.http]]
to = "ORIGIN"
max_requests = 10000
headers = { authorization = "Bearer {secret:api}", x-two = "{secret:api}/{secret:api}" }

[[handlers.HANDLER.http]]
to = "http://*.test:PORT"
headers = { authorization = "Bearer {secret:api}" }
"#;

/// Servers that no request may reach, on the port of the one that requests may.
struct Forbidden(Arc<AtomicUsize>);

impl Forbidden {
    fn start(port: u16) -> Self {
        let reached = Arc::new(AtomicUsize::new(0));
        for address in ["127.0.0.2", "127.0.0.3", "::1"] {
            // Another program may have the port there; then nothing is reached either.
            let Ok(listener) = TcpListener::bind((address, port)) else {
                continue;
            };
            let reached = Arc::clone(&reached);
            std::thread::spawn(move || {
                for mut stream in listener.incoming().flatten() {
                    reached.fetch_add(1, Ordering::Relaxed);
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
                }
            });
        }
        Self(reached)
    }

    #[track_caller]
    fn assert_unreached(&self) {
        assert_eq!(self.0.load(Ordering::Relaxed), 0, "a request got through");
    }
}

/// Answers as a hostile server does. Returns whether it has; then the connection ends, and a whole answer says so, lest
/// the next request is sent on it.
fn attack(head: &str, stream: &mut TcpStream) -> bool {
    let path = head.split(' ').nth(1).unwrap_or_default();
    let (_, name) = path.rsplit_once('/').unwrap_or_default();
    let _stream = match name {
        "redirect" => stream.write_all(
            b"HTTP/1.1 307 X\r\nlocation: http://169.254.169.254/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
        ),
        "close" => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")
        }
        "gigabyte" => {
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 1_u64 << 30);
            pour(stream, &head, 1 << 10)
        }
        "endless" => pour(stream, "HTTP/1.1 200 OK\r\n\r\n", usize::MAX),
        "chunks" => {
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nffffffffffff\r\n";
            pour(stream, head, usize::MAX)
        }
        // The head comes, and then nothing, until the other side gives up.
        "body" => stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc")
            .and_then(|()| stream.read(&mut [0]).map(drop)),
        "head" => stream
            .write_all(b"HTTP/1.1 200 OK\r\nx-a: ")
            .and_then(|()| stream.read(&mut [0]).map(drop)),
        "bomb" => {
            let bomb = bomb();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                bomb.len()
            );
            stream.write_all(&[head.as_bytes(), &bomb].concat())
        }
        "many-headers" => {
            let many = "x: y\r\n".repeat(100_000);
            stream.write_all(format!("HTTP/1.1 200 OK\r\n{many}\r\n").as_bytes())
        }
        "long-header" => {
            let long = "y".repeat(8 << 20);
            stream.write_all(format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n").as_bytes())
        }
        "interim" => {
            let many = "HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
            let end = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(format!("{many}{end}").as_bytes())
        }
        "two-answers" => {
            let one = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
            stream.write_all(format!("{one}ok{one}no").as_bytes())
        }
        "echo" => {
            let secret = format!("a {SECRET} b{SECRET}");
            let length = secret.len();
            let head = format!(
                "HTTP/1.1 200 {SECRET}\r\nx-echo: {secret}\r\nx-{SECRET}: a\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{secret}"
            );
            stream.write_all(head.as_bytes())
        }
        "bad-echo" => stream.write_all(format!("HTTP/1.1 {SECRET}\r\n{SECRET}\r\n\r\n").as_bytes()),
        "location" => stream.write_all(
            format!("HTTP/1.1 302 X\r\nlocation: /{SECRET}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
                .as_bytes(),
        ),
        _ => return false,
    };
    true
}

/// Writes a head and then zeros, this many MiB, until the other side gives up.
fn pour(stream: &mut TcpStream, head: &str, mib: usize) -> std::io::Result<()> {
    stream.write_all(head.as_bytes())?;
    let zeros = vec![0; 1 << 20];
    (0..mib).try_for_each(|_| stream.write_all(&zeros))
}

/// Returns zeros, compressed.
fn bomb() -> Vec<u8> {
    let mut gzip = Command::new("gzip")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = gzip.stdin.take().unwrap();
    let zeros = vec![0; BOMB_MIB << 20];
    std::thread::spawn(move || input.write_all(&zeros));
    gzip.wait_with_output().unwrap().stdout
}

/// A host whose broker may reach one hostile server, and what must not be reached.
struct World {
    reflector: Reflector,
    names: Names,
    forbidden: Forbidden,
    /// Where the host sends its spans.
    collector: Reflector,
    server: Server,
    _data: TempDir,
}

impl World {
    fn start() -> Self {
        let data = TempDir::new().unwrap();
        let reflector = Reflector::with(attack);
        let names = Names::start();
        let settings = format!("[egress]\nnameservers = [\"{}\"]\n", names.address());
        let port = reflector.port();
        let origins = format!(", \"http://*.test:{port}\"");
        let mut options = reflector.options(&data, &origins, &settings);
        let collector = Reflector::start();
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*collector.origin()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        options.env.extend(variables);
        let server = Server::start(&options);
        let world = Self {
            collector,
            forbidden: Forbidden::start(port),
            reflector,
            names,
            server,
            _data: data,
        };
        world.deploy();
        world
    }

    fn client(&self) -> Client {
        self.server.client()
    }

    fn deploy(&self) {
        let hostile = fs::read(guests::component("hostile")).unwrap();
        let grants = BOTH.map(|handler| {
            MANIFEST
                .replace("HANDLER", handler)
                .replace("ORIGIN", &self.reflector.origin())
                .replace("PORT", &self.reflector.port().to_string())
        });
        let manifest = grants.concat();
        let client = self.client();
        let answer = client.deploy_accepted("hostile", &hostile, Some(&manifest));
        assert_eq!(answer.as_ref().unwrap().status, 201, "{answer:?}");
    }

    /// Makes these requests in one attempt. Returns what the guest has learned, which has no secret.
    #[track_caller]
    fn learned(&self, handler: &str, requests: &[Value]) -> Vec<Value> {
        let hunted = [SECRET, "{secret:api}"].map(|text| {
            let shifted: Vec<u8> = text.bytes().map(|byte| byte + 1).collect();
            String::from_utf8(shifted).unwrap()
        });
        let params = json!({"requests": requests, "hunted": hunted});
        let body = json!({"handler": handler, "params": params, "max_attempts": 1});
        let job = self.client().run(&body);
        let failure = &job["failure"];
        assert_eq!(job["state"], "completed", "{handler}: {failure}");
        assert!(!has_secret(job.to_string().as_bytes()), "{handler}: {job}");
        let mut learned = job["result"].as_array().unwrap().clone();
        let rest = learned.pop().unwrap();
        assert_eq!(
            rest["found"][0], 0,
            "{handler} has the secret in its memory"
        );
        // What came instead of it is there, so the search finds what there is.
        let is_masked = json!(learned).to_string().contains("{secret:api}");
        assert!(!is_masked || rest["found"][1].as_u64() > Some(0), "{rest}");
        learned
    }
}

#[test]
fn no_spelling_of_a_request_reaches_what_is_not_granted() {
    let world = World::start();
    let port = world.reflector.port();
    let at = |host: &str| format!("http://{host}:{port}/");
    let mut urls: Vec<String> = [
        "127.0.0.2",
        "127.2",
        "2130706434",
        "0x7f000002",
        "0x7f.0.0.2",
        "0177.0.0.2",
        "017700000002",
        "127.0.0.2.",
        "①②⑦.⓪.⓪.②",
        "１２７.０.０.２",
        "127。0。0。2",
        "127.0.0.2%2e",
        "0.0.0.0",
        "0",
        "[::]",
        "[fe80::1%25lo]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::127.0.0.2]",
        "[::ffff:127.0.0.2]",
        "[::ffff:7f00:2]",
        "[64:ff9b::7f00:2]",
        "[2002:7f00:2::]",
        "localhost",
        "user@127.0.0.2",
        "127.0.0.1@127.0.0.2",
        "127.0.0.1%00.test",
        "127.0.0.1\\@127.0.0.2",
        "127.0.0.2#.test",
        "127.0.0.2?.test",
        "a.test.evil",
    ]
    .map(at)
    .into();
    urls.extend(
        [
            "http://169.254.169.254/latest/meta-data/",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://[::ffff:169.254.169.254]/",
            "http://[fd00:ec2::254]/",
            "http://metadata.google.internal/",
            "http://100.100.100.200/",
            "http://192.0.0.192/",
            "http://168.63.129.16/",
            "https://127.0.0.1/",
            "file:///etc/passwd",
            "gopher://127.0.0.1/",
            "unix:///run/docker.sock",
            "//127.0.0.1/",
            "http:///",
        ]
        .map(str::to_owned),
    );
    urls.push(format!("https://127.0.0.1:{port}/"));
    urls.push(format!("http://127.0.0.1:{}/", u32::from(port) + 65_536));
    urls.push("http://127.0.0.1/".to_owned());
    urls.push(format!("http://u:p@127.0.0.1:{port}/"));
    urls.push(format!("http://127.0.0.1:{port}@127.0.0.2:{port}/"));
    urls.push(format!(
        "http://127.0.0.1:{port}/ HTTP/1.1\r\nhost: evil\r\n\r\nGET /"
    ));
    urls.push(format!("http://127.0.0.1:{port}\r\nx: y/"));
    let requests: Vec<Value> = urls.iter().map(|url| json!({"url": url})).collect();
    for handler in BOTH {
        let learned = world.learned(handler, &requests);
        for (url, learned) in urls.iter().zip(&learned) {
            let kind = learned["kind"].as_str();
            assert!(kind.is_some(), "{handler}: {url}: {learned}");
        }
    }
    let reached: Vec<String> = world.reflector.requests.try_iter().collect();
    assert!(reached.is_empty(), "{reached:?}");
    // What looks like a request to another server is one to the granted server.
    let urls = [
        format!("http://127.0.0.1:{port}/http://127.0.0.2:{port}/"),
        format!("http://127.0.0.1:{port}//127.0.0.2:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://127.0.0.1:{port}/redirect"),
    ];
    let requests: Vec<Value> = urls.iter().map(|url| json!({"url": url})).collect();
    for handler in BOTH {
        let learned = world.learned(handler, &requests);
        for (url, learned) in urls.iter().zip(&learned) {
            let expected = if url.ends_with("redirect") { 307 } else { 200 };
            assert_eq!(learned["status"], expected, "{handler}: {url}: {learned}");
            let request = world.reflector.requests.try_recv().unwrap();
            let host = format!("\r\nhost: 127.0.0.1:{port}\r\n");
            assert!(request.contains(&host), "{url}: {request}");
            assert!(request.starts_with("GET /"), "{url}: {request}");
        }
    }
    world.forbidden.assert_unreached();
}

#[test]
fn a_name_that_changes_its_addresses_gains_nothing() {
    let world = World::start();
    let port = world.reflector.port();
    world
        .names
        .set("rebind.test", &[&["127.0.0.1"], &["127.0.0.2"]]);
    world
        .names
        .set("mixed.test", &[&["127.0.0.1", "127.0.0.2"]]);
    world.names.set("six.test", &[&["::1"]]);
    world.names.set("both.test", &[&["127.0.0.1", "::1"]]);
    world.names.set("mapped.test", &[&["::ffff:127.0.0.1"]]);
    world.names.set("metadata.test", &[&["169.254.169.254"]]);
    let refused = ["mixed", "six", "both", "mapped", "metadata", "unknown"];
    let mut requests = vec![json!({
        "url": format!("http://rebind.test:{port}/close"),
        "times": REBINDINGS,
    })];
    requests.extend(refused.map(|name| json!({"url": format!("http://{name}.test:{port}/close")})));
    for handler in BOTH {
        let learned = world.learned(handler, &requests);
        let counts = learned[0]["counts"].as_object().unwrap();
        let reached = counts.get("200").and_then(Value::as_u64).unwrap_or(0);
        assert!(reached > 0 && counts.len() == 2, "{handler}: {counts:?}");
        for (name, learned) in refused.iter().zip(&learned[1..]) {
            assert!(learned["kind"].is_string(), "{handler}: {name}: {learned}");
        }
        let seen = world.reflector.requests.try_iter().count();
        assert_eq!(seen as u64, reached, "{handler}");
    }
    world.forbidden.assert_unreached();
}

#[test]
fn a_hostile_request_stays_one_request() {
    let world = World::start();
    let url = world.reflector.url("/");
    let long = "y".repeat(200 << 10);
    let headers = (0..2_000).map(|n| json!([format!("x-{n}"), "y"]));
    let many = Value::Array(headers.collect());
    let headers = [
        json!([["content-length", "0"]]),
        json!([["content-length", "3"]]),
        json!([["content-length", "5"], ["content-length", "5"]]),
        json!([["content-length", "5"], ["transfer-encoding", "chunked"]]),
        json!([["Transfer-Encoding", "chunked"]]),
        json!([["transfer-encoding", "identity, chunked"]]),
        json!([["host", "evil.test"]]),
        json!([["connection", "x-two"]]),
        json!([["expect", "100-continue"]]),
        json!([["upgrade", "h2c"]]),
        json!([["te", "trailers"]]),
        json!([["proxy-authorization", "Basic x"]]),
        json!([["authorization", "mine"]]),
        json!([["AUTHORIZATION", "mine"]]),
        json!([["x-two", "mine"]]),
        json!([["traceparent", "mine"]]),
        json!([["x-a", "b\r\nx-c: d"]]),
        json!([["x-a", "b\n"]]),
        json!([["x-a", "b\u{0}"]]),
        json!([["x-a\r\nx-c", "d"]]),
        json!([["x a", "b"]]),
        json!([["", "b"]]),
        json!([[":authority", "evil.test"]]),
    ];
    let mut requests: Vec<Value> = headers
        .iter()
        .map(|headers| json!({"method": "POST", "url": url, "headers": headers, "body_bytes": 5}))
        .collect();
    for method in ["CONNECT", "TRACE", "GET /evil HTTP/1.1\r\nx: y", "G ET", ""] {
        requests.push(json!({"method": method, "url": url}));
    }
    requests.push(json!({"method": "POST", "url": url, "body_bytes": (4 << 20) + 1}));
    for handler in BOTH {
        for (request, learned) in requests.iter().zip(world.learned(handler, &requests)) {
            let headers = &request["headers"];
            assert!(
                learned["kind"].is_string(),
                "{handler}: {headers}: {learned}"
            );
        }
        assert!(floods_end(
            &world,
            handler,
            [&json!([["x-a", long]]), &many]
        ));
        let seen: Vec<String> = world.reflector.requests.try_iter().collect();
        assert!(seen.is_empty(), "{handler}: {seen:?}");
    }
    // A secret that is named is sent by its name.
    let url = world.reflector.url("/{secret:api}?{secret:api}");
    let named = json!({"url": url, "headers": [["x-a", "{secret:api}"]]});
    for handler in BOTH {
        let learned = world.learned(handler, std::slice::from_ref(&named));
        assert_eq!(learned[0]["status"], 200, "{handler}: {learned:?}");
        let request = world.reflector.requests.try_recv().unwrap();
        assert!(request.contains("x-a: {secret:api}\r\n"), "{request}");
        let is_once = request.matches(&format!("Bearer {SECRET}\r\n")).count() == 1;
        let elsewhere = request.matches(SECRET).count() - 3;
        assert!(is_once && elsewhere == 0, "{request}");
    }
    world.forbidden.assert_unreached();
}

/// Returns whether requests with too many headers fail, or end their handler: WASI has no error for that.
fn floods_end(world: &World, handler: &str, floods: [&Value; 2]) -> bool {
    floods.into_iter().all(|headers| {
        let requests = json!([{"url": world.reflector.url("/"), "headers": headers}]);
        let params = json!({"requests": requests});
        let body = json!({"handler": handler, "params": params, "max_attempts": 1});
        let job = world.client().run(&body);
        let message = &job["failure"]["message"];
        job["result"][0]["kind"].is_string() || message == "total size of fields exceeds limit"
    })
}

#[test]
fn a_hostile_server_teaches_nothing_and_holds_nothing_up() {
    let world = World::start();
    // The path, and the kinds of error by each interface; none if the guest gets an answer.
    let refused: &[(&str, &str, &str)] = &[
        ("/gigabyte", "TooLarge", "HttpResponseBodySize"),
        ("/endless", "TooLarge", "HttpResponseBodySize"),
        ("/chunks", "TooLarge", "HttpResponseBodySize"),
        ("/slow/body", "TimedOut", "HttpResponseTimeout"),
        ("/slow/head", "TimedOut", "HttpResponseTimeout"),
        ("/bomb", "TooLarge", "HttpResponseBodySize"),
        ("/plain/bomb", "TooLarge", "HttpResponseBodySize"),
        ("/many-headers", "Unreachable", "DestinationUnavailable"),
        ("/long-header", "Unreachable", "DestinationUnavailable"),
        ("/bad-echo", "Unreachable", "DestinationUnavailable"),
    ];
    let requests: Vec<Value> = refused
        .iter()
        .map(|(path, ..)| json!({"url": world.reflector.url(path)}))
        .collect();
    for (handler, is_wasi) in BOTH.into_iter().zip([false, true]) {
        let learned = world.learned(handler, &requests);
        for ((path, plain, code), learned) in refused.iter().zip(learned) {
            let kind = learned["kind"].as_str().unwrap_or_default();
            let expected = if is_wasi { code } else { plain };
            assert!(kind.contains(expected), "{handler}: {path}: {learned}");
        }
    }
    let answered = [
        "/interim",
        "/two-answers",
        "/echo",
        "/location",
        "/reflected",
    ];
    let requests = answered.map(|path| json!({"url": world.reflector.url(path)}));
    for handler in BOTH {
        let learned = world.learned(handler, &requests);
        let [interim, two, echo, location, reflected] = &learned[..] else {
            panic!("{learned:?}")
        };
        assert_eq!(interim["body"], "ok", "{handler}: {interim}");
        assert_eq!(two["body"], "ok", "{handler}: {two}");
        assert_eq!(echo["body"], "a {secret:api} b{secret:api}", "{handler}");
        assert!(
            echo["headers"]
                .to_string()
                .contains("a {secret:api} b{secret:api}")
        );
        assert!(location["headers"].to_string().contains("/{secret:api}"));
        let body = reflected["body"].as_str().unwrap();
        assert!(body.contains("x-two: {secret:api}/{secret:api}"), "{body}");
    }
    assert_spans_have_no_secret(&world);
}

/// Waits for the spans of a job.
fn assert_spans_have_no_secret(world: &World) {
    loop {
        let sent = world.collector.requests.recv_timeout(SOON).unwrap();
        assert!(!has_secret(sent.as_bytes()), "{sent}");
        if sent.starts_with("POST /v1/traces ") && sent.contains("wasi_request") {
            return;
        }
    }
}

#[test]
fn an_attempt_that_asks_for_ever_gets_what_it_may() {
    let world = World::start();
    let many = json!({"url": world.reflector.url("/counted/a"), "times": COUNTED});
    for (handler, refused) in BOTH
        .into_iter()
        .zip(["LimitReached", "ErrorCode::ConnectionLimitReached"])
    {
        let learned = world.learned(handler, std::slice::from_ref(&many));
        let expected = json!({"200": COUNTED_MAX, refused: COUNTED - COUNTED_MAX});
        assert_eq!(learned[0]["counts"], expected, "{handler}");
        assert_eq!(world.reflector.requests.try_iter().count(), COUNTED_MAX);
    }
}
