//! Output of runners, with the attempts in flight.

use host_core::json::JsonText;
use host_core::suspicion::Suspicion;
use host_testing::{KeptLogs, TestClock};

use super::*;

struct Bench {
    lines: JobLines,
    clock: Arc<TestClock>,
    kept: Arc<KeptLogs>,
}

fn id(n: u64) -> String {
    format!("01990f3c-0000-7000-8000-{n:012}")
}

fn bench(has_one_job: bool) -> Bench {
    let kept = Arc::new(KeptLogs::default());
    let clock = Arc::new(TestClock::default());
    let lines = JobLines::new(
        has_one_job,
        Arc::<TestClock>::clone(&clock),
        Arc::<KeptLogs>::clone(&kept),
    );
    for tag in 1..=2 {
        let assignment = Assignment {
            request_id: format!("request-{tag}"),
            job_id: id(tag),
            handler: "noop".to_owned(),
            params: JsonText("{}".to_owned()),
            queue: "default".to_owned(),
            priority: 5,
            attempt: 3,
            enqueued_at: Time(0),
            timeout_ms: 1_000,
            deadline: None,
            attributes: Vec::new(),
            trace: Vec::new(),
            worker_id: "host".to_owned(),
            suspicion: Suspicion::NONE,
        };
        lines.begin(Tag(tag), &assignment);
    }
    Bench { lines, clock, kept }
}

impl Bench {
    /// Writes a line and returns the number of the job it was kept for, if any.
    fn write(&self, in_flight: &[u64], line: &str) -> Option<u64> {
        let tags: Vec<Tag> = in_flight.iter().copied().map(Tag).collect();
        let kept = self.lines.keep("python/1", &tags, Output::Stdout, line);
        let logged = self.kept.pop();
        assert_eq!(kept, logged.is_some(), "{line}");
        let (job, attempt, logged) = logged?;
        assert_eq!(attempt, 3);
        assert_eq!(logged.message, line);
        job.to_string().rsplit('-').next()?.parse().ok()
    }
}

#[test]
fn a_runner_with_one_job_writes_about_it() {
    let bench = bench(true);
    assert_eq!(bench.write(&[1], "hello"), Some(1));
    assert_eq!(bench.write(&[2], "hello"), Some(2));
    assert_eq!(bench.write(&[], "hello"), None);
}

#[test]
fn among_several_jobs_only_the_one_that_is_named_has_the_line() {
    let bench = bench(false);
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
    for has_one_job in [true, false] {
        let bench = bench(has_one_job);
        bench.lines.end(Tag(1), "python/1");
        let last = format!("{} is done", id(1));
        assert_eq!(bench.write(&[], &last), Some(1));
        assert_eq!(bench.write(&[], "something"), has_one_job.then_some(1));
        bench.clock.pass(5_001);
        assert_eq!(bench.write(&[], &last), None);
    }
}

#[test]
fn the_log_of_an_attempt_is_bounded_and_says_so_once() {
    let bench = bench(true);
    let line = "x".repeat(8 << 10);
    let mut kept = 0;
    while bench
        .lines
        .keep("python/1", &[Tag(1)], Output::Stderr, &line)
        && let Some((.., logged)) = bench.kept.pop()
    {
        if logged.source == LogSource::Host {
            assert!(logged.message.contains("1048576"), "{logged:?}");
        } else {
            kept += logged.cost();
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
    assert_eq!(bench.kept.pop(), None);
    assert!(
        !bench
            .lines
            .keep("python/1", &[Tag(1)], Output::Host, "ended")
    );
}

#[test]
fn empty_lines_use_the_limit() {
    let bench = bench(true);
    let keep = || bench.lines.keep("python/1", &[Tag(1)], Output::Stdout, "");
    let kept = (0..LOG_BYTES_MAX).take_while(|_| keep() && bench.kept.pop().is_some());
    assert_eq!(kept.count() as u64, LOG_BYTES_MAX / LINE_OVERHEAD_BYTES);
    assert!(keep(), "they are dropped, and shown nowhere else");
}

#[test]
fn nothing_is_kept_once_the_logs_are_closed() {
    let bench = bench(true);
    bench.kept.close();
    assert_eq!(bench.write(&[1], "hello"), None);
}
