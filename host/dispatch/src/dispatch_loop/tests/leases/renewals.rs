//! Heartbeats that are answered from memory: what their workers are promised holds.

use host_core::job::State;
use host_engine::job::Cancel;

use super::super::bench::NODE;
use super::life::Killable;
use super::*;

on_both_stores!(
    a_heartbeat_is_answered_while_nothing_can_be_stored,
    a_heartbeat_shows_a_cancel_that_was_answered,
    the_end_of_a_lease_ends_its_heartbeats,
);

/// Sends heartbeats until one promises a later end than `before`: host time counts milliseconds.
async fn promised(worker: &Worker, granted: &GrantedLease, before: Time) -> Time {
    let later = async {
        loop {
            // The number of an attempt has no limit of heartbeats.
            let attempt = Fence::Attempt(granted.assignment.attempt);
            let standing = worker.send_with(granted, attempt, HEARTBEAT).await;
            let end = standing.unwrap().expires_at.unwrap();
            if end > before {
                return end;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, later).await.expect("a later end")
}

async fn a_heartbeat_is_answered_while_nothing_can_be_stored(engine: Engine) {
    let disk = Disk::default();
    let bench = engine.bench_on(disk.clone()).await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    // The first message of a worker goes to the store.
    let standing = worker.send(&granted, HEARTBEAT).await.unwrap();
    disk.fill();
    let end = promised(&worker, &granted, standing.expires_at.unwrap()).await;
    let refused = worker.send(&granted, completed()).await;
    assert_eq!(refused, Err(LeaseError::StoreFull));
    disk.free();
    // What could not be stored is stored with the next renewal at the latest.
    let last = promised(&worker, &granted, end).await;
    bench.stores(&granted, last).await;
    worker.send(&granted, completed()).await.unwrap();
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn a_heartbeat_shows_a_cancel_that_was_answered(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let job = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    for _ in 0..2 {
        let standing = worker.send(&granted, HEARTBEAT).await.unwrap();
        assert_eq!((standing.state, standing.cancel), (State::Running, None));
    }
    let cancel = Cancel {
        job,
        reason: Some("enough".to_owned()),
        grace_ms: Some(LONG_MS),
    };
    bench.dispatch.submit(cancel).await.unwrap();
    let standing = worker.send(&granted, HEARTBEAT).await.unwrap();
    assert_eq!(standing.cancel.unwrap().reason.as_deref(), Some("enough"));
    worker.send(&granted, completed()).await.unwrap();
    worker.audit.assert_settled();
    bench.stop().await;
}

async fn the_end_of_a_lease_ends_its_heartbeats(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let job = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let fence = Fence::Lease(granted.lease);
    for _ in 0..2 {
        worker.send(&granted, HEARTBEAT).await.unwrap();
    }
    let back = LeaseMessage::GiveBack { begun: true };
    worker.send(&granted, back).await.unwrap();
    let late = worker.insist(job, fence.clone(), HEARTBEAT).await;
    assert!(matches!(late, Err(LeaseError::Over(_))), "{late:?}");
    // Nor does the next lease of the job take them.
    let next = Worker::of(&bench, "next", LONG);
    let granted = next.lease().await;
    next.send(&granted, HEARTBEAT).await.unwrap();
    let late = worker.insist(job, fence, HEARTBEAT).await;
    assert!(matches!(late, Err(LeaseError::Over(_))), "{late:?}");
    next.send(&granted, completed()).await.unwrap();
    next.audit.assert_settled();
    bench.stop().await;
}

#[tokio::test]
async fn what_a_heartbeat_was_promised_holds_after_a_kill() {
    let engine = Engine::sqlite();
    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", LONG);
    host.bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let stored = worker.send(&granted, HEARTBEAT).await.unwrap().expires_at;
    // From here on the host writes nothing more.
    host.disk.break_down();
    let end = promised(&worker, &granted, stored.unwrap()).await;
    host.kill().await;
    let late = worker.send(&granted, HEARTBEAT).await;
    assert_eq!(late, Err(LeaseError::Stopping));

    let host = Killable::start(&engine, NODE).await;
    let lease = host.bench.read(granted.job).await.lifecycle.lease.unwrap();
    assert_eq!(lease.id, granted.lease);
    assert!(lease.expires_at >= Some(end), "{lease:?} {end:?}");
    let worker = Worker::of(&host.bench, "w", LONG);
    worker.audit.adopt(&granted, "w");
    worker.send(&granted, completed()).await.unwrap();
    host.bench.stop().await;
}
