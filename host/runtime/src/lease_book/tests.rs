//! What is remembered, who waits, and how often heartbeats may come.

use std::sync::Arc;

use parking_lot::Mutex;
use uuid::Uuid;

use super::*;

const JOB: JobId = JobId(Uuid::from_u128(7));
const LEASE: LeaseId = LeaseId(Uuid::from_u128(8));

/// The causes that watchers have received.
#[derive(Clone, Default)]
struct Causes(Arc<Mutex<Vec<EndCause>>>);

impl Respond<EndCause> for Causes {
    fn is_gone(&self) -> bool {
        false
    }

    fn respond(self: Box<Self>, cause: EndCause) -> Result<(), EndCause> {
        self.0.lock().push(cause);
        Ok(())
    }
}

/// An answer that no test reads.
struct Unread;

impl Respond<Result<Standing, LeaseError>> for Unread {
    fn is_gone(&self) -> bool {
        false
    }

    fn respond(
        self: Box<Self>,
        _: Result<Standing, LeaseError>,
    ) -> Result<(), Result<Standing, LeaseError>> {
        Ok(())
    }
}

fn held() -> LeaseBook {
    let mut book = LeaseBook::default();
    book.add(Time(0), LEASE, "w".to_owned(), 1);
    book
}

fn fence() -> Fence {
    Fence::Holder(LEASE, "w".to_owned())
}

fn beat(until: i64) -> WaitingHeartbeat {
    WaitingHeartbeat {
        job: JOB,
        fence: fence(),
        until: Time(until),
        respond: Box::new(Unread),
    }
}

#[test]
fn a_lease_ends_once_and_its_watchers_learn_why() {
    let (mut book, causes) = (held(), Causes::default());
    book.await_end(LEASE, Box::new(causes.clone()));
    assert_eq!(*causes.0.lock(), []);
    book.end(JOB, LEASE, EndCause::Expired);
    book.end(JOB, LEASE, EndCause::Reported);
    book.await_end(LEASE, Box::new(causes.clone()));
    book.await_end(LeaseId(Uuid::nil()), Box::new(causes.clone()));
    let expected = [EndCause::Expired, EndCause::Expired, EndCause::Revoked];
    assert_eq!(*causes.0.lock(), expected);
    assert_eq!(book.record(LEASE).unwrap().end, Some(EndCause::Expired));
}

#[test]
fn a_heartbeat_waits_for_its_time_a_change_the_end_or_a_stop() {
    let mut book = held();
    assert!(book.wait(beat(500)) && !book.wait(beat(900)));
    assert_eq!(book.due(), Some(Time(500)));
    assert_eq!(book.take_woken(Time(499)).len(), 0);
    assert_eq!(book.take_woken(Time(500)).len(), 1);
    book.wake(JOB);
    assert_eq!(book.due(), None);
    assert!(book.wait(beat(900)), "a change of this turn is not missed");
    assert_eq!(book.take_woken(Time(501)).len(), 2);
    book.wait(beat(900));
    book.end(JOB, LEASE, EndCause::Revoked);
    assert_eq!(book.take_woken(Time(502)).len(), 1);
    book.wait(beat(900));
    book.stop();
    book.wait(beat(900));
    assert_eq!(book.take_woken(Time(503)).len(), 2);
    assert_eq!(book.due(), None);
}

#[test]
fn heartbeats_keep_to_a_mean_interval_after_a_burst() {
    let mut book = held();
    let count =
        |book: &mut LeaseBook, now| (0..100).filter(|_| book.may_beat(now, &fence())).count();
    assert_eq!(count(&mut book, Time(0)), 30);
    assert_eq!(count(&mut book, Time(1_000)), 10);
    assert_eq!(count(&mut book, Time(100_000)), 30);
    // The messages of others do not use the lease up; the rules refuse them.
    let other = Fence::Holder(LEASE, "other".to_owned());
    assert!(book.may_beat(Time(100_000), &other));
    book.end(JOB, LEASE, EndCause::Expired);
    assert!(book.may_beat(Time(100_000), &fence()));
}

#[test]
fn leases_of_the_past_are_forgotten_and_those_that_are_held_are_not() {
    let mut book = held();
    for number in 0..=PAST_MAX as u128 {
        book.adopt(Time(0), LeaseId(Uuid::from_u128(number << 64)), "v", 1);
    }
    assert!(book.record(LEASE).is_some());
    assert_eq!(book.record(LeaseId(Uuid::nil())), None);
    assert_eq!(book.leases.len(), PAST_MAX + 1);
    // An earlier record of a lease stays.
    book.adopt(Time(0), LEASE, "v", 2);
    assert_eq!(book.record(LEASE).unwrap().worker, "w");
}
