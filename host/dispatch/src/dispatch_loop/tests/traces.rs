//! The spans of jobs: one trace from the producer through the enqueue to each attempt and what it calls.

use std::sync::Arc;

use host_core::outcome::{Meter, Outcome};
use host_core::port;
use host_core::port::lease::LeaseMessage;
use host_core::port::spans::{Attribute, Kind, Span};
use host_core::trace::{Parent, TRACEPARENT};
use host_engine::job::Cancel;

use super::leases::{LONG, Worker};
use super::*;
use crate::span::collected::Collected;

const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// Makes a job with a trace that its producer began.
fn traced(handler: &str, header: &str) -> host_core::job::NewJob {
    let mut job = job(handler);
    job.payload.trace_context = vec![(TRACEPARENT.to_owned(), header.to_owned())];
    job
}

/// Waits until there are `n` spans.
async fn spans(all: &Arc<Collected>, n: usize) -> Vec<Span> {
    let there = async {
        while all.0.lock().len() < n {
            tokio::task::yield_now().await;
        }
    };
    let in_time = tokio::time::timeout(bench::PATIENCE, there).await;
    let all = all.0.lock().clone();
    assert!(in_time.is_ok() && all.len() == n, "{n} spans: {all:?}");
    all
}

fn has(span: &Span, name: &str, value: &str) -> bool {
    let value = Attribute::text(value);
    span.attributes.contains(&(format!("host.{name}"), value))
}

#[tokio::test]
async fn a_trace_of_a_producer_goes_through_the_enqueue_and_each_attempt() {
    let (bench, collected) = Bench::start_traced().await;
    let theirs = Parent::read(THEIRS).unwrap();
    let mut new = traced("echo", THEIRS);
    new.payload.attributes = vec![("correlation.tenant".to_owned(), "t1".to_owned())];
    let id = bench.enqueue(new).await;
    bench.ended(id).await;
    let all = spans(&collected, 2).await;
    let (enqueue, attempt) = (&all[0], &all[1]);
    assert_eq!(
        (enqueue.name, enqueue.kind),
        ("host.enqueue", Kind::Producer)
    );
    assert_eq!(
        (attempt.name, attempt.kind),
        ("host.attempt", Kind::Consumer)
    );
    assert!(all.iter().all(|span| span.trace_id == theirs.trace_id));
    assert_eq!(enqueue.parent_id, Some(theirs.span_id));
    assert_eq!(attempt.parent_id, Some(enqueue.id));
    let tenant = ("tenant".to_owned(), Attribute::text("t1"));
    for span in &all {
        assert!(span.began_at <= span.ended_at && span.error.is_none());
        assert!(has(span, "job_id", &id.to_string()) && has(span, "handler", "echo"));
        assert!(span.attributes.contains(&tenant));
    }
    assert!(has(attempt, "outcome", "completed"), "{attempt:?}");
    bench.stop().await;
}

#[tokio::test]
async fn each_attempt_is_a_span_with_its_error_and_the_worker_sees_it() {
    let (bench, collected) = Bench::start_traced().await;
    let mut new = job("send_email");
    new.executor = Some("python".parse().unwrap());
    new.policy.backoff.base_ms = 1;
    let id = bench.enqueue(new).await;
    bench.executor.room(1);
    let failing = Outcome::Failed(host_core::failure::Failure::new(
        FailureKind::UserError,
        "no network",
    ));
    let fine = Outcome::Completed { result: None };
    let mut seen = Vec::new();
    for (n, outcome) in [failing, fine].into_iter().enumerate() {
        let (tag, assignment) = bench.given(n + 1).await;
        seen.push(Parent::of(&assignment.trace).unwrap());
        bench.executor.over(tag, port::End::Outcome(outcome));
    }
    bench.ended(id).await;
    let all = spans(&collected, 3).await;
    let attempts = &all[1..];
    for (span, seen) in attempts.iter().zip(&seen) {
        assert_eq!((span.trace_id, span.id), (seen.trace_id, seen.span_id));
        assert_eq!(
            (span.trace_id, span.parent_id),
            (all[0].trace_id, Some(all[0].id))
        );
        assert!(has(span, "handler", "python#send_email"));
    }
    assert_eq!(attempts[0].error.as_deref(), Some("no network"));
    assert!(
        has(&attempts[0], "outcome", "failed") && has(&attempts[0], "error_type", "user_error")
    );
    assert!(has(&attempts[1], "outcome", "completed") && attempts[1].error.is_none());
    assert_eq!(all[0].parent_id, None, "the request had no trace");
    bench.stop().await;
}

#[tokio::test]
async fn workers_that_pull_end_spans_too_and_what_did_not_begin_has_none() {
    let (bench, collected) = Bench::start_traced().await;
    let mut new = job("build");
    new.executor = Some("pulled".parse().unwrap());
    let id = bench.enqueue(new).await;
    let worker = Worker::of(&bench, "w1", LONG);
    let granted = worker.lease().await;
    let gives_back = LeaseMessage::GiveBack { begun: false };
    worker.send(&granted, gives_back).await.unwrap();
    let granted = worker.lease().await;
    let seen = Parent::of(&granted.assignment.trace).unwrap();
    let complete = LeaseMessage::Complete {
        worker: None,
        outcome: Outcome::Completed { result: None },
        meter: Meter::default(),
    };
    worker.send(&granted, complete).await.unwrap();
    bench.ended(id).await;
    let all = spans(&collected, 2).await;
    assert_eq!(all[1].id, seen.span_id);
    assert!(has(&all[1], "outcome", "completed") && has(&all[1], "worker_id", "w1"));
    bench.stop().await;
}

#[tokio::test]
async fn a_cancelled_attempt_ends_its_span() {
    let (bench, collected) = Bench::start_traced().await;
    let id = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    let cancel = Cancel {
        job: id,
        reason: None,
        grace_ms: Some(700),
    };
    bench.dispatch.submit(cancel).await.unwrap();
    bench.ended(id).await;
    let all = spans(&collected, 2).await;
    assert!(has(&all[1], "outcome", "cancelled"), "{all:?}");
    bench.stop().await;
}

#[tokio::test]
async fn a_trace_that_is_not_recorded_has_no_spans_and_stays_as_it_is() {
    let (bench, collected) = Bench::start_traced().await;
    let unsampled = THEIRS.replace("-01", "-00");
    let mut new = traced("send_email", &unsampled);
    new.executor = Some("python".parse().unwrap());
    let id = bench.enqueue(new).await;
    bench.executor.room(1);
    let (tag, assignment) = bench.given(1).await;
    assert_eq!(assignment.trace, [(TRACEPARENT.to_owned(), unsampled)]);
    let fine = Outcome::Completed { result: None };
    bench.executor.over(tag, port::End::Outcome(fine));
    bench.ended(id).await;
    bench.stop().await;
    assert!(collected.0.lock().is_empty());
}
