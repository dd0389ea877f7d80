//! The schedules that fire next, as the store had them a moment ago. Pure. The store refuses a firing of a schedule that
//! was changed since.

use std::collections::VecDeque;
use std::time::Duration;

use host_core::time::Time;
use host_engine::Listing;
use host_engine::schedule::{KeptSchedule, SET_BACK_MS};

/// How often to read schedules that others have set, and jobs that have ended.
pub(super) const READ_EVERY: Duration = Duration::from_millis(READ_MS);
pub(super) const READ_MS: u64 = 1_000;

/// How many schedules are read at a time.
pub(super) const PAGE: u32 = 256;

/// How long to wait at least, so that schedules which fire at almost the same time share a commit.
const SHARE: Duration = Duration::from_millis(50);

/// Notices that the wall clock was set back, by comparing it with the host's uptime.
#[derive(Default)]
pub(super) struct ClockWatch {
    /// How far the wall clock was ahead of the uptime at most, in milliseconds.
    ahead_ms: Option<i64>,
}

impl ClockWatch {
    /// Returns whether the clock was set back since the last call that returned true, by more than schedules wait for.
    /// True at first: it may have been set while no host was running.
    pub(super) fn is_set_back(&mut self, uptime: Duration, civil: Time) -> bool {
        let uptime_ms = i64::try_from(uptime.as_millis()).unwrap_or(i64::MAX);
        let ahead_ms = civil.0.saturating_sub(uptime_ms);
        let most_ms = self
            .ahead_ms
            .map_or(ahead_ms, |most_ms| most_ms.max(ahead_ms));
        let is_set_back = self.ahead_ms.is_none() || most_ms.abs_diff(ahead_ms) > SET_BACK_MS;
        self.ahead_ms = Some(if is_set_back { ahead_ms } else { most_ms });
        is_set_back
    }
}

/// Times are those of the host's uptime, except when schedules fire: clocks may be set.
#[derive(Default)]
pub(super) struct Coming {
    /// In the order of their times.
    schedules: VecDeque<KeptSchedule>,
    /// Whether there may be more before the next read.
    has_more: bool,
    /// How many of those that are due cannot be read.
    unreadable: u32,
    read_at: Option<Duration>,
}

impl Coming {
    /// Returns whether to read the store.
    pub(super) fn is_read_due(&self, uptime: Duration) -> bool {
        self.read_in(uptime).is_zero()
    }

    fn read_in(&self, uptime: Duration) -> Duration {
        match self.read_at {
            Some(at) if !self.has_more || !self.schedules.is_empty() => {
                (at + READ_EVERY).saturating_sub(uptime)
            }
            _ => Duration::ZERO,
        }
    }

    /// Returns how many schedules to read: a page besides those that could not be read last time.
    pub(super) fn page(&self) -> u32 {
        PAGE.saturating_add(self.unreadable)
    }

    /// Records the first schedules that fire before the next read.
    pub(super) fn record_read(&mut self, uptime: Duration, read: Listing<KeptSchedule>) {
        self.has_more = read.records.len() >= PAGE as usize;
        self.unreadable = u32::try_from(read.flaws.len()).unwrap_or(u32::MAX);
        self.schedules = read.records.into();
        self.read_at = Some(uptime);
    }

    /// Records that a firing failed: the next read is not before its time.
    pub(super) fn record_failure(&mut self) {
        self.has_more = false;
    }

    /// Takes the schedules that are due.
    pub(super) fn take_due(&mut self, now: Time) -> Vec<KeptSchedule> {
        let is_due = |kept: &KeptSchedule| kept.fires_at() <= Some(now);
        let due = self
            .schedules
            .iter()
            .take_while(|kept| is_due(kept))
            .count();
        self.schedules.drain(..due).collect()
    }

    /// Returns how long to wait for the next that is due, or for the next read.
    pub(super) fn pause(&self, uptime: Duration, now: Time) -> Duration {
        let first = self.schedules.front().and_then(KeptSchedule::fires_at);
        let due_in = first.map(|at| Duration::from_millis(at.since_ms(now)));
        let read_in = self.read_in(uptime);
        due_in.unwrap_or(read_in).min(read_in).max(SHARE)
    }
}

#[cfg(test)]
mod tests {
    use host_engine::schedule::Progress;

    use super::super::tests::schedule;
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn firing_at(times: &[u64]) -> Listing<KeptSchedule> {
        let kept = times.iter().map(|ms| KeptSchedule {
            schedule: schedule(host_engine::schedule::Overlap::Allow, 0),
            progress: Progress {
                next: Some(Time::default().plus_ms(*ms)),
                ..Progress::default()
            },
        });
        Listing {
            records: kept.collect(),
            flaws: Vec::new(),
            last: None,
        }
    }

    fn taken(coming: &mut Coming, now: u64) -> usize {
        coming.take_due(Time::default().plus_ms(now)).len()
    }

    #[test]
    fn the_store_is_read_once_for_all_that_fire_within_a_second() {
        let mut coming = Coming::default();
        assert!(coming.is_read_due(ms(0)));
        coming.record_read(ms(0), firing_at(&[100, 120, 900]));
        assert_eq!(coming.pause(ms(0), Time::default()), ms(100));
        assert_eq!(taken(&mut coming, 130), 2);
        assert!(!coming.is_read_due(ms(130)));
        assert_eq!(coming.pause(ms(130), Time::default().plus_ms(130)), ms(770));
        assert_eq!(taken(&mut coming, 900), 1);
        assert_eq!(coming.pause(ms(900), Time::default().plus_ms(900)), ms(100));
        assert!(coming.is_read_due(ms(1_000)));
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_delay_a_read() {
        let mut coming = Coming::default();
        coming.record_read(ms(0), firing_at(&[3_600_500]));
        assert_eq!(coming.pause(ms(0), Time::default()), READ_EVERY);
        assert!(coming.is_read_due(READ_EVERY));
    }

    #[test]
    fn a_clock_that_is_set_back_by_more_than_a_minute_is_noticed_once() {
        let mut watch = ClockWatch::default();
        let noticed: Vec<bool> = [
            (0, 7_200_000),
            (1_000, 7_201_000),
            (2_000, 7_150_000),
            (3_000, 1_000),
            (4_000, 2_000),
            (5_000, 9_000_000),
            (6_000, 8_000_000),
        ]
        .map(|(uptime, civil)| watch.is_set_back(ms(uptime), Time(civil)))
        .into();
        let expected = [true, false, false, true, false, false, true];
        assert_eq!(noticed, expected);
    }

    #[test]
    fn more_than_a_page_is_read_as_soon_as_the_page_has_fired() {
        let mut coming = Coming::default();
        coming.record_read(ms(0), firing_at(&[0; PAGE as usize]));
        assert!(!coming.is_read_due(ms(1)));
        assert_eq!(taken(&mut coming, 0), PAGE as usize);
        assert!(coming.is_read_due(ms(1)));
        assert_eq!(coming.pause(ms(1), Time::default()), SHARE);
        // Unless some of them cannot fire: they would be read again immediately.
        coming.record_failure();
        assert!(!coming.is_read_due(ms(1)));
    }
}
