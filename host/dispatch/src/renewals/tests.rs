//! Leases in memory, with times of the test.

use host_core::command::NewJob;
use host_core::id::NodeId;
use host_core::policy::Policy;

use super::*;
use crate::dispatch_loop::tests::bench;

const NOW: Time = Time(1_800_000_000_000);

/// Renewals of these leases are stored after a second.
const TTL: Hold = Hold::Ttl { ttl_ms: 8_000 };

fn at(ms: u64) -> Time {
    NOW.plus_ms(ms)
}

fn running(hold: Hold, policy: Policy) -> Lifecycle {
    let new = NewJob {
        runner: Some("pulled".parse().unwrap()),
        policy,
        ..bench::job("work")
    };
    let mut job = Lifecycle::accept(NOW, &new, 0);
    let claim = Input::Claim {
        node: NodeId::NIL,
        lease: host_runtime::ids::lease(),
        worker: "w",
        hold,
    };
    job.apply(NOW, &claim).unwrap();
    job
}

fn lease(job: &Lifecycle) -> LeaseId {
    job.lease.as_ref().unwrap().id
}

fn fence(job: &Lifecycle) -> Fence {
    Fence::Lease(lease(job))
}

/// A table that knows a job that began at [`NOW`].
fn knowing(job: &Lifecycle) -> Renewals {
    let renewals = Renewals::new(RENEWAL_MS_MAX);
    renewals.know(NOW, job);
    renewals
}

fn beat(renewals: &Renewals, job: &Lifecycle, ms: u64) -> Option<HeartbeatOutcome> {
    renewals.heartbeat(|| at(ms), job.id, &fence(job), |_, _| {})
}

/// Takes what is to be stored, and stores it.
fn store(renewals: &Renewals, job: &mut Lifecycle, ms: u64) -> Vec<u64> {
    let taken = renewals.take(at(ms));
    let fence = fence(job);
    for renewal in &taken {
        assert_eq!((renewal.job, renewal.lease), (job.id, lease(job)));
        job.apply(at(ms), &Input::Renew(&fence, renewal.until))
            .unwrap();
        renewals.know(at(ms), job);
    }
    let ends = taken.iter().map(|renewal| renewal.until.since_ms(NOW));
    ends.collect()
}

#[test]
fn heartbeats_are_stored_together_after_a_part_of_the_ttl() {
    let mut job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    let first = beat(&renewals, &job, 100).unwrap();
    assert!(first.is_due_earlier);
    assert_eq!(first.standing.expires_at, Some(at(8_100)));
    assert_eq!(renewals.due(), Some(at(1_100)));
    let second = beat(&renewals, &job, 900).unwrap();
    assert!(!second.is_due_earlier);
    assert_eq!(second.standing.expires_at, Some(at(8_900)));
    assert_eq!(store(&renewals, &mut job, 1_099), [0; 0]);
    assert_eq!(store(&renewals, &mut job, 1_100), [8_900]);
    assert_eq!(renewals.due(), None);
    assert_eq!(store(&renewals, &mut job, 100_000), [0; 0]);
}

#[test]
fn a_heartbeat_while_a_batch_is_stored_waits_for_the_next() {
    let mut job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    beat(&renewals, &job, 100).unwrap();
    let taken = renewals.take(at(1_100));
    beat(&renewals, &job, 1_105).unwrap();
    let fence = fence(&job);
    job.apply(at(1_110), &Input::Renew(&fence, taken[0].until))
        .unwrap();
    renewals.know(at(1_110), &job);
    assert_eq!(renewals.due(), Some(at(2_105)));
    assert_eq!(store(&renewals, &mut job, 2_105), [9_105]);
}

#[test]
fn no_stored_end_passes_while_a_later_one_was_promised() {
    let mut job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    beat(&renewals, &job, 7_999).unwrap();
    assert_eq!(renewals.due(), Some(at(8_999)));
    assert_eq!(renewals.take(at(7_999)), []);
    // Also again, if the batch with it failed.
    assert_eq!(renewals.take(at(8_000)).len(), 1);
    assert_eq!(store(&renewals, &mut job, 8_001), [15_999]);
    assert_eq!(store(&renewals, &mut job, 15_998), [0; 0]);
}

#[test]
fn a_lease_that_has_run_out_stays_so() {
    let job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    beat(&renewals, &job, 10).unwrap();
    assert_eq!(beat(&renewals, &job, 8_010), None);
    assert_eq!(renewals.take(at(8_010))[0].until, at(8_010));
}

#[test]
fn what_the_rules_refuse_is_not_answered_here() {
    let job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    let noted = |_, _| panic!("nothing is to be noted");
    for fence in [
        Fence::Lease(host_runtime::ids::lease()),
        Fence::Attempt(2),
        Fence::Worker("other".to_owned()),
    ] {
        let answer = renewals.heartbeat(|| at(1), job.id, &fence, noted);
        assert_eq!(answer, None);
    }
    let unknown = running(TTL, Policy::default());
    assert_eq!(beat(&renewals, &unknown, 1), None);
    let window = Policy {
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    let unacknowledged = running(TTL, window);
    renewals.know(NOW, &unacknowledged);
    assert_eq!(beat(&renewals, &unacknowledged, 1), None);
    assert_eq!(renewals.due(), None);
    renewals.forget(job.id);
    assert_eq!(beat(&renewals, &job, 1), None);
}

#[test]
fn a_cancel_that_is_stored_is_told_and_takes_no_renewal_back() {
    let mut job = running(TTL, Policy::default());
    let renewals = knowing(&job);
    let attempts = std::cell::Cell::new(0);
    let fence = fence(&job);
    renewals
        .heartbeat(
            || at(500),
            job.id,
            &fence,
            |_, attempt| attempts.set(attempt),
        )
        .unwrap();
    assert_eq!(attempts.get(), 1);
    let cancel = Input::Cancel {
        reason: Some("enough"),
        grace_ms: None,
    };
    job.apply(at(600), &cancel).unwrap();
    renewals.know(at(600), &job);
    assert_eq!(renewals.take(at(8_000))[0].until, at(8_500));
    let beaten = beat(&renewals, &job, 700).unwrap();
    assert!(beaten.standing.cancel.is_some());
}

#[test]
fn a_lease_held_by_connection_has_nothing_to_store() {
    let job = running(Hold::Connection, Policy::default());
    let renewals = knowing(&job);
    let beaten = beat(&renewals, &job, 100_000).unwrap();
    assert_eq!(
        (beaten.standing.expires_at, beaten.is_due_earlier),
        (None, false)
    );
    assert_eq!((renewals.due(), renewals.take(at(200_000))), (None, vec![]));
}

#[test]
fn many_renewals_are_stored_in_several_batches() {
    let renewals = Renewals::new(RENEWAL_MS_MAX);
    let jobs: Vec<_> = (0..BATCH_MAX + 10)
        .map(|_| running(TTL, Policy::default()))
        .collect();
    for job in &jobs {
        renewals.know(NOW, job);
        beat(&renewals, job, 5).unwrap();
    }
    let now = at(1_005);
    for expected in [BATCH_MAX, 10] {
        let taken = renewals.take(now);
        assert_eq!(taken.len(), expected);
        for renewal in taken {
            let job = jobs.iter().find(|job| job.id == renewal.job).unwrap();
            let mut job = job.clone();
            let fence = fence(&job);
            job.apply(now, &Input::Renew(&fence, renewal.until))
                .unwrap();
            renewals.know(now, &job);
        }
    }
    assert_eq!(renewals.due(), None);
    // Those whose stored end has passed are stored at once, however many.
    for job in &jobs {
        beat(&renewals, job, 8_004).unwrap();
    }
    assert_eq!(renewals.take(at(8_005)).len(), jobs.len());
    renewals.close();
    assert_eq!((renewals.due(), renewals.take(at(9_000))), (None, vec![]));
}
