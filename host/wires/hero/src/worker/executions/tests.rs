//! Executions with and without log files, over a host in memory and files on a real disk.

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use host_core::cell::{Level, LogLine, LogSource};
use host_core::json::JsonText;
use host_core::outcome::Meter;
use host_core::time::Time;
use host_runtime::clock::Clock;
use host_testing::ExecuteAudit;
use host_testing::{FakeExecutor, Run};
use tempfile::TempDir;

use super::*;

const TIMEOUT: Duration = Duration::from_mins(1);

/// A host that starts everything and ends nothing on its own, but has no room for `busy`.
fn executor() -> Arc<FakeExecutor> {
    FakeExecutor::new(|job, _| match job.handler.as_str() {
        "busy" => Run::Busy,
        _ => Run::IgnoresStops,
    })
}

struct Scene {
    folder: TempDir,
    files: LogFiles,
    host: Arc<FakeExecutor>,
    _audit: Audited,
    answers: Arc<AnswerMailbox>,
    executions: Executions,
    clock: Clock,
}

/// Checks the recorded calls at the end of a test.
struct Audited(Arc<ExecuteAudit>);

impl Drop for Audited {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.0.assert_kept();
        }
    }
}

impl Scene {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let files = LogFiles::below(folder.path()).unwrap();
        let host = executor();
        let answers = Arc::<AnswerMailbox>::default();
        let audit = ExecuteAudit::new(Arc::<FakeExecutor>::clone(&host));
        let execute: Arc<dyn Execute> = Arc::<ExecuteAudit>::clone(&audit);
        Self {
            executions: Executions::new(execute, Some(files.clone()), Arc::clone(&answers)),
            folder,
            files,
            host,
            _audit: Audited(audit),
            answers,
            clock: Clock::start(),
        }
    }

    fn start(&self, tag: u64, handler: &str, log_path: Option<&str>) {
        let job = Box::new(job(handler, log_path.is_some()));
        self.executions
            .start(Tag(tag), job, log_path.map(str::to_owned));
    }

    /// Waits until `is` holds.
    fn until(&self, what: &str, is: impl Fn() -> bool) {
        let deadline = self.clock.uptime() + TIMEOUT;
        while !is() {
            assert!(self.clock.uptime() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    fn has_started(&self, tag: u64) -> bool {
        self.host.is_running(Tag(tag))
    }

    fn reply(&self, tag: u64) -> Reply {
        self.host.take(Tag(tag))
    }

    /// Waits for one answer.
    fn answer(&self) -> (u64, ExecutionAnswer) {
        let answers = Mutex::new(Vec::new());
        self.until("an answer", || {
            let mut answers = answers.lock();
            answers.extend(self.answers.take());
            !answers.is_empty()
        });
        let mut answers = answers.into_inner();
        assert_eq!(answers.len(), 1, "{answers:?}");
        match answers.remove(0) {
            (tag, ExecutionEvent::Over(answered)) => (tag.0, answered),
            (_, ExecutionEvent::Began) => panic!("no guest runs here"),
        }
    }

    fn text(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(path)).unwrap_or_default()
    }
}

fn job(handler: &str, wants_log: bool) -> ForeignJob {
    let params = JsonText("{\"a\":1}".to_owned());
    ForeignJob {
        request_id: "theirs-1".to_owned(),
        queue: "any text at all".to_owned(),
        attempt: 3,
        wants_log,
        span: "test.job",
        ..ForeignJob::new("test", "theirs", handler.parse().unwrap(), params)
    }
}

fn line(message: &str) -> LogLine {
    LogLine {
        at_ms: 0,
        level: Level::Info,
        source: LogSource::Log,
        message: message.to_owned(),
        fields: Vec::new(),
    }
}

fn cancelled(answered: &ExecutionAnswer) -> bool {
    matches!(
        answered,
        ExecutionAnswer::Ended(Outcome::Failed(failure)) if failure.kind == FailureKind::Cancelled
    )
}

#[test]
fn work_starts_once_its_log_file_is_open() {
    let scene = Scene::new();
    scene.start(1, "talk", Some("a/b.log"));
    scene.until("it starts", || scene.has_started(1));
    assert_eq!(scene.text("a/b.log"), "", "the file is there before");
    assert!(scene.folder.path().join("a/b.log").exists());
    let reply = scene.reply(1);
    reply.logged(Time(0), vec![line("hello")]);
    scene.until("the line is written", || {
        scene.text("a/b.log").ends_with("info  theirs hello\n")
    });
    assert!(scene.answers.take().is_empty(), "lines pass the session by");
    scene.executions.stop(Tag(1), 0, Stop::Cancelled);
    assert_eq!(*scene.host.stops.borrow(), [(Tag(1), 0, Stop::Cancelled)]);
    let outcome = Outcome::Cancelled { partial: None };
    reply.ended(outcome.clone(), Meter::default());
    assert_eq!(scene.answer(), (1, ExecutionAnswer::Ended(outcome)));
}

#[test]
fn a_log_file_that_cannot_be_opened_is_answered() {
    let scene = Scene::new();
    scene.start(2, "noop", Some("../x"));
    let (tag, answer) = scene.answer();
    let ExecutionAnswer::NoLog(why) = answer else {
        panic!("{answer:?}");
    };
    assert!(tag == 2 && why.contains("not inside"), "{why}");
    assert!(!scene.has_started(2));
    let execute: Arc<dyn Execute> = Arc::<FakeExecutor>::clone(&scene.host);
    let without = Executions::new(execute, None, Arc::clone(&scene.answers));
    let log_path = Some("a.log".to_owned());
    without.start(Tag(3), Box::new(job("noop", true)), log_path);
    assert!(matches!(scene.answer(), (3, ExecutionAnswer::NoLog(_))));
}

#[test]
fn work_that_waits_for_its_log_file_can_be_stopped() {
    let scene = Scene::new();
    // A slow disk.
    let (go_on, stuck) = sync_channel::<()>(0);
    let (told, opening) = sync_channel(0);
    let asked = scene.files.open("slow", "slow", 1, move |_| {
        told.send(()).unwrap();
        let _ = stuck.recv();
    });
    assert!(asked);
    opening.recv_timeout(TIMEOUT).unwrap();
    for tag in 1..=3 {
        scene.start(tag, "noop", Some("a.log"));
    }
    scene.start(4, "noop", None);
    assert!(scene.has_started(4), "others do not wait");
    scene.executions.stop(Tag(2), 0, Stop::Cancelled);
    let (tag, answered) = scene.answer();
    assert!(tag == 2 && cancelled(&answered), "{answered:?}");
    scene.executions.stop(Tag(1), 0, Stop::ShuttingDown);
    let (tag, answered) = scene.answer();
    assert!(tag == 1 && cancelled(&answered), "{answered:?}");
    assert!(scene.host.stops.borrow().is_empty());
    drop(go_on);
    scene.until("the third starts", || scene.has_started(3));
    assert!(!scene.has_started(1) && !scene.has_started(2));
}

#[test]
fn work_of_a_session_that_is_gone_does_not_start() {
    let scene = Scene::new();
    let (go_on, stuck) = sync_channel::<()>(0);
    let asked = scene.files.open("slow", "slow", 1, move |_| {
        let _ = stuck.recv();
    });
    assert!(asked);
    scene.start(1, "noop", Some("a.log"));
    let Scene {
        files,
        host,
        executions,
        folder: _folder,
        ..
    } = scene;
    drop(executions);
    drop(go_on);
    let (told, opened) = sync_channel(1);
    assert!(files.open("next", "next", 1, move |_| told.send(()).unwrap()));
    opened.recv_timeout(TIMEOUT).unwrap();
    assert!(host.jobs.borrow().is_empty());
}

#[test]
fn a_host_without_room_may_say_so_at_once() {
    let scene = Scene::new();
    scene.start(1, "busy", None);
    assert_eq!(scene.answer(), (1, ExecutionAnswer::Busy));
    scene.start(2, "busy", Some("a.log"));
    assert_eq!(scene.answer(), (2, ExecutionAnswer::Busy));
}
