//! Handlers that cannot run here: other nodes may run their jobs, if there can be some.

use host_core::job::State;

use super::bench::{Bench, job};

#[tokio::test]
async fn jobs_that_a_node_cannot_run_are_left_to_others() {
    let bench = Bench::start_among_nodes().await;
    let presence = &bench.dispatch.shared().presence;
    presence.set_unrunnable(["noop".parse().unwrap()].into());
    let left = bench.enqueue(job("noop")).await;
    let id = bench.enqueue(job("echo")).await;
    let echo = bench.ended(id).await;
    assert_eq!(echo.lifecycle.state, State::Completed);
    let detail = bench.read(left).await;
    assert_eq!(
        (detail.lifecycle.state, detail.lifecycle.attempt),
        (State::Available, 0)
    );
    presence.set_unrunnable([].into());
    let detail = bench.ended(left).await;
    assert_eq!(
        (detail.lifecycle.state, detail.lifecycle.attempt),
        (State::Completed, 1)
    );
    bench.stop().await;
}

#[tokio::test]
async fn a_host_alone_leaves_no_job() {
    let bench = Bench::start().await;
    let presence = &bench.dispatch.shared().presence;
    presence.set_unrunnable(["noop".parse().unwrap()].into());
    let id = bench.enqueue(job("noop")).await;
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    bench.stop().await;
}
