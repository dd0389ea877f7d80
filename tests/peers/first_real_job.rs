//! The example of a first real job in each language, with a real host and a server that wants a key.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host_tests::{Client, Options, Server, eventually, guests, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The limit for each wait.
const PATIENCE: Duration = Duration::from_mins(2);

const MANIFEST: &str = include_str!("../../examples/first-real-job/manifest.toml");

const PYTHON: &[(&str, &str)] = &[
    (
        "handlers.py",
        include_str!("../../examples/python/handlers.py"),
    ),
    (
        "test_handlers.py",
        include_str!("../../examples/python/test_handlers.py"),
    ),
];

const JAVASCRIPT: &[(&str, &str)] = &[
    (
        "handlers.js",
        include_str!("../../examples/javascript/handlers.js"),
    ),
    (
        "handlers.test.js",
        include_str!("../../examples/javascript/handlers.test.js"),
    ),
];

const KEY: &str = "pl4nted-key-of-the-orders-77aa";

/// How many orders there are, and how many on a page.
const ORDERS: u64 = 10;
const PAGE: u64 = 3;

/// An API with orders. While it is closed, it answers no page after the first.
struct Api {
    port: u16,
    is_open: Arc<AtomicBool>,
    /// Whether a page is being held back.
    is_asked: Arc<AtomicBool>,
}

impl Api {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, is_asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let doors = (Arc::clone(&is_open), Arc::clone(&is_asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (is_open, is_asked) = (Arc::clone(&doors.0), Arc::clone(&doors.1));
                std::thread::spawn(move || serve(stream, &is_open, &is_asked));
            }
        });
        Self {
            port,
            is_open,
            is_asked,
        }
    }
}

fn serve(stream: TcpStream, is_open: &AtomicBool, is_asked: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if !reader.read_line(&mut head).is_ok_and(|read| read > 0) {
                return;
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default();
        let after: u64 = path
            .rsplit('=')
            .next()
            .and_then(|it| it.parse().ok())
            .unwrap_or(0);
        if after > 0 && !is_open.load(Ordering::SeqCst) {
            is_asked.store(true, Ordering::SeqCst);
            // It answers never: the host that has asked is killed.
            return std::mem::forget(stream);
        }
        let orders: Vec<Value> = (after + 1..=ORDERS)
            .take(usize::try_from(PAGE).unwrap())
            .map(|n| json!({"id": n.to_string(), "cents": n * 100}))
            .collect();
        let next = orders.last().map(|last| last["id"].clone());
        let (status, body) = if head.contains(&format!("authorization: Bearer {KEY}\r\n")) {
            (
                "200 OK",
                json!({"orders": orders, "next": next}).to_string(),
            )
        } else {
            ("401 Unauthorized", "{}".to_owned())
        };
        let length = body.len();
        let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

fn orders(client: &Client) -> Vec<String> {
    let jobs = client.items("/api/v1/jobs").into_iter();
    let jobs = jobs.filter(|job| job["queue"] == "orders");
    let orders = jobs.map(|job| {
        let job = client.wait(job["id"].as_str().unwrap());
        job["result"]["id"].as_str().unwrap().to_owned()
    });
    orders.collect()
}

#[test]
fn in_rust() {
    resumes_after_a_kill(&guests::component("first-real-job"), MANIFEST);
}

#[test]
fn in_python() {
    let component = projects::component("fetch-orders-python", "python", PYTHON);
    let manifest = include_str!("../../examples/python/fetch-orders.toml");
    resumes_after_a_kill(&component, manifest);
}

#[test]
fn in_javascript() {
    let component = projects::component("fetch-orders-quickjs", "js", JAVASCRIPT);
    let manifest = include_str!("../../examples/javascript/fetch-orders.toml");
    resumes_after_a_kill(&component, manifest);
}

fn resumes_after_a_kill(component: &Path, manifest: &str) {
    let (data, api) = (TempDir::new().unwrap(), Api::start());
    let origin = format!("http://127.0.0.1:{}", api.port);
    let config = data.path().join("host.toml");
    let text = format!(
        "[grants]\nhttp = [\"{origin}\"]\nhttp_networks = [\"127.0.0.0/8\"]\n[secrets.orders]\nenv = \"KEY\"\n"
    );
    fs::write(&config, text).unwrap();
    let mut options = Options::new(&data.path().join("data"));
    options.args = vec!["--config".to_owned(), config.display().to_string()];
    options.env = vec![("KEY".to_owned(), KEY.to_owned())];
    let server = Server::start(&options);
    let manifest = manifest.replace("https://api.example.com", &origin);
    let component = fs::read(component).unwrap();
    let client = server.client();
    let name = manifest.lines().next().unwrap().split('"').nth(1).unwrap();
    let answer = client.deploy_accepted(name, &component, Some(&manifest));
    assert_eq!(answer.unwrap().status, 201);
    let fetch = |pages: u64| {
        let params = json!({"url": format!("{origin}/orders"), "pages": pages});
        json!({"handler": "fetch-orders", "params": params})
    };
    let first = client.run(&fetch(1));
    assert_eq!(
        first["result"],
        json!({"orders": 3, "cursor": "3"}),
        "{first}"
    );
    // The next one has asked for its first page when the host is killed.
    let killed = client.enqueue(&fetch(3));
    eventually("the second page is asked for", PATIENCE, || {
        api.is_asked.load(Ordering::SeqCst).then_some(())
    });
    server.kill();
    api.is_open.store(true, Ordering::SeqCst);
    let server = Server::start(&options);
    let client = server.client();
    let resumed = client.wait(&killed);
    assert_eq!(
        resumed["result"],
        json!({"orders": 7, "cursor": "10"}),
        "{resumed}"
    );
    let mut orders = orders(&client);
    orders.sort_by_key(|id| id.parse::<u64>().unwrap());
    let all: Vec<String> = (1..=ORDERS).map(|n| n.to_string()).collect();
    assert_eq!(orders, all, "each exactly once");
    let cursor = client.get("/api/v1/state/handler:fetch-orders/value?key=cursor");
    assert_eq!(cursor.unwrap().body["value"], "\"10\"");
}
