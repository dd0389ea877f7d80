//! Two nodes with one store: the messages of one runner may reach either.

use std::collections::BTreeMap;

use host_core::failure::FailureKind;
use host_core::job::State;
use serde_json::json;
use tokio::join;
use tokio::task::yield_now;

use super::fixture::{Host, TIMES};

/// The workers that hold leases, as a node counts them for itself.
fn busy(host: &Host) -> BTreeMap<String, usize> {
    host.pools.workers(&"ci".parse().unwrap())
}

#[tokio::test]
async fn a_lease_is_counted_at_the_node_that_granted_it() {
    let [granting, other] = Host::pair();
    granting.enqueue_long();
    let lease = granting.lease("w1").await;
    granting.ack(&lease, "w1").await.is(200);
    for _ in 0..4 {
        other.heartbeat(&lease, "w1").await.is(200);
        granting.model.advance(TIMES.lease_ttl * 999);
    }
    let expected = BTreeMap::from([("ci/w1".to_owned(), 1)]);
    assert_eq!(busy(&granting), expected);
    assert_eq!(busy(&other), BTreeMap::new(), "it is counted once");
    granting.complete(&lease, "w1", "SUCCEEDED").await.is(200);
    assert_eq!(busy(&granting), BTreeMap::new());
    other
        .heartbeat(&lease, "w1")
        .await
        .stale(&lease, "LEASE_REVOKED");
}

/// Whichever message is the first that a host learns of a lease, the time limit of its job holds.
#[tokio::test]
async fn a_time_limit_holds_after_a_restart_and_at_other_nodes() {
    for is_restarted in [true, false] {
        for first in ["ack-lease", "heartbeat", "logs"] {
            let [granting, other] = Host::pair();
            let job = granting.enqueue();
            let lease = granting.lease("w1").await;
            granting.ack(&lease, "w1").await.is(200);
            // 30 s are the limit, 30 s the runner had to acknowledge, and 30 s to stop.
            granting.model.advance(89_000);
            let host = if is_restarted {
                granting.again()
            } else {
                other
            };
            if first == "ack-lease" {
                host.ack(&lease, "w1").await.is(200);
            }
            if first == "logs" {
                host.log(&lease, "w1", 0, "a\n").await.is(200);
            }
            let beat = json!({"lease_id": lease, "runner_id": "w1", "wait_seconds": 60});
            let ends = async {
                while host.model.waiting_heartbeats() == 0 {
                    yield_now().await;
                }
                host.model.advance(1_000);
            };
            let (answer, ()) = join!(host.post("heartbeat", beat.to_string()), ends);
            answer.stale(&lease, "LEASE_REVOKED");
            assert_eq!(host.model.state(job), State::Retryable, "{first}");
            let kind = host
                .model
                .look(job, |job| job.failure.as_ref().map(|it| it.kind));
            assert_eq!(kind, Some(FailureKind::TimedOut), "{first}");
        }
    }
}
