//! Messages that reach a node that did not grant the lease: their fence does not name the holder.

use host_core::id::LeaseId;
use host_engine::lease;
use host_engine::lease::Claim;

use super::*;

/// The fence of a node that has not granted the lease.
fn remote(fence: Fence) -> Fence {
    Fence::Remote(Box::new(fence))
}

fn held_by(lease: LeaseId, worker: &str) -> Fence {
    remote(Fence::Holder(lease, worker.to_owned()))
}

/// The parts of a fence that a worker may present on its wire.
fn ways() -> [Fence; 4] {
    [
        Fence::Lease(lease(1)),
        Fence::Attempt(1),
        Fence::Worker("worker-1".to_owned()),
        Fence::Holder(lease(1), "worker-1".to_owned()),
    ]
}

#[test]
fn any_node_accepts_the_holders_messages() {
    for fence in ways() {
        check(|store| {
            start(store, ack_window());
            let fence = remote(fence.clone());
            moved(store, at(10), ack(fence.clone()));
            let beaten = moved(store, at(20), heartbeat(fence.clone()));
            assert_eq!(beaten.lease.unwrap().expires_at, Some(at(TTL_MS + 20)));
            let job = moved(store, at(TTL_MS), complete_as(fence.clone()));
            assert_eq!(job.state, State::Completed);
            let again = refused(store, at(TTL_MS), complete_as(fence.clone()));
            assert_eq!(again, Rejection::Lease(LeaseRefusal::Stale));
        });
    }
}

#[test]
fn who_does_not_hold_the_lease_is_refused() {
    let others = [
        remote(Fence::Lease(lease(2))),
        remote(Fence::Attempt(2)),
        remote(Fence::Worker("worker-2".to_owned())),
        held_by(lease(2), "worker-1"),
        held_by(lease(1), "worker-2"),
        // Remote fences do not nest.
        remote(remote(current())),
    ];
    check(|store| {
        start(store, Policy::default());
        for fence in &others {
            for command in [heartbeat, complete_as, give_back] {
                let rejection = refused(store, at(10), command(fence.clone()));
                assert_eq!(
                    rejection,
                    Rejection::Lease(LeaseRefusal::Stale),
                    "{fence:?}"
                );
            }
        }
    });
}

#[test]
fn a_lease_that_is_over_is_over_at_every_node() {
    for fence in ways() {
        check(|store| {
            start(store, Policy::default());
            let fence = remote(fence.clone());
            let late = refused(store, at(TTL_MS), heartbeat(fence.clone()));
            assert_eq!(late, Rejection::Lease(LeaseRefusal::Expired));
            let late = refused(store, at(TTL_MS), complete_as(fence.clone()));
            assert_eq!(late, Rejection::Lease(LeaseRefusal::Expired));
            assert_eq!(tick(store, at(TTL_MS)).0, [revoke(Revocation::Expired)]);
            let late = refused(store, at(TTL_MS), complete_as(fence));
            assert_eq!(late, Rejection::Lease(LeaseRefusal::Stale));
        });
    }
}

/// Cells and connections report only through their own node.
#[test]
fn no_lease_of_a_connection_is_met() {
    for fence in ways() {
        check(|store| {
            enqueue(store, vec![job(1)]);
            let mut claim = claim_by_ttl(NODE, [1]);
            if let Command::Lease(lease::Command::Claim(Claim { slots, .. })) = &mut claim {
                for slot in slots {
                    slot.hold = Hold::Connection;
                }
            }
            claimed(store, NOW, claim);
            let refusal = refused(store, at(10), complete_as(remote(fence.clone())));
            assert_eq!(refusal, Rejection::Lease(LeaseRefusal::Stale));
            let job = moved(store, at(10), complete_as(fence.clone()));
            assert_eq!(job.state, State::Completed);
        });
    }
}
