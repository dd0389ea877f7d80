//! How attempts reach their workers, and what follows if they do not.

use std::sync::Arc;

use host_core::failure::{Category, FailureKind};
use host_core::job::State;
use host_core::port::lease::StoredJob;
use host_testing::LeaseHost;
use host_wire_kit::executors::{Executors as _, WorkerHealth, WorkerState};
use serde_json::json;

use super::fixture::{Plane, Setup, World};
use crate::orchestrator::Remote;

fn health(plane: &Plane) -> WorkerHealth {
    let mut health = Remote(Arc::clone(&plane.role)).health();
    health.remove(0).workers.remove(0)
}

#[tokio::test]
async fn a_token_limits_the_time_of_a_job() {
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::nowhere(), &model);
    let rules = Remote(Arc::clone(&plane.role)).rules();
    assert_eq!(rules.policy.timeout_ms, Some(3_540_000));
    // Two hours, less a minute and the time of a cancel.
    assert_eq!(rules.timeout_ms_max, Some((7_200 - 60 - 52) * 1_000));
    plane.stop().await;
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
async fn a_job_that_no_worker_has_received_waits_and_costs_no_attempt() {
    let model = LeaseHost::new();
    let plane = Plane::start(&Setup::nowhere(), &model);
    let ids = [(); 3].map(|()| plane.enqueue());
    for tries in 1..=3 {
        plane.until(|worker| worker.failures >= tries).await;
        for id in ids {
            let waits = |kept: &StoredJob| kept.job.lifecycle.state == State::Available;
            let kept = model.until(id, waits).await;
            assert_eq!(kept.job.lifecycle.attempts_charged(), 0);
            assert_eq!(
                kept.attempts,
                [],
                "an attempt that was never delivered is recorded"
            );
        }
        let spark = "spark".parse().unwrap();
        let why = Remote(Arc::clone(&plane.role))
            .waits_because(&spark)
            .expect("the job says why it waits");
        let start = "the worker spark/1 takes no jobs: cannot connect: ";
        assert!(why.starts_with(start), "{why}");
        let worker = health(&plane);
        assert_eq!(worker.in_flight, 0);
        assert!(worker.reason.unwrap().starts_with("cannot connect: "));
        plane.pass_backoff().await;
    }
    plane.stop().await;
}

#[tokio::test]
async fn a_worker_that_refuses_all_dispatches_is_probed_with_one_job() {
    let world = World::start().await;
    let ids = [(); 2].map(|()| world.plane.enqueue());
    for status in [401, 404] {
        let dispatch = world.spark.dispatched().await;
        dispatch.answer(status, &[], "no");
        if status == 401 {
            world.spark.dispatched().await.answer(401, &[], "no");
        }
        for id in ids {
            let waits = |kept: &StoredJob| kept.job.lifecycle.state == State::Available;
            world.plane.model.until(id, waits).await;
        }
        assert!(!world.spark.has_more().await);
        world.plane.pass_backoff().await;
    }
    // It takes the next one, and so it gets the other job as well.
    world.taken().await;
    world.taken().await;
    assert_eq!(health(&world.plane).failures, 0);
    let spark = "spark".parse().unwrap();
    let why = Remote(Arc::clone(&world.plane.role)).waits_because(&spark);
    assert_eq!(why, None);
    world.stop().await;
}

#[tokio::test]
async fn a_cancel_ends_an_attempt_that_has_not_begun() {
    for status in [200, 500, 503] {
        let world = World::start().await;
        let id = world.plane.enqueue();
        let dispatch = world.spark.dispatched().await;
        let task = dispatch.task();
        dispatch.answer(status, &[("retry-after", "60")], "");
        world.plane.until_answered().await;
        world.plane.model.cancel(id, None).unwrap();
        let ended = |kept: &StoredJob| kept.job.lifecycle.state.is_terminal();
        let kept = world.plane.model.until(id, ended).await;
        assert_eq!(kept.job.lifecycle.state, State::Cancelled, "{status}");
        assert_eq!(kept.job.lifecycle.failure, Some(FailureKind::Cancelled));
        let late = world.plane.started(&task).await;
        assert_eq!(
            late.refused(409, "task_already_terminal")["state"],
            "CANCELLED"
        );
        world.stop().await;
    }
}

#[tokio::test]
async fn a_worker_that_ignores_its_cancel_has_its_grace_and_a_second() {
    let world = World::start().await;
    let (id, task) = world.begun().await;
    let model = &world.plane.model;
    model.cancel(id, None).unwrap();
    model.clock.pass(2_000);
    assert_eq!(
        world.plane.heartbeat(&task).await.ok()["shouldCancel"],
        true
    );
    let cancel = model.kept(id).unwrap().job.lifecycle.cancel.unwrap();
    let now = host_core::port::Clock::now(&*model.clock);
    assert_eq!(cancel.grace_ends_at, Some(now.plus_ms(21_000)));
    // Later heartbeats do not change that.
    model.clock.pass(5_000);
    world.plane.heartbeat(&task).await.ok();
    let cancel = model.kept(id).unwrap().job.lifecycle.cancel.unwrap();
    assert_eq!(cancel.grace_ends_at, Some(now.plus_ms(21_000)));
    model.clock.pass(16_000);
    model.tick();
    assert_eq!(model.state(id), State::Discarded);
    world.stop().await;
}

#[tokio::test]
async fn a_worker_answers_its_dispatch_after_its_last_callback() {
    let world = World::start().await;
    world.plane.enqueue();
    let dispatch = world.spark.dispatched().await;
    let task = dispatch.task();
    world.plane.started(&task).await.ok();
    world
        .plane
        .completed(&task, json!({"outcome": "SUCCEEDED"}))
        .await
        .ok();
    // It first sends its log.
    assert!(dispatch.is_awaited(), "the connection was closed");
    dispatch.answer(200, &[], "ok");
    world.stop().await;
}

#[tokio::test]
async fn an_undelivered_attempt_is_given_back_at_the_stop() {
    let world = World::start().await;
    let id = world.plane.enqueue();
    world.spark.dispatched().await.answer(503, &[], "busy");
    world.plane.until_answered().await;
    let model = Arc::clone(&world.plane.model);
    assert_eq!(model.state(id), State::Running);
    world.stop().await;
    let lifecycle = model.kept(id).unwrap().job.lifecycle;
    assert_eq!(
        (lifecycle.state, lifecycle.attempts_charged()),
        (State::Available, 0)
    );
}
