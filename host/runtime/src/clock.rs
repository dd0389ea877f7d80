//! The only reader of clocks. Host time is the wall clock at the start plus the elapsed monotonic
//! time, so a jump of the wall clock moves no lease, timeout or backoff.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use host_core::time::Time;

/// The smallest difference between host time and the wall clock that reading one after the other cannot
/// explain.
const CLOCKS_DIFFER_MS: i64 = 1_000;

/// Reads host time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    wall_at_start_ms: i64,
    adjuster: Option<ClockAdjuster>,
}

/// Moves the host time of a node that shares its store with others, in small steps.
#[derive(Clone, Copy, Debug)]
pub struct ClockAdjuster(&'static AtomicI64);

impl ClockAdjuster {
    /// Moves host time by `ms`.
    pub fn shift(self, ms: i64) {
        self.0.fetch_add(ms, Ordering::Relaxed);
    }
}

impl Clock {
    /// Starts host time at the current wall clock.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads clocks"
    )]
    pub fn start() -> Self {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Self {
            started: Instant::now(),
            wall_at_start_ms: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
            adjuster: None,
        }
    }

    /// Starts host time like [`Clock::start`], with a way to adjust it.
    pub fn adjustable() -> (Self, ClockAdjuster) {
        // Leaks a few bytes, once per process.
        let adjuster = ClockAdjuster(Box::leak(Box::default()));
        let mut clock = Self::start();
        clock.adjuster = Some(adjuster);
        (clock, adjuster)
    }

    /// Returns host time.
    pub fn now(&self) -> Time {
        let ms = u64::try_from(self.uptime().as_millis()).unwrap_or(u64::MAX);
        let moved = self
            .adjuster
            .map_or(0, |adjuster| adjuster.0.load(Ordering::Relaxed));
        Time(self.wall_at_start_ms.saturating_add(moved)).plus_ms(ms)
    }

    /// Returns the wall clock, which may jump. Use it only for times that others state by their
    /// clocks.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that reads clocks"
    )]
    pub fn wall(&self) -> Time {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Time(i64::try_from(wall.as_millis()).unwrap_or(i64::MAX))
    }

    /// Returns the time that schedules go by: the wall clock, or the time that all hosts of a shared store have.
    pub fn civil(&self) -> Time {
        match self.adjuster {
            Some(_) => self.now(),
            None => self.wall(),
        }
    }

    /// Returns the host time at which the wall clock shows `at`. The two differ only if the wall clock was
    /// set, or the machine slept, since the host started. Hosts that share a store follow the clocks of the
    /// store and of each other, not that of one machine.
    pub fn when_wall(&self, at: Time) -> Time {
        match self.adjuster {
            Some(_) => at,
            None => moved(at, self.now(), self.wall()),
        }
    }

    /// Returns how long the host has been running.
    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    /// Returns how long it is until `at`; zero if `at` has passed.
    pub fn until(&self, at: Time) -> Duration {
        Duration::from_millis(at.since_ms(self.now()))
    }
}

/// Returns the host time at which the wall clock shows `at`, if it shows `wall` at the host time `now`.
fn moved(at: Time, now: Time, wall: Time) -> Time {
    let ahead_ms = wall.0.saturating_sub(now.0);
    if ahead_ms.abs() < CLOCKS_DIFFER_MS {
        at
    } else {
        Time(at.0.saturating_sub(ahead_ms))
    }
}

impl host_core::port::Clock for Clock {
    fn now(&self) -> Time {
        Self::now(self)
    }

    fn wall(&self) -> Time {
        Self::wall(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_the_wall_clock_keeps_its_distance_when_that_clock_was_set() {
        let hour = 3_600_000;
        let (at, now) = (Time(10 * hour), Time(9 * hour));
        for (wall, expected) in [
            (now, at),
            (Time(now.0 + 999), at),
            (Time(now.0 - 999), at),
            // The clock was an hour ahead when the host started, and then an hour behind.
            (Time(8 * hour), Time(11 * hour)),
            (Time(10 * hour), now),
            (Time(11 * hour), Time(8 * hour)),
        ] {
            assert_eq!(moved(at, now, wall), expected, "{wall:?}");
        }
    }
}
