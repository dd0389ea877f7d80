//! Foreign work over cells in memory: answers, stops, limits and shutdown.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use host_core::failure::FailureKind;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::port::spans::{Attribute, Kind};
use host_core::port::{Answer, Answers};
use host_core::time::Time;
use host_testing::ExecuteAudit;
use parking_lot::Mutex;
use tokio::sync::oneshot::error::TryRecvError;

use super::work::RESTARTS_MAX;
use super::*;
use crate::dispatch_loop::EVENTS_MAX;
use crate::span::collected::Collected;
use host_cells::pool::{Isolation, Pool, Shape};
use host_cells::run::build::RunBuilder;
use host_testing::cells::{CellMessage, FakePort, Record, handlers};

const PATIENCE: Duration = Duration::from_mins(1);

/// A session that records its answers.
struct Notes(SyncSender<(Tag, Answer)>);

impl Answers for Notes {
    fn answer(self: Arc<Self>, tag: Tag, answer: Answer) {
        // A test that is over needs no more answers.
        let _ = self.0.send((tag, answer));
    }
}

struct Bench {
    foreign: Foreign,
    notes: Arc<Notes>,
    answers: Receiver<(Tag, Answer)>,
    loaded: CancellationToken,
    stopping: CancellationToken,
    ended: oneshot::Receiver<()>,
    audits: Mutex<Vec<Arc<ExecuteAudit>>>,
    spans: Arc<Collected>,
    numbers: Numbers,
    /// What was logged without a place of its own, with its job and attempt.
    homeless: Arc<Mutex<Vec<(String, u32, String)>>>,
    record: Record,
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let audits = self.audits.lock();
            audits.iter().for_each(|audit| audit.assert_kept());
        }
    }
}

impl Bench {
    fn start() -> Self {
        let bench = Self::start_without_handlers();
        bench.loaded.cancel();
        bench
    }

    fn start_without_handlers() -> Self {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        let (port, record) = FakePort::new(events, true);
        let (loaded, stopping) = (CancellationToken::new(), CancellationToken::new());
        let spans = Arc::<Collected>::default();
        let numbers = Numbers::default();
        let homeless = Arc::<Mutex<Vec<_>>>::default();
        let printed = Arc::clone(&homeless);
        let fallback_logs: FallbackLogs = Box::new(move |job, attempt, _, lines| {
            let lines = lines
                .into_iter()
                .map(|line| (job.to_owned(), attempt, line.message));
            printed.lock().extend(lines);
        });
        let shape = Shape {
            name: "cell",
            cells: 2,
            slots: 2,
            memory_bytes: 1 << 30,
            isolation: Isolation::Shared,
        };
        let (foreign, ended) = Foreign::start(Wiring {
            clock: Clock::start(),
            cells: CellExecutor::new(
                Pool::new(port, shape),
                RunBuilder::new(handlers(), BTreeMap::new(), BTreeMap::new()),
            ),
            events: received,
            logs: None,
            fallback_logs: Some(fallback_logs),
            history: None,
            numbers: numbers.clone(),
            spans: Some(Arc::<Collected>::clone(&spans)),
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
            audits: Mutex::default(),
            spans,
            numbers,
            homeless,
            record,
        }
    }

    /// Returns the port of one session. It is audited when the bench is dropped.
    fn session(&self) -> Arc<dyn Execute> {
        let audit = ExecuteAudit::new(self.foreign.session());
        self.audits.lock().push(Arc::clone(&audit));
        audit
    }

    fn begin(&self, session: &Arc<dyn Execute>, tag: u64, handler: &str) {
        self.begin_job(session, tag, job(handler));
    }

    fn begin_job(&self, session: &Arc<dyn Execute>, tag: u64, job: ForeignJob) {
        let notes: Arc<dyn Answers> = Arc::<Notes>::clone(&self.notes);
        session.start(job, Reply::new(Tag(tag), notes));
    }

    fn answer(&self) -> (u64, Answer) {
        let (tag, answer) = self.answers.recv_timeout(PATIENCE).unwrap();
        (tag.0, answer)
    }

    fn kind(&self, tag: u64) -> FailureKind {
        match self.answer() {
            (answered, Answer::Ended(Outcome::Failed(failure), _)) if answered == tag => {
                failure.kind
            }
            other => panic!("{other:?} instead of a failure of {tag}"),
        }
    }
}

fn job(handler: &str) -> ForeignJob {
    let params = JsonText("{\"a\":1}".to_owned());
    ForeignJob {
        request_id: "theirs-1".to_owned(),
        queue: "any text at all".to_owned(),
        attempt: 3,
        span: "test.run",
        ..ForeignJob::new("test", "theirs", handler.parse().unwrap(), params)
    }
}

#[test]
fn work_is_executed_and_answered() {
    let bench = Bench::start();
    let session = bench.session();
    bench.begin(&session, 7, "echo");
    let result = Some(JsonText("{\"a\":1}".to_owned()));
    let (tag, Answer::Ended(outcome, _)) = bench.answer() else {
        panic!("it has not ended");
    };
    assert_eq!((tag, outcome), (7, Outcome::Completed { result }));
    bench.begin(&session, 8, "missing");
    assert_eq!(bench.kind(8), FailureKind::HandlerNotFound);
    bench.begin(&session, 9, "crash");
    assert_eq!(bench.kind(9), FailureKind::CellLost);
    bench.begin(&session, 10, "noop");
    assert_eq!(bench.answer().0, 10, "another cell has room");
    let mut registry = prometheus_client::registry::Registry::default();
    bench.numbers.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for (outcome, count) in [("completed", 2), ("failed", 1)] {
        let line =
            format!("foreign_attempts_total{{wire=\"test\",outcome=\"{outcome}\"}} {count}\n");
        assert!(text.contains(&line), "{text}");
    }
}

#[test]
fn what_waits_and_what_runs_can_be_stopped() {
    let bench = Bench::start();
    let (session, other) = (bench.session(), bench.foreign.session());
    for tag in 0..4 {
        bench.begin(&session, tag, "hang");
    }
    bench.begin(&session, 4, "noop");
    // The same tag in another session is another execution.
    other.stop(Tag(4), 0, Stop::Cancelled);
    session.stop(Tag(4), 0, Stop::Cancelled);
    assert_eq!(bench.kind(4), FailureKind::Cancelled);
    bench.begin(&session, 5, "noop");
    session.stop(Tag(2), 0, Stop::Deadline);
    let mut answered = [bench.answer().0, bench.answer().0];
    answered.sort_unstable();
    assert_eq!(answered, [2, 5], "the room of one is taken by the next");
}

/// Begins work that answers once it is in a cell.
fn begin_in_cell(bench: &Bench, session: &Arc<dyn Execute>, tag: u64, handler: &str) {
    let mut job = job(handler);
    job.timeout_ms = Some(600_000);
    bench.begin_job(session, tag, job);
    let answer = bench.answer();
    assert!(
        matches!(answer, (began, Answer::Began) if began == tag),
        "{answer:?}"
    );
}

/// `ignore` must be killed with its cell. What else the cell has begins again in another one, until it is stopped.
#[test]
fn what_is_lost_because_of_another_run_begins_again() {
    let bench = Bench::start();
    let session = bench.session();
    begin_in_cell(&bench, &session, 0, "ignore");
    for tag in 1..4 {
        begin_in_cell(&bench, &session, tag, "hang");
    }
    session.stop(Tag(0), 0, Stop::Cancelled);
    assert_eq!(bench.kind(0), FailureKind::Cancelled);
    bench.begin(&session, 4, "echo");
    assert_eq!(bench.answer().0, 4);
    let starts = |name: &str| {
        let sent = bench.record.messages().into_iter();
        let of = |sent: &CellMessage| matches!(sent, CellMessage::Start(_, began) if began.handler == name);
        sent.filter(of).count()
    };
    assert_eq!((starts("ignore"), starts("hang")), (1, 4));
    for tag in 1..4 {
        session.stop(Tag(tag), 0, Stop::Cancelled);
        assert_eq!(bench.answer().0, tag);
    }
}

/// The cell of the first run is killed. What was asked to stop there, with more time to do so, has stopped as well.
#[test]
fn what_is_lost_while_it_stops_has_stopped() {
    let bench = Bench::start();
    let session = bench.session();
    for tag in 0..4 {
        begin_in_cell(&bench, &session, tag, "ignore");
    }
    for (tag, grace_ms) in [(0, 0), (1, 60_000), (2, 60_000), (3, 60_000)] {
        session.stop(Tag(tag), grace_ms, Stop::Deadline);
    }
    let mut stopped: Vec<u64> = Vec::new();
    for _ in 0..4 {
        let (tag, Answer::Ended(Outcome::Failed(failure), _)) = bench.answer() else {
            panic!("it has not failed");
        };
        assert_eq!(failure.kind, FailureKind::Cancelled);
        stopped.push(tag);
    }
    stopped.sort_unstable();
    assert_eq!(stopped, [0, 1, 2, 3]);
}

#[test]
fn what_is_lost_because_of_others_again_and_again_is_answered() {
    let bench = Bench::start();
    let session = bench.session();
    begin_in_cell(&bench, &session, 0, "hang");
    for round in 0..=u64::from(RESTARTS_MAX) {
        // They fill both cells.
        let others = [1, 2, 3].map(|n| 10 * round + n);
        for tag in others {
            begin_in_cell(&bench, &session, tag, "ignore");
        }
        for tag in others {
            session.stop(Tag(tag), 0, Stop::Cancelled);
        }
        let is_last = round == u64::from(RESTARTS_MAX);
        let answers = if is_last { 4 } else { 3 };
        let mut answered: Vec<u64> = (0..answers).map(|_| bench.answer().0).collect();
        answered.sort_unstable();
        let expected = [0].into_iter().filter(|_| is_last).chain(others);
        assert_eq!(answered, expected.collect::<Vec<_>>());
    }
}

#[test]
fn a_guest_has_the_shorter_grace_of_its_manifest_and_its_orchestrator() {
    let bench = Bench::start();
    let session = bench.session();
    for (tag, asked_ms, expected_ms) in [(1, 100, 100), (2, 60_000, 5_000)] {
        bench.begin(&session, tag, "talk");
        assert!(matches!(bench.answer(), (_, Answer::Progressed(_))));
        session.stop(Tag(tag), asked_ms, Stop::Cancelled);
        assert!(matches!(bench.answer(), (_, Answer::Ended(..))));
        let sent = bench.record.messages();
        let stop = sent
            .iter()
            .rfind(|sent| matches!(sent, CellMessage::Stop(_)));
        assert_eq!(stop, Some(&CellMessage::Stop(expected_ms)));
    }
}

/// The thread that starts and stops guests checks no large params.
#[test]
fn long_checks_hold_up_nobody_and_can_be_stopped() {
    let bench = Bench::start();
    let session = bench.session();
    let checked = |last: &str| {
        let many = "1,".repeat(300_000);
        let mut job = job("noop-checked");
        job.params = JsonText(format!("{{\"many\":[{many}{last}]}}"));
        job
    };
    bench.begin_job(&session, 1, checked("1"));
    bench.begin_job(&session, 2, checked("-1"));
    bench.begin_job(&session, 3, checked("1"));
    bench.begin_job(&session, 4, checked("1"));
    bench.begin(&session, 5, "noop");
    bench.begin(&session, 6, "noop-checked");
    session.stop(Tag(3), 0, Stop::Cancelled);
    session.stop(Tag(4), 0, Stop::Cancelled);
    let mut soon: Vec<u64> = (0..4).map(|_| bench.answer().0).collect();
    soon.sort_unstable();
    assert_eq!(soon, [3, 4, 5, 6]);
    for _ in 0..2 {
        match bench.answer() {
            (1, Answer::Ended(Outcome::Completed { .. }, _)) => {}
            (2, Answer::Ended(Outcome::Failed(failure), _)) => {
                assert_eq!(failure.kind, FailureKind::InvalidParams);
            }
            other => panic!("{other:?}"),
        }
    }
    // What a stop has taken out leaves its place to others.
    bench.begin_job(&session, 7, checked("1"));
    assert_eq!(bench.answer().0, 7);
}

#[test]
fn what_comes_before_the_handlers_waits_for_them_and_can_be_stopped() {
    let bench = Bench::start_without_handlers();
    let session = bench.session();
    bench.begin(&session, 0, "echo");
    bench.begin(&session, 1, "noop");
    session.stop(Tag(1), 0, Stop::Deadline);
    assert_eq!(bench.kind(1), FailureKind::Cancelled);
    assert!(bench.answers.try_recv().is_err());
    bench.loaded.cancel();
    assert_eq!(bench.answer().0, 0);
}

#[test]
fn everybody_is_answered_when_the_host_stops() {
    let mut bench = Bench::start();
    let session = bench.session();
    for tag in 0..6 {
        bench.begin(&session, tag, "hang");
    }
    bench.begin(&bench.session(), 6, "noop");
    bench.stopping.cancel();
    let mut answered: Vec<_> = (0..7).map(|_| bench.answer().0).collect();
    answered.sort_unstable();
    assert_eq!(answered, [0, 1, 2, 3, 4, 5, 6]);
    while bench.ended.try_recv() == Err(TryRecvError::Empty) {
        std::thread::yield_now();
    }
    bench.begin(&session, 7, "noop");
    assert_eq!(bench.answer(), (7, Answer::Busy));
}

#[test]
fn progress_comes_before_the_end_and_lines_only_if_they_are_wanted() {
    let bench = Bench::start();
    let session = bench.session();
    let wanted = ForeignJob {
        wants_log: true,
        ..job("talk")
    };
    bench.begin_job(&session, 1, wanted);
    let (mut progressed, mut logged) = (false, false);
    while !(progressed && logged) {
        match bench.answer() {
            (1, Answer::Progressed(progress)) => progressed = !progress.message.is_empty(),
            (1, Answer::Logged { lines, .. }) => logged = lines[0].message == "hello",
            other => panic!("{other:?}"),
        }
    }
    session.stop(Tag(1), 0, Stop::Cancelled);
    assert!(matches!(bench.answer(), (1, Answer::Ended(..))));
    bench.begin(&session, 2, "talk");
    assert!(matches!(bench.answer(), (2, Answer::Progressed(_))));
    session.stop(Tag(2), 0, Stop::Cancelled);
    assert!(matches!(bench.answer(), (2, Answer::Ended(..))));
    // The lines of a job that no peer waits for go where the host says.
    let homeless = ("theirs".to_owned(), 3, "hello".to_owned());
    assert_eq!(*bench.homeless.lock(), [homeless]);
}

#[test]
fn the_time_of_a_job_begins_when_it_gets_a_place() {
    let bench = Bench::start();
    let session = bench.session();
    let limited = ForeignJob {
        timeout_ms: Some(60_000),
        ..job("talk")
    };
    bench.begin_job(&session, 1, limited);
    assert_eq!(bench.answer(), (1, Answer::Began));
    session.stop(Tag(1), 0, Stop::Cancelled);
    while !matches!(bench.answer(), (1, Answer::Ended(..))) {}
}

#[test]
fn waiting_costs_a_guest_none_of_its_own_time_and_a_deadline_holds() {
    let bench = Bench::start();
    let session = bench.session();
    for tag in 0..4 {
        bench.begin(&session, tag, "hang");
    }
    let now = Clock::start().now();
    let until = |deadline| ForeignJob {
        deadline: Some(deadline),
        ..job("limit")
    };
    bench.begin_job(&session, 4, until(Time(0)));
    bench.begin(&session, 5, "limit");
    bench.begin_job(&session, 6, until(now.plus_ms(20_000)));
    session.stop(Tag(0), 0, Stop::Cancelled);
    let mut limits = BTreeMap::new();
    while limits.len() < 2 {
        match bench.answer() {
            (0, Answer::Ended(..)) => {}
            (4, Answer::Ended(Outcome::Failed(failure), _)) => {
                assert_eq!(failure.kind, FailureKind::TimedOut, "{failure:?}");
            }
            (tag, Answer::Ended(Outcome::Completed { result }, _)) => {
                let limit: u64 = result.unwrap().as_str().parse().unwrap();
                limits.insert(tag, limit);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(limits[&5], 30_000, "its handler's own limit, whole");
    assert!((1..30_000).contains(&limits[&6]), "{limits:?}");
}

#[test]
fn an_execution_is_a_span_of_the_trace_that_came_with_it() {
    let (trace, parent) = (
        0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
        0x00f0_67aa_0ba9_02b7,
    );
    let bench = Bench::start();
    let session = bench.session();
    let traced = |flags: &str, handler: &str| ForeignJob {
        trace: vec![(
            "traceparent".to_owned(),
            format!("00-{trace:032x}-{parent:016x}-{flags}"),
        )],
        attributes: [
            ("correlation.tenant", "t1"),
            ("correlation.test.job_id", "forged"),
            ("other", "x"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into(),
        worker_id: Some("theirs".to_owned()),
        ..job(handler)
    };
    bench.begin_job(&session, 1, traced("01", "echo"));
    bench.begin_job(&session, 2, traced("00", "echo"));
    bench.begin(&session, 3, "crash");
    for _ in 1..=3 {
        bench.answer();
    }
    let spans = bench.spans.0.lock();
    let [first, other] = &spans[..] else {
        panic!("{spans:?}")
    };
    let (first, other) = if first.error.is_none() {
        (first, other)
    } else {
        (other, first)
    };
    assert_eq!(
        (first.name, first.kind, first.trace_id),
        ("test.run", Kind::Consumer, trace)
    );
    assert_eq!(first.parent_id, Some(parent));
    assert!(first.id != 0 && first.id != parent && first.began_at <= first.ended_at);
    let has = |name: &str, value: Attribute| first.attributes.contains(&(name.to_owned(), value));
    let text = |text: &str| Attribute::Text(text.to_owned());
    assert!(has("test.job_id", text("theirs")), "{first:?}");
    assert!(has("test.function", text("echo")) && has("test.attempt", Attribute::Number(3)));
    assert!(has("test.outcome", text("completed")) && has("test.worker_id", text("theirs")));
    assert!(has("tenant", text("t1")) && !has("test.job_id", text("forged")));
    assert!(first.attributes.iter().all(|(name, _)| name != "other"));
    assert!(other.trace_id != trace && other.trace_id != 0 && other.parent_id.is_none());
    assert!(other.error.is_some(), "{other:?}");
}
