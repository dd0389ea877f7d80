//! Lines as runners write them, with the attempts that are in flight.

use std::sync::atomic::{AtomicI64, Ordering};

use host_core::json::JsonText;
use tokio::sync::mpsc::Receiver;

use super::*;
use host_dispatch::logged::Waiting;

#[derive(Default)]
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Time {
        Time(self.0.load(Ordering::Relaxed))
    }

    fn wall(&self) -> Time {
        self.now()
    }
}

struct Bench {
    lines: Lines,
    clock: Arc<Hand>,
    kept: Receiver<Waiting>,
}

fn id(n: u64) -> String {
    format!("01990f3c-0000-7000-8000-{n:012}")
}

fn bench(alone: bool) -> Bench {
    let (logs, kept) = Logs::channel();
    let clock = Arc::new(Hand::default());
    let lines = Lines::new(alone, Arc::<Hand>::clone(&clock), logs);
    for tag in 1..=2 {
        let assignment = Assignment {
            request_id: format!("request-{tag}"),
            job_id: id(tag),
            handler: "noop".to_owned(),
            params: JsonText("{}".to_owned()),
            queue: "default".to_owned(),
            attempt: 3,
            enqueued_at: Time(0),
            timeout_ms: 1_000,
            deadline: None,
            attributes: Vec::new(),
            trace: Vec::new(),
            worker_id: "host".to_owned(),
        };
        lines.begin(Tag(tag), &assignment);
    }
    Bench { lines, clock, kept }
}

impl Bench {
    /// Writes a line and returns the number of the job that has it, if one does.
    fn write(&mut self, in_flight: &[u64], line: &str) -> Option<u64> {
        let tags: Vec<Tag> = in_flight.iter().copied().map(Tag).collect();
        let kept = self.lines.keep("python/1", &tags, Output::Stdout, line);
        let logged = self.kept.try_recv().ok();
        assert_eq!(kept, logged.is_some(), "{line}");
        match logged?.logged {
            Logged::Lines { job, lines, .. } => {
                assert_eq!(lines[0].message, line);
                job.to_string().rsplit('-').next()?.parse().ok()
            }
            Logged::Purged(_) => None,
        }
    }
}

#[test]
fn a_runner_with_one_job_writes_about_it() {
    let mut bench = bench(true);
    assert_eq!(bench.write(&[1], "hello"), Some(1));
    assert_eq!(bench.write(&[2], "hello"), Some(2));
    assert_eq!(bench.write(&[], "hello"), None);
}

#[test]
fn among_several_jobs_only_the_one_that_is_named_has_the_line() {
    let mut bench = bench(false);
    assert_eq!(bench.write(&[1, 2], "hello"), None);
    assert_eq!(bench.write(&[1], "the next may begin at once"), None);
    assert_eq!(
        bench.write(&[1, 2], &format!("job={} hello", id(2))),
        Some(2)
    );
    assert_eq!(bench.write(&[1], &format!("job={} hello", id(2))), None);
}

#[test]
fn a_line_may_be_a_little_late() {
    for alone in [true, false] {
        let mut bench = bench(alone);
        bench.lines.end(Tag(1), "python/1");
        let last = format!("{} is done", id(1));
        assert_eq!(bench.write(&[], &last), Some(1));
        assert_eq!(bench.write(&[], "something"), alone.then_some(1));
        bench.clock.0.store(5_001, Ordering::Relaxed);
        assert_eq!(bench.write(&[], &last), None);
    }
}

#[test]
fn the_log_of_an_attempt_is_bounded_and_says_so_once() {
    let mut bench = bench(true);
    let line = "x".repeat(8 << 10);
    let mut kept = 0;
    while bench
        .lines
        .keep("python/1", &[Tag(1)], Output::Stderr, &line)
        && let Ok(logged) = bench.kept.try_recv()
    {
        let Logged::Lines { lines, .. } = logged.logged else {
            panic!("lines are kept");
        };
        kept += lines[0].message.len();
        if lines[0].source == LogSource::Host {
            assert!(lines[0].message.contains("1048576"), "{lines:?}");
        }
    }
    assert!(
        (LOG_BYTES_MAX - (9 << 10)..LOG_BYTES_MAX).contains(&kept),
        "{kept}"
    );
    assert!(
        bench
            .lines
            .keep("python/1", &[Tag(1)], Output::Stderr, &line)
    );
    assert!(bench.kept.try_recv().is_err());
    assert!(
        !bench
            .lines
            .keep("python/1", &[Tag(1)], Output::Host, "ended")
    );
}
