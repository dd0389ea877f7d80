//! What is remembered, for how long, and of whom.

use host_core::id::JobId;
use uuid::Uuid;

use super::*;

const NOW: Time = Time(1_000_000);

fn named(n: u128, worker: &str) -> Named {
    let lease = LeaseId(Uuid::from_u128(n));
    Named::new(JobId(Uuid::from_u128(1)), lease, worker.to_owned())
}

impl Leases {
    fn with(n: u128) -> Self {
        let mut leases = Self::default();
        leases.granted(n);
        leases
    }

    fn granted(&mut self, n: u128) -> &mut Lease {
        let id = named(n, "").lease;
        self.grant(NOW, id, Lease::new(NOW, "ci/w".to_owned(), 1));
        self.get_mut(id).unwrap()
    }

    fn end(&mut self, n: u128, digest: Digest) {
        let over = Over::Ended(digest, Status::Failed);
        self.close(named(n, "").lease, over, &mut Todo::default());
    }
}

#[test]
fn the_oldest_ends_are_forgotten_first() {
    let mut leases = Leases::default();
    for n in 0..=ENDED_MAX as u128 {
        leases.granted(n);
        leases.end(n, [0; 32]);
        // A second end changes nothing.
        leases.revoked(named(n, "").lease, &mut Todo::default());
    }
    let over = Over::Ended([0; 32], Status::Failed);
    assert_eq!(leases.over(&named(0, "ci/w")), None);
    assert_eq!(leases.over(&named(1, "ci/w")), Some(over));
    assert_eq!(leases.by_id.len(), ENDED_MAX);
}

#[test]
fn leases_whose_end_is_not_reported_are_forgotten() {
    let mut leases = Leases::default();
    for n in 0..u128::from(SWEEP_EVERY) {
        leases.granted(n).expires_at = Some(NOW);
    }
    let later = NOW.plus_ms(FORGOTTEN_MS);
    let lease = Lease::new(later, "ci/w".to_owned(), 1);
    leases.grant(later, named(9_999_999, "").lease, lease);
    assert_eq!(leases.by_id.len(), 1);
}

#[test]
fn only_the_holder_learns_how_a_lease_ended() {
    let mut leases = Leases::with(1);
    assert_eq!(leases.other_holder(&named(1, "ci/x")), Some("ci/w"));
    leases.end(1, [1; 32]);
    let over = Over::Ended([1; 32], Status::Failed);
    for (worker, over, stale) in [
        ("ci/w", Some(over), Stale::Revoked),
        ("ci/x", None, Stale::Unknown),
    ] {
        let named = named(1, worker);
        assert_eq!(leases.over(&named), over, "{worker}");
        assert_eq!(
            leases.stale(&named, &mut Todo::default()),
            stale,
            "{worker}"
        );
        assert_eq!(leases.other_holder(&named), None, "{worker}");
    }
}

#[test]
fn why_a_lease_is_over() {
    for (is_acked, is_cancelled, expected) in [
        (false, false, Stale::Revoked),
        (true, false, Stale::Expired),
        (true, true, Stale::Revoked),
    ] {
        let mut leases = Leases::with(1);
        let named = named(1, "ci/w");
        leases.live(&named).unwrap().is_acked = is_acked;
        if is_cancelled {
            assert!(leases.cancelled(named.lease).is_empty());
        }
        leases.revoked(named.lease, &mut Todo::default());
        let over = Some(Over::Stale(expected));
        assert_eq!(leases.over(&named), over, "{is_acked} {is_cancelled}");
    }
}

#[test]
fn heartbeats_are_limited_in_the_mean() {
    let mut leases = Leases::default();
    let lease = leases.granted(1);
    let mut accepted = 0;
    for ms in 0..10_000 {
        accepted += u32::from(lease.may_beat(NOW.plus_ms(ms)));
    }
    assert_eq!(accepted, 30 + 99);
}
