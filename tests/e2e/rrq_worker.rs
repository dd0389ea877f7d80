//! `host worker rrq` as a separate process: its start, load, hostile guests, and invalid options.

use std::collections::BTreeMap;
use std::fs::DirEntry;
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use host_tests::rrq::{Connection, cancel, frame, request, within_ms};
use host_tests::server::host;
use host_tests::worker::{cache, command};
use host_tests::{Options, Server, Worker, eventually, guests, ports, processes};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

/// Starts a worker that has executed a request.
fn warm() -> (Worker, Connection, TempDir) {
    let data = TempDir::new().unwrap();
    let worker = Worker::start(data.path());
    let mut connection = Connection::open(worker.address());
    let answer = connection.ask(&request("warm", "noop", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
    (worker, connection, data)
}

#[test]
fn a_worker_with_compiled_handlers_compiles_none_of_them() {
    drop(warm());
    // A note that is written again is another file.
    let compiled = || -> BTreeMap<PathBuf, u64> {
        let notes = notes(&cache().join("host")).into_iter();
        notes.map(|note| (note.path(), note.ino())).collect()
    };
    let before = compiled();
    assert!(!before.is_empty());
    let (worker, ..) = warm();
    let after = compiled();
    // Workers of other tests may add files; existing ones do not change.
    for (path, file) in before {
        assert_eq!(after.get(&path), Some(&file), "{}", path.display());
    }
    assert_eq!(worker.stop().0, Some(0));
}

/// Returns the notes in a cache: one for each component that has been compiled.
fn notes(cache: &Path) -> Vec<DirEntry> {
    let is_note = |entry: &DirEntry| entry.path().extension() == Some("json".as_ref());
    std::fs::read_dir(cache).map_or_else(
        |_| Vec::new(),
        |entries| entries.filter_map(Result::ok).filter(is_note).collect(),
    )
}

/// What a cold worker compiles: the handlers of the tests, and what takes much longer.
const COMPILED: [&str; 2] = ["basics", "hero-rhai"];

/// A worker that listens but has not compiled its handlers yet.
struct Cold {
    child: Child,
    address: String,
    cache: TempDir,
    _handlers: TempDir,
}

impl Cold {
    fn start() -> Self {
        let (cache, handlers) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        for name in COMPILED {
            let component = guests::component(name);
            let file = handlers.path().join(component.file_name().unwrap());
            std::fs::copy(component, file).unwrap();
        }
        let address = format!("127.0.0.1:{}", ports::free(1));
        let child = Command::new(host())
            .args(["worker", "rrq", "--handlers"])
            .arg(handlers.path())
            .env("RRQ_RUNNER_TCP_SOCKET", &address)
            .env("XDG_CACHE_HOME", cache.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("the worker to listen", Duration::from_mins(1), || {
            std::net::TcpStream::connect(&address).ok()
        });
        Self {
            child,
            address,
            cache,
            _handlers: handlers,
        }
    }

    /// Returns how many components have been compiled.
    fn compiled(&self) -> usize {
        notes(&self.cache.path().join("host")).len()
    }
}

impl Drop for Cold {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn requests_wait_until_handlers_are_compiled() {
    let worker = Cold::start();
    let compiled = worker.compiled();
    let mut connection = Connection::open(&worker.address);
    let answer = connection.ask(&request("early", "echo", &json!({"a": 1})));
    assert_eq!(answer["result"], json!({"a": 1}), "{answer}");
    assert!(
        compiled < COMPILED.len(),
        "it listens before it has compiled all: {compiled}"
    );
    assert!(worker.compiled() > 0);
}

#[test]
fn deadlines_and_cancels_are_answered_while_handlers_are_compiled() {
    let worker = Cold::start();
    let mut connection = Connection::open(&worker.address);
    // Otherwise the orchestrator would kill the worker at the deadline, and compiling would start again.
    let sleep = request("timed", "sleep", &json!({"ms": 60_000}));
    let answer = connection.ask(&within_ms(sleep, 100));
    assert_eq!(answer["status"], "timeout", "{answer}");
    connection.send(&request("cancelled", "sleep", &json!({"ms": 60_000})));
    let answer = connection.ask(&cancel("cancelled", Some("cancelled"), true));
    assert_eq!(answer["error"]["type"], "cancelled", "{answer}");
    let compiled = worker.compiled();
    assert!(
        compiled < COMPILED.len(),
        "both were answered before: {compiled}"
    );
    let answer = connection.ask(&request("early", "echo", &json!({"a": 1})));
    assert_eq!(answer["status"], "success", "{answer}");
}

#[test]
fn a_compiling_worker_can_be_stopped() {
    let mut worker = Cold::start();
    let mut connection = Connection::open(&worker.address);
    connection.send(&request("early", "echo", &json!({})));
    kill_process(Pid::from_child(&worker.child), Signal::TERM).unwrap();
    let start = Instant::now();
    assert_eq!(worker.child.wait().unwrap().code(), Some(0));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(10), "{took:?}");
    if let Some(answer) = connection.answer_or_end() {
        assert_eq!(answer["error"]["type"], "runner_stopping", "{answer}");
    }
}

#[test]
fn a_worker_executes_what_a_running_host_has_deployed() {
    let data = TempDir::new().unwrap();
    let options = Options::new(data.path()).handlers(&guests::folder());
    let server = Server::start(&options);
    let logs = TempDir::new().unwrap();
    let words = [
        host(),
        "worker".into(),
        "rrq".into(),
        "--data".into(),
        data.path().into(),
    ];
    let command = words.map(|word| word.display().to_string());
    let workers = [0, 1].map(|_| Worker::launch(logs.path(), &cache(), &command));
    for worker in &workers {
        let mut connection = Connection::open(worker.address());
        let answer = connection.ask(&request("r", "echo", &json!({"a": 1})));
        assert_eq!(answer["result"], json!({"a": 1}), "{answer}");
    }
    let own = server
        .client()
        .run(&json!({"handler": "echo", "params": [1]}));
    assert_eq!(own["state"], "completed", "{own}");
    assert_eq!(server.client().foreign_jobs(), [] as [serde_json::Value; 0]);
}

#[test]
fn a_cell_that_dies_fails_its_own_jobs_only() {
    const JOBS: usize = 20;
    let (worker, mut connection, _data) = warm();
    let cells = eventually("two cells", Duration::from_mins(1), || {
        Some(processes::cells(worker.pid())).filter(|cells| cells.len() >= 2)
    });
    for n in 0..JOBS {
        connection.send(&request(&n.to_string(), "sleep", &json!({"ms": 10_000})));
    }
    connection.ask(&request("between", "noop", &json!({})));
    let cell = Pid::from_raw(cells[0].try_into().unwrap()).unwrap();
    kill_process(cell, Signal::KILL).unwrap();
    let answers: Vec<_> = (0..JOBS).map(|_| connection.answer()).collect();
    let (done, lost): (Vec<_>, Vec<_>) = answers
        .into_iter()
        .partition(|answer| answer["status"] == "success");
    assert!(
        !done.is_empty() && !lost.is_empty(),
        "{} {}",
        done.len(),
        lost.len()
    );
    for answer in lost {
        assert_eq!(answer["error"]["type"], "cell_lost", "{answer}");
    }
    eventually("another cell", Duration::from_mins(1), || {
        let now = processes::cells(worker.pid());
        (now.len() >= cells.len() && !now.contains(&cells[0])).then_some(())
    });
    let answer = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
}

#[test]
fn requests_beyond_the_capacity_are_answered_in_time() {
    const CONNECTIONS: usize = 10;
    const EACH: usize = 64;
    let (worker, mut other, _data) = warm();
    for function in ["spin", "sleep"] {
        let mut connections: Vec<_> = (0..CONNECTIONS)
            .map(|_| Connection::open(worker.address()))
            .collect();
        for (n, connection) in connections.iter_mut().enumerate() {
            for m in 0..EACH {
                let sent = request(&format!("{n}-{m}"), function, &json!({"ms": 60_000}));
                connection.send(&within_ms(sent, 3_000));
            }
        }
        for connection in &mut connections {
            for _ in 0..EACH {
                let answer = connection.answer();
                // On a loaded machine a cell may stop one that spins too late, and ends with all of its jobs.
                let is_lost = answer["error"]["type"] == "cell_lost" && function == "spin";
                assert!(answer["status"] == "timeout" || is_lost, "{answer}");
            }
        }
        let answer = other.ask(&within_ms(request("after", "echo", &json!({})), 60_000));
        assert_eq!(
            answer["status"], "success",
            "requests are accepted again: {answer}"
        );
    }
}

#[test]
fn hostile_guests_do_not_affect_other_requests() {
    let (worker, mut connection, _data) = warm();
    for function in ["busy_loop", "host_calls", "log_flood", "memory_bomb"] {
        let hostile = request("hostile", function, &json!({}));
        connection.send(&within_ms(hostile, 1_000));
        for n in 0..20 {
            connection.send(&request(&n.to_string(), "sleep", &json!({"ms": 1_500})));
        }
        for _ in 0..21 {
            let answer = connection.answer();
            let is_hostile = answer["request_id"] == "hostile";
            assert_eq!(
                answer["status"] != "success",
                is_hostile,
                "{function}: {answer}"
            );
        }
    }
    assert_eq!(worker.stop().0, Some(0));
}

#[test]
fn refusals_are_answered_and_do_not_fill_the_log() {
    const REFUSALS: usize = 20_000;
    let (worker, mut connection, data) = warm();
    let bad = json!({"type": "cancel", "payload": {"job_id": 7}}).to_string();
    connection.send_bytes(&frame(bad.as_bytes()).repeat(REFUSALS));
    let answer = connection.ask(&request("after", "echo", &json!({})));
    assert_eq!(answer["status"], "success", "{answer}");
    assert_eq!(worker.stop().0, Some(0));
    let log = std::fs::read_to_string(data.path().join("worker.log")).unwrap();
    assert!(log.contains("E_FIELD_TYPE"), "{log}");
    assert!(log.len() < 16 << 10, "{} bytes", log.len());
}

#[test]
fn invalid_addresses_fail_the_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = listener.local_addr().unwrap().to_string();
    let command = command();
    for (address, says) in [
        ("0.0.0.0:9000", "TLS"),
        ("192.0.2.1:9000", "loopback"),
        ("127.0.0.1", "HOST:PORT"),
        ("", "HOST:PORT"),
        (&*taken, &*taken),
    ] {
        let refused = Command::new(&command[0])
            .args(&command[1..])
            .args(["--tcp-socket", address])
            .env("XDG_CACHE_HOME", cache())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success(), "{address}: {stderr}");
        assert!(stderr.contains(says), "{address}: {stderr}");
        assert!(refused.stdout.is_empty(), "{refused:?}");
    }
}
