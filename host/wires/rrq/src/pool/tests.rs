//! Tests with real processes: the test program starts itself as the runner, with one ignored test.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use host_core::failure::FailureKind;
use host_core::id::JobId;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::End;
use host_testing::{KeptLogs, LeaseAudit, LeaseHost, Refusals, TokioClock};
use tokio::io::AsyncReadExt as _;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::process::SOCKET_VARIABLE;
use super::{PoolPorts, RunnerPool, WorkerState};
use crate::config::{Dialect, Launch, PoolConfig, Source};
use crate::serve::tests::fixture::{BOUND, Host};
use crate::serve::{bind, read_address};

struct Bench {
    pool: RunnerPool,
    audit: Arc<LeaseAudit>,
    host: Arc<LeaseHost>,
    stopping: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "a test joins its own task")]
    fn start(source: Source, in_flight_max: usize, dialect: Dialect) -> Self {
        let (host, audit) = LeaseHost::of_single_attempts();
        let ports = PoolPorts {
            leases: Arc::<LeaseAudit>::clone(&audit),
            logs: Arc::<KeptLogs>::clone(&host.logs),
            clock: Arc::new(TokioClock::start()),
            counters: Refusals::of("rrq"),
        };
        let config = PoolConfig {
            name: "own".parse().unwrap(),
            source,
            in_flight_max,
            dialect,
        };
        let pool = RunnerPool::new(config, ports);
        let stopping = CancellationToken::new();
        let running = tokio::spawn(pool.clone().run(stopping.clone()));
        Self {
            pool,
            audit,
            host,
            stopping,
            running,
        }
    }

    fn give(&self, tag: u64, handler: &str, timeout_ms: u64) -> JobId {
        let params = format!("{{\"tag\":{tag}}}");
        self.host.give(("own", handler), &params, timeout_ms)
    }

    async fn end_of(&self, job: JobId) -> End {
        self.host.until_end(job).await.1
    }

    async fn until_capacity(&self, attempts: usize) {
        self.host.until_capacity("own", attempts).await;
    }

    /// Waits until the only runner is up and its process is not `first`.
    async fn until_replaced(&self, first: Option<u32>) {
        let is_replaced = async {
            loop {
                let runner = &self.pool.health()[0];
                if runner.state == WorkerState::Up && runner.pid != first {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        let replaced = timeout(BOUND, is_replaced).await;
        assert!(replaced.is_ok(), "{:?}", self.pool.health());
    }

    /// Waits until the reason why the only runner is not up matches.
    async fn until_reason(&self, reason: impl Fn(&str) -> bool) {
        let has_reason = async {
            while !self.pool.health()[0].reason.as_deref().is_some_and(&reason) {
                tokio::task::yield_now().await;
            }
        };
        let reached = timeout(BOUND, has_reason).await;
        assert!(reached.is_ok(), "{:?}", self.pool.health());
    }

    async fn stop(self) {
        self.stopping.cancel();
        timeout(BOUND, self.running)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        self.audit.assert_settled();
        let health = self.pool.health();
        assert!(
            health
                .iter()
                .all(|runner| runner.state == WorkerState::Down),
            "{health:?}"
        );
        assert!(
            health.iter().all(|runner| runner.pid.is_none()),
            "{health:?}"
        );
    }
}

/// Starts this program so that it runs [`runner_process`]. A shell takes the arguments that the
/// pool appends, because the test program would not know them.
fn ourselves(pool_size: usize) -> Source {
    let program = std::env::current_exe().unwrap();
    let script = "echo hello from a runner; \
        exec \"$0\" pool::tests::runner_process --exact --ignored --nocapture";
    Source::Launched(Launch {
        command: vec![
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            script.to_owned(),
            program.to_str().unwrap().to_owned(),
        ],
        pool_size,
        tcp_port: None,
        cwd: None,
        env: BTreeMap::from([("RUST_TEST_THREADS".to_owned(), "1".to_owned())]),
    })
}

/// The runner. Other tests start it; without them it does nothing.
#[test]
#[ignore = "a child process of other tests"]
#[expect(clippy::disallowed_methods, reason = "a runner reads its environment")]
fn runner_process() {
    let Ok(address) = std::env::var(SOCKET_VARIABLE) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let listener = bind(read_address(&address).unwrap()).await.unwrap();
        let host = Host::start(listener);
        host.serving.await.unwrap();
    });
}

fn is_completed(end: &End) -> bool {
    matches!(end, End::Outcome(Outcome::Completed { .. }))
}

fn failure_kind(end: &End) -> Option<FailureKind> {
    match end {
        End::Outcome(Outcome::Failed(failure)) => Some(failure.kind),
        _ => None,
    }
}

/// A process takes the port of a runner before the runner listens.
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "a test joins its own task")]
async fn a_stranger_on_the_port_of_a_runner_is_sent_nothing() {
    let stranger = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let port = stranger.local_addr().unwrap().port();
    let reading = tokio::spawn(async move {
        let mut bytes = Vec::new();
        while let Ok(Ok((mut stream, _))) = timeout(BOUND, stranger.accept()).await {
            let _ = stream.read_to_end(&mut bytes).await;
            assert_eq!(bytes, b"", "it was told something");
        }
    });
    let launch = Launch {
        command: vec!["sleep".to_owned(), "600".to_owned()],
        pool_size: 1,
        tcp_port: Some(port),
        cwd: None,
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    };
    for dialect in [Dialect::Current, Dialect::Documented] {
        let mut launch = launch.clone();
        if dialect == Dialect::Current {
            // The address is added to its arguments.
            launch.command = ["sh", "-c", "sleep 600", "sh"].map(str::to_owned).into();
        }
        let bench = Bench::start(Source::Launched(launch), 1, dialect);
        bench
            .until_reason(|reason| reason.contains("is not the runner"))
            .await;
        assert_eq!(bench.host.capacity("own"), 0, "it takes no attempts");
        bench.stop().await;
    }
    assert!(!reading.is_finished(), "it would have ended with a byte");
    reading.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_processes_does_the_work_of_both_dialects() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let bench = Bench::start(ourselves(2), 4, dialect);
        bench.until_capacity(8).await;
        let health = bench.pool.health();
        assert_ne!(health[0].address, health[1].address);
        // Four of eight slots are busy, so that both runners get work, however fast one of them is.
        let hanging: Vec<JobId> = (0..4).map(|tag| bench.give(tag, "hang", 20_000)).collect();
        let echoes: Vec<JobId> = (4..8).map(|tag| bench.give(tag, "echo", 20_000)).collect();
        for (tag, job) in (4..8).zip(&echoes) {
            let result = Some(JsonText(format!("{{\"tag\":{tag}}}")));
            let completed = End::Outcome(Outcome::Completed { result });
            assert_eq!(bench.end_of(*job).await, completed);
        }
        for job in &hanging {
            bench.host.stop(*job, 500);
            let cancelled = End::Outcome(Outcome::Cancelled { partial: None });
            assert_eq!(bench.end_of(*job).await, cancelled);
        }
        let ends = hanging.iter().chain(&echoes);
        let used: BTreeSet<String> = ends.map(|job| bench.host.end(*job).unwrap().0).collect();
        assert!(used.iter().eq(["own/1", "own/2"]), "{used:?}");
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_loses_its_work_and_is_replaced() {
    let bench = Bench::start(ourselves(1), 2, Dialect::Current);
    bench.until_capacity(2).await;
    let first = bench.pool.health()[0].pid;
    for job in [bench.give(0, "hang", 20_000), bench.give(1, "exit", 20_000)] {
        let (executor, end) = bench.host.until_end(job).await;
        assert_eq!(executor, "own/1");
        assert!(matches!(end, End::LostWithOthers { .. }), "{end:?}");
    }
    bench.until_replaced(first).await;
    let job = bench.give(2, "echo", 20_000);
    assert!(is_completed(&bench.end_of(job).await));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_stuck_is_killed_and_replaced() {
    let bench = Bench::start(ourselves(1), 1, Dialect::Current);
    bench.until_capacity(1).await;
    let first = bench.pool.health()[0].pid;
    let job = bench.give(0, "wedge", 300);
    let end = bench.end_of(job).await;
    assert_eq!(failure_kind(&end), Some(FailureKind::TimedOut));
    bench.until_replaced(first).await;
    let job = bench.give(1, "echo", 20_000);
    assert!(is_completed(&bench.end_of(job).await));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_reaches_the_runner_and_a_restart_replaces_it() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let bench = Bench::start(ourselves(1), 2, dialect);
        bench.until_capacity(2).await;
        let one = bench.give(0, "hang", 20_000);
        let other = bench.give(1, "hang", 20_000);
        bench.host.stop(one, 500);
        let cancelled = End::Outcome(Outcome::Cancelled { partial: None });
        assert_eq!(bench.end_of(one).await, cancelled);
        let first = bench.pool.health()[0].pid;
        bench.pool.restart(0);
        bench.host.stop(other, 0);
        bench.end_of(other).await;
        bench.until_capacity(2).await;
        assert_ne!(bench.pool.health()[0].pid, first);
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_external_runner_is_used_while_it_is_there() {
    let listener = bind(read_address("localhost:0").unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let host = Host::start(listener);
    let bench = Bench::start(Source::External(address), 3, Dialect::Current);
    bench.until_capacity(3).await;
    let job = bench.give(0, "echo", 20_000);
    assert!(is_completed(&bench.end_of(job).await));
    let lost = bench.give(1, "deaf", 20_000);
    host.handlers.until_running(1).await;
    assert_eq!(bench.pool.health()[0].reason, None);
    host.stop().await;
    assert!(!is_completed(&bench.end_of(lost).await));
    bench.until_capacity(0).await;
    assert_eq!(bench.pool.health()[0].address, Some(address.to_string()));
    let unreachable = format!("cannot connect to {address}: ");
    bench
        .until_reason(|reason| reason.starts_with(&unreachable))
        .await;
    let host = Host::start(bind(address).await.unwrap());
    bench.until_capacity(3).await;
    let job = bench.give(2, "echo", 20_000);
    assert!(is_completed(&bench.end_of(job).await));
    bench.stop().await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_runner_writes_goes_to_the_log_of_its_only_job() {
    let bench = Bench::start(ourselves(1), 1, Dialect::Current);
    bench.until_capacity(1).await;
    let job = bench.give(0, "shout", 20_000);
    bench.end_of(job).await;
    let is_shouted = |line: &str| line.ends_with("shouted by a handler");
    bench.host.logs.until(job, is_shouted).await;
    let mut lines = bench.host.logs.all().into_iter();
    let is_of_a_job = lines.any(|(.., line)| line.message.contains("hello from a runner"));
    assert!(!is_of_a_job, "it was written before there was a job");
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_line_goes_to_the_job_that_wrote_it() {
    let bench = Bench::start(ourselves(1), 1, Dialect::Current);
    bench.until_capacity(1).await;
    for tag in 0..200 {
        let job = bench.give(tag, "shout", 20_000);
        let end = bench.end_of(job).await;
        assert!(is_completed(&end), "{end:?}");
        // The line is there with the end, not some time after it.
        let lines = bench.host.logs.of(job);
        assert_eq!(lines.len(), 1, "{lines:?}");
    }
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_cannot_start_is_logged() {
    let mut launch = match ourselves(1) {
        Source::Launched(launch) => launch,
        Source::External(_) => unreachable!(),
    };
    launch.command = vec!["/nowhere/at/all".to_owned()];
    let bench = Bench::start(Source::Launched(launch.clone()), 1, Dialect::Current);
    let is_missing = |reason: &str| {
        let again = reason.starts_with("cannot start the runner: No such file");
        again && reason.contains("check its cmd and cwd")
    };
    bench.until_reason(is_missing).await;
    let tried_again = async {
        while bench.pool.health()[0].failures < 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, tried_again).await.unwrap();
    bench.until_reason(is_missing).await;
    assert_eq!(bench.host.capacity("own"), 0, "there is no room");
    bench.stop().await;
    launch.command = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        "echo no handlers >&2; exit 3".to_owned(),
    ];
    let bench = Bench::start(Source::Launched(launch), 1, Dialect::Current);
    // While the runner is started again, the reason may be that it does not listen yet.
    let ended = "the runner has ended: exit status: 3; before: it wrote \"no handlers\"";
    bench.until_reason(|reason| reason == ended).await;
    bench.stop().await;
}
