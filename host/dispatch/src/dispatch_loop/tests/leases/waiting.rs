//! Workers that wait for work: which one gets a job, and what happens if it has disconnected.

use std::collections::BTreeSet;

use host_core::job::State;
use host_core::port::lease::Respond;
use host_core::port::{End, Tag};
use host_engine::job::{Cancel, Enqueue};

use super::super::bench::NODE;
use super::*;

on_both_stores!(
    a_worker_that_waits_is_answered_when_a_job_comes,
    a_wait_ends_without_work,
    a_worker_that_does_not_wait_is_answered_at_once,
    the_first_executor_that_has_a_job_comes_first,
    a_look_at_several_executors_is_one_look,
    the_most_urgent_job_comes_first,
    many_workers_get_different_jobs,
    one_claim_fills_the_slots_of_a_request,
    a_worker_that_has_gone_costs_no_attempt,
    executors_that_are_pushed_to_keep_their_room,
    a_full_disk_refuses_messages_and_grants_nothing,
);

async fn a_worker_that_waits_is_answered_when_a_job_comes(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let waiting = worker.asks(&["pulled"], LONG_MS);
    let elsewhere = bench.enqueue(job_for("pulled-too")).await;
    let id = bench.enqueue(pulled()).await;
    let granted = one(waiting).await.unwrap();
    assert_eq!(granted.job, id);
    assert_eq!(granted.assignment.handler, "work");
    assert_eq!(granted.assignment.params.as_str(), "{\"n\":1}");
    let lease = bench.read(id).await.lifecycle.lease.unwrap();
    assert_eq!((lease.id, lease.worker.as_str()), (granted.lease, "w"));
    assert_eq!(lease.node, NODE);
    let lifecycle = bench.read(elsewhere).await.lifecycle;
    assert_eq!(lifecycle.state, State::Available);
    // A job that becomes available with time wakes it too.
    let waiting = worker.asks(&["pulled"], LONG_MS);
    let mut later = pulled();
    later.run_at = Some(bench.clock.now().plus_ms(SHORT_MS));
    let later = bench.enqueue(later).await;
    assert_eq!(one(waiting).await.unwrap().job, later);
    worker.audit.assert_kept();
    bench.stop().await;
}

async fn a_wait_ends_without_work(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let longer = worker.asks(&["pulled"], LONG_MS);
    assert_eq!(worker.ask(&["pulled-too"], SHORT_MS).await, None);
    assert_eq!(worker.ask(&["pulled-too"], 1).await, None);
    // A worker whose wait is over gets no job later.
    let id = bench.enqueue(job_for("pulled-too")).await;
    assert_eq!(bench.read(id).await.lifecycle.state, State::Available);
    let id = bench.enqueue(pulled()).await;
    assert_eq!(one(longer).await.unwrap().job, id);
    bench.stop().await;
}

async fn a_worker_that_does_not_wait_is_answered_at_once(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    for nobodys in [&["pulled"][..], &["missing"], &[]] {
        assert_eq!(worker.ask(nobodys, 0).await, None);
    }
    let id = bench.enqueue(pulled()).await;
    assert_eq!(worker.ask(&["pulled-too"], 0).await, None);
    let granted = worker.ask(&["pulled"], 0).await.unwrap();
    assert_eq!(granted.job, id);
    assert_eq!(worker.ask(&["pulled"], 0).await, None);
    bench.stop().await;
}

async fn the_first_executor_that_has_a_job_comes_first(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let second = bench.enqueue(job_for("pulled-too")).await;
    let first = bench.enqueue(pulled()).await;
    let both = ["pulled", "pulled-too"];
    for expected in [first, second] {
        let granted = worker.ask(&both, LONG_MS).await.unwrap();
        assert_eq!(granted.job, expected);
    }
    let waiting = worker.asks(&both, LONG_MS);
    let late = bench.enqueue(job_for("pulled-too")).await;
    assert_eq!(one(waiting).await.unwrap().job, late);
    bench.stop().await;
}

async fn a_look_at_several_executors_is_one_look(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    // After a job is gone, the loop does not know whether its executor has others.
    let gone = bench.enqueue(pulled()).await;
    let cancel = Cancel {
        job: gone,
        reason: None,
        grace_ms: None,
    };
    bench.dispatch.submit(cancel).await.unwrap();
    let id = bench.enqueue(job_for("pulled-too")).await;
    let granted = worker.ask(&["pulled", "pulled-too"], 0).await;
    assert_eq!(granted.unwrap().job, id);
    bench.stop().await;
}

async fn the_most_urgent_job_comes_first(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let old = bench.enqueue(pulled()).await;
    let young = bench.enqueue(pulled()).await;
    let mut urgent = pulled();
    urgent.priority = 1;
    let mut idle = pulled();
    idle.priority = 9;
    let (idle, urgent) = (bench.enqueue(idle).await, bench.enqueue(urgent).await);
    let mut order = Vec::new();
    for _ in 0..4 {
        order.push(worker.lease().await.job);
    }
    assert_eq!(order, [urgent, old, young, idle]);
    bench.stop().await;
}

async fn many_workers_get_different_jobs(engine: Engine) {
    const WORKERS: usize = 60;
    let bench = engine.bench().await;
    let workers: Vec<Worker> = (0..WORKERS)
        .map(|n| Worker::of(&bench, &format!("w{n}"), LONG))
        .collect();
    let ask = |worker: &Worker| worker.asks(&["pulled", "pulled-too"], LONG_MS);
    let waiting: Vec<_> = workers.iter().map(ask).collect();
    let jobs: Vec<_> = (0..WORKERS)
        .map(|n| job_for(if n % 3 == 0 { "pulled-too" } else { "pulled" }))
        .collect();
    let ids: BTreeSet<_> = jobs.iter().map(|job| job.id).collect();
    for half in jobs.chunks(WORKERS / 2) {
        let enqueue = Enqueue(half.to_vec());
        bench.dispatch.submit(enqueue).await.unwrap();
    }
    let mut granted = Vec::new();
    for answer in waiting {
        granted.push(one(answer).await.unwrap());
    }
    let given: BTreeSet<_> = granted.iter().map(|granted| granted.job).collect();
    assert_eq!(given, ids);
    for (worker, granted) in workers.iter().zip(&granted) {
        let lease = bench.read(granted.job).await.lifecycle.lease.unwrap();
        assert_eq!((lease.id, &lease.worker), (granted.lease, &worker.name));
        worker.send(granted, completed()).await.unwrap();
        worker.audit.assert_settled();
    }
    bench.stop().await;
}

async fn one_claim_fills_the_slots_of_a_request(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let ask = |slots| {
        let (respond, answer) = respond();
        let request = LeaseRequest {
            slots,
            ..worker.request(&["pulled-too", "pulled"], LONG_MS)
        };
        worker.audit.lease(request, respond);
        answer
    };
    let (three, five) = (ask(3), ask(5));
    let jobs: Vec<_> = (0..4).map(|_| pulled()).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    bench.dispatch.submit(Enqueue(jobs)).await.unwrap();
    let (three, five) = (answered(three).await, answered(five).await);
    let granted = |all: &[GrantedLease]| all.iter().map(|it| it.job).collect::<Vec<_>>();
    assert_eq!(granted(&three), ids[..3]);
    assert_eq!(granted(&five), ids[3..]);
    for granted in three.iter().chain(&five) {
        worker.send(granted, completed()).await.unwrap();
    }
    worker.audit.assert_settled();
    bench.stop().await;
}

/// A worker that disconnects just before its answer comes.
struct LostPeer;

impl Respond<Vec<GrantedLease>> for LostPeer {
    fn is_gone(&self) -> bool {
        false
    }

    fn respond(self: Box<Self>, answer: Vec<GrantedLease>) -> Result<(), Vec<GrantedLease>> {
        Err(answer)
    }
}

async fn a_worker_that_has_gone_costs_no_attempt(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    drop(worker.asks(&["pulled"], LONG_MS));
    let request = worker.request(&["pulled"], LONG_MS);
    worker.audit.lease(request, Box::new(LostPeer));
    let mut new = pulled();
    new.policy.max_attempts = 1;
    new.policy.lost_lease_costs_attempt = true;
    let id = bench.enqueue(new).await;
    let granted = worker.lease().await;
    assert_eq!(granted.job, id);
    assert_eq!(bench.attempts(id).await, []);
    assert_eq!(bench.read(id).await.lifecycle.attempts_charged(), 1);
    worker.send(&granted, completed()).await.unwrap();
    assert_eq!(bench.attempts(id).await.len(), 1);
    assert_eq!(*worker.inbox.0.borrow(), []);
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn executors_that_are_pushed_to_keep_their_room(engine: Engine) {
    let bench = engine.bench().await;
    bench.executor.room(1);
    let worker = Worker::of(&bench, "w", LONG);
    let (pushed, waits) = (
        bench.enqueue(job_for("python")).await,
        bench.enqueue(job_for("python")).await,
    );
    bench.until(pushed, State::Running).await;
    for _ in 0..3 {
        bench.enqueue(pulled()).await;
        let granted = worker.lease().await;
        assert_eq!(bench.read(waits).await.lifecycle.state, State::Available);
        worker.send(&granted, completed()).await.unwrap();
    }
    let started = bench.executor.started();
    assert_eq!(started.len(), 1);
    let (tag, assignment) = &started[0];
    assert_eq!(
        (*tag, &assignment.job_id),
        (Tag(0), &pushed.to_string()),
        "leases take no tags"
    );
    bench.executor.room(0);
    bench.executor.over(*tag, End::NoRoom);
    bench.until(pushed, State::Available).await;
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_full_disk_refuses_messages_and_grants_nothing(engine: Engine) {
    let disk = Disk::default();
    let bench = engine.bench_on(disk.clone()).await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let id = bench.enqueue(pulled()).await;
    disk.fill();
    for message in [HEARTBEAT, completed()] {
        let refused = worker.send(&granted, message).await;
        assert_eq!(refused, Err(LeaseError::StoreFull));
    }
    assert_eq!(worker.ask(&["pulled"], SHORT_MS).await, None);
    let waiting = worker.asks(&["pulled"], LONG_MS);
    disk.free();
    assert_eq!(one(waiting).await.unwrap().job, id);
    worker.send(&granted, completed()).await.unwrap();
    worker.audit.assert_kept();
    bench.stop().await;
}
