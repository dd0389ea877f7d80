//! Leases that a host has renewed in memory: what it stores of them, and what a restart does.

use host_core::lease::Renewal;
use host_engine::job::Tick;
use host_engine::lease::Renew;
use host_engine::node::Recover;
use host_store::sqlite::SqliteStore;
use tempfile::TempDir;

use super::*;

fn renew(lease_id: u128, until: Time) -> Command {
    Command::from(Renew(Renewal {
        job: id(1),
        lease: lease(lease_id),
        until,
        host_was_away: false,
    }))
}

fn end(store: &dyn Store) -> Option<Time> {
    stored(store).lease?.expires_at
}

#[test]
fn a_renewal_counts_even_if_the_stored_end_has_passed() {
    check(|store| {
        start(store, Policy::default());
        let (late, promised) = (at(TTL_MS + 500), at(TTL_MS + 1_000));
        // In one batch: the promise, the tick, and the worker's message.
        let batch = vec![
            renew(1, promised),
            Command::from(Tick { limit: 10 }),
            complete_as(current()),
        ];
        let committed = commit(store, late, batch);
        assert_eq!(committed.effects, []);
        assert_eq!(stored(store).state, State::Completed);
        assert_eq!(
            attempts(store),
            [(1, "cell-1".to_owned(), "completed".to_owned())]
        );
    });
}

#[test]
fn a_renewal_moves_the_wakeup_and_takes_nothing_back() {
    check(|store| {
        start(store, Policy::default());
        moved(store, at(10), renew(1, at(TTL_MS + 9)));
        moved(store, at(20), renew(1, at(TTL_MS + 5)));
        assert_eq!(end(store), Some(at(TTL_MS + 9)));
        assert_eq!(tick(store, at(TTL_MS + 8)), (vec![], Some(at(TTL_MS + 9))));
        assert_eq!(tick(store, at(TTL_MS + 9)).0, [revoke(Revocation::Expired)]);
        let late = refused(store, at(TTL_MS + 9), renew(1, at(3 * TTL_MS)));
        assert_eq!(late, Rejection::Lease(LeaseRefusal::Stale));
    });
}

#[test]
fn a_renewal_is_for_the_current_lease_alone() {
    check(|store| {
        start(store, Policy::default());
        let other = refused(store, at(10), renew(2, at(3 * TTL_MS)));
        assert_eq!(other, Rejection::Lease(LeaseRefusal::Stale));
        assert_eq!(end(store), Some(at(TTL_MS)));
    });
}

#[test]
fn a_host_that_starts_gives_each_lease_by_ttl_a_whole_ttl() {
    check(|store| {
        let mut new = job(1);
        new.policy.lost_lease_costs_attempt = true;
        enqueue(store, vec![new, job(2)]);
        claimed(store, NOW, claim_by_ttl(NODE, [1]));
        claimed(store, NOW, claim_by_ttl(OTHER_NODE, [2]));
        // The host was down for longer than the leases, so their workers could not renew them.
        let started = at(10 * TTL_MS);
        ask(store, started, recover(NODE)).unwrap();
        let expected = started.plus_ms(TTL_MS);
        let leases = store.reader().unwrap().remote_leases().unwrap();
        let ends: Vec<_> = leases.iter().map(|held| held.lease.expires_at).collect();
        assert_eq!(ends, [Some(expected), Some(expected)]);
        assert_eq!(tick(store, started), (vec![], Some(expected)));
        moved(store, started.plus_ms(1), heartbeat(current()));
        // A worker that stays silent then loses its lease.
        assert_eq!(tick(store, expected).0.len(), 1, "the other is revoked");
        assert_eq!(stored(store).state, State::Running);
    });
}

fn limited() -> Policy {
    Policy {
        max_attempts: 1,
        timeout_ms: Some(2 * TTL_MS),
        report_ms: Some(TTL_MS),
        ..Policy::default()
    }
}

#[test]
fn an_attempt_whose_time_is_over_ends_however_often_it_is_renewed() {
    check(|store| {
        start(store, limited());
        moved(store, at(1), renew(1, at(9 * TTL_MS)));
        let end = at(3 * TTL_MS);
        assert_eq!(tick(store, at(3 * TTL_MS - 1)), (vec![], Some(end)));
        let (effects, _) = tick(store, end);
        assert_eq!(effects, [revoke(Revocation::TimedOut)]);
        let job = stored(store);
        let ended = (State::Discarded, Some(FailureKind::TimedOut));
        assert_eq!((job.state, job.failure), ended);
        assert_eq!(attempts(store), one_attempt("lost"));
    });
}

#[test]
fn a_worker_that_no_host_could_hear_may_report_after_the_start_of_one() {
    let started = at(10 * TTL_MS);
    for (living, extended) in [(vec![], true), (vec![NodeId(Uuid::from_u128(3))], false)] {
        check(|store| {
            start(store, limited());
            let recover = Command::from(Recover {
                node: NODE,
                living: living.clone(),
                after: 0,
            });
            ask(store, started, recover).unwrap();
            assert_eq!(tick(store, started).0.is_empty(), extended);
        });
    }
}

#[test]
fn a_host_that_starts_changes_no_other_time_of_a_lease() {
    check(|store| {
        start(store, ack_window());
        moved(store, at(1), cancel(9_000));
        ask(store, at(4_000), recover(NODE)).unwrap();
        let job = stored(store);
        assert_eq!(job.lease.unwrap().ack_by, Some(at(WINDOW_MS)));
        assert_eq!(job.cancel.unwrap().grace_ends_at, Some(at(9_001)));
        let (effects, _) = tick(store, at(WINDOW_MS));
        assert_eq!(effects, [revoke(Revocation::NotAcknowledged)]);
    });
}

#[test]
fn a_file_that_is_opened_again_goes_on_with_its_leases() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("host.db");
    let reopen = |store: SqliteStore| {
        let before = read(&*store.reader().unwrap());
        drop(store);
        let mut store = SqliteStore::open(&path).unwrap();
        ask(&mut store, NOW, recover(NODE)).unwrap();
        assert_eq!(read(&*store.reader().unwrap()), before);
        assert_eq!(before.remote_leases.len(), 1);
        store
    };
    let mut store = SqliteStore::open(&path).unwrap();
    start(&mut store, ack_window());
    let mut store = reopen(store);
    assert_eq!(tick(&mut store, NOW), (vec![], Some(at(WINDOW_MS))));
    moved(&mut store, at(1_000), ack(current()));
    let mut store = reopen(store);
    moved(&mut store, at(2_000), heartbeat(current()));
    assert_eq!(tick(&mut store, NOW), (vec![], Some(at(2_000 + TTL_MS))));
    moved(&mut store, at(3_000), cancel(5_000));
    let mut store = reopen(store);
    assert_eq!(tick(&mut store, NOW), (vec![], Some(at(8_000))));
    let asked = moved(&mut store, at(4_000), heartbeat(current())).cancel;
    assert_eq!(asked.unwrap().grace_ends_at, Some(at(8_000)));
    let ended = moved(&mut store, at(5_000), cancel_ack(current()));
    assert_eq!(ended.state, State::Cancelled);
    drop(store);
    assert_eq!(host_store::check(&path), []);
}
