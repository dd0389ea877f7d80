//! Leases: acknowledgement, fences, giving back, and the answer to a cancel.

use super::fixture::{LEASE, NODE, NOW, TTL, claim, running};
use crate::failure::FailureKind;
use crate::id::NodeId;
use crate::job::{Lifecycle, State};
use crate::lease::{Fence, Hold, Revocation};
use crate::outcome::Outcome;
use crate::policy::Policy;
use crate::transition::{ACK_TIMEOUT, Effect, HEARTBEAT_TIMEOUT, Input, Loss, Refusal};

const FENCE: Fence = Fence::Lease(LEASE);
const RETURNED: Outcome = Outcome::Completed { result: None };

fn cancel(job: &mut Lifecycle) {
    let input = Input::Cancel {
        reason: None,
        grace_ms: None,
    };
    job.apply(NOW, &input).unwrap();
}

#[test]
fn a_lease_by_ttl_may_be_given_back_until_it_expires() {
    let policy = Policy {
        lost_lease_costs_attempt: true,
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    let give_back = Input::Lose(&FENCE, Loss::NotBegun);
    let mut in_time = running(policy.clone(), TTL);
    in_time.apply(NOW.plus_ms(999), &give_back).unwrap();
    assert_eq!(in_time.state, State::Available);
    assert_eq!(in_time.attempts_charged(), 0);
    let mut late = running(policy, TTL);
    let refused = late.apply(NOW.plus_ms(1_000), &give_back);
    assert_eq!(refused, Err(Refusal::Expired));
    late.apply(NOW.plus_ms(1_000), &Input::Tick).unwrap();
    assert_eq!((late.state, late.attempts_charged()), (State::Available, 1));
}

/// Its worker has sent the acknowledgement to another node.
#[test]
fn an_acknowledged_lease_is_not_given_back_as_one_that_has_not_begun() {
    let policy = Policy {
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    let mut job = running(policy, TTL);
    job.apply(NOW, &Input::Ack(&FENCE)).unwrap();
    let refused = job.apply(NOW, &Input::Lose(&FENCE, Loss::NotBegun));
    assert_eq!(refused, Err(Refusal::WrongState(State::Running)));
    assert!(job.lease.is_some());
    job.apply(NOW, &Input::Lose(&FENCE, Loss::WorkerGone))
        .unwrap();
    assert_eq!(job.state, State::Available);
}

#[test]
fn a_worker_may_say_that_it_has_stopped_once_it_is_asked_to() {
    for hold in [Hold::Connection, TTL] {
        let mut job = running(Policy::default(), hold);
        let unasked = job.apply(NOW, &Input::CancelAck(&FENCE));
        assert_eq!(unasked, Err(Refusal::CancelNotRequested));
        cancel(&mut job);
        let old = Fence::Attempt(0);
        let stale = job.apply(NOW, &Input::CancelAck(&old));
        assert_eq!(stale, Err(Refusal::Stale));
        let effects = job.apply(NOW, &Input::CancelAck(&FENCE)).unwrap();
        assert_eq!(effects, []);
        assert_eq!(job.state, State::Cancelled);
        assert_eq!(job.failure, Some(FailureKind::Cancelled));
        let again = job.apply(NOW, &Input::CancelAck(&FENCE));
        assert_eq!(again, Err(Refusal::Stale));
    }
}

#[test]
fn the_grace_of_a_worker_that_has_received_a_cancel_only_gets_shorter() {
    let mut job = running(Policy::default(), TTL);
    let unasked = job.apply(NOW, &Input::CancelReceived(&FENCE, 1_000));
    assert_eq!(unasked, Err(Refusal::CancelNotRequested));
    cancel(&mut job);
    let end = |job: &Lifecycle| job.cancel.as_ref().unwrap().grace_ends_at.unwrap();
    let full = end(&job);
    for (grace_ms, expected) in [
        (3_600_000, full),
        (1_000, NOW.plus_ms(1_000)),
        (2_000, NOW.plus_ms(1_000)),
    ] {
        let effects = job.apply(NOW, &Input::CancelReceived(&FENCE, grace_ms));
        assert_eq!((effects, end(&job)), (Ok(Vec::new()), expected));
    }
    let stale = job.apply(NOW, &Input::CancelReceived(&Fence::Attempt(0), 1));
    assert_eq!(stale, Err(Refusal::Stale));
    job.apply(NOW.plus_ms(1_000), &Input::Tick).unwrap();
    assert!(job.state.is_terminal());
}

#[test]
fn a_worker_that_stops_at_once_need_not_acknowledge_its_lease() {
    let mut job = running(
        Policy {
            ack_window_ms: Some(1_000),
            ..Policy::default()
        },
        TTL,
    );
    cancel(&mut job);
    job.apply(NOW, &Input::CancelAck(&FENCE)).unwrap();
    assert_eq!(job.state, State::Cancelled);
}

#[test]
fn a_lease_that_ran_out_names_what_did_not_come() {
    let window = Policy {
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    for (policy, acknowledges, code) in [
        (window.clone(), false, ACK_TIMEOUT),
        (window, true, HEARTBEAT_TIMEOUT),
        (Policy::default(), false, HEARTBEAT_TIMEOUT),
    ] {
        let mut job = running(policy, TTL);
        if acknowledges {
            job.apply(NOW, &Input::Ack(&FENCE)).unwrap();
        }
        let effects = job.apply(job.wakeup().unwrap(), &Input::Tick).unwrap();
        let lost = effects.iter().find_map(|effect| match effect {
            Effect::AttemptLost { failure } => Some(failure),
            _ => None,
        });
        let failure = lost.unwrap();
        assert_eq!(failure.kind, FailureKind::LeaseLost);
        assert_eq!(failure.code.as_deref(), Some(code));
        assert!(failure.message.starts_with(code), "{}", failure.message);
    }
}

#[test]
fn a_lease_ends_with_its_node_only_if_a_connection_holds_it() {
    let lease = |hold| running(Policy::default(), hold).lease.unwrap();
    let other = NodeId(uuid::Uuid::from_u128(60));
    assert!(lease(Hold::Connection).ends_with(NODE));
    assert!(!lease(Hold::Connection).ends_with(other));
    assert!(!lease(TTL).ends_with(NODE));
    let mut unnamed = lease(Hold::Connection);
    unnamed.node = NodeId::NIL;
    assert!(unnamed.ends_with(NODE) && unnamed.ends_with(other));
}

#[test]
fn a_lease_must_be_acknowledged_in_its_window() {
    let policy = Policy {
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    let mut job = running(policy.clone(), TTL);
    let heartbeat = job.apply(NOW, &Input::Heartbeat(&FENCE));
    assert_eq!(heartbeat, Err(Refusal::NotAcknowledged));
    let complete = job.apply(NOW, &Input::Complete(&FENCE, &RETURNED));
    assert_eq!(complete, Err(Refusal::NotAcknowledged));
    job.apply(NOW, &Input::Ack(&FENCE)).unwrap();
    job.apply(NOW.plus_ms(2_000), &Input::Heartbeat(&FENCE))
        .unwrap();

    let mut slow = running(policy.clone(), TTL);
    let end = |job: &Lifecycle| job.lease.as_ref().unwrap().expires_at.unwrap();
    let granted_until = end(&slow);
    slow.apply(NOW.plus_ms(900), &Input::Ack(&FENCE)).unwrap();
    assert_eq!(end(&slow), granted_until.plus_ms(900));
    slow.apply(NOW.plus_ms(950), &Input::Ack(&FENCE)).unwrap();
    assert_eq!(end(&slow), granted_until.plus_ms(900));
    let lease = slow.lease.unwrap();
    assert_eq!(lease.last_heartbeat_at(), Some(NOW.plus_ms(900)));

    let mut late = running(policy, TTL);
    let ack = late.apply(NOW.plus_ms(1_000), &Input::Ack(&FENCE));
    assert_eq!(ack, Err(Refusal::Expired));
    late.apply(NOW.plus_ms(1_000), &Input::Tick).unwrap();
    assert_eq!(late.state, State::Available);
}

#[test]
fn each_fence_names_the_current_attempt_only() {
    let current = [
        FENCE,
        Fence::Attempt(1),
        Fence::Worker("cell-1".to_owned()),
        Fence::Holder(LEASE, "cell-1".to_owned()),
    ];
    let old = [
        Fence::Lease(super::fixture::OTHER_LEASE),
        Fence::Attempt(0),
        Fence::Attempt(2),
        Fence::Worker("cell-2".to_owned()),
        Fence::Holder(LEASE, "cell-2".to_owned()),
        Fence::Holder(super::fixture::OTHER_LEASE, "cell-1".to_owned()),
    ];
    for fence in &current {
        let mut job = running(Policy::default(), TTL);
        assert!(job.apply(NOW, &Input::Complete(fence, &RETURNED)).is_ok());
    }
    for fence in &old {
        let mut job = running(Policy::default(), TTL);
        let before = job.clone();
        let refused = job.apply(NOW, &Input::Complete(fence, &RETURNED));
        assert_eq!(refused, Err(Refusal::Stale), "{fence:?}");
        assert_eq!(job, before);
    }
}

/// A job whose worker has a second, and as long again to report.
fn limited(ack_window_ms: Option<u64>, hold: Hold) -> Lifecycle {
    let policy = Policy {
        timeout_ms: Some(1_000),
        report_ms: Some(1_000),
        ack_window_ms,
        ..Policy::default()
    };
    running(policy, hold)
}

#[test]
fn heartbeats_keep_no_attempt_alive_whose_time_is_over() {
    let mut job = limited(None, TTL);
    job.apply(NOW.plus_ms(1_999), &Input::Heartbeat(&FENCE))
        .unwrap();
    assert_eq!(job.wakeup(), Some(NOW.plus_ms(2_000)));
    assert_eq!(job.apply(NOW.plus_ms(1_999), &Input::Tick), Ok(Vec::new()));
    let effects = job.apply(NOW.plus_ms(2_000), &Input::Tick).unwrap();
    let [Effect::Revoke { why, .. }, Effect::AttemptLost { failure }] = &effects[..] else {
        panic!("{effects:?}");
    };
    assert_eq!(
        (*why, failure.kind, job.state, job.attempts_charged()),
        (
            Revocation::TimedOut,
            FailureKind::TimedOut,
            State::Retryable,
            1
        )
    );
}

#[test]
fn only_an_acknowledged_lease_by_ttl_without_a_cancel_ends_so() {
    let end = |job: &Lifecycle| job.ends_by().map(|end| end.since_ms(NOW));
    assert_eq!(end(&limited(None, Hold::Connection)), None);
    let mut job = limited(Some(5_000), TTL);
    assert_eq!(end(&job), None);
    job.apply(NOW, &Input::Ack(&FENCE)).unwrap();
    assert_eq!(end(&job), Some(2_000));
    cancel(&mut job);
    assert_eq!(end(&job), None);
    let mut silent = limited(None, Hold::Ttl { ttl_ms: 1_500 });
    silent.apply(NOW.plus_ms(2_000), &Input::Tick).unwrap();
    assert_eq!(silent.failure, Some(FailureKind::LeaseLost));
}

#[test]
fn a_worker_that_the_host_could_not_hear_may_report_later() {
    for (host_was_away, expected) in [(false, 2_000), (true, 9_000)] {
        let mut job = limited(None, TTL);
        let renew = Input::Renew {
            fence: &FENCE,
            until: NOW.plus_ms(9_000),
            host_was_away,
        };
        job.apply(NOW, &renew).unwrap();
        assert_eq!(job.ends_by(), Some(NOW.plus_ms(expected)));
    }
}

#[test]
fn an_attempt_has_no_more_time_than_its_job() {
    let mut job = limited(None, TTL);
    job.lease = None;
    job.state = State::Available;
    job.deadline = Some(NOW.plus_ms(400));
    claim(&mut job, NOW, TTL);
    assert_eq!(job.ends_by(), Some(NOW.plus_ms(1_400)));
}
