//! The commands sent to Redis over the whole life of a job.

use host_core::failure::FailureKind;

use super::fixture::{Bench, completed, failed, id};

/// Compares what was written with a transcript; ids are shortened.
fn is_written(bench: &Bench, transcript: &str) {
    let written: Vec<String> = bench
        .written
        .iter()
        .map(|line| line.replace("3f2b8a1c-0000-4000-8000-00000000000", "job-"))
        .collect();
    assert_eq!(written.join("\n"), transcript.trim_end());
}

#[test]
fn one_job() {
    let mut bench = Bench::with(|config| config.concurrency = 1);
    bench.enqueue(1, &[("timeout", "5")]);
    bench.end(1, completed("42"));
    is_written(
        &bench,
        include_str!("../../../tests/transcripts/worker/one_job.txt"),
    );
}

#[test]
fn a_stop() {
    let mut bench = Bench::with(|config| config.concurrency = 1);
    bench.enqueue(1, &[]);
    bench.redis.push("hero:stop_queue:w1", &id(1));
    bench.pass(100);
    bench.end(1, failed(FailureKind::Cancelled, "by force"));
    is_written(
        &bench,
        include_str!("../../../tests/transcripts/worker/a_stop.txt"),
    );
}
