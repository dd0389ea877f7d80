//! What the host remembers of leases: ends that are repeated, heartbeats that wait, and who waits for an end.

use host_core::failure::{Failure, FailureKind};
use host_core::job::State;
use host_core::port::lease::EndCause;
use host_engine::job::Cancel;

use super::*;
use crate::dispatch_loop::Phase;

on_both_stores!(
    the_same_end_again_is_accepted_and_another_is_not,
    ends_that_arrive_together_count_once,
    a_heartbeat_waits_for_a_cancel,
    a_heartbeat_waits_for_the_end_of_its_lease,
    a_heartbeat_waits_until_its_time_or_the_host_stops,
    a_lease_has_so_many_heartbeats,
    the_worker_of_a_lease_is_known,
);

const WAITING: LeaseMessage = LeaseMessage::Heartbeat {
    progress: None,
    wait_ms: LONG_MS,
};

fn failed() -> LeaseMessage {
    ended(Outcome::Failed(Failure::new(FailureKind::UserError, "no")))
}

impl Worker {
    /// Sends a message and returns the receiver of the answer.
    fn begin(
        &self,
        of: &GrantedLease,
        message: LeaseMessage,
    ) -> oneshot::Receiver<Result<Standing, LeaseError>> {
        let (respond, answer) = respond();
        let fence = Fence::Holder(of.lease, self.name.clone());
        self.audit.send(of.job, fence, message, respond);
        answer
    }
}

fn has_ended_with(answer: &Result<Standing, LeaseError>, outcome: &str) -> bool {
    let Err(LeaseError::Over(end)) = answer else {
        return false;
    };
    let attempt = end.attempt.as_ref();
    end.cause == EndCause::Reported && attempt.is_some_and(|it| it.outcome == outcome)
}

async fn the_same_end_again_is_accepted_and_another_is_not(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    worker.send(&granted, completed()).await.unwrap();
    for fence in [
        Fence::Lease(granted.lease),
        Fence::Attempt(1),
        Fence::Holder(granted.lease, "w".to_owned()),
    ] {
        let again = worker.insist(id, fence.clone(), completed()).await.unwrap();
        assert!(again.is_repeated && again.state == State::Completed);
        for late in [failed(), HEARTBEAT] {
            let late = worker.insist(id, fence.clone(), late).await;
            assert!(has_ended_with(&late, "completed"), "{late:?}");
        }
    }
    let theirs = Fence::Holder(granted.lease, "thief".to_owned());
    let refused = worker.insist(id, theirs, completed()).await;
    assert_eq!(refused, Err(LeaseError::Unknown));
    bench.stop().await;
}

async fn ends_that_arrive_together_count_once(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let ends = [failed(), failed(), completed()].map(|end| worker.begin(&granted, end));
    let [first, same, other] = ends.map(answered);
    let (first, same, other) = tokio::join!(first, same, other);
    assert!(!first.unwrap().is_repeated);
    assert!(same.unwrap().is_repeated);
    assert!(has_ended_with(&other, "failed"), "{other:?}");
    bench.stop().await;
}

async fn a_heartbeat_waits_for_a_cancel(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    // The store answers the first heartbeat of a lease, memory the next.
    for is_known in [false, true] {
        let id = bench.enqueue(pulled()).await;
        let granted = worker.lease().await;
        if is_known {
            worker.send(&granted, HEARTBEAT).await.unwrap();
        }
        let mut waiting = worker.begin(&granted, WAITING);
        worker.send(&granted, HEARTBEAT).await.unwrap();
        assert!(waiting.try_recv().is_err(), "it waits");
        let cancel = Cancel {
            job: id,
            reason: None,
            grace_ms: Some(LONG_MS),
        };
        bench.dispatch.submit(cancel).await.unwrap();
        let standing = answered(waiting).await.unwrap();
        assert!(standing.cancel.is_some());
        // One that comes later does not wait.
        let standing = answered(worker.begin(&granted, WAITING)).await.unwrap();
        assert!(standing.cancel.is_some());
    }
    bench.stop().await;
}

async fn a_heartbeat_waits_for_the_end_of_its_lease(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let waiting = worker.begin(&granted, WAITING);
    let (respond, over) = respond();
    worker.leases.await_end(granted.lease, respond);
    worker.send(&granted, completed()).await.unwrap();
    let late = answered(waiting).await;
    assert!(has_ended_with(&late, "completed"), "{late:?}");
    assert_eq!(answered(over).await, EndCause::Reported);
    let (respond, over) = host_runtime::mailbox::respond();
    worker.leases.await_end(granted.lease, respond);
    assert_eq!(answered(over).await, EndCause::Reported, "also later");
    bench.stop().await;
}

async fn a_heartbeat_waits_until_its_time_or_the_host_stops(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let short = LeaseMessage::Heartbeat {
        progress: None,
        wait_ms: SHORT_MS,
    };
    assert!(answered(worker.begin(&granted, short)).await.is_ok());
    let waiting = worker.begin(&granted, WAITING);
    worker.send(&granted, HEARTBEAT).await.unwrap();
    bench.phase.send_replace(Phase::Stopping);
    let answer = answered(waiting).await;
    assert!(
        matches!(answer, Ok(_) | Err(LeaseError::Stopping)),
        "{answer:?}"
    );
}

async fn a_lease_has_so_many_heartbeats(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    let answers = [(); 100].map(|()| worker.begin(&granted, HEARTBEAT));
    let (mut accepted, mut refused) = (0, 0);
    for answer in answers {
        match answered(answer).await {
            Ok(_) => accepted += 1,
            Err(LeaseError::TooManyHeartbeats) => refused += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(accepted >= 30 && refused > 0, "{accepted} {refused}");
    worker.send(&granted, completed()).await.unwrap();
    bench.stop().await;
}

async fn the_worker_of_a_lease_is_known(engine: Engine) {
    let bench = engine.bench().await;
    let worker = Worker::of(&bench, "w", LONG);
    let id = bench.enqueue(pulled()).await;
    let granted = worker.lease().await;
    assert_eq!(bench.leases.workers("w"), [("w".to_owned(), 1)].into());
    assert_eq!(bench.leases.workers("v"), [].into());
    let find = async |lease| {
        let (respond, answer) = respond();
        worker.leases.find_worker(id, lease, respond);
        answered(answer).await
    };
    assert_eq!(find(granted.lease).await, Ok(Some("w".to_owned())));
    let unknown = LeaseId(uuid::Uuid::from_u128(9));
    assert_eq!(find(unknown).await, Ok(None));
    worker.send(&granted, completed()).await.unwrap();
    assert_eq!(
        find(granted.lease).await,
        Ok(Some("w".to_owned())),
        "also later"
    );
    assert_eq!(bench.leases.workers(""), [].into());
    bench.stop().await;
}
