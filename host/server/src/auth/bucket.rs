//! How many requests a token may make: a bucket that fills with time. Pure.

use host_core::time::Time;

/// A bucket of one second's requests.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    /// The time until which requests are taken, in microseconds since the epoch: in the past if the bucket is full.
    taken_until_us: i64,
}

impl Bucket {
    /// Takes one request, if `rate` per second allow it now. Otherwise returns the seconds to wait.
    pub(super) fn take(&mut self, rate: u32, now: Time) -> Result<(), u32> {
        let now_us = now.0.saturating_mul(1_000);
        let one_us = 1_000_000 / i64::from(rate.max(1));
        let from = self.taken_until_us.max(now_us - 1_000_000);
        let ahead = from + one_us - now_us;
        if ahead > 0 {
            return Err(u32::try_from(ahead.unsigned_abs().div_ceil(1_000_000)).unwrap_or(1));
        }
        self.taken_until_us = from + one_us;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_requests_of_one_second() {
        let mut bucket = Bucket::default();
        let at = |second: i64, ms: i64| Time(1_700_000_000_000 + second * 1_000 + ms);
        let mut taken = |rate, now| (0..100).filter(|_| bucket.take(rate, now).is_ok()).count();
        assert_eq!(taken(10, at(0, 0)), 10);
        assert_eq!(taken(10, at(0, 99)), 0);
        assert_eq!(taken(10, at(0, 100)), 1);
        assert_eq!(taken(10, at(0, 500)), 4);
        assert_eq!(taken(10, at(90, 0)), 10, "a full bucket holds no more");
        assert_eq!(bucket.take(10, at(90, 0)), Err(1));
        // A clock that is set back gives no requests away, and does not lock out for long.
        assert!(bucket.take(10, at(0, 0)).is_err());
    }
}
