//! Tests every message that a worker may send about its lease, and what time does to a lease.

use host_core::failure::{Failure, FailureKind};
use host_core::id::{JobId, LeaseId};
use host_core::job::State;
use host_core::outcome::Progress;
use host_core::policy::OnGraceExpired;
use host_engine::job::Cancel;

use super::*;
use crate::events::EventKind;

on_both_stores!(
    a_lease_with_an_ack_window_is_acknowledged_first,
    a_lease_that_is_not_acknowledged_is_taken_back,
    a_heartbeat_extends_a_lease,
    progress_by_heartbeat_is_seen_and_kept,
    progress_that_comes_with_the_end_is_kept,
    a_lease_that_runs_out_is_taken_back_and_nothing_is_taken_after_it,
    an_expiry_that_counts_ends_the_job,
    an_attempt_whose_time_is_over_ends_although_its_worker_lives,
    a_cancel_reaches_the_worker_at_once_and_is_acknowledged,
    a_cancel_that_nobody_answers_ends_with_its_grace,
    a_cancel_that_nobody_requested_is_not_acknowledged,
    another_worker_completes_nothing,
    each_fence_names_the_lease,
    what_a_cell_runs_is_no_matter_of_workers_that_pull,
    a_lease_that_is_given_back_goes_to_the_next_worker,
    a_failed_job_is_retried_by_the_next_worker,
    a_lease_held_by_connection_ends_with_it,
);

/// Returns whether a message was refused because it names no current lease of its sender.
fn is_not_current(answer: &Result<Standing, LeaseError>) -> bool {
    matches!(
        answer,
        Err(LeaseError::Over(_) | LeaseError::NotYours { .. } | LeaseError::Unknown)
    )
}

/// Returns whether a message was refused because its lease is over, before or after the tick.
fn is_over(answer: &Result<Standing, LeaseError>) -> bool {
    matches!(answer, Err(LeaseError::Over(_)))
}

fn cancel(job: JobId, grace_ms: u64) -> Cancel {
    Cancel {
        job,
        reason: None,
        grace_ms: Some(grace_ms),
    }
}

fn heartbeat(message: &str) -> LeaseMessage {
    LeaseMessage::Heartbeat {
        progress: Some(Progress {
            percent: Some(50.0),
            message: message.to_owned(),
        }),
        wait_ms: 0,
    }
}

async fn a_lease_with_an_ack_window_is_acknowledged_first(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let mut new = pulled();
    new.policy.ack_window_ms = Some(LONG_MS);
    let id = bench.enqueue(new).await;
    let granted = worker.lease().await;
    assert_eq!(granted.job, id);
    assert_eq!(granted.assignment.request_id, granted.lease.0.to_string());
    assert!(granted.ack_by.is_some() && granted.expires_at.is_some());
    for early in [HEARTBEAT, completed()] {
        let refused = worker.send(&granted, early).await;
        assert_eq!(refused, Err(LeaseError::NotAcknowledged));
    }
    for _repeated in 0..2 {
        let standing = worker.send(&granted, LeaseMessage::Ack).await.unwrap();
        assert_eq!((standing.state, standing.attempt), (State::Running, 1));
    }
    worker.send(&granted, HEARTBEAT).await.unwrap();
    let standing = worker.send(&granted, completed()).await.unwrap();
    assert_eq!(standing.state, State::Completed);
    let detail = bench.ended(id).await;
    assert_eq!(detail.result.unwrap().as_str(), "[7]");
    assert_eq!(bench.attempts(id).await[0].executor, "w");
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_lease_that_is_not_acknowledged_is_taken_back(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let mut new = pulled();
    new.policy.ack_window_ms = Some(SHORT_MS);
    let id = bench.enqueue(new).await;
    let granted = worker.lease().await;
    worker
        .receives(Event::Revoked(
            id,
            granted.lease,
            Revocation::NotAcknowledged,
        ))
        .await;
    let late = worker.send(&granted, LeaseMessage::Ack).await;
    assert!(is_not_current(&late), "{late:?}");
    let again = worker.lease().await;
    assert_eq!((again.job, again.assignment.attempt), (id, 2));
    assert_ne!(again.lease, granted.lease);
    worker.audit.assert_kept();
    bench.stop().await;
}

async fn a_heartbeat_extends_a_lease(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let mut ends = granted.expires_at.unwrap();
    assert!(bench.clock.now().plus_ms(LONG_MS) >= ends);
    for _ in 0..3 {
        // Host time counts milliseconds.
        let now = bench.clock.now();
        while bench.clock.now() <= now {
            tokio::task::yield_now().await;
        }
        let standing = worker.send(&granted, HEARTBEAT).await.unwrap();
        let extended = standing.expires_at.unwrap();
        assert!(extended > ends, "{extended:?}");
        ends = extended;
    }
    bench.stores(&granted, ends).await;
    worker.audit.assert_kept();
    bench.stop().await;
}

async fn progress_by_heartbeat_is_seen_and_kept(engine: Engine) {
    let bench = engine.bench().await;
    let mut events = bench.dispatch.shared().events.listen();
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    worker.send(&granted, heartbeat("half")).await.unwrap();
    let live = bench.dispatch.shared().live.progress(id).unwrap();
    assert_eq!((live.percent, live.message.as_str()), (Some(50.0), "half"));
    let reported = async {
        loop {
            for event in events.recv().await.unwrap().iter() {
                if let EventKind::Progressed { job, attempt, .. } = &event.happened {
                    return (*job, *attempt);
                }
            }
        }
    };
    assert_eq!(timeout(PATIENCE, reported).await.unwrap(), (id, 1));
    let stale = Fence::Attempt(2);
    let refused = worker.insist(id, stale, heartbeat("no")).await;
    assert!(is_not_current(&refused), "{refused:?}");
    // A heartbeat without progress keeps the earlier one.
    worker.send(&granted, HEARTBEAT).await.unwrap();
    assert_eq!(bench.dispatch.shared().live.progress(id), Some(live));
    worker.send(&granted, completed()).await.unwrap();
    assert_eq!(bench.read(id).await.progress.unwrap().message, "half");
    assert!(bench.dispatch.shared().live.progress(id).is_none());
    bench.stop().await;
}

async fn progress_that_comes_with_the_end_is_kept(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    // The loop may take both messages in one turn or in two. The result must be the same.
    let ((first, answer), (second, done)) = (respond(), respond());
    let fence = Fence::Lease(granted.lease);
    let leases = &worker.leases;
    leases.send(id, fence.clone(), heartbeat("all"), first);
    leases.send(id, fence, completed(), second);
    answered(answer).await.unwrap();
    answered(done).await.unwrap();
    assert_eq!(bench.ended(id).await.progress.unwrap().message, "all");
    assert!(bench.dispatch.shared().live.progress(id).is_none());
    bench.stop().await;
}

async fn a_lease_that_runs_out_is_taken_back_and_nothing_is_taken_after_it(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", SHORT);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    // The lease may run out before the loop takes the message.
    let _ = worker.send(&granted, heartbeat("half")).await.is_ok();
    worker
        .receives(Event::Revoked(id, granted.lease, Revocation::Expired))
        .await;
    bench.until(id, State::Available).await;
    assert!(bench.dispatch.shared().live.progress(id).is_none());
    let fence = Fence::Lease(granted.lease);
    let give_back = LeaseMessage::GiveBack { begun: false };
    for late in [LeaseMessage::Ack, HEARTBEAT, completed(), give_back] {
        let answer = worker.insist(id, fence.clone(), late).await;
        assert!(is_over(&answer), "{answer:?}");
    }
    let detail = bench.read(id).await;
    assert_eq!(detail.lifecycle.attempts_charged(), 0);
    assert_eq!(detail.failure.unwrap().kind, FailureKind::LeaseLost);
    assert_eq!(bench.attempts(id).await.len(), 1);
    let next = Worker::of(&bench, "next", LONG);
    let granted = next.lease().await;
    assert_eq!(granted.assignment.attempt, 2);
    next.send(&granted, completed()).await.unwrap();
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Completed);
    assert_eq!(detail.progress, None, "the report of the first attempt");
    next.audit.assert_settled();
    bench.stop().await;
}

async fn an_expiry_that_counts_ends_the_job(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", SHORT);
    let mut new = pulled();
    new.policy.max_attempts = 1;
    new.policy.lost_lease_costs_attempt = true;
    let id = bench.enqueue(new).await;
    let granted = worker.lease().await;
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Discarded);
    worker
        .receives(Event::Revoked(id, granted.lease, Revocation::Expired))
        .await;
    let late = worker.send(&granted, completed()).await;
    assert!(is_not_current(&late), "{late:?}");
    bench.stop().await;
}

async fn an_attempt_whose_time_is_over_ends_although_its_worker_lives(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let mut new = pulled();
    new.policy.max_attempts = 1;
    new.policy.timeout_ms = Some(SHORT_MS);
    new.policy.report_ms = Some(SHORT_MS);
    let id = bench.enqueue(new).await;
    let granted = worker.lease().await;
    // Its time may be over before the loop takes the message.
    let _ = worker.send(&granted, HEARTBEAT).await.is_ok();
    worker
        .receives(Event::Revoked(id, granted.lease, Revocation::TimedOut))
        .await;
    let detail = bench.ended(id).await;
    let (state, failure) = (detail.lifecycle.state, detail.failure.unwrap());
    assert_eq!(
        (state, failure.kind),
        (State::Discarded, FailureKind::TimedOut)
    );
    let late = worker.send(&granted, completed()).await;
    assert!(is_not_current(&late), "{late:?}");
    bench.stop().await;
}

async fn a_cancel_reaches_the_worker_at_once_and_is_acknowledged(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    bench.dispatch.submit(cancel(id, LONG_MS)).await.unwrap();
    let cancelled = Event::Cancelled(id, granted.lease, LONG_MS);
    worker.receives(cancelled).await;
    let standing = worker.send(&granted, HEARTBEAT).await.unwrap();
    assert!(standing.cancel.is_some());
    let partial = Some(JsonText("{\"done\":3}".to_owned()));
    let message = Some("stopped by r1".to_owned());
    let stopped = LeaseMessage::CancelAck { partial, message };
    let standing = worker.send(&granted, stopped).await.unwrap();
    assert_eq!(
        (standing.state, standing.expires_at),
        (State::Cancelled, None)
    );
    let detail = bench.ended(id).await;
    assert_eq!(detail.lifecycle.state, State::Cancelled);
    assert_eq!(detail.failure.unwrap().message, "stopped by r1");
    assert_eq!(detail.result.unwrap().as_str(), "{\"done\":3}");
    assert_eq!(*worker.inbox.0.borrow(), [cancelled], "nothing is revoked");
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_cancel_that_nobody_answers_ends_with_its_grace(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    for (on_grace_expired, state) in [
        (OnGraceExpired::Cancelled, State::Cancelled),
        (OnGraceExpired::Discarded, State::Discarded),
    ] {
        let mut new = pulled();
        new.policy.on_grace_expired = on_grace_expired;
        let id = bench.enqueue(new).await;
        let granted = worker.lease().await;
        worker.send(&granted, heartbeat("half")).await.unwrap();
        bench.dispatch.submit(cancel(id, SHORT_MS)).await.unwrap();
        worker
            .receives(Event::Revoked(id, granted.lease, Revocation::Cancelled))
            .await;
        assert_eq!(bench.ended(id).await.lifecycle.state, state);
        assert!(bench.dispatch.shared().live.progress(id).is_none());
        let late = worker.send(&granted, completed()).await;
        assert!(is_not_current(&late), "{late:?}");
    }
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_cancel_that_nobody_requested_is_not_acknowledged(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let stopped = LeaseMessage::CancelAck {
        partial: None,
        message: None,
    };
    let refused = worker.send(&granted, stopped).await;
    assert_eq!(refused, Err(LeaseError::CancelNotRequested));
    worker.send(&granted, completed()).await.unwrap();
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn another_worker_completes_nothing(engine: Engine) {
    let bench = engine.bench().await;
    let (worker, other) = (
        Worker::of(&bench, "w", LONG),
        Worker::of(&bench, "other", LONG),
    );
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    bench.enqueue(pulled()).await;
    let others = other.lease().await;
    for fence in [
        Fence::Lease(LeaseId(uuid::Uuid::from_u128(9))),
        Fence::Lease(others.lease),
        Fence::Worker("other".to_owned()),
        Fence::Attempt(0),
        Fence::Attempt(2),
    ] {
        let refused = other.insist(id, fence, completed()).await;
        assert!(is_not_current(&refused), "{refused:?}");
    }
    assert_eq!(bench.read(id).await.lifecycle.state, State::Running);
    let own = bench.enqueue(job("hang")).await;
    let unknown = JobId(uuid::Uuid::from_u128(5));
    let refused = other.insist(unknown, Fence::Attempt(1), completed()).await;
    assert_eq!(refused, Err(LeaseError::Unknown));
    worker.send(&granted, completed()).await.unwrap();
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    let fence = Fence::Lease(granted.lease);
    let again = worker.insist(id, fence, completed()).await;
    assert!(again.unwrap().is_repeated);
    bench.until(own, State::Running).await;
    bench.stop().await;
}

async fn each_fence_names_the_lease(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    for fence in [
        |granted: &GrantedLease| Fence::Lease(granted.lease),
        |granted: &GrantedLease| Fence::Attempt(granted.assignment.attempt),
        |_: &GrantedLease| Fence::Worker("w".to_owned()),
    ] {
        let id = bench.enqueue(pulled()).await;
        let granted = worker.lease().await;
        let fence = fence(&granted);
        for message in [HEARTBEAT, completed()] {
            let fence = fence.clone();
            worker.send_with(&granted, fence, message).await.unwrap();
        }
        assert_eq!(bench.ended(id).await.lifecycle.state, State::Completed);
    }
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn what_a_cell_runs_is_no_matter_of_workers_that_pull(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(job("hang")).await;
    bench.began("hang", 1).await;
    let cell = bench.read(id).await.lifecycle.lease.unwrap().worker;
    for fence in [Fence::Attempt(1), Fence::Worker(cell)] {
        let refused = worker.insist(id, fence, completed()).await;
        assert!(is_not_current(&refused), "{refused:?}");
    }
    assert_eq!(bench.read(id).await.lifecycle.state, State::Running);
    bench.stop().await;
}

async fn a_lease_that_is_given_back_goes_to_the_next_worker(engine: Engine) {
    let bench = engine.bench().await;
    let (worker, next) = (
        Worker::of(&bench, "w", LONG),
        Worker::of(&bench, "next", LONG),
    );
    let mut new = pulled();
    new.policy.max_attempts = 1;
    let id = bench.enqueue(new).await;
    let mut recorded = 0;
    for begun in [false, true] {
        let granted = worker.lease().await;
        let waiting = next.asks(&["pulled"], LONG_MS);
        let back = LeaseMessage::GiveBack { begun };
        let standing = worker.send(&granted, back).await.unwrap();
        assert_eq!(standing.state, State::Available);
        let granted = one(waiting).await.unwrap();
        assert_eq!(granted.job, id);
        recorded += usize::from(begun);
        assert_eq!(bench.attempts(id).await.len(), recorded);
        let back = LeaseMessage::GiveBack { begun: false };
        let standing = next.send(&granted, back).await.unwrap();
        assert_eq!(standing.state, State::Available);
    }
    assert_eq!(bench.read(id).await.lifecycle.attempts_charged(), 0);
    worker.audit.assert_settled();
    next.audit.assert_settled();
    bench.stop().await;
}

async fn a_failed_job_is_retried_by_the_next_worker(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let failed = |retryable| {
        let mut failure = Failure::new(FailureKind::UserError, "no luck");
        failure.retryable = Some(retryable);
        ended(Outcome::Failed(failure))
    };
    let granted = worker.lease().await;
    worker.send(&granted, failed(true)).await.unwrap();
    let granted = worker.lease().await;
    assert_eq!((granted.job, granted.assignment.attempt), (id, 2));
    worker.send(&granted, failed(false)).await.unwrap();
    assert_eq!(bench.ended(id).await.lifecycle.state, State::Discarded);
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_lease_held_by_connection_ends_with_it(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", Hold::Connection);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    assert_eq!((granted.expires_at, granted.ack_by), (None, None));
    bench.dispatch.submit(cancel(id, 700)).await.unwrap();
    worker
        .receives(Event::Cancelled(id, granted.lease, 700))
        .await;
    let gone = LeaseMessage::GiveBack { begun: true };
    let standing = worker.send(&granted, gone).await.unwrap();
    assert_eq!(standing.state, State::Cancelled);
    worker.audit.assert_settled();
    bench.stop().await;
}
