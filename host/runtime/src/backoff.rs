//! How long to wait before a retry. Pure.

use std::time::Duration;

/// Waits that double up to a limit.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    first_ms: u64,
    max_ms: u64,
    /// How many waits there were since the last reset.
    waits: u32,
}

impl Backoff {
    /// Makes waits from the first to the longest, in milliseconds.
    pub const fn new(first_ms: u64, max_ms: u64) -> Self {
        Self {
            first_ms,
            max_ms,
            waits: 0,
        }
    }

    /// Starts over with the first wait, because a try succeeded.
    pub const fn reset(&mut self) {
        self.waits = 0;
    }

    /// Returns whether nothing failed since the last success.
    pub const fn is_reset(&self) -> bool {
        self.waits == 0
    }

    /// Returns the next wait, in milliseconds.
    pub fn next_ms(&mut self) -> u64 {
        let wait_ms = self.nth_ms(self.waits);
        self.waits = self.waits.saturating_add(1);
        wait_ms
    }

    /// Returns the next wait.
    pub fn next_wait(&mut self) -> Duration {
        Duration::from_millis(self.next_ms())
    }

    /// Returns the wait after `doublings` others, in milliseconds.
    pub fn nth_ms(&self, doublings: u32) -> u64 {
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        self.first_ms.saturating_mul(factor).min(self.max_ms)
    }

    /// Returns the rest of the next wait after `spent`, in which the peer had nothing. A peer that holds our
    /// request that long needs no wait.
    pub fn rest(&mut self, spent: Duration) -> Option<Duration> {
        let rest = self.next_wait().checked_sub(spent);
        let left = rest.filter(|rest| !rest.is_zero());
        if left.is_none() {
            self.reset();
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn waits_double_until_a_try_succeeds() {
        let mut backoff = Backoff::new(1_000, 5_000);
        let mut take = |n: usize| -> Vec<_> { (0..n).map(|_| backoff.next_ms()).collect() };
        assert_eq!(take(5), [1_000, 2_000, 4_000, 5_000, 5_000]);
        assert!(!backoff.is_reset());
        backoff.reset();
        assert!(backoff.is_reset());
        assert_eq!(backoff.next_wait(), seconds(1));
        let nth = |doublings| backoff.nth_ms(doublings);
        assert_eq!(
            [0, 2, 63, 64, u32::MAX].map(nth),
            [1_000, 4_000, 5_000, 5_000, 5_000]
        );
    }

    #[test]
    fn a_peer_that_lets_us_wait_needs_no_wait() {
        let mut backoff = Backoff::new(1_000, 5_000);
        let at_once = Duration::ZERO;
        assert_eq!(backoff.rest(at_once), Some(seconds(1)));
        assert_eq!(backoff.rest(seconds(1)), Some(seconds(1)));
        assert_eq!(backoff.rest(at_once), Some(seconds(4)));
        assert_eq!(backoff.rest(seconds(4)), Some(seconds(1)));
        assert_eq!(backoff.rest(seconds(30)), None);
        assert_eq!(backoff.rest(at_once), Some(seconds(1)));
    }
}
