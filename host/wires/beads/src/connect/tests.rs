//! Our worker against our orchestrator over real sockets, in both dialects, while connections are
//! lost at every byte.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use host_core::job::State;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome};
use host_core::port::Counters;
use host_testing::histories;
use host_testing::{FakeExecutor, Log, Run, TokioClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::watch;

use super::*;
use crate::active::tests::Served;
use crate::frame::Dialect;
use crate::program::ProgramCommand;

const BOUND: Duration = Duration::from_mins(1);

/// Cells whose guests end immediately.
fn cells() -> Arc<FakeExecutor> {
    FakeExecutor::new(|_, _| {
        let result = Some(JsonText("null".to_owned()));
        Run::Ends(Outcome::Completed { result }, Meter::default())
    })
}

struct Truncations;

impl Counters for Truncations {
    fn refused(&self, wire: &'static str, code: &'static str) {
        assert_eq!(
            (wire, code),
            ("beads", "E_TRUNCATED"),
            "only a lost connection is noticed"
        );
    }
}

fn ports(cells: &Arc<FakeExecutor>) -> Ports {
    let cells = Arc::clone(cells);
    Ports {
        clock: Arc::new(TokioClock::start()),
        counters: Arc::new(Truncations),
        execute: Arc::new(move || Arc::<FakeExecutor>::clone(&cells)),
        leases: None,
        stopping: CancellationToken::new(),
    }
}

fn config(socket: &Path, concurrency: usize, dialect: Dialect) -> WorkerConfig {
    WorkerConfig {
        socket: socket.to_owned(),
        handler: "tidy".parse().unwrap(),
        worker_id: "W1".to_owned(),
        concurrency,
        dialect,
        program: None,
    }
}

/// Passes bytes on until `left` of them have passed, in both directions together.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, left: Arc<AtomicUsize>) {
    let mut byte = [0];
    while from.read_exact(&mut byte).await.is_ok() {
        let passes = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        if passes.is_err() || to.write_all(&byte).await.is_err() {
            return;
        }
    }
}

/// A proxy between workers and an orchestrator that cuts the first connection after some bytes.
struct Lossy {
    path: PathBuf,
    /// How many bytes of the first connection are left to pass.
    left: Arc<AtomicUsize>,
    tasks: TaskGroup,
    _folder: TempDir,
}

impl Lossy {
    fn start(to: PathBuf, bytes: usize) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("lossy.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let left = Arc::new(AtomicUsize::new(bytes));
        let mut budget = Arc::clone(&left);
        let mut tasks = TaskGroup::default();
        tasks.spawn(async move {
            let mut open = TaskGroup::default();
            loop {
                let (ours, _) = listener.accept().await.unwrap();
                let theirs = UnixStream::connect(&to).await.unwrap();
                let (from, back) = ours.into_split();
                let (answers, on) = theirs.into_split();
                let left = std::mem::replace(&mut budget, Arc::new(AtomicUsize::new(usize::MAX)));
                open.spawn(async move {
                    // The end of one direction ends both.
                    tokio::select! {
                        () = pass(from, on, Arc::clone(&left)) => {}
                        () = pass(answers, back, left) => {}
                    }
                });
            }
        });
        Self {
            path,
            left,
            tasks,
            _folder: folder,
        }
    }
}

/// Runs three tasks through a connection that is lost after `bytes`. Returns whether it was lost.
async fn three_tasks(dialect: Dialect, bytes: usize) -> bool {
    let served = Served::start(10_000, 8);
    let lossy = Lossy::start(served.path.clone(), bytes);
    served.add(1..=3);
    let cells = cells();
    let working = work(config(&lossy.path, 1, dialect), ports(&cells), false);
    let playing = async {
        // A task that was lost waits before its next attempt.
        let done = served.host.until_count(State::Completed, 3);
        let waiting = async {
            loop {
                sleep(Duration::from_secs(1)).await;
                served.host.advance(1_000);
            }
        };
        tokio::select! {
            () = done => {}
            () = waiting => {}
        }
        served.stopping.cancel();
    };
    // Without a time limit: a process that another test starts briefly holds copies of our sockets, and the
    // paused clock would run ahead of it.
    let (worked, ()) = tokio::join!(working, playing);
    let was_lost = lossy.left.load(Ordering::SeqCst) == 0;
    // SHUTDOWN itself may be lost with the connection: the orchestrator is gone by then.
    assert!(
        worked.is_ok() || was_lost,
        "{dialect:?} {bytes}: {worked:?}"
    );
    drop(lossy.tasks);
    served.stop().await;
    was_lost
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_at_any_byte_loses_no_task() {
    // Of each 7 bytes, the first or all.
    let step = 7 / usize::try_from(histories(1, 7)).unwrap();
    for dialect in [Dialect::Lines, Dialect::Framed] {
        let mut bytes = 0;
        while three_tasks(dialect, bytes).await {
            bytes += step;
        }
        assert!(
            bytes > 500,
            "{dialect:?}: {bytes} bytes make up the session"
        );
    }
}

#[tokio::test]
async fn many_workers_of_one_host_share_the_tasks() {
    let served = Served::start(10_000, 256);
    served.add(1..=500);
    let cells = cells();
    let working = work(
        config(&served.path, 100, Dialect::Lines),
        ports(&cells),
        false,
    );
    let playing = async {
        served.host.until_count(State::Completed, 500).await;
        served.stopping.cancel();
    };
    let both = async { tokio::join!(working, playing) };
    let (worked, ()) = timeout(BOUND, both).await.unwrap();
    worked.unwrap();
    served.stop().await;
}

#[tokio::test]
async fn a_host_that_stops_stops_its_guests_and_its_tasks_go_back() {
    let served = Served::start(10_000, 8);
    served.add([1]);
    let cells = FakeExecutor::new(|_, _| Run::Hangs);
    let ports = ports(&cells);
    let stopping = ports.stopping.clone();
    let working = work(config(&served.path, 1, Dialect::Lines), ports, false);
    let playing = async {
        served.host.until_count(State::Running, 1).await;
        stopping.cancel();
        served.host.until_count(State::Running, 0).await;
    };
    let both = async { tokio::join!(working, playing) };
    let (worked, ()) = timeout(BOUND, both).await.unwrap();
    worked.unwrap();
    assert_eq!(*cells.running.borrow(), 0);
    // The guest may not have started by then.
    let stops = cells.stops.borrow();
    assert!(stops.iter().all(|stop| stop.1 == 1_000), "{stops:?}");
    drop(stops);
    served.stop().await;
}

/// Makes a program that takes some seconds to set an issue back, and writes the calls to `log` then.
fn slow_program(folder: &Path, seconds: u32) -> (ProgramCommand, PathBuf) {
    let (bd, log) = (folder.join("bd"), folder.join("log"));
    let script =
        format!("#!/bin/sh\ncase $3 in *open) sleep {seconds} ;; esac\necho $3 >>\"$LOG\"\n");
    std::fs::write(&bd, script).unwrap();
    std::fs::set_permissions(&bd, std::fs::Permissions::from_mode(0o700)).unwrap();
    let env = [
        ("LOG", log.display().to_string()),
        ("PATH", "/usr/bin:/bin".to_owned()),
    ];
    let program = ProgramCommand {
        path: bd.display().to_string(),
        env: env.map(|(name, value)| (name.to_owned(), value)).into(),
    };
    (program, log)
}

#[tokio::test]
async fn a_worker_whose_issue_was_not_set_back_in_time_ends_with_an_error() {
    let served = Served::start(10_000, 8);
    let issue = served.add([1])[0].to_string();
    let folder = TempDir::new().unwrap();
    let (program, log) = slow_program(folder.path(), 600);
    let cells = FakeExecutor::new(|_, _| Run::Hangs);
    let ports = ports(&cells);
    let stopping = ports.stopping.clone();
    let config = WorkerConfig {
        program: Some(program),
        ..config(&served.path, 1, Dialect::Lines)
    };
    let working = work(config, ports, true);
    let playing = async {
        cells.until_running(1).await;
        // The program hangs, and nothing else takes time.
        tokio::time::pause();
        stopping.cancel();
    };
    let (worked, ()) = tokio::join!(working, playing);
    let said = worked.unwrap_err().message;
    let expected =
        format!("--bd did not end in time: the issue {issue:?} may still be in progress");
    assert!(said.starts_with(&expected), "{said}");
    let states = std::fs::read_to_string(&log).unwrap();
    assert_eq!(states, "--status=in_progress\n");
    tokio::time::resume();
    served.stop().await;
}

/// The program takes longer than a guest may take to stop.
#[tokio::test]
async fn an_issue_is_set_back_although_the_host_stops() {
    let served = Served::start(10_000, 8);
    served.add([1]);
    let folder = TempDir::new().unwrap();
    let (program, log) = slow_program(folder.path(), 3);
    let cells = FakeExecutor::new(|_, _| Run::Hangs);
    let ports = ports(&cells);
    let stopping = ports.stopping.clone();
    let config = WorkerConfig {
        program: Some(program),
        ..config(&served.path, 1, Dialect::Lines)
    };
    let working = work(config, ports, false);
    let playing = async {
        cells.until_running(1).await;
        stopping.cancel();
    };
    let both = async { tokio::join!(working, playing) };
    let (worked, ()) = timeout(BOUND, both).await.unwrap();
    worked.unwrap();
    let states = std::fs::read_to_string(&log).unwrap();
    assert_eq!(states, "--status=in_progress\n--status=open\n");
    served.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_orchestrator_that_is_not_there_is_tried_four_times() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("missing.sock");
    let cells = cells();
    let start = tokio::time::Instant::now();
    let worked = work(config(&path, 3, Dialect::Lines), ports(&cells), false).await;
    let said = worked.unwrap_err().message;
    assert!(
        said.contains(path.to_str().unwrap()) && said.contains("tried 4 times"),
        "{said}"
    );
    assert_eq!(start.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn an_orchestrator_that_hangs_up_at_once_is_called_ever_less_often() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("rude.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let ports = ports(&cells());
    let stopping = ports.stopping.clone();
    let start = Instant::now();
    let working = work(config(&path, 1, Dialect::Lines), ports, true);
    let playing = async {
        let mut seconds = Vec::new();
        for _ in 0..7 {
            drop(listener.accept().await.unwrap());
            seconds.push(start.elapsed().as_secs());
        }
        stopping.cancel();
        seconds
    };
    let (worked, seconds) = tokio::join!(working, playing);
    worked.unwrap();
    let pauses = seconds.windows(2).map(|pair| pair[1] - pair[0]);
    let least = [1, 2, 4, 8, 16, 30];
    let is_least = pauses.zip(least).all(|(pause, least)| pause >= least);
    assert!(is_least, "called after {seconds:?} s");
}

/// How many connections the public orchestrator takes. That of one that it did not understand stays taken.
const PLACES: usize = 5;

/// The public orchestrator: speaks frames alone, and answers READY, DONE and FAILED alike. Returns the first 30
/// ends.
async fn public_orchestrator(listener: UnixListener) -> Vec<String> {
    let tasks = Arc::new(AtomicUsize::new(0));
    let ends = Arc::new(watch::Sender::new(Vec::<String>::new()));
    let mut open = TaskGroup::default();
    let serving = async {
        for number in 1.. {
            let (stream, _) = listener.accept().await.unwrap();
            assert!(number <= PLACES, "it keeps a place for each connection");
            let (tasks, ends) = (Arc::clone(&tasks), Arc::clone(&ends));
            open.spawn(async move { public_connection(stream, number, &tasks, &ends).await });
        }
    };
    let mut written = ends.subscribe();
    let have_ended = written.wait_for(|ends| ends.len() >= 30);
    tokio::select! {
        () = serving => {}
        ended = have_ended => drop(ended.unwrap()),
    }
    drop(open);
    ends.borrow().clone()
}

async fn public_connection(
    mut stream: UnixStream,
    number: usize,
    tasks: &AtomicUsize,
    ends: &watch::Sender<Vec<String>>,
) {
    while let Ok(bytes) = stream.read_u32().await {
        if bytes > 1 << 20 {
            return;
        }
        let mut frame = vec![0; usize::try_from(bytes).unwrap()];
        stream.read_exact(&mut frame).await.unwrap();
        let whole: Value = serde_json::from_slice(&frame).unwrap();
        let message = &whole["payload"];
        match message["type"].as_str().unwrap() {
            "READY" => {}
            end => {
                let end = format!("{end} {}", message["issue_id"].as_str().unwrap());
                ends.send_modify(|ends| ends.push(end));
            }
        }
        let mut answer = json!({"worker_id": format!("W{number}"), "timestamp": 1.0});
        let task = tasks.fetch_add(1, Ordering::SeqCst);
        if task < 30 {
            answer["type"] = json!("TASK");
            answer["issue_id"] = json!(format!("b-{task}"));
            answer["priority"] = json!(1);
            answer["title"] = json!("t");
        } else {
            answer["type"] = json!("WAIT");
            answer["wait_seconds"] = json!(30);
        }
        let text = json!({"version": 1, "payload": answer}).to_string();
        stream
            .write_u32(u32::try_from(text.len()).unwrap())
            .await
            .unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
    }
}

/// Workers that begin with lines, at an orchestrator that speaks frames.
async fn thirty_tasks_of_the_public_orchestrator(workers: usize) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("public.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let ports = ports(&cells());
    let stopping = ports.stopping.clone();
    let (log, _guard) = Log::of_this_thread();
    let working = work(config(&path, workers, Dialect::Lines), ports, true);
    let playing = async {
        let ends = public_orchestrator(listener).await;
        stopping.cancel();
        ends
    };
    let both = async { tokio::join!(working, playing) };
    let (worked, mut ends) = timeout(BOUND, both).await.unwrap();
    worked.unwrap();
    ends.sort();
    let mut expected: Vec<_> = (0..30).map(|task| format!("DONE b-{task}")).collect();
    expected.sort();
    assert_eq!(ends, expected, "{workers} workers");
    let said = log.lines_with("--framed");
    assert_eq!(said.len(), 1, "{workers} workers say it once: {said:?}");
}

#[tokio::test]
async fn the_public_orchestrator_is_found_out_and_its_tasks_are_done() {
    for workers in [1, 4] {
        thirty_tasks_of_the_public_orchestrator(workers).await;
    }
}

#[test]
fn workers_are_numbered() {
    let names = |first: &str| -> Vec<String> {
        let mut config = config(Path::new("s"), 3, Dialect::Lines);
        config.worker_id = first.to_owned();
        config
            .setups()
            .into_iter()
            .map(|setup| setup.worker_id)
            .collect()
    };
    assert_eq!(names("W1"), ["W1", "W2", "W3"]);
    assert_eq!(
        names("builder-08"),
        ["builder-08", "builder-9", "builder-10"]
    );
    assert_eq!(names("night"), ["night", "night2", "night3"]);
}

/// Otherwise the owner of the socket could have tasks executed.
#[tokio::test]
async fn an_orchestrator_of_another_user_is_sent_nothing() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("b.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let ours = geteuid().as_raw();
    let refused = connect(&path, [ours + 1, ours + 2]).await.unwrap_err();
    for said in [
        path.to_str().unwrap(),
        &format!("the user {ours}"),
        "--socket",
    ] {
        assert!(refused.contains(said), "{refused}");
    }
    let (mut peer, _) = listener.accept().await.unwrap();
    let read = timeout(BOUND, peer.read_u8()).await.unwrap();
    assert!(read.is_err(), "it was told something");
    connect(&path, [ours, ours]).await.unwrap();
}
