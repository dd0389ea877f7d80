//! The orchestrator role over its real socket, with a host in memory.

use std::path::{Path, PathBuf};

use host_core::id::JobId;
use host_core::job::State;
use host_core::policy::Policy;
use host_runtime::clock::Clock;
use host_runtime::tasks::TaskGroup;
use host_testing::{FakeExecutor, LeaseAudit, LeaseHost, Refusals};
use host_wire_kit::executors::WorkerState;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;

use super::*;

const BOUND: Duration = Duration::from_mins(1);

/// A socket that is served.
pub(crate) struct Served {
    pub(crate) host: Arc<LeaseHost>,
    refusals: Arc<Refusals>,
    audit: Arc<LeaseAudit>,
    pub(crate) path: PathBuf,
    executors: Arc<Pulled>,
    pub(crate) stopping: CancellationToken,
    tasks: TaskGroup,
    _folder: TempDir,
}

impl Served {
    pub(crate) fn start(hold_ms: u64, workers_max: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("b.sock");
        let config = OrchestratorConfig {
            executor: crate::EXECUTOR.parse().unwrap(),
            socket: path.display().to_string(),
            workers_max,
            wait_seconds: 30,
            hold_ms,
        };
        let listening = Listening::open(&config).unwrap();
        let executors = Arc::new(Pulled {
            name: config.executor.clone(),
            serving: Arc::clone(&listening.serving),
        });
        let host = LeaseHost::new();
        let audit = LeaseAudit::new(host.first());
        let refusals = Refusals::of(crate::WIRE);
        let stopping = CancellationToken::new();
        let ports = Ports {
            clock: Arc::new(Clock::start()),
            counters: Arc::<Refusals>::clone(&refusals),
            execute: Arc::new(|| FakeExecutor::busy()),
            leases: None,
            stopping: stopping.clone(),
        };
        let mut tasks = TaskGroup::default();
        tasks.spawn(listening.serve(Arc::<LeaseAudit>::clone(&audit), ports));
        Self {
            host,
            refusals,
            audit,
            path,
            executors,
            stopping,
            tasks,
            _folder: folder,
        }
    }

    /// Makes jobs available, with the handlers `issue-1` and so on.
    pub(crate) fn add(&self, numbers: impl IntoIterator<Item = usize>) -> Vec<JobId> {
        let add = |number| {
            let handler = format!("issue-{number}");
            let lane = (crate::EXECUTOR, handler.as_str());
            self.host.enqueue(lane, "{}", Policy::default(), &[])
        };
        numbers.into_iter().map(add).collect()
    }

    pub(crate) async fn stop(mut self) {
        self.stopping.cancel();
        self.tasks.join().await;
        assert!(!self.path.exists(), "the socket is removed");
        self.audit.assert_settled();
    }
}

/// A worker with JSON lines.
struct Peer(BufReader<UnixStream>);

impl Peer {
    async fn connect(path: &Path) -> Self {
        Self(BufReader::new(UnixStream::connect(path).await.unwrap()))
    }

    async fn send(&mut self, message: &Value) {
        self.0
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
    }

    async fn ready(&mut self) {
        self.send(&json!({"type": "READY", "worker_id": "W1", "timestamp": 1.0}))
            .await;
    }

    /// Returns the next message, or `None` at the end of the connection.
    async fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        let read = timeout(BOUND, self.0.read_line(&mut line)).await.unwrap();
        read.is_ok_and(|bytes| bytes > 0)
            .then(|| serde_json::from_str(&line).unwrap())
    }

    async fn next_type(&mut self) -> String {
        self.next().await.unwrap()["type"]
            .as_str()
            .unwrap()
            .to_owned()
    }
}

#[tokio::test]
async fn a_worker_is_served_and_told_to_end() {
    let served = Served::start(10_000, 4);
    served.add([1]);
    let mut peer = Peer::connect(&served.path).await;
    peer.ready().await;
    let task = peer.next().await.unwrap();
    assert_eq!(
        (&task["type"], &task["title"]),
        (&json!("TASK"), &json!("issue-1"))
    );
    let health = served.executors.health().remove(0);
    assert_eq!(
        (health.name.as_str(), health.workers[0].in_flight),
        ("beads", 1)
    );
    let done =
        json!({"type": "DONE", "worker_id": "W1", "issue_id": task["issue_id"], "duration_ms": 5});
    peer.send(&done).await;
    served.host.until_count(State::Completed, 1).await;
    // A held READY gets its task immediately.
    peer.ready().await;
    served.add([2]);
    assert_eq!(peer.next_type().await, "TASK");
    served.stopping.cancel();
    assert_eq!(peer.next_type().await, "SHUTDOWN");
    assert_eq!(
        served.executors.health()[0].workers[0].state,
        WorkerState::Ending
    );
    assert!(
        served.path.exists(),
        "the socket stays until the workers have gone"
    );
    let mut late = Peer::connect(&served.path).await;
    assert_eq!(late.next().await, None);
    drop(peer);
    served.host.until_count(State::Running, 0).await;
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_does_not_end_is_closed_after_ten_seconds() {
    let served = Served::start(0, 4);
    served.add([1]);
    let mut peer = Peer::connect(&served.path).await;
    peer.ready().await;
    assert_eq!(peer.next_type().await, "TASK");
    let start = tokio::time::Instant::now();
    served.stopping.cancel();
    assert_eq!(peer.next_type().await, "SHUTDOWN");
    assert_eq!(peer.next().await, None);
    assert!(start.elapsed() >= STOP_TIME_MAX);
    served.host.until_count(State::Running, 0).await;
    served.stop().await;
}

#[tokio::test]
async fn a_cancelled_task_ends_without_its_worker() {
    let served = Served::start(10_000, 4);
    let job = served.add([1])[0];
    let mut peer = Peer::connect(&served.path).await;
    peer.ready().await;
    let task = peer.next().await.unwrap();
    served.host.cancel(job, None).unwrap();
    served.host.until_count(State::Cancelled, 1).await;
    let done = json!({"type": "DONE", "worker_id": "W1", "issue_id": task["issue_id"]});
    peer.send(&done).await;
    assert_eq!(peer.next_type().await, "WAIT");
    drop(peer);
    served.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let served = Served::start(0, 2);
    let mut peers = [
        Peer::connect(&served.path).await,
        Peer::connect(&served.path).await,
    ];
    for peer in &mut peers {
        peer.ready().await;
        assert_eq!(peer.next_type().await, "WAIT");
    }
    let mut third = Peer::connect(&served.path).await;
    assert_eq!(third.next().await, None);
    drop(peers);
    served.stop().await;
}

#[tokio::test]
async fn a_connection_goes_on_after_bad_lines_and_no_other_notices() {
    let served = Served::start(0, 4);
    let mut good = Peer::connect(&served.path).await;
    let mut bad = Peer::connect(&served.path).await;
    let long = "x".repeat(3 << 20);
    for line in [
        "nonsense",
        "{\"type\":\"STATUS\"}",
        "GET / HTTP/1.1\r",
        long.as_str(),
        "",
        "\r",
    ] {
        bad.0
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
        good.ready().await;
        assert_eq!(good.next_type().await, "WAIT");
    }
    bad.ready().await;
    assert_eq!(bad.next_type().await, "WAIT");
    let refused = served.refusals.codes();
    assert_eq!(
        refused,
        ["E_JSON", "E_UNKNOWN_TYPE", "E_JSON", "E_LINE_TOO_LONG"]
    );
    // A flooding connection is closed, the other one continues.
    bad.0
        .write_all("nonsense\n".repeat(200).as_bytes())
        .await
        .unwrap();
    assert_eq!(bad.next_type().await, "SHUTDOWN");
    assert_eq!(bad.next().await, None);
    good.ready().await;
    assert_eq!(good.next_type().await, "WAIT");
    drop((good, bad));
    served.stop().await;
}

#[tokio::test]
async fn a_framed_worker_is_answered_in_frames() {
    let served = Served::start(0, 4);
    let mut peer = UnixStream::connect(&served.path).await.unwrap();
    let text =
        json!({"version": 1, "payload": {"type": "READY", "worker_id": "worker-7"}}).to_string();
    peer.write_u32(u32::try_from(text.len()).unwrap())
        .await
        .unwrap();
    peer.write_all(text.as_bytes()).await.unwrap();
    let length = timeout(BOUND, peer.read_u32()).await.unwrap().unwrap();
    let mut answer = vec![0; usize::try_from(length).unwrap()];
    timeout(BOUND, peer.read_exact(&mut answer))
        .await
        .unwrap()
        .unwrap();
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(answer["version"], 1);
    assert_eq!(
        (&answer["payload"]["type"], &answer["payload"]["worker_id"]),
        (&json!("WAIT"), &json!("W1"))
    );
    // A length that is too large ends the connection.
    peer.write_all(b"\x7f\xff\xff\xff").await.unwrap();
    assert!(timeout(BOUND, peer.read_u8()).await.unwrap().is_err());
    assert_eq!(served.refusals.codes(), ["E_FRAME_TOO_LARGE"]);
    served.stop().await;
}

#[tokio::test]
async fn a_hundred_workers_at_once_finish_all_tasks() {
    const WORKERS: usize = 100;
    const EACH: usize = 5;
    let served = Served::start(10_000, 256);
    served.add(1..=WORKERS * EACH);
    let mut peers = TaskGroup::default();
    for _ in 0..WORKERS {
        let path = served.path.clone();
        peers.spawn(async move {
            let mut peer = Peer::connect(&path).await;
            peer.ready().await;
            while let Some(message) = peer.next().await {
                if message["type"] != "TASK" {
                    return;
                }
                let done =
                    json!({"type": "DONE", "worker_id": "W1", "issue_id": message["issue_id"]});
                peer.send(&done).await;
                peer.ready().await;
            }
        });
    }
    served
        .host
        .until_count(State::Completed, WORKERS * EACH)
        .await;
    served.stopping.cancel();
    timeout(BOUND, peers.join()).await.unwrap();
    assert_eq!(served.host.count(State::Running), 0);
    served.stop().await;
}
