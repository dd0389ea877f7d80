//! Two hosts that share a database, with every wire. The requests of one worker alternate between them, as
//! behind a plain load balancer.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use host_tests::beads::BeadsWorker;
use host_tests::delta::{Runner, TOKEN, worker_command};
use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{
    ArcoWorker, Balancer, Client, HeroWorker, Redis, Server, eventually, guests, pool, secrets,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::nodes::Node;

/// The limit for every wait.
const WAIT_MAX: Duration = Duration::from_mins(3);

const SECRET: &str = secrets::ARCO_SECRET;

/// Two nodes behind a balancer.
struct Pair {
    folder: TempDir,
    nodes: [Node; 2],
    servers: [Option<Server>; 2],
    balancer: Balancer,
}

impl Pair {
    /// Makes a pair that shares a schema. Nothing is started.
    fn new(schema: &str) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            nodes: [(); 2].map(|()| Node::new(schema)),
            servers: [None, None],
            balancer: Balancer::start(),
        }
    }

    /// Starts a node with this configuration.
    fn start(&mut self, n: usize, config: &str) {
        self.servers[n] = Some(self.nodes[n].start_configured(config));
        self.balance();
    }

    /// Sends no more requests to a node, and asks it to stop.
    fn stop(&mut self, n: usize) {
        let server = self.servers[n].take().unwrap();
        self.balance();
        assert_eq!(server.stop(), Some(0));
    }

    fn balance(&self) {
        let running = self.servers.iter().flatten();
        let addresses = running.map(|server| server.address().to_owned());
        self.balancer.set(addresses.collect());
    }

    fn server(&self, n: usize) -> &Server {
        self.servers[n].as_ref().unwrap()
    }

    /// Returns a client whose requests alternate between the nodes.
    fn client(&self) -> Client {
        Client::new(self.balancer.address())
    }

    /// Waits until each node accepts jobs for an executor.
    fn know(&self, executor: &str) {
        for server in self.servers.iter().flatten() {
            let path = format!("/api/v1/runners/{executor}");
            eventually("a node to know an executor", WAIT_MAX, || {
                (server.client().get(&path).ok()?.status == 200).then_some(())
            });
        }
    }

    /// Returns the `[protocol.arco]` tables of a node.
    fn arco(&self, worker: &str, in_flight: usize) -> String {
        let secret = self.folder.path().join("secret");
        std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
        format!(
            "[protocol.arco]\npublic_url = \"http://{}\"\nheartbeat_interval_ms = 200\n\
             heartbeat_timeout_ms = 60000\ncancel_grace_period_ms = 1000\n\
             [protocol.arco.workers.spark]\nurl = \"http://{worker}\"\nsecret_file = \"{}\"\n\
             max_in_flight = {in_flight}\n",
            self.balancer.address(),
            secret.display(),
        )
    }

    /// Returns the `[protocol.delta]` tables of a node whose runners come over the network.
    fn delta(&self) -> String {
        let token = self.folder.path().join("ci.token");
        std::fs::write(&token, TOKEN).unwrap();
        format!(
            "[protocol.delta]\nlease_ttl_seconds = 60\nheartbeat_interval_seconds = 20\n\
             [protocol.delta.runners.ci]\ntoken_file = \"{}\"\n",
            token.display(),
        )
    }
}

/// Returns the table of a pool whose one runner the host starts.
fn launched() -> String {
    let command = worker_command();
    format!(
        "[protocol.delta.runners.own]\ncmd = {command:?}\npool_size = 1\n\
         env = {{XDG_CACHE_HOME = {:?}, {} = {:?}}}\n",
        cache().display().to_string(),
        secrets::VARIABLE.0,
        secrets::VARIABLE.1,
    )
}

fn wait_for_end(client: &Client, id: &str) -> Value {
    let job = client.wait(id);
    assert_eq!(job["state"], "completed", "{job}");
    job
}

fn attempts(client: &Client, id: &str) -> usize {
    let answer = client.get(&format!("/api/v1/jobs/{id}/attempts")).unwrap();
    answer.body["items"].as_array().unwrap().len()
}

/// Returns how many attempts the workers of an executor have, as this node counts them for itself.
fn in_flight(server: &Server, executor: &str) -> u64 {
    let text = server.client().get("/metrics").unwrap().body;
    let lines = text.as_str().unwrap().lines();
    let of = format!("host_runner_in_flight{{runner=\"{executor}\"}} ");
    let mut counts = lines.filter_map(|line| line.strip_prefix(&of));
    let count = counts.next().expect("the metric of the executor");
    count.parse().unwrap()
}

fn is_idle(server: &Server, executor: &str) {
    eventually("no attempt to be in flight", WAIT_MAX, || {
        (in_flight(server, executor) == 0).then_some(())
    });
}

#[test]
fn callbacks_of_arco_count_at_any_node() {
    let mut pair = Pair::new("wires_arco");
    let origin = format!("http://{}", pair.balancer.address());
    let worker = ArcoWorker::start(pair.folder.path(), 0, SECRET, &origin);
    let config = pair.arco(worker.address(), 2);
    pair.start(0, &config);
    pair.start(1, &config);
    pair.know("spark");
    let client = pair.client();
    // More than there are lanes.
    let ids: Vec<String> = (0..12)
        .map(|n| client.enqueue(&json!({"handler": "spark#echo", "params": {"n": n}})))
        .collect();
    for (n, id) in ids.iter().enumerate() {
        assert_eq!(
            wait_for_end(&client, id)["result"]["output"],
            json!({"n": n})
        );
        assert_eq!(attempts(&client, id), 1);
    }
    for server in pair.servers.iter().flatten() {
        is_idle(server, "spark");
    }
    // A node without a table of workers takes callbacks as well.
    pair.stop(1);
    pair.start(1, "");
    let job = json!({"handler": "spark#echo"});
    eventually("the node to accept jobs for the worker", WAIT_MAX, || {
        let answer = pair.server(1).client().post("/api/v1/jobs", &job).ok()?;
        (answer.status == 201).then_some(())
    });
    let ids: Vec<String> = (0..4)
        .map(|n| client.enqueue(&json!({"handler": "spark#echo", "params": {"n": n}})))
        .collect();
    for id in &ids {
        wait_for_end(&client, id);
    }
    is_idle(pair.server(0), "spark");
    assert_eq!(worker.stop().0, Some(0));
}

/// An Arco worker that accepts each dispatch and reports nothing. Returns its address, and the jobs of the
/// dispatches.
fn silent_worker() -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, dispatched) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut text = String::new();
            let mut bytes = [0; 16 << 10];
            let task = loop {
                let Ok(count @ 1..) = stream.read(&mut bytes) else {
                    break None;
                };
                text.push_str(&String::from_utf8_lossy(&bytes[..count]));
                let body: Option<Value> = text
                    .split("\r\n\r\n")
                    .nth(1)
                    .and_then(|it| serde_json::from_str(it).ok());
                if let Some(body) = body {
                    break body["taskId"].as_str().map(str::to_owned);
                }
            };
            let answer = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // The host may have stopped.
            let _ = stream.write_all(answer.as_bytes()).is_err();
            if let Some(task) = task
                && sender.send(task).is_err()
            {
                return;
            }
        }
    });
    (address, dispatched)
}

#[test]
fn a_node_that_starts_takes_nothing_from_one_that_lives() {
    let mut pair = Pair::new("wires_started");
    let (worker, dispatched) = silent_worker();
    let config = format!(
        "{}[protocol.delta]\nlease_ttl_seconds = 60\nheartbeat_interval_seconds = 1\n{}",
        pair.arco(&worker, 1),
        launched()
    );
    pair.start(0, &config);
    let client = pair.server(0).client();
    let endless = json!([{"run": "wasm:sleep", "with": {"ms": 600_000}}]);
    let of_runner = json!({
        "handler": "own#long", "params": {"steps": endless}, "timeout_seconds": 600,
    });
    let at_runner = client.enqueue(&of_runner);
    eventually("the runner to begin", WAIT_MAX, || {
        let job = client.job(&at_runner);
        let step = job["progress"]["message"].as_str()?.contains("wasm:");
        step.then_some(())
    });
    let at_worker = client.enqueue(&json!({"handler": "spark#echo"}));
    assert_eq!(dispatched.recv_timeout(WAIT_MAX).unwrap(), at_worker);
    pair.start(1, &config);
    // What only the second node has room for shows that it has started its work.
    let echo = json!({"handler": "own#short", "params": {"steps": ["wasm:noop"]}});
    wait_for_end(&client, &client.enqueue(&echo));
    let second = client.enqueue(&json!({"handler": "spark#echo"}));
    assert_eq!(dispatched.recv_timeout(WAIT_MAX).unwrap(), second);
    for id in [&at_runner, &at_worker] {
        let job = client.job(id);
        assert_eq!(
            (&job["state"], &job["attempt"]),
            (&json!("running"), &json!(1)),
            "{job}"
        );
    }
    assert_eq!(dispatched.try_recv().ok(), None);
    for id in [&at_runner, &at_worker, &second] {
        let answer = client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
        assert_eq!(answer.unwrap().status, 200);
    }
    assert_eq!(client.wait(&at_runner)["state"], "cancelled");
    for server in pair.servers.iter().flatten() {
        is_idle(server, "own");
        is_idle(server, "spark");
    }
}

/// The messages of one runner about one lease alternate between the nodes.
#[test]
fn a_runner_of_delta_may_speak_with_any_node() {
    let mut pair = Pair::new("wires_delta");
    let config = pair.delta();
    pair.start(0, &config);
    pair.start(1, &config);
    pair.know("ci");
    let client = pair.client();
    let runner = Runner::new(pair.balancer.address(), "w1");
    let report = |path: &str, lease: &Value, more: Value| {
        let answer = runner.report(path, lease, more);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    };
    // With an odd and an even number of requests before the end.
    for beats in [2, 3] {
        let id = client.enqueue(&json!({"handler": "ci#test", "params": {"steps": ["make"]}}));
        let lease = runner.lease();
        report("ack-lease", &lease, json!({"job_id": id}));
        for _ in 0..beats {
            report("heartbeat", &lease, json!({}));
        }
        let lines: BTreeSet<String> = (10..22).map(|n| format!("line {n}")).collect();
        for (line, offset) in lines.iter().zip((0..).step_by("line 10\n".len())) {
            let logged = runner.log(&lease, offset, &format!("{line}\n"));
            assert_eq!(logged.status, 200, "{logged:?}");
        }
        let end = json!({"status": "SUCCEEDED", "exit_code": 0, "summary": "All passed."});
        // A repeated end gets the same answer from each node.
        for _ in 0..3 {
            assert_eq!(report("complete", &lease, end.clone())["accepted"], true);
        }
        assert_eq!(
            wait_for_end(&client, &id)["result"]["summary"],
            "All passed."
        );
        assert_eq!(attempts(&client, &id), 1);
        eventually("each line of its log", Duration::from_secs(30), || {
            let log = client.get(&format!("/api/v1/jobs/{id}/logs")).ok()?.body;
            let of_line = |item: &Value| item["message"].as_str().map(str::to_owned);
            let items = log["items"].as_array()?.iter();
            let kept = items.map(of_line).collect::<Option<Vec<_>>>()?;
            let all: BTreeSet<String> = kept.iter().cloned().collect();
            (all == lines && kept.len() == lines.len()).then_some(())
        });
    }
    for (granting, other) in [(0, 1), (1, 0)] {
        let runners = [granting, other].map(|n| Runner::new(pair.server(n).address(), "w1"));
        let id = client.enqueue(&json!({"handler": "ci#test", "params": {"steps": ["make"]}}));
        let lease = runners[0].lease();
        report("ack-lease", &lease, json!({"job_id": id}));
        let begun = Instant::now();
        std::thread::scope(|scope| {
            let beat = |runner: &Runner| {
                let answer = runner.report("heartbeat", &lease, json!({"wait_seconds": 20}));
                assert_eq!(answer.status, 200, "{answer:?}");
                answer.body["cancel_requested"] == true
            };
            let waiting = runners
                .each_ref()
                .map(|runner| scope.spawn(move || beat(runner)));
            let canceled = client.post(&format!("/api/v1/jobs/{id}/cancel"), &json!({}));
            assert_eq!(canceled.unwrap().status, 200);
            for waiting in waiting {
                assert!(
                    waiting.join().unwrap(),
                    "a waiting heartbeat hears the cancel"
                );
            }
        });
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "and hears it immediately"
        );
        report("cancel-ack", &lease, json!({"final_status": "CANCELED"}));
        assert_eq!(client.wait(&id)["state"], "cancelled");
    }
    for server in pair.servers.iter().flatten() {
        is_idle(server, "ci");
    }
}

/// Returns the configuration of a node with every wire.
fn every_wire(pair: &Pair, arco: &str, redis: &Redis) -> String {
    format!(
        "{}{}[protocol.rrq.runners.rrq]\n{}[protocol.hero]\nurl = \"{}\"\nworker_ids = [\"in\"]\n\
         [protocol.beads]\nsocket = \"{}/{{PID}}.sock\"\nhold_seconds = 1\n",
        pair.arco(arco, 4),
        pair.delta(),
        pool::workers(1, 4),
        redis.url(),
        pair.folder.path().display(),
    )
}

/// Executes the tasks that the sockets in a folder offer, one connection after the other, until `is_over`.
fn work_on_beads(folder: &Path, is_over: &AtomicBool) {
    for turn in 0_usize.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let entries = std::fs::read_dir(folder).unwrap().flatten();
        let paths = entries.map(|entry| entry.path());
        let is_socket = |path: &PathBuf| path.extension().is_some_and(|it| it == "sock");
        let mut sockets: Vec<_> = paths.filter(is_socket).collect();
        sockets.sort();
        let socket = sockets.get(turn % sockets.len().max(1));
        let Some(mut worker) = socket.and_then(|it| BeadsWorker::connect(it, "W1").ok()) else {
            continue;
        };
        worker.ready();
        while let Some(task) = worker.message().filter(|it| it["type"] == "TASK") {
            worker.done(&task);
            worker.ready();
        }
    }
}

/// Enqueues jobs for all executors until `is_over`, and returns those that were accepted, by executor.
fn enqueue_all(client: &Client, is_over: &AtomicBool) -> BTreeMap<String, Vec<String>> {
    let mut accepted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        for job in [
            json!({"handler": "spark#echo"}),
            json!({"handler": "ci#test", "params": {"steps": ["wasm:noop"]}}),
            json!({"handler": "rrq#echo"}),
            json!({"handler": "hero-out#echo"}),
            json!({"handler": "beads#echo"}),
        ] {
            // A node that stops may refuse it, or not answer.
            let answer = client.post("/api/v1/jobs", &job).ok();
            let Some(id) = answer.and_then(|it| it.body["id"].as_str().map(str::to_owned)) else {
                continue;
            };
            let (executor, _) = job["handler"].as_str().unwrap().split_once('#').unwrap();
            accepted.entry(executor.to_owned()).or_default().push(id);
        }
    }
    accepted
}

/// Checks that a job has completed, and that no two of its attempts overlap.
fn ran_alone(client: &Client, id: &str) {
    wait_for_end(client, id);
    let path = format!("/api/v1/jobs/{id}/attempts");
    let answer = client.get(&path).unwrap();
    let attempts = answer.body["items"].as_array().unwrap();
    for pair in attempts.windows(2) {
        let ended = pair[0]["finished_at"].as_str().unwrap();
        let begun = pair[1]["started_at"].as_str().unwrap();
        assert!(ended <= begun, "{attempts:?}");
    }
}

#[test]
fn all_wires_work_while_one_node_after_the_other_restarts() {
    let mut pair = Pair::new("wires_rolling");
    let redis = Redis::start();
    let folder = pair.folder.path().to_owned();
    let origin = format!("http://{}", pair.balancer.address());
    let arco = ArcoWorker::start(&folder, 0, SECRET, &origin);
    let config = every_wire(&pair, arco.address(), &redis);
    pair.start(0, &config);
    pair.start(1, &config);
    for server in pair.servers.iter().flatten() {
        assert_eq!(server.listener("hero"), redis.url());
    }
    let url = redis.url();
    let _workers = (
        HeroWorker::start(&folder, "hero", &guests::folder(), &url, &["out"]),
        delta_worker(&folder, &origin),
    );
    let (is_over, is_done) = (AtomicBool::new(false), AtomicBool::new(false));
    let client = pair.client();
    let ids = std::thread::scope(|scope| {
        let enqueuing = scope.spawn(|| enqueue_all(&client, &is_over));
        let beads = scope.spawn(|| work_on_beads(&folder, &is_done));
        for n in [0, 1] {
            pair.stop(n);
            pair.start(n, &config);
            let done = client.run(&json!({"handler": "spark#echo"}));
            assert_eq!(done["state"], "completed", "{done}");
        }
        is_over.store(true, Ordering::Relaxed);
        let ids = enqueuing.join().unwrap();
        for id in ids.values().flatten() {
            ran_alone(&client, id);
        }
        is_done.store(true, Ordering::Relaxed);
        beads.join().unwrap();
        ids
    });
    let executors = ["spark", "ci", "rrq", "hero-out", "beads"];
    for executor in executors {
        let accepted = ids.get(executor).map_or(0, Vec::len);
        assert!(accepted >= 2, "{executor} got {accepted} jobs");
    }
    for server in pair.servers.iter().flatten() {
        for executor in executors {
            is_idle(server, executor);
        }
    }
    assert_eq!(arco.stop().0, Some(0));
}

/// Starts `host worker delta` for the pool `ci` behind the balancer.
fn delta_worker(folder: &Path, url: &str) -> Killed {
    let log = std::fs::File::create(folder.join("delta-worker.log")).unwrap();
    let child = Command::new(host())
        .args(["worker", "delta", "--orchestrator", url, "--handlers"])
        .arg(guests::folder())
        .args([
            "--runner-id",
            "r1",
            "--token-env",
            "CI_TOKEN",
            "--concurrency",
            "4",
        ])
        .env("XDG_CACHE_HOME", cache())
        .env("CI_TOKEN", TOKEN)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn();
    Killed(child.unwrap())
}

/// A process that is killed when the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
