//! Leases in memory, with times of the test.

use host_core::id::NodeId;
use host_core::job::NewJob;
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
        executor: Some("pulled".parse().unwrap()),
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

const fn renewed(fence: &Fence, until: Time) -> Input<'_> {
    Input::Renew {
        fence,
        until,
        host_was_away: false,
    }
}

fn fence(job: &Lifecycle) -> Fence {
    Fence::Lease(lease(job))
}

/// A table with a job that began at [`NOW`].
fn knowing(job: &Lifecycle) -> LeaseTable {
    let table = LeaseTable::new(RENEWAL_MS_MAX);
    add(&table, job);
    table
}

fn add(table: &LeaseTable, job: &Lifecycle) {
    let lease = job.lease.clone().unwrap();
    let held = HeldLease {
        lease: lease.id,
        attempt: job.attempt,
        worker: lease.worker,
        executor: job.executor.clone(),
        handler: job.handler.clone(),
        hold: lease.hold,
        granted_at: lease.granted_at,
        is_restored: false,
        events: None,
    };
    table.hold(job.id, held);
    table.record_stored(NOW, job);
}

fn beat(table: &LeaseTable, job: &Lifecycle, ms: u64) -> Option<HeartbeatOutcome> {
    table.heartbeat(|| at(ms), job.id, &fence(job), |_, _| {})
}

/// Takes what is to be stored, and stores it.
fn store(table: &LeaseTable, job: &mut Lifecycle, ms: u64) -> Vec<u64> {
    let taken = table.take_renewals(at(ms), &[]).now;
    let fence = fence(job);
    for renewal in &taken {
        assert_eq!((renewal.job, renewal.lease), (job.id, lease(job)));
        job.apply(at(ms), &renewed(&fence, renewal.until)).unwrap();
        table.record_stored(at(ms), job);
    }
    let ends = taken.iter().map(|renewal| renewal.until.since_ms(NOW));
    ends.collect()
}

#[test]
fn heartbeats_are_stored_together_after_a_part_of_the_ttl() {
    let mut job = running(TTL, Policy::default());
    let table = knowing(&job);
    let first = beat(&table, &job, 100).unwrap();
    assert!(first.is_due_earlier);
    assert_eq!(first.standing.expires_at, Some(at(8_100)));
    assert_eq!(table.renewals_due(), Some(at(1_100)));
    let second = beat(&table, &job, 900).unwrap();
    assert!(!second.is_due_earlier);
    assert_eq!(second.standing.expires_at, Some(at(8_900)));
    assert_eq!(store(&table, &mut job, 1_099), [0; 0]);
    assert_eq!(store(&table, &mut job, 1_100), [8_900]);
    assert_eq!(table.renewals_due(), None);
    assert_eq!(store(&table, &mut job, 100_000), [0; 0]);
}

#[test]
fn a_heartbeat_while_a_batch_is_stored_waits_for_the_next() {
    let mut job = running(TTL, Policy::default());
    let table = knowing(&job);
    beat(&table, &job, 100).unwrap();
    let taken = table.take_renewals(at(1_100), &[]).now;
    beat(&table, &job, 1_105).unwrap();
    let fence = fence(&job);
    job.apply(at(1_110), &renewed(&fence, taken[0].until))
        .unwrap();
    table.record_stored(at(1_110), &job);
    assert_eq!(table.renewals_due(), Some(at(2_105)));
    assert_eq!(store(&table, &mut job, 2_105), [9_105]);
}

#[test]
fn no_stored_end_passes_while_a_later_one_was_promised() {
    let mut job = running(TTL, Policy::default());
    let table = knowing(&job);
    beat(&table, &job, 7_999).unwrap();
    assert_eq!(table.renewals_due(), Some(at(8_999)));
    assert_eq!(table.take_renewals(at(7_999), &[]).now, []);
    // Also again, if the batch with it failed.
    assert_eq!(table.take_renewals(at(8_000), &[]).now.len(), 1);
    assert_eq!(store(&table, &mut job, 8_001), [15_999]);
    assert_eq!(store(&table, &mut job, 15_998), [0; 0]);
}

#[test]
fn a_lease_that_has_run_out_stays_so() {
    let job = running(TTL, Policy::default());
    let table = knowing(&job);
    beat(&table, &job, 10).unwrap();
    assert_eq!(beat(&table, &job, 8_010), None);
    assert_eq!(table.take_renewals(at(8_010), &[]).now[0].until, at(8_010));
}

#[test]
fn what_the_rules_refuse_is_not_answered_here() {
    let job = running(TTL, Policy::default());
    let table = knowing(&job);
    let noted = |_, _| panic!("nothing is to be noted");
    for fence in [
        Fence::Lease(host_runtime::ids::lease()),
        Fence::Attempt(2),
        Fence::Worker("other".to_owned()),
    ] {
        let answer = table.heartbeat(|| at(1), job.id, &fence, noted);
        assert_eq!(answer, None);
    }
    let unknown = running(TTL, Policy::default());
    assert_eq!(beat(&table, &unknown, 1), None);
    let window = Policy {
        ack_window_ms: Some(1_000),
        ..Policy::default()
    };
    let unacknowledged = running(TTL, window);
    add(&table, &unacknowledged);
    assert_eq!(beat(&table, &unacknowledged, 1), None);
    assert_eq!(table.renewals_due(), None);
    table.forget(job.id);
    assert_eq!(beat(&table, &job, 1), None);
}

#[test]
fn a_stored_cancel_is_shown_and_takes_no_renewal_back() {
    let mut job = running(TTL, Policy::default());
    let table = knowing(&job);
    let attempts = std::cell::Cell::new(0);
    let fence = fence(&job);
    table
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
    table.record_stored(at(600), &job);
    assert_eq!(table.take_renewals(at(8_000), &[]).now[0].until, at(8_500));
    let beaten = beat(&table, &job, 700).unwrap();
    assert!(beaten.standing.cancel.is_some());
}

#[test]
fn a_lease_held_by_connection_has_nothing_to_store() {
    let job = running(Hold::Connection, Policy::default());
    let table = knowing(&job);
    let beaten = beat(&table, &job, 100_000).unwrap();
    assert_eq!(
        (beaten.standing.expires_at, beaten.is_due_earlier),
        (None, false)
    );
    assert_eq!(
        (
            table.renewals_due(),
            table.take_renewals(at(200_000), &[]).now
        ),
        (None, vec![])
    );
}

/// Makes more leases than one batch renews, each with a heartbeat.
fn more_than_a_batch() -> (LeaseTable, Vec<Lifecycle>) {
    let table = LeaseTable::new(RENEWAL_MS_MAX);
    let jobs: Vec<_> = (0..BATCH_MAX + 10)
        .map(|_| running(TTL, Policy::default()))
        .collect();
    for job in &jobs {
        add(&table, job);
        beat(&table, job, 5).unwrap();
    }
    (table, jobs)
}

#[test]
fn many_renewals_are_stored_in_several_batches() {
    let (table, jobs) = more_than_a_batch();
    let now = at(1_005);
    for expected in [BATCH_MAX, 10] {
        let taken = table.take_renewals(now, &[]).now;
        assert_eq!(taken.len(), expected);
        for renewal in taken {
            let mut job = jobs
                .iter()
                .find(|job| job.id == renewal.job)
                .unwrap()
                .clone();
            let fence = fence(&job);
            job.apply(now, &renewed(&fence, renewal.until)).unwrap();
            table.record_stored(now, &job);
        }
    }
    assert_eq!(table.renewals_due(), None);
    // Also those whose stored end has passed: until all are stored, nothing may end a lease. What workers report in the same
    // batch counts.
    for job in &jobs {
        beat(&table, job, 8_004).unwrap();
    }
    let of = |job: &Lifecycle| job.id;
    let last = jobs.iter().map(of).max().unwrap();
    let taken = table.take_renewals(at(9_005), &[last]);
    assert_eq!(
        (taken.now.len(), taken.are_more_urgent),
        (BATCH_MAX + 1, true)
    );
    assert_eq!(taken.now[0].job, last);
    assert_eq!(table.renewals_due(), Some(at(9_005)));
    for renewal in taken.now {
        table.forget(renewal.job);
    }
    let taken = table.take_renewals(at(9_006), &[]);
    assert_eq!((taken.now.len(), taken.are_more_urgent), (9, false));
    table.close();
    assert_eq!(
        (
            table.renewals_due(),
            table.take_renewals(at(9_000), &[]).now
        ),
        (None, vec![])
    );
}

/// What a wire has received.
#[derive(Default)]
struct Received(Mutex<Vec<String>>);

impl LeaseEvents for Received {
    fn cancelled(&self, job: JobId, _: LeaseId, grace_ms: u64) {
        self.0.lock().push(format!("{job} cancelled {grace_ms}"));
    }

    fn revoked(&self, job: JobId, _: LeaseId, why: Revocation) {
        self.0.lock().push(format!("{job} {why:?}"));
    }
}

fn held_with(job: &Lifecycle, received: &Arc<Received>) -> HeldLease {
    HeldLease {
        lease: lease(job),
        attempt: job.attempt,
        worker: "w".to_owned(),
        executor: job.executor.clone(),
        handler: job.handler.clone(),
        hold: TTL,
        granted_at: NOW,
        is_restored: false,
        events: Some(Arc::<Received>::clone(received)),
    }
}

#[test]
fn a_heartbeat_that_a_cancel_wakes_is_answered_by_the_store() {
    let job = running(TTL, Policy::default());
    let (table, received) = (LeaseTable::new(RENEWAL_MS_MAX), Arc::<Received>::default());
    table.hold(job.id, held_with(&job, &received));
    table.record_stored(NOW, &job);
    assert!(beat(&table, &job, 100).is_some());
    assert!(table.stop(job.id, lease(&job), Some(7)));
    assert_eq!(beat(&table, &job, 200), None);
    assert_eq!(*received.0.lock(), [format!("{} cancelled 7", job.id)]);
}

#[test]
fn wires_receive_events_of_leases_that_other_nodes_granted_or_ended() {
    let [job, elsewhere] = [(); 2].map(|()| running(TTL, Policy::default()));
    let table = LeaseTable::new(RENEWAL_MS_MAX).among_nodes();
    let received = Arc::<Received>::default();
    let events: Arc<dyn LeaseEvents> = Arc::<Received>::clone(&received);
    let resumed = table.resume(&"pulled".parse().unwrap(), &events);
    assert_eq!(resumed, []);
    table.hold(job.id, held_with(&job, &received));
    assert!(!table.stop(elsewhere.id, lease(&elsewhere), Some(7)));
    assert!(!table.revoke(elsewhere.id, lease(&elsewhere), Revocation::Expired));
    let change = |attempt| Change {
        job: job.id,
        handler: job.handler.clone(),
        executor: job.executor.clone(),
        queue: job.queue.clone(),
        from: Some(State::Running),
        to: Some(State::Completed),
        attempt,
    };
    assert_eq!(table.ended_elsewhere(&change(job.attempt + 1)), None);
    let ended = table.ended_elsewhere(&change(job.attempt));
    assert_eq!(ended, Some(lease(&job)));
    // The next attempt may be granted here before.
    table.hold(job.id, held_with(&job, &received));
    assert!(table.revoke(job.id, lease(&job), Revocation::Cancelled));
    let (own, other) = (job.id, elsewhere.id);
    let expected = [
        format!("{other} cancelled 7"),
        format!("{other} Expired"),
        format!("{own} EndedElsewhere"),
        format!("{own} Cancelled"),
    ];
    assert_eq!(*received.0.lock(), expected);
}

#[test]
fn after_a_pause_each_lease_by_ttl_gets_a_whole_ttl() {
    let [by_ttl, connected] = [TTL, Hold::Connection].map(|it| running(it, Policy::default()));
    let table = knowing(&by_ttl);
    add(&table, &connected);
    let renewal = Renewal {
        job: by_ttl.id,
        lease: lease(&by_ttl),
        until: at(17_000),
        host_was_away: true,
    };
    table.renew_all();
    assert_eq!(table.take_renewals(at(9_000), &[]).now, [renewal]);
    assert_eq!(table.take_renewals(at(9_000), &[]), Renewals::default());
}

#[test]
fn after_a_pause_leases_are_renewed_in_several_batches() {
    let (table, jobs) = more_than_a_batch();
    table.renew_all();
    let last = jobs.iter().map(|job| job.id).max().unwrap();
    let first = table.take_renewals(at(20_000), &[last]);
    assert_eq!(
        (first.now.len(), first.are_more_urgent),
        (BATCH_MAX + 1, true)
    );
    assert!(first.now.iter().any(|renewal| renewal.job == last));
    assert_eq!(table.renewals_due(), Some(at(20_000)));
    first.now.iter().for_each(|it| table.forget_stored(it.job));
    let rest = table.take_renewals(at(20_001), &[]);
    assert_eq!((rest.now.len(), rest.are_more_urgent), (9, false));
    let all = first.now.iter().chain(&rest.now);
    let renewed: BTreeSet<JobId> = all.map(|renewal| renewal.job).collect();
    assert_eq!(renewed.len(), jobs.len());
    assert_eq!(rest.now[0].until, at(28_001), "a whole TTL from now");
}
