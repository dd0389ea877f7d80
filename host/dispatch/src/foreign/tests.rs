//! Foreign work over cells in memory: answers, stops, room, the end of the host.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::{Answer, Answers};

use tokio::sync::oneshot::error::TryRecvError;

use super::*;
use crate::writer::EVENTS_MAX;
use host_cells::pool::Shape;
use host_cells::port::fake::{FakePort, handlers};

const PATIENCE: Duration = Duration::from_secs(10);

/// A session that notes its answers.
struct Notes(SyncSender<(Tag, Answer)>);

impl Answers for Notes {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        self.0.send((tag, answer)).unwrap();
    }
}

struct Bench {
    foreign: Foreign,
    notes: Arc<Notes>,
    answers: Receiver<(Tag, Answer)>,
    loaded: CancellationToken,
    stopping: CancellationToken,
    ended: oneshot::Receiver<()>,
}

impl Bench {
    fn start() -> Self {
        Self::with(None)
    }

    fn with(log_files: Option<LogFiles>) -> Self {
        let bench = Self::without_handlers(log_files);
        bench.loaded.cancel();
        bench
    }

    fn start_without_handlers() -> Self {
        Self::without_handlers(None)
    }

    fn without_handlers(log_files: Option<LogFiles>) -> Self {
        let (events, heard) = mpsc::channel(EVENTS_MAX);
        let (port, _) = FakePort::new(events, true);
        let (loaded, stopping) = (CancellationToken::new(), CancellationToken::new());
        let (foreign, ended) = Foreign::start(Wiring {
            clock: Clock::start(),
            handlers: handlers(),
            environment: BTreeMap::new(),
            pool: Pool::new(
                port,
                Shape {
                    name: "cell",
                    cells: 2,
                    slots: 2,
                },
            ),
            events: heard,
            logs: None,
            log_files,
            history: None,
            numbers: Numbers::default(),
            eager: false,
            loaded: loaded.clone(),
            stopping: stopping.clone(),
        })
        .unwrap();
        let (notes, answers) = sync_channel(64);
        Self {
            foreign,
            notes: Arc::new(Notes(notes)),
            answers,
            loaded,
            stopping,
            ended,
        }
    }

    fn begin(&self, door: &Arc<dyn Executor>, tag: u64, handler: &str) {
        self.begin_job(door, tag, job(handler));
    }

    fn begin_job(&self, door: &Arc<dyn Executor>, tag: u64, job: ForeignJob) {
        let notes: Arc<dyn Answers> = Arc::<Notes>::clone(&self.notes);
        door.start(job, Reply::new(Tag(tag), notes));
    }

    fn answer(&self) -> (u64, Answer) {
        let (tag, answer) = self.answers.recv_timeout(PATIENCE).unwrap();
        (tag.0, answer)
    }

    fn kind(&self, tag: u64) -> FailureKind {
        match self.answer() {
            (answered, Answer::Ended(Outcome::Failed(failure))) if answered == tag => failure.kind,
            other => panic!("{other:?} instead of a failure of {tag}"),
        }
    }
}

fn job(handler: &str) -> ForeignJob {
    ForeignJob {
        wire: "test",
        external_id: "theirs".to_owned(),
        request_id: "theirs-1".to_owned(),
        handler: handler.parse().unwrap(),
        params: JsonText("{\"a\":1}".to_owned()),
        queue: "any text at all".to_owned(),
        attempt: 3,
        enqueued_at: None,
        deadline: None,
        trace: Vec::new(),
        worker_id: None,
        attributes: Vec::new(),
        env: Vec::new(),
        log_path: None,
        result_bytes_max: 1 << 20,
    }
}

#[test]
fn work_is_executed_and_answered() {
    let bench = Bench::start();
    let door = bench.foreign.door();
    bench.begin(&door, 7, "echo");
    let result = Some(JsonText("{\"a\":1}".to_owned()));
    let expected = Answer::Ended(Outcome::Completed { result });
    assert_eq!(bench.answer(), (7, expected));
    bench.begin(&door, 8, "nobody");
    assert_eq!(bench.kind(8), FailureKind::HandlerNotFound);
    bench.begin(&door, 9, "crash");
    assert_eq!(bench.kind(9), FailureKind::CellLost);
    bench.begin(&door, 10, "noop");
    assert_eq!(bench.answer().0, 10, "another cell has room");
}

#[test]
fn what_waits_and_what_runs_can_be_stopped() {
    let bench = Bench::start();
    let (door, other) = (bench.foreign.door(), bench.foreign.door());
    for tag in 0..4 {
        bench.begin(&door, tag, "hang");
    }
    bench.begin(&door, 4, "noop");
    // The same number of another session is another execution.
    other.stop(Tag(4), 0, Stop::Cancelled);
    door.stop(Tag(4), 0, Stop::Cancelled);
    assert_eq!(bench.kind(4), FailureKind::Cancelled);
    bench.begin(&door, 5, "noop");
    door.stop(Tag(2), 0, Stop::Deadline);
    let mut answered = [bench.answer().0, bench.answer().0];
    answered.sort_unstable();
    assert_eq!(answered, [2, 5], "the room of one is taken by the next");
}

#[test]
fn what_comes_before_the_handlers_waits_for_them_and_can_be_stopped() {
    let bench = Bench::start_without_handlers();
    let door = bench.foreign.door();
    bench.begin(&door, 0, "echo");
    bench.begin(&door, 1, "noop");
    door.stop(Tag(1), 0, Stop::Deadline);
    assert_eq!(bench.kind(1), FailureKind::Cancelled);
    assert!(bench.answers.try_recv().is_err());
    bench.loaded.cancel();
    assert_eq!(bench.answer().0, 0);
}

#[test]
fn everybody_is_answered_when_the_host_stops() {
    let mut bench = Bench::start();
    let door = bench.foreign.door();
    for tag in 0..6 {
        bench.begin(&door, tag, "hang");
    }
    bench.begin(&bench.foreign.door(), 6, "noop");
    bench.stopping.cancel();
    let mut answered: Vec<_> = (0..7).map(|_| bench.answer().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4, 5, 6]);
    while bench.ended.try_recv() == Err(TryRecvError::Empty) {
        std::thread::yield_now();
    }
    bench.begin(&door, 7, "noop");
    assert_eq!(bench.answer(), (7, Answer::Busy));
}

fn logging(handler: &str, log_path: &str) -> ForeignJob {
    ForeignJob {
        log_path: Some(log_path.to_owned()),
        ..job(handler)
    }
}

#[test]
fn work_starts_once_its_log_file_is_open() {
    let folder = tempfile::TempDir::new().unwrap();
    let files = LogFiles::below(folder.path()).unwrap();
    let bench = Bench::with(Some(files));
    let door = bench.foreign.door();
    bench.begin_job(&door, 1, logging("talk", "a/b.log"));
    let text = || std::fs::read_to_string(folder.path().join("a/b.log")).unwrap_or_default();
    let clock = Clock::start();
    while !text().ends_with("info  theirs hello\n") {
        assert!(clock.uptime() < PATIENCE, "{}", text());
        std::thread::yield_now();
    }
    door.stop(Tag(1), 0, Stop::Cancelled);
    assert_eq!(bench.answer().0, 1);
    bench.begin_job(&door, 2, logging("noop", "../x"));
    let (tag, answer) = bench.answer();
    let Answer::NoLog(why) = answer else {
        panic!("{answer:?}");
    };
    assert!(tag == 2 && why.contains("not inside"), "{why}");
    let without = Bench::start();
    without.begin_job(&without.foreign.door(), 3, logging("noop", "a.log"));
    assert!(matches!(without.answer(), (3, Answer::NoLog(_))));
}

#[test]
fn what_waits_for_its_log_file_can_be_stopped_and_is_answered_at_the_end() {
    let folder = tempfile::TempDir::new().unwrap();
    let files = LogFiles::below(folder.path()).unwrap();
    let bench = Bench::with(Some(files.clone()));
    let door = bench.foreign.door();
    // A disk that takes its time.
    let (go_on, stuck) = sync_channel::<()>(0);
    let (told, opening) = sync_channel(0);
    let asked = files.open("slow", "slow", 1, move |_| {
        told.send(()).unwrap();
        let _gone = stuck.recv();
    });
    assert!(asked);
    opening.recv_timeout(PATIENCE).unwrap();
    for tag in 1..=3 {
        bench.begin_job(&door, tag, logging("noop", "a.log"));
    }
    bench.begin(&door, 4, "noop");
    assert_eq!(bench.answer().0, 4, "others do not wait");
    door.stop(Tag(2), 0, Stop::Cancelled);
    assert_eq!(bench.kind(2), FailureKind::Cancelled);
    bench.stopping.cancel();
    let mut lost = [bench.answer().0, bench.answer().0];
    lost.sort_unstable();
    assert_eq!(lost, [1, 3]);
    drop(go_on);
}
