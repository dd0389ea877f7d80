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
    let jobs = client
        .items("/api/v1/jobs")
        .into_iter()
        .filter(|job| job["queue"] == "orders");
    let orders = jobs.map(|job| {
        let job = client.wait(job["id"].as_str().unwrap());
        job["result"]["id"].as_str().unwrap().to_owned()
    });
    orders.collect()
}

#[test]
fn in_rust() {
    let component = guests::component("first-real-job");
    let params = json!({"url": "https://api.example.com/orders"});
    resumes_after_a_kill(&component, MANIFEST, &params);
}

#[test]
fn in_python() {
    resumes_in("python");
}

#[test]
fn in_javascript() {
    resumes_in("javascript");
}

/// Does in a copy of an example what its README says.
fn resumes_in(example: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let place = TempDir::new().unwrap();
    let project = place.path().join("examples").join(example);
    copy(&root.join("examples").join(example), &project);
    // Where the projects expect the SDKs.
    copy(&root.join("sdk"), &place.path().join("sdk"));
    let built = projects::build(&project).output().unwrap();
    let shown = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{shown}");
    let made = project.join("target");
    let manifest = fs::read_to_string(made.join("fetch-orders.toml")).unwrap();
    let text = fs::read_to_string(project.join("params.json")).unwrap();
    let params = serde_json::from_str(&text).unwrap();
    resumes_after_a_kill(&made.join("fetch-orders.wasm"), &manifest, &params);
}

/// Copies a folder without what building writes.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if ["target", "node_modules", "__pycache__"]
            .contains(&&*entry.file_name().to_string_lossy())
        {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

fn resumes_after_a_kill(component: &Path, manifest: &str, params: &Value) {
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
        let mut params = params.clone();
        let url = params["url"].as_str().unwrap();
        params["url"] = json!(url.replace("https://api.example.com", &origin));
        params["pages"] = json!(pages);
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
    eventually("the second page is requested", PATIENCE, || {
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
