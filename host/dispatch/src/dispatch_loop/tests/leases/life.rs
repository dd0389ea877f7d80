//! Leases when the host drains, stops, or is killed and restarts.

use host_core::id::NodeId;
use host_core::job::State;
use host_engine::job::{Cancel, Enqueue};

use super::super::bench::NODE;
use super::*;
use crate::dispatch_loop::Phase;

on_both_stores!(
    draining_answers_who_waits_and_leaves_leases_by_ttl,
    draining_waits_for_leases_held_by_connection,
    after_the_end_nothing_is_promised,
);

const OTHER_NODE: NodeId = NodeId(uuid::Uuid::from_u128(8));

async fn draining_answers_who_waits_and_leaves_leases_by_ttl(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let waiting = worker.asks(&["pulled"], LONG_MS);
    bench.phase.send(Phase::Stopping).unwrap();
    assert_eq!(one(waiting).await, None);
    let ended = timeout(PATIENCE, bench.loop_ended).await.unwrap();
    assert!(ended.unwrap().is_ok());
    let lifecycle = bench.reader.job(id).unwrap().unwrap().lifecycle;
    assert_eq!(lifecycle.state, State::Running);
    assert_eq!(lifecycle.lease.unwrap().id, granted.lease);
}

async fn draining_waits_for_leases_held_by_connection(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", Hold::Connection);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    bench.phase.send(Phase::Stopping).unwrap();
    assert_eq!(worker.ask(&["pulled"], LONG_MS).await, None);
    for _ in 0..3 {
        worker.send(&granted, HEARTBEAT).await.unwrap();
    }
    let late = bench.enqueue(pulled()).await;
    worker.send(&granted, completed()).await.unwrap();
    let ended = timeout(PATIENCE, bench.loop_ended).await.unwrap();
    assert!(ended.unwrap().is_ok());
    let state = |id| bench.reader.state(id).unwrap().unwrap();
    assert_eq!(state(id), State::Completed);
    assert_eq!(state(late), State::Available);
    worker.audit.assert_settled();
}

async fn after_the_end_nothing_is_promised(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    bench.stop().await;
    assert_eq!(worker.ask(&["pulled"], LONG_MS).await, None);
    let refused = worker.send(&granted, completed()).await;
    assert_eq!(refused, Err(LeaseError::Stopping));
    worker.audit.assert_kept();
}

/// A host on a file that a test can kill: it then writes nothing more.
pub(super) struct Killable {
    pub(super) bench: Bench,
    pub(super) disk: Disk,
}

impl Killable {
    pub(super) async fn start(engine: &Engine, node: NodeId) -> Self {
        let disk = Disk::default();
        let store = FailingStore {
            below: engine.store(),
            disk: disk.clone(),
        };
        let bench = Bench::start_as(node, Box::new(store)).await;
        Self { bench, disk }
    }

    pub(super) async fn kill(self) {
        self.disk.break_down();
        let noticed = self.bench.dispatch.submit(Enqueue(vec![pulled()])).await;
        assert!(noticed.is_err());
        let ended = timeout(PATIENCE, self.bench.loop_ended).await.unwrap();
        assert!(ended.unwrap().is_err());
    }
}

#[tokio::test]
async fn leases_by_ttl_go_on_after_a_kill() {
    let engine = Engine::sqlite();
    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", LONG);
    let mut leases = Vec::new();
    for _ in 0..3 {
        host.bench.enqueue(pulled()).await;
        leases.push(worker.lease().await);
    }
    let waiting = worker.asks(&["pulled"], LONG_MS);
    host.kill().await;
    // The host that would answer is gone.
    assert!(timeout(PATIENCE, waiting).await.unwrap().is_err());
    assert_eq!(worker.ask(&["pulled"], LONG_MS).await, None);
    let refused = worker.send(&leases[0], HEARTBEAT).await;
    assert_eq!(refused, Err(LeaseError::Stopping));
    let host = Killable::start(&engine, NODE).await;
    let bench = &host.bench;
    let worker = Worker::of(bench, "w", LONG);
    for granted in &leases {
        worker.audit.adopt(granted, "w");
    }
    let [first, second, third] = &leases[..] else {
        panic!("three leases");
    };
    let standing = worker.send(first, HEARTBEAT).await.unwrap();
    assert!(standing.expires_at >= first.expires_at);
    let standing = worker.send(first, completed()).await.unwrap();
    assert_eq!(standing.state, State::Completed);
    let attempts = bench.attempts(first.job).await;
    assert_eq!((attempts.len(), attempts[0].executor.as_str()), (1, "w"));
    let back = LeaseMessage::GiveBack { begun: false };
    worker.send(second, back).await.unwrap();
    assert_eq!(worker.lease().await.job, second.job);
    // The host cannot call this worker, so its next message gets the cancel, also after a kill.
    let cancel = Cancel {
        job: third.job,
        reason: None,
        grace_ms: Some(LONG_MS),
    };
    bench.dispatch.submit(cancel).await.unwrap();
    host.kill().await;
    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", LONG);
    worker.audit.adopt(third, "w");
    let standing = worker.send(third, HEARTBEAT).await.unwrap();
    assert!(standing.cancel.is_some());
    let stopped = LeaseMessage::CancelAck {
        partial: None,
        message: None,
    };
    let standing = worker.send(third, stopped).await.unwrap();
    assert_eq!(standing.state, State::Cancelled);
    worker.audit.assert_settled();
    host.bench.stop().await;
}

#[tokio::test]
async fn a_worker_that_is_silent_after_a_restart_loses_its_lease() {
    let engine = Engine::sqlite();
    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", SHORT);
    let id = host.bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    host.kill().await;
    let host = Killable::start(&engine, NODE).await;
    let next = Worker::of(&host.bench, "next", LONG);
    let again = next.lease().await;
    assert_eq!((again.job, again.assignment.attempt), (id, 2));
    let late = next
        .insist(id, Fence::Lease(granted.lease), completed())
        .await;
    assert!(
        matches!(late, Err(LeaseError::Over(_) | LeaseError::Unknown)),
        "{late:?}"
    );
    next.send(&again, completed()).await.unwrap();
    next.audit.assert_settled();
    host.bench.stop().await;
}

#[tokio::test]
async fn leases_held_by_connection_end_with_their_node_alone() {
    let engine = Engine::sqlite();
    let host = Killable::start(&engine, NODE).await;
    let by_connection = Worker::of(&host.bench, "c", Hold::Connection);
    let by_ttl = Worker::of(&host.bench, "t", LONG);
    let mut new = pulled();
    new.policy.max_attempts = 1;
    let held = host.bench.enqueue(new).await;
    assert_eq!(by_connection.lease().await.job, held);
    let kept = host.bench.enqueue(pulled()).await;
    let granted = by_ttl.lease().await;
    assert_eq!(granted.job, kept);
    host.kill().await;
    // Another node does not know the connections of this one. It answers for the rest, since this one is dead.
    let other = Killable::start(&engine, OTHER_NODE).await;
    for (id, node) in [(held, NODE), (kept, OTHER_NODE)] {
        let lifecycle = other.bench.read(id).await.lifecycle;
        assert_eq!(lifecycle.state, State::Running);
        assert_eq!(lifecycle.lease.unwrap().node, node);
    }
    let worker = Worker::of(&other.bench, "t", LONG);
    worker.audit.adopt(&granted, "t");
    worker.send(&granted, HEARTBEAT).await.unwrap();
    other.kill().await;
    let host = Killable::start(&engine, NODE).await;
    let lifecycle = host.bench.read(held).await.lifecycle;
    assert_eq!(lifecycle.state, State::Available);
    assert_eq!(lifecycle.attempts_charged(), 0);
    assert_eq!(host.bench.read(kept).await.lifecycle.state, State::Running);
    let again = Worker::of(&host.bench, "c", Hold::Connection);
    assert_eq!(again.lease().await.job, held);
    host.bench.stop().await;
}

#[tokio::test]
async fn a_wire_that_sends_attempts_takes_its_leases_over_after_a_kill() {
    let engine = Engine::sqlite();
    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", LONG);
    let mut new = pulled();
    new.policy.ack_window_ms = Some(LONG_MS);
    new.payload.attributes = vec![("run".to_owned(), "r".to_owned())];
    let mut leases = Vec::new();
    for _ in 0..3 {
        new.id = host_runtime::ids::job(host.bench.clock.now());
        host.bench.enqueue(new.clone()).await;
        leases.push(worker.lease().await);
    }
    let [sent, begun, done] = &leases[..] else {
        panic!("three leases");
    };
    worker.send(begun, LeaseMessage::Ack).await.unwrap();
    worker.send(done, LeaseMessage::Ack).await.unwrap();
    worker.send(done, completed()).await.unwrap();
    // Leases of this life are not resumed.
    assert_eq!(worker.resume("pulled").await, []);
    host.kill().await;

    let host = Killable::start(&engine, NODE).await;
    let worker = Worker::of(&host.bench, "w", LONG);
    assert_eq!(worker.resume("other").await, []);
    let resumed = worker.resume("pulled").await;
    assert_eq!(worker.resume("pulled").await, []);
    let [first, second] = &resumed[..] else {
        panic!("{resumed:?}");
    };
    assert_eq!(first.worker, "w");
    assert_eq!(first.granted.lease, sent.lease);
    assert_eq!(first.granted.ack_by, sent.ack_by);
    assert_eq!(first.granted.assignment, sent.assignment);
    assert_eq!(second.granted.job, begun.job);
    assert_eq!(second.granted.ack_by, None);
    let cancel = Cancel {
        job: sent.job,
        reason: None,
        grace_ms: Some(7),
    };
    host.bench.dispatch.submit(cancel).await.unwrap();
    worker
        .receives(Event::Cancelled(sent.job, sent.lease, 7))
        .await;
    worker
        .receives(Event::Revoked(
            sent.job,
            sent.lease,
            Revocation::NotAcknowledged,
        ))
        .await;
    worker.send(&second.granted, completed()).await.unwrap();
    worker.audit.assert_kept();
    host.bench.stop().await;
}

#[tokio::test]
async fn a_job_is_read_with_its_attempts() {
    let engine = Engine::sqlite();
    let bench = engine.bench().await;
    let stopping = tokio_util::sync::CancellationToken::new();
    let reading = bench
        .leases
        .clone()
        .read_jobs(bench.dispatch.clone(), stopping.clone());
    let worker = Worker::of(&bench, "w", LONG);
    let looking = async {
        let mut new = pulled();
        new.payload.attributes = vec![("run".to_owned(), "r-1".to_owned())];
        let id = bench.enqueue(new).await;
        let granted = worker.lease().await;
        assert_eq!(worker.find("r-1", 1).await, Ok(Some(id)));
        assert_eq!(worker.find("r-1", 2).await, Ok(None));
        assert_eq!(worker.find("r-2", 1).await, Ok(None));
        let kept = worker.look(id).await.unwrap().unwrap();
        assert_eq!(kept.job.lifecycle.lease.unwrap().id, granted.lease);
        assert_eq!(kept.attempts, []);
        worker.send(&granted, completed()).await.unwrap();
        let kept = worker.look(id).await.unwrap().unwrap();
        assert_eq!(kept.job.result.unwrap().as_str(), "[7]");
        assert_eq!(kept.attempts[0].number, 1);
        assert_eq!(worker.find("r-1", 1).await, Ok(Some(id)));
        let unknown = host_core::id::JobId(uuid::Uuid::from_u128(1));
        assert_eq!(worker.look(unknown).await, Ok(None));
        stopping.cancel();
    };
    timeout(PATIENCE, async { tokio::join!(reading, looking) })
        .await
        .unwrap();
    let unknown = host_core::id::JobId(uuid::Uuid::from_u128(1));
    assert_eq!(worker.look(unknown).await, Err(LeaseError::Stopping));
    assert_eq!(worker.find("r-1", 1).await, Err(LeaseError::Stopping));
    bench.stop().await;
}
