//! The sample against itself: configured, opened and run like any wire, in both roles over loopback.

use std::time::Duration;

use host_core::failure::{Failure, FailureKind};
use host_core::id::JobId;
use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::port::End;
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use host_testing::{ExecuteAudit, FakeExecutor, KeptLogs, LeaseAudit, LeaseHost, Refusals, Run};
use host_wire_kit::executors::WorkerState;
use host_wire_kit::section::TestSources;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::*;

/// Fails a test that waits longer.
const BOUND: Duration = Duration::from_mins(1);

/// `echo` returns its params, `hang` runs until it is stopped, others fail.
fn cells() -> Arc<FakeExecutor> {
    FakeExecutor::new(|job, _| match job.handler.as_str() {
        "echo" | "hang" => Run::by_handler(job),
        _ => Run::fails(FailureKind::UserError, "no luck"),
    })
}

async fn until<T>(watched: &watch::Sender<T>, condition: impl Fn(&T) -> bool) {
    let mut watched = watched.subscribe();
    let reached = timeout(BOUND, watched.wait_for(|value| condition(value))).await;
    assert!(reached.is_ok(), "the condition was not reached");
}

/// Reads a section: where it listens, and the address of the runner `there`.
fn configured(listen: Option<&str>, there: Option<&str>) -> Result<Box<dyn Configured>, String> {
    let listen = listen.map(|address| format!("listen = '{address}'\n"));
    let there = there.map(|address| format!("runners.there.address = '{address}'\n"));
    let file = [listen, there].into_iter().flatten().collect::<String>();
    let sources = TestSources {
        file: &format!("[protocol.sample]\n{file}"),
        ..TestSources::default()
    };
    match sources.read(&SAMPLE, configure) {
        Ok(configuration) => Ok(configuration.wire),
        Err(error) => Err(error.to_string()),
    }
}

/// A host that serves the sample, in the worker role.
struct Worker {
    cells: Arc<FakeExecutor>,
    refusals: Arc<Refusals>,
    audit: Arc<ExecuteAudit>,
    address: String,
    tasks: Tasks,
}

impl Worker {
    async fn start() -> Self {
        let config = configured(Some("127.0.0.1:0"), None).unwrap();
        let mut open = config.open(&mode()).await.unwrap();
        let (key, address) = open.ready.remove(0);
        assert_eq!(key, NAME);
        let (cells, refusals) = (cells(), Refusals::of(NAME));
        let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&cells));
        let (execute, tasks) = (Arc::clone(&audit), Tasks::default());
        let running = open.active.run(Ports {
            clock: Arc::new(Clock::start()),
            counters: Arc::<Refusals>::clone(&refusals),
            execute: Arc::new(move || Arc::<ExecuteAudit>::clone(&execute)),
            leases: None,
            stopping: tasks.stopping().clone(),
        });
        tasks.spawn(async move { running.await.unwrap() });
        Self {
            cells,
            refusals,
            audit,
            address,
            tasks,
        }
    }

    async fn stop(self) {
        self.tasks.stop();
        timeout(BOUND, self.tasks.join()).await.unwrap();
        self.audit.assert_settled();
    }
}

fn mode() -> Mode {
    Mode::Worker {
        state: None,
        hosts: Vec::new(),
    }
}

/// A host that has the runner `there`, in the orchestrator role.
struct Orchestrator {
    host: Arc<LeaseHost>,
    audit: Arc<LeaseAudit>,
    executors: Arc<dyn Executors>,
    ports: ExecutorPorts,
}

impl Orchestrator {
    async fn start(worker: &Worker) -> Self {
        let config = configured(None, Some(&worker.address)).unwrap();
        assert!(config.has_executor("there") && !config.has_executor("other"));
        let mut open = config.open(&mode()).await.unwrap();
        assert_eq!(open.ready, [(NAME, "off".to_owned())]);
        let (host, audit) = LeaseHost::of_single_attempts();
        let ports = ExecutorPorts {
            clock: Arc::new(Clock::start()),
            counters: Refusals::of(NAME),
            leases: Arc::<LeaseAudit>::clone(&audit),
            logs: Arc::<KeptLogs>::default(),
            tasks: Tasks::default(),
            stopping: CancellationToken::new(),
        };
        let executors = open.active.executors(&ports).unwrap();
        host.until_capacity("there", 16).await;
        Self {
            host,
            audit,
            executors,
            ports,
        }
    }

    fn give(&self, handler: &str, params: &str, timeout_ms: u64) -> JobId {
        self.host.give(("there", handler), params, timeout_ms)
    }

    async fn end_of(&self, job: JobId) -> End {
        let (worker, end) = self.host.until_end(job).await;
        assert_eq!(worker, "there/1");
        end
    }

    async fn stop(self) {
        self.ports.stopping.cancel();
        timeout(BOUND, self.ports.tasks.join()).await.unwrap();
        self.audit.assert_settled();
        self.host.until_capacity("there", 0).await;
    }
}

#[tokio::test]
async fn an_orchestrator_gives_work_to_a_worker() {
    let worker = Worker::start().await;
    let orchestrator = Orchestrator::start(&worker).await;
    let health = orchestrator.executors.health();
    assert_eq!(health[0].workers[0].state, WorkerState::Up);
    let job = orchestrator.give("echo", "{\"text\":\n\"two words\"}", 60_000);
    let End::Outcome(Outcome::Completed { result }) = orchestrator.end_of(job).await else {
        panic!("the job must complete");
    };
    assert_eq!(result.unwrap().as_str(), "{\"text\": \"two words\"}");
    let failing = orchestrator.give("fail", "{}", 60_000);
    let End::Outcome(Outcome::Failed(failure)) = orchestrator.end_of(failing).await else {
        panic!("the job must fail");
    };
    assert_eq!(failure.message, "no luck");
    orchestrator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_cancel_stops_a_run_and_a_silent_one_is_given_up() {
    let worker = Worker::start().await;
    let orchestrator = Orchestrator::start(&worker).await;
    let cancelled = orchestrator.give("hang", "{}", 600_000);
    worker.cells.until_running(1).await;
    orchestrator.host.stop(cancelled, 600_000);
    let stopped = Failure::new(FailureKind::UserError, "it was stopped");
    let expected = End::Outcome(Outcome::Failed(stopped));
    assert_eq!(orchestrator.end_of(cancelled).await, expected);
    let silent = orchestrator.give("hang", "{}", 20);
    let End::Outcome(Outcome::Failed(failure)) = orchestrator.end_of(silent).await else {
        panic!("the job must time out");
    };
    assert_eq!(failure.kind, FailureKind::TimedOut);
    orchestrator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_run_ends_with_its_connection() {
    let worker = Worker::start().await;
    let orchestrator = Orchestrator::start(&worker).await;
    let job = orchestrator.give("hang", "{}", 600_000);
    worker.cells.until_running(1).await;
    orchestrator.ports.stopping.cancel();
    assert!(matches!(orchestrator.end_of(job).await, End::Lost(_)));
    worker.cells.until_running(0).await;
    let late = orchestrator.give("echo", "{}", 600_000);
    assert_eq!(orchestrator.host.state(late), State::Available);
    orchestrator.stop().await;
    worker.stop().await;
}

#[tokio::test]
async fn a_line_that_is_not_a_message_is_counted_and_dropped() {
    let worker = Worker::start().await;
    let mut stream = BufReader::new(TcpStream::connect(&worker.address).await.unwrap());
    let lines = "hello\nRUN 1 echo []\nRUN 2 echo\nRUN 3 echo {}\n";
    stream.write_all(lines.as_bytes()).await.unwrap();
    let mut line = String::new();
    timeout(BOUND, stream.read_line(&mut line))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(line, "OK 3 {}\n");
    until(&worker.refusals.codes, |codes| *codes == ["E_LINE"; 3]).await;
    worker.stop().await;
}

#[test]
fn only_loopback_addresses_are_accepted() {
    for address in ["192.0.2.1:7", "nowhere"] {
        let refused = configured(None, Some(address)).unwrap_err();
        let place = "host.toml:2: protocol.sample.runners.there.address: ";
        assert!(refused.starts_with(place), "{refused}");
    }
}
