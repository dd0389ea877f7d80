//! How long a worker waits before it turns to its peer again, if that had nothing for it. Pure.

use std::time::Duration;

/// The shortest pause.
const SHORTEST: Duration = Duration::from_secs(1);

/// Pauses that double as long as a peer brings nothing.
#[derive(Debug)]
pub(crate) struct Pauses {
    next: Duration,
    longest: Duration,
}

impl Pauses {
    /// Begins with one second. No pause is longer than `longest`.
    pub(crate) const fn up_to(longest: Duration) -> Self {
        Self {
            next: SHORTEST,
            longest,
        }
    }

    /// Begins anew, because the peer had something.
    pub(crate) fn reset(&mut self) {
        self.next = SHORTEST;
    }

    /// Returns the next pause.
    pub(crate) fn take(&mut self) -> Duration {
        let pause = self.next.min(self.longest);
        self.next = pause.saturating_mul(2);
        pause
    }

    /// Returns what is left of the next pause after `spent`, in which the peer had nothing. A peer that lets us
    /// wait as long needs no pause.
    pub(crate) fn rest(&mut self, spent: Duration) -> Option<Duration> {
        let pause = self.take();
        let left = pause.checked_sub(spent).filter(|left| !left.is_zero());
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
    fn pauses_double_until_the_peer_has_something() {
        let mut pauses = Pauses::up_to(seconds(5));
        let mut take = |n: usize| -> Vec<_> { (0..n).map(|_| pauses.take().as_secs()).collect() };
        assert_eq!(take(5), [1, 2, 4, 5, 5]);
        pauses.reset();
        assert_eq!(pauses.take(), seconds(1));
    }

    #[test]
    fn a_peer_that_lets_us_wait_needs_no_pause() {
        let mut pauses = Pauses::up_to(seconds(5));
        let at_once = Duration::ZERO;
        assert_eq!(pauses.rest(at_once), Some(seconds(1)));
        assert_eq!(pauses.rest(seconds(1)), Some(seconds(1)));
        assert_eq!(pauses.rest(at_once), Some(seconds(4)));
        assert_eq!(pauses.rest(seconds(4)), Some(seconds(1)));
        assert_eq!(pauses.rest(seconds(30)), None);
        assert_eq!(pauses.rest(at_once), Some(seconds(1)));
    }
}
