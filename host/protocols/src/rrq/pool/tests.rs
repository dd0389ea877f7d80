//! Real processes: the test program itself is the runner, as a child that runs one ignored test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::time::Time;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::lines::{LINE_BYTES_MAX, read_lines};
use super::process::SOCKET_VARIABLE;
use super::{Employer, Output, Place, PoolPorts, REASON_CHARS_MAX, RunnerPool, SeatState};
use crate::rrq::config::{Dialect, Launch, RunnerConfig, Source};
use crate::rrq::orchestrator::Room;
use crate::rrq::serve::tests::fixture::{BOUND, Counts, Host, TestClock};
use crate::rrq::serve::{bind, read_address};
use host_core::port::Tag;
use host_core::port::{Assignment, End};

/// What the pool told its employer.
#[derive(Debug, Default)]
struct Heard {
    room: usize,
    ended: BTreeMap<u64, (String, End)>,
    wrote: Vec<(String, Output, String)>,
}

#[derive(Default)]
struct Office(watch::Sender<Heard>);

impl Employer for Office {
    fn room(&self, room: Room) {
        self.0.send_modify(|heard| heard.room = room.free);
    }

    fn ended(&self, tag: Tag, executor: String, end: End) {
        self.0.send_modify(|heard| {
            let before = heard.ended.insert(tag.0, (executor, end));
            assert!(before.is_none(), "{tag:?} ended twice");
        });
    }

    fn wrote(&self, executor: &str, _in_flight: &[Tag], output: Output, line: &str) {
        self.0.send_modify(|heard| {
            let line = (executor.to_owned(), output, line.to_owned());
            heard.wrote.push(line);
        });
    }
}

impl Office {
    async fn until(&self, condition: impl Fn(&Heard) -> bool) {
        let mut heard = self.0.subscribe();
        let reached = timeout(BOUND, heard.wait_for(|heard| condition(heard))).await;
        assert!(reached.is_ok(), "{:?}", self.0.borrow());
    }

    async fn end_of(&self, tag: u64) -> (String, End) {
        self.until(|heard| heard.ended.contains_key(&tag)).await;
        self.0.borrow().ended[&tag].clone()
    }
}

struct Bench {
    pool: RunnerPool,
    office: Arc<Office>,
    stopping: CancellationToken,
    running: JoinHandle<std::io::Result<()>>,
}

impl Bench {
    #[expect(clippy::disallowed_methods, reason = "a test joins its own task")]
    fn start(source: Source, in_flight_max: usize, dialect: Dialect) -> Self {
        let office = Arc::new(Office::default());
        let ports = PoolPorts {
            employer: Arc::<Office>::clone(&office),
            clock: Arc::new(TestClock::start()),
            counters: Arc::new(Counts::default()),
        };
        let config = RunnerConfig {
            name: "own".to_owned(),
            source,
            in_flight_max,
            dialect,
        };
        let pool = RunnerPool::new(config, ports);
        let stopping = CancellationToken::new();
        let running = tokio::spawn(pool.clone().run(stopping.clone()));
        Self {
            pool,
            office,
            stopping,
            running,
        }
    }

    fn give(&self, tag: u64, handler: &str, timeout_ms: u64) {
        let assignment = Assignment {
            request_id: format!("request {tag}"),
            job_id: format!("job {tag}"),
            handler: handler.to_owned(),
            params: JsonText(format!("{{\"tag\":{tag}}}")),
            queue: "default".to_owned(),
            attempt: 1,
            enqueued_at: Time(1_763_000_000_000),
            timeout_ms,
            deadline: None,
            attributes: Vec::new(),
            trace: Vec::new(),
            worker_id: "host".to_owned(),
        };
        self.pool.start(Tag(tag), assignment);
    }

    async fn stop(self) {
        self.stopping.cancel();
        timeout(BOUND, self.running)
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        let health = self.pool.health();
        assert!(
            health.iter().all(|seat| seat.state == SeatState::Down),
            "{health:?}"
        );
        assert!(health.iter().all(|seat| seat.pid.is_none()), "{health:?}");
    }
}

/// Starts this program so that it runs [`runner_process`]. What the pool appends goes to a shell,
/// because the test program would not know it.
fn ourselves(pool_size: usize) -> Source {
    let program = std::env::current_exe().unwrap();
    let script = "echo hello from a runner; \
        exec \"$0\" rrq::pool::tests::runner_process --exact --ignored --nocapture";
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

/// The runner: started by the other tests, without them it has nothing to do.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pool_of_processes_does_the_work_of_both_dialects() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let bench = Bench::start(ourselves(2), 4, dialect);
        bench.office.until(|heard| heard.room == 8).await;
        let health = bench.pool.health();
        assert_ne!(health[0].address, health[1].address);
        for tag in 0..8 {
            bench.give(tag, "echo", 20_000);
        }
        for tag in 0..8 {
            let (_, end) = bench.office.end_of(tag).await;
            let result = Some(JsonText(format!("{{\"tag\":{tag}}}")));
            assert_eq!(end, End::Outcome(Outcome::Completed { result }));
        }
        let used = |name: &str| {
            let heard = bench.office.0.borrow();
            heard.ended.values().any(|(executor, _)| executor == name)
        };
        assert!(used("own/1") && used("own/2"));
        bench
            .office
            .until(|heard| {
                let hello = |(_, output, line): &(String, Output, String)| {
                    *output == Output::Stdout && line == "hello from a runner"
                };
                heard.wrote.iter().filter(|line| hello(line)).count() == 2
            })
            .await;
        bench.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_dies_loses_its_work_and_is_replaced() {
    let bench = Bench::start(ourselves(1), 2, Dialect::Current);
    bench.office.until(|heard| heard.room == 2).await;
    let first = bench.pool.health()[0].pid;
    bench.give(0, "hang", 20_000);
    bench.give(1, "exit", 20_000);
    for tag in 0..2 {
        let (executor, end) = bench.office.end_of(tag).await;
        assert_eq!(executor, "own/1");
        assert!(matches!(end, End::Lost(_)), "{end:?}");
    }
    bench.office.until(|heard| heard.room == 2).await;
    assert_ne!(bench.pool.health()[0].pid, first);
    bench.give(2, "echo", 20_000);
    assert!(is_completed(&bench.office.end_of(2).await.1));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_stuck_is_killed_and_replaced() {
    let bench = Bench::start(ourselves(1), 1, Dialect::Current);
    bench.office.until(|heard| heard.room == 1).await;
    let first = bench.pool.health()[0].pid;
    bench.give(0, "wedge", 300);
    let (_, end) = bench.office.end_of(0).await;
    assert_eq!(failure_kind(&end), Some(FailureKind::TimedOut));
    bench.office.until(|heard| heard.room == 1).await;
    assert_ne!(bench.pool.health()[0].pid, first);
    bench.give(1, "echo", 20_000);
    assert!(is_completed(&bench.office.end_of(1).await.1));
    bench.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_reaches_the_runner_and_a_restart_replaces_it() {
    for dialect in [Dialect::Current, Dialect::Documented] {
        let bench = Bench::start(ourselves(1), 2, dialect);
        bench.office.until(|heard| heard.room == 2).await;
        bench.give(0, "hang", 20_000);
        bench.give(1, "hang", 20_000);
        bench.pool.cancel(Tag(0), 500);
        let (_, end) = bench.office.end_of(0).await;
        assert_eq!(end, End::Outcome(Outcome::Cancelled { partial: None }));
        let first = bench.pool.health()[0].pid;
        bench.pool.restart(0);
        bench.pool.cancel(Tag(1), 0);
        bench.office.end_of(1).await;
        bench.office.until(|heard| heard.room == 2).await;
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
    bench.office.until(|heard| heard.room == 3).await;
    bench.give(0, "echo", 20_000);
    assert!(is_completed(&bench.office.end_of(0).await.1));
    bench.give(1, "deaf", 20_000);
    host.handlers.until_running(1).await;
    assert_eq!(bench.pool.health()[0].reason, None);
    host.stop().await;
    assert!(!is_completed(&bench.office.end_of(1).await.1));
    bench.office.until(|heard| heard.room == 0).await;
    let reason = async {
        loop {
            let seat = &bench.pool.health()[0];
            assert_eq!(seat.address, Some(address));
            if let Some(reason) = seat.reason.clone() {
                return reason;
            }
            tokio::task::yield_now().await;
        }
    };
    let reason = timeout(BOUND, reason).await.unwrap();
    assert!(
        reason.starts_with(&format!("cannot connect to {address}: ")),
        "{reason}"
    );
    let host = Host::start(bind(address).await.unwrap());
    bench.office.until(|heard| heard.room == 3).await;
    bench.give(2, "echo", 20_000);
    assert!(is_completed(&bench.office.end_of(2).await.1));
    bench.stop().await;
    host.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_started_is_said() {
    let mut launch = match ourselves(1) {
        Source::Launched(launch) => launch,
        Source::External(_) => unreachable!(),
    };
    launch.command = vec!["/nowhere/at/all".to_owned()];
    let bench = Bench::start(Source::Launched(launch.clone()), 1, Dialect::Current);
    let said = |needle: &'static str| {
        move |heard: &Heard| {
            let lines = heard.wrote.iter();
            lines
                .filter(|(_, output, line)| *output == Output::Host && line.contains(needle))
                .count()
                >= 2
        }
    };
    bench.office.until(said("cannot start the runner")).await;
    let seat = &bench.pool.health()[0];
    let reason = seat.reason.as_ref().unwrap();
    assert!(
        reason.starts_with("cannot start the runner: No such file"),
        "{reason}"
    );
    bench.give(0, "echo", 1_000);
    assert_eq!(
        bench.office.end_of(0).await,
        ("own".to_owned(), End::NoRoom)
    );
    bench.stop().await;
    launch.command = vec![
        "/bin/sh".to_owned(),
        "-c".to_owned(),
        "echo no handlers >&2; exit 3".to_owned(),
    ];
    let bench = Bench::start(Source::Launched(launch), 1, Dialect::Current);
    bench.office.until(said("exit status: 3")).await;
    // While it is started again, the reason may be that it does not listen yet.
    let ended = "the runner has ended: exit status: 3; before: it wrote \"no handlers\"";
    let has_ended = async {
        while bench.pool.health()[0].reason.as_deref() != Some(ended) {
            tokio::task::yield_now().await;
        }
    };
    timeout(BOUND, has_ended).await.unwrap();
    bench.stop().await;
}

#[test]
fn a_runner_that_ends_again_and_again_has_a_short_reason() {
    let mut place = Place::default();
    for n in 0..1_000 {
        place.note(
            Output::Host,
            &format!("the runner has ended: exit status: {n}"),
        );
    }
    let reason = place.reason.unwrap();
    assert!(reason.starts_with("the runner has ended: exit status: 999; before: the runner"));
    assert!(reason.chars().count() <= 2 * REASON_CHARS_MAX, "{reason}");
}

#[tokio::test]
async fn lines_are_bounded_and_whole() {
    let long = "x".repeat(LINE_BYTES_MAX + 10);
    let text = format!("a\r\n\n{long}\nb\u{fffd}\nlast");
    let lines = Mutex::new(Vec::new());
    read_lines(Some(text.as_bytes()), |line| {
        lines.lock().unwrap().push(line.to_owned());
    })
    .await;
    let lines = lines.into_inner().unwrap();
    let lengths: Vec<usize> = lines.iter().map(String::len).collect();
    assert_eq!(lengths, [1, 0, LINE_BYTES_MAX, 10, 4, 4]);
    assert_eq!(lines.concat().len(), text.len() - 5);
    let bad: &[u8] = b"\xff\xfe\n";
    read_lines(Some(bad), |line| assert_eq!(line, "\u{fffd}\u{fffd}")).await;
}
