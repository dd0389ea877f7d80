//! Limits that cancel running jobs for new ones, on each engine.

use host_core::job::State;
use host_core::outcome::Outcome;
use host_core::transition::{Effect, Loss};
use host_engine::job::{Cancel, Enqueue};
use host_engine::limit::{Limit, RemoveLimit, WhenFull};
use host_engine::{Command, Committed, Store};

use crate::cases::{check, state};
use crate::jobs::{NOW, ask, commit, complete, enqueue, failed, id, read, returned};
use crate::limit_keys::{by_customer, fullest, ids_of, lose, of, set_limit, tick};

/// Returns a limit of each customer that cancels running jobs for new ones.
pub(crate) fn cancelling(concurrency: u32) -> Limit {
    Limit {
        when_full: WhenFull::CancelRunning,
        ..by_customer(Some(concurrency), None)
    }
}

/// Which of these jobs should stop.
pub(crate) fn stopping<const N: usize>(store: &dyn Store, jobs: [u128; N]) -> Vec<u128> {
    let reader = store.reader().unwrap();
    let is_stopping = |n: &u128| {
        let job = reader.job(id(*n)).unwrap().unwrap().lifecycle;
        job.state == State::Running && job.cancel.is_some()
    };
    jobs.into_iter().filter(is_stopping).collect()
}

fn stops(committed: &Committed) -> usize {
    let effects = committed.effects.iter();
    let stops = effects.filter(|(_, effect)| matches!(effect, Effect::Stop { .. }));
    stops.count()
}

fn stopped(n: u128, lease: u128) -> Command {
    complete(n, lease, Outcome::Cancelled { partial: None })
}

#[test]
fn a_new_job_cancels_the_oldest_that_runs_with_its_key() {
    check(|store| {
        ask(store, NOW, set_limit(cancelling(2))).unwrap();
        enqueue(store, vec![of(7, 2), of(8, 9)]);
        ids_of(store, NOW, 1..3);
        enqueue(store, vec![of(7, 1)]);
        ids_of(store, NOW.plus_ms(1), 3..4);
        assert_eq!(stopping(store, [1, 2, 9]), []);
        let committed = commit(store, NOW, vec![Command::from(Enqueue(vec![of(7, 3)]))]);
        assert_eq!(stops(&committed), 1);
        assert_eq!(stopping(store, [1, 2, 9]), [2], "it has run for longer");
        assert_eq!(state(store, 3), State::Pending, "until that has stopped");
        let running = store.reader().unwrap().job(id(2)).unwrap().unwrap();
        let reason = running.lifecycle.cancel.unwrap().reason.unwrap();
        assert_eq!(
            reason,
            "a new job needs its place under the limit by-customer"
        );
        enqueue(store, vec![of(7, 4), of(7, 5)]);
        assert_eq!(stopping(store, [1, 2, 9]), [1, 2]);
        let used = fullest(store)[0].1;
        assert_eq!((used.cancelling, used.to_cancel), (2, 0));
        ask(store, NOW, stopped(2, 1)).unwrap();
        assert_eq!(
            (state(store, 2), state(store, 3)),
            (State::Cancelled, State::Available)
        );
        ask(store, NOW, complete(1, 3, returned())).unwrap();
        assert_eq!(
            (state(store, 1), state(store, 4)),
            (State::Completed, State::Available)
        );
        ids_of(store, NOW, 10..19);
        assert_eq!(
            stopping(store, [3, 4]),
            [],
            "the job that waits is no new one"
        );
        read(&*store.reader().unwrap());
    });
}

#[test]
fn a_cancel_by_somebody_else_counts() {
    check(|store| {
        ask(store, NOW, set_limit(cancelling(2))).unwrap();
        enqueue(store, vec![of(7, 1), of(7, 2)]);
        ids_of(store, NOW, 1..3);
        let cancel = Command::from(Cancel {
            job: id(2),
            reason: None,
            grace_ms: None,
        });
        ask(store, NOW, cancel.clone()).unwrap();
        ask(store, NOW, cancel).unwrap();
        enqueue(store, vec![of(7, 3)]);
        assert_eq!(stopping(store, [1, 2]), [2]);
        ask(store, NOW, lose(2, 2, Loss::Innocent)).unwrap();
        assert_eq!(
            (state(store, 2), state(store, 3)),
            (State::Cancelled, State::Available)
        );
        assert_eq!(fullest(store)[0].1.cancelling, 0);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn retries_and_later_jobs_cancel_nothing() {
    check(|store| {
        ask(store, NOW, set_limit(cancelling(1))).unwrap();
        enqueue(store, vec![of(7, 1)]);
        ids_of(store, NOW, 1..3);
        ask(store, NOW, complete(1, 1, failed(true))).unwrap();
        let mut later = of(7, 3);
        later.run_at = Some(NOW.plus_ms(1_000));
        enqueue(store, vec![of(7, 2), later]);
        ids_of(store, NOW, 3..4);
        let due = NOW.plus_ms(3_600_000);
        tick(store, due);
        assert_eq!(
            (state(store, 1), state(store, 3)),
            (State::Pending, State::Pending)
        );
        assert_eq!(stopping(store, [2]), []);
        // They are in the way of a new one, which has to wait for them, but only one job runs.
        enqueue(store, vec![of(7, 4)]);
        assert_eq!(stopping(store, [2]), [2]);
        assert_eq!(fullest(store)[0].1.to_cancel, 0);
        read(&*store.reader().unwrap());
    });
}

#[test]
fn many_are_cancelled_in_slices_those_alone_that_started_under_the_limit() {
    check(|store| {
        ask(store, NOW, set_limit(by_customer(Some(3_000), None))).unwrap();
        enqueue(store, vec![of(7, 5_000)]);
        ids_of(store, NOW, 5_000..5_001);
        ask(store, NOW, set_limit(cancelling(3_000))).unwrap();
        tick(store, NOW);
        enqueue(store, (1..=1_500).map(|n| of(7, n)).collect());
        assert_eq!(ids_of(store, NOW.plus_ms(1), 1..1_501).len(), 1_500);
        ask(store, NOW, set_limit(cancelling(1))).unwrap();
        tick(store, NOW);
        let committed = commit(store, NOW, vec![Command::from(Enqueue(vec![of(7, 6_000)]))]);
        assert_eq!(stops(&committed), 1_024);
        assert!(
            committed.next_wakeup <= Some(NOW),
            "ticks continue immediately"
        );
        tick(store, NOW);
        let used = fullest(store)[0].1;
        assert_eq!((used.cancelling, used.to_cancel), (1_500, 0));
        assert_eq!(stopping(store, [5_000]), [], "it started before");
    });
}

#[test]
fn a_limit_that_no_longer_cancels_forgets_what_runs() {
    check(|store| {
        ask(store, NOW, set_limit(cancelling(2))).unwrap();
        enqueue(store, vec![of(7, 1), of(7, 2)]);
        ids_of(store, NOW, 1..3);
        ask(store, NOW, set_limit(by_customer(Some(2), None))).unwrap();
        enqueue(store, vec![of(7, 3)]);
        assert_eq!(stopping(store, [1, 2]), []);
        ask(store, NOW, complete(1, 1, returned())).unwrap();
        assert_eq!(state(store, 3), State::Available);
        let remove = Command::from(RemoveLimit {
            limit: "by-customer".parse().unwrap(),
        });
        ask(store, NOW, remove).unwrap();
        tick(store, NOW);
        ask(store, NOW, complete(2, 2, returned())).unwrap();
        read(&*store.reader().unwrap());
    });
}
