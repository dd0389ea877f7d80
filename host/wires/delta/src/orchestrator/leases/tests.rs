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
        self.add(NOW, 0, id, Lease::new(NOW, NOW, "ci/w".to_owned(), 1));
        self.live.get_mut(&id).unwrap()
    }

    fn fail(&mut self, n: u128, digest: Digest) {
        let over = Over::Ended(digest, Status::Failed);
        self.close(named(n, "").lease, over, &mut Todo::default());
    }
}

#[test]
fn the_oldest_ends_are_forgotten_first() {
    let mut leases = Leases::default();
    for n in 0..=ENDED_MAX as u128 {
        leases.granted(n);
        leases.fail(n, [0; 32]);
        // A second end changes nothing.
        let revoked = Over::Stale(Stale::Revoked);
        leases.close(named(n, "").lease, revoked, &mut Todo::default());
    }
    let over = Over::Ended([0; 32], Status::Failed);
    assert_eq!(leases.over(&named(0, "ci/w")), None);
    assert_eq!(leases.over(&named(1, "ci/w")), Some(over));
    assert_eq!((leases.live.len(), leases.ended.len()), (0, ENDED_MAX));
}

#[test]
fn leases_whose_end_is_not_reported_are_forgotten() {
    let ttl_ms = 60_000;
    for (later_ms, left) in [(ttl_ms - 1, SWEEP_EVERY + 1), (ttl_ms, 1)] {
        let mut leases = Leases::default();
        for n in 0..u128::from(SWEEP_EVERY) {
            leases.granted(n);
        }
        let later = NOW.plus_ms(later_ms);
        let lease = Lease::new(later, later, "ci/w".to_owned(), 1);
        leases.add(later, ttl_ms, named(9_999_999, "").lease, lease);
        assert_eq!(leases.live.len() as u64, left);
    }
}

#[test]
fn a_lease_that_was_looked_up_is_forgotten_when_it_is_silent() {
    let mut leases = Leases::default();
    let id = named(1, "").lease;
    let lease = Lease::new(NOW, NOW.plus_ms(90_000), "ci/w".to_owned(), 1);
    leases.adopt(NOW, 10_000, id, lease);
    assert_eq!(leases.wakeup(), Some(NOW.plus_ms(20_000)));
    // A message comes, and then a heartbeat that waits.
    let lease = leases.live.get_mut(&id).unwrap();
    lease.extend(NOW.plus_ms(5_000), 10_000);
    leases.forget_silent(NOW.plus_ms(20_000), 10_000);
    assert_eq!(leases.wakeup(), Some(NOW.plus_ms(25_000)));
    leases.live.get_mut(&id).unwrap().announce(Link(1));
    leases.forget_silent(NOW.plus_ms(25_000), 10_000);
    assert_eq!(leases.wakeup(), Some(NOW.plus_ms(45_000)));
    assert!(leases.live.get_mut(&id).unwrap().forget_beat(Link(1)));
    leases.forget_silent(NOW.plus_ms(45_000), 10_000);
    assert_eq!((leases.live.len(), leases.wakeup()), (0, None));
}

#[test]
fn only_the_holder_learns_how_a_lease_ended() {
    let mut leases = Leases::with(1);
    assert_eq!(leases.other_holder(&named(1, "ci/x")), Some("ci/w"));
    leases.fail(1, [1; 32]);
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
fn heartbeats_are_limited_in_the_mean() {
    let mut leases = Leases::default();
    let lease = leases.granted(1);
    let mut accepted = 0;
    for ms in 0..10_000 {
        accepted += u32::from(lease.may_beat(NOW.plus_ms(ms)));
    }
    assert_eq!(accepted, 30 + 99);
}
