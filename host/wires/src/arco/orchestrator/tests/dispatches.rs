//! How attempts reach their workers, and what follows if they do not.

use std::sync::Arc;

use host_core::failure::{Category, FailureKind};
use host_core::job::State;
use host_core::port::lease::Kept;
use serde_json::json;

use super::fixture::{Plane, Setup, World};
use crate::arco::orchestrator::Remote;
use crate::wire::executors::{Executors as _, WorkerHealth, WorkerState};
use host_testing::LeaseHost;

fn health(plane: &Plane) -> WorkerHealth {
    let mut health = Remote(Arc::clone(&plane.role)).health();
    health.remove(0).workers.remove(0)
}

#[tokio::test]
async fn a_dispatch_is_repeated_until_the_worker_accepts_it() {
    let world = World::start().await;
    let id = world.plane.enqueue();
    let mut ids = Vec::new();
    for (status, headers) in [
        (503, &[("retry-after", "0")][..]),
        (500, &[]),
        (302, &[("location", "/x")]),
    ] {
        let dispatch = world.spark.dispatched().await;
        ids.push((dispatch.text("dispatchId"), dispatch.text("attemptId")));
        dispatch.answer(status, headers, "no");
        world.plane.pass_backoff().await;
    }
    let task = world.taken().await;
    assert_eq!(
        ids,
        vec![(format!("dispatch:{id}:1"), format!("{id}:1")); 3]
    );
    assert_eq!(task.attempt, 1);
    world.plane.started(&task).await.ok();
    assert_eq!(health(&world.plane).state, WorkerState::Up);
    assert_eq!(health(&world.plane).in_flight, 1);
    world
        .plane
        .completed(&task, json!({"outcome": "SUCCEEDED"}))
        .await
        .ok();
    assert_eq!(health(&world.plane).in_flight, 0);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_may_answer_when_the_task_has_ended() {
    let world = World::start().await;
    let id = world.plane.enqueue();
    let dispatch = world.spark.dispatched().await;
    let task = dispatch.task();
    world.plane.started(&task).await.ok();
    world.plane.heartbeat(&task).await.ok();
    world
        .plane
        .completed(&task, json!({"outcome": "SUCCEEDED"}))
        .await
        .ok();
    dispatch.answer(200, &[], "done");
    assert_eq!(world.plane.model.state(id), State::Completed);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_gets_no_more_attempts_than_configured() {
    let world = World::start().await;
    let ids = [(); 3].map(|()| world.plane.enqueue());
    let first = world.taken().await;
    let second = world.taken().await;
    assert_eq!(health(&world.plane).in_flight, 2);
    assert_eq!(world.plane.model.state(ids[2]), State::Available);
    for task in [&first, &second] {
        world
            .plane
            .completed(task, json!({"outcome": "SUCCEEDED"}))
            .await
            .ok();
    }
    assert_eq!(world.taken().await.id, ids[2].to_string());
    world.stop().await;
}

#[tokio::test]
async fn a_refused_dispatch_fails_its_attempt() {
    let world = World::start().await;
    let id = world.plane.enqueue();
    let dispatch = world.spark.dispatched().await;
    dispatch.answer(400, &[], "dispatch envelope scope mismatch: tenant_id");
    let kept = world
        .plane
        .model
        .until(id, |kept| kept.job.lifecycle.state.is_terminal())
        .await;
    assert_eq!(kept.job.lifecycle.state, State::Discarded);
    let failure = kept.job.failure.unwrap();
    assert_eq!(failure.category(), Category::Configuration);
    assert!(
        failure
            .message
            .ends_with("400: dispatch envelope scope mismatch: tenant_id")
    );
    assert_eq!(*world.plane.refusals.codes.borrow(), ["E_DISPATCH_REFUSED"]);
    world.stop().await;
}

#[tokio::test]
async fn an_unreachable_worker_costs_no_attempt() {
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::nowhere(), &model);
    let id = plane.enqueue();
    let is_running = |kept: &Kept| kept.job.lifecycle.state == State::Running;
    model.until(id, is_running).await;
    plane.until(|worker| worker.failures > 0).await;
    // Nearly all of the window has passed at the next try.
    model.clock.pass(89_950);
    let second = |kept: &Kept| is_running(kept) && kept.job.lifecycle.attempt == 2;
    let kept = model.until(id, second).await;
    assert_eq!(kept.job.lifecycle.attempts_charged(), 1);
    assert_eq!(
        kept.attempts,
        [],
        "an attempt that was never delivered is recorded"
    );
    plane.stop().await;
}

#[tokio::test]
async fn a_cancel_ends_an_undelivered_attempt() {
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::nowhere(), &model);
    let id = plane.enqueue();
    model
        .until(id, |kept| kept.job.lifecycle.state == State::Running)
        .await;
    model.cancel(id, None).unwrap();
    let kept = model
        .until(id, |kept| kept.job.lifecycle.state.is_terminal())
        .await;
    assert_eq!(kept.job.lifecycle.state, State::Cancelled);
    assert_eq!(kept.job.lifecycle.failure, Some(FailureKind::Cancelled));
    plane.stop().await;
}

#[tokio::test]
async fn an_undelivered_attempt_is_given_back_at_the_stop() {
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::nowhere(), &model);
    let id = plane.enqueue();
    model
        .until(id, |kept| kept.job.lifecycle.state == State::Running)
        .await;
    plane.until(|worker| worker.failures > 0).await;
    plane.stop().await;
    let lifecycle = model.kept(id).unwrap().job.lifecycle;
    assert_eq!(
        (lifecycle.state, lifecycle.attempts_charged()),
        (State::Available, 0)
    );
}
