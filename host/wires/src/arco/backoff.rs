//! How long to wait before something is tried again. Pure.

use std::time::Duration;

use crate::kit::backoff::Backoff;

const BACKOFF: Backoff = Backoff::new(200, 10_000);

/// Returns how long to wait after `tries` tries, the first of which is 1. `asked` is the wait that the
/// worker asks for, which is only ever longer.
pub(super) fn backoff(tries: u32, asked: Option<Duration>) -> Duration {
    let wait = Duration::from_millis(BACKOFF.nth_ms(tries.saturating_sub(1)));
    asked.map_or(wait, |asked| asked.max(wait))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_limit() {
        let ms = |tries| backoff(tries, None).as_millis();
        assert_eq!(
            [1, 2, 3, 6, 7, 40, u32::MAX].map(ms),
            [200, 400, 800, 6_400, 10_000, 10_000, 10_000]
        );
        let asked = |seconds| backoff(1, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(0), Duration::from_millis(200));
        assert_eq!(asked(60), Duration::from_mins(1));
    }
}
