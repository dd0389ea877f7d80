//! An operator lets a host start no more jobs, and some again.

use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::port::End;

use super::bench::{Bench, PATIENCE, job};

/// Waits until the host says so.
async fn reported(bench: &Bench, what: &str, is_it: impl Fn(u64, bool) -> bool) {
    let seen = async {
        loop {
            let info = bench.dispatch.shared().presence.info();
            if is_it(info.running.all(), info.is_draining) {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let reached = tokio::time::timeout(PATIENCE, seen).await;
    assert!(reached.is_ok(), "the host does not report: {what}");
}

#[tokio::test]
async fn a_host_that_drains_starts_nothing_until_it_is_resumed() {
    let bench = Bench::start().await;
    bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    reported(&bench, "one runs", |runs, drains| {
        (runs, drains) == (1, false)
    })
    .await;

    let presence = &bench.dispatch.shared().presence;
    presence.request_drain(true);
    reported(&bench, "it drains", |runs, drains| {
        (runs, drains) == (1, true)
    })
    .await;
    let waiting = bench.enqueue(job("noop")).await;
    assert_eq!(bench.read(waiting).await.lifecycle.state, State::Available);
    bench.stop_cells_of("hang");
    reported(&bench, "none runs", |runs, drains| {
        (runs, drains) == (0, true)
    })
    .await;
    assert_eq!(bench.read(waiting).await.lifecycle.state, State::Available);

    presence.request_drain(false);
    let detail = bench.ended(waiting).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    bench.stop().await;
}

#[tokio::test]
async fn what_a_drained_host_has_at_runners_ends_there() {
    let bench = Bench::start().await;
    let ask = || {
        let mut job = job("ask");
        job.executor = Some("python".parse().unwrap());
        job
    };
    bench.executor.room(1);
    let first = bench.enqueue(ask()).await;
    let (tag, _) = bench.given(1).await;
    let presence = &bench.dispatch.shared().presence;
    presence.request_drain(true);
    reported(&bench, "it drains", |runs, drains| {
        (runs, drains) == (1, true)
    })
    .await;
    let runners = presence.info().running.runners;
    assert_eq!(runners, [("python".parse().unwrap(), 1)].into());
    bench.executor.room(2);
    let second = bench.enqueue(ask()).await;
    let done = || End::Outcome(Outcome::Completed { result: None });
    bench.executor.over(tag, done());
    assert_eq!(bench.ended(first).await.lifecycle.state, State::Completed);
    assert_eq!(bench.read(second).await.lifecycle.state, State::Available);
    presence.request_drain(false);
    let (tag, _) = bench.given(2).await;
    bench.executor.over(tag, done());
    assert_eq!(bench.ended(second).await.lifecycle.state, State::Completed);
    bench.stop().await;
}
