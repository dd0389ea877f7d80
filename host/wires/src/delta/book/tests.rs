//! What is remembered, for how long, and of whom.

use uuid::Uuid;

use super::*;

const NOW: Time = Time(1_000_000);

fn lease(n: u128) -> LeaseId {
    LeaseId(Uuid::from_u128(n))
}

#[test]
fn the_oldest_ends_are_forgotten_first() {
    let mut book = Book::default();
    for n in 0..=ENDED_MAX as u128 {
        book.add(NOW, lease(n), "ci/w", 1, false).alive(None);
        book.ended(lease(n), [0; 32], Status::Succeeded);
        // A second end changes nothing.
        book.revoked(lease(n));
    }
    assert_eq!(book.before_end(lease(0), "ci/w", &[0; 32]), Before::New);
    assert_eq!(
        book.before_end(lease(1), "ci/w", &[0; 32]),
        Before::Repeated
    );
    assert_eq!(book.leases.len(), ENDED_MAX);
}

#[test]
fn leases_whose_end_nobody_reports_are_forgotten() {
    let mut book = Book::default();
    for n in 0..u128::from(SWEEP_EVERY) {
        book.add(NOW, lease(n), "ci/w", 1, true).alive(Some(NOW));
    }
    let later = NOW.plus_ms(FORGOTTEN_MS);
    book.add(later, lease(9_999_999), "ci/w", 1, true);
    assert_eq!(book.leases.len(), 1);
}

#[test]
fn only_the_holder_learns_how_a_lease_ended() {
    let mut book = Book::default();
    book.add(NOW, lease(1), "ci/w", 1, false).alive(None);
    book.ended(lease(1), [1; 32], Status::Failed);
    assert_eq!(
        book.before_end(lease(1), "ci/w", &[2; 32]),
        Before::Recorded(Status::Failed)
    );
    assert_eq!(book.before_end(lease(1), "ci/x", &[1; 32]), Before::New);
    assert_eq!(book.stale(lease(1), "ci/x"), Stale::Unknown);
    assert_eq!(book.stale(lease(1), "ci/w"), Stale::Revoked);
}

#[test]
fn why_a_lease_is_over() {
    let mut book = Book::default();
    for (n, is_acked, is_cancelled, expected) in [
        (1, false, false, Stale::Revoked),
        (2, true, false, Stale::Expired),
        (3, true, true, Stale::Revoked),
    ] {
        let known = book.add(NOW, lease(n), "ci/w", 1, false);
        if is_acked {
            known.alive(None);
        }
        if is_cancelled {
            book.cancelled(lease(n));
        }
        book.revoked(lease(n));
        assert_eq!(book.stale(lease(n), "ci/w"), expected, "{n}");
    }
}

#[test]
fn heartbeats_are_limited_in_the_mean() {
    let mut book = Book::default();
    let known = book.add(NOW, lease(1), "ci/w", 1, false);
    let mut accepted = 0;
    for ms in 0..10_000 {
        accepted += u32::from(known.may_beat(NOW.plus_ms(ms)));
    }
    assert_eq!(accepted, 30 + 99);
}
