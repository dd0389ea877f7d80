//! The nominal times of a schedule: cron patterns in a time zone, or an interval.

use chrono::{DateTime, SecondsFormat, Utc};
use chrono_tz::{IANA_TZDB_VERSION, Tz};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use thiserror::Error;

use super::When;
use crate::time::Time;

/// The version of the time zone database.
pub const TIME_ZONES_VERSION: &str = IANA_TZDB_VERSION;

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

/// Why there are no nominal times.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CalendarError {
    #[error("time_zone: {0:?} is not the name of a time zone; write one such as Europe/Berlin")]
    UnknownTimeZone(String),
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
    Cron(Vec<Cron>, Tz),
    Every { ms: u64, phase_ms: u64 },
}

impl Calendar {
    /// Reads patterns and the name of their time zone.
    pub fn new(when: &When, time_zone: &str) -> Result<Self, CalendarError> {
        let zone = time_zone.parse::<Tz>();
        let zone =
            zone.map_err(|_| CalendarError::UnknownTimeZone(time_zone.chars().take(64).collect()))?;
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
    ///
    /// A pattern with one time of day fires at the end of a gap that has this time, and once in an overlap. Other
    /// patterns follow real time.
    pub fn after(&self, time: Time) -> Option<Time> {
        let next = match self {
            Self::Cron(patterns, zone) => {
                let start = DateTime::<Utc>::from_timestamp_millis(time.0)?.with_timezone(zone);
                let next = |pattern: &Cron| pattern.find_next_occurrence(&start, false).ok();
                let first = patterns.iter().filter_map(next).min()?;
                Time(first.timestamp_millis())
            }
            Self::Every { ms, phase_ms } => {
                let (ms, phase_ms) = (i64::try_from(*ms).ok()?, i64::try_from(*phase_ms).ok()?);
                let passed = time.0.checked_sub(phase_ms)?.div_euclid(ms);
                Time(
                    passed
                        .checked_add(1)?
                        .checked_mul(ms)?
                        .checked_add(phase_ms)?,
                )
            }
        };
        (next <= time.plus_ms(HORIZON_MS)).then_some(next)
    }

    /// Writes a time as RFC 3339, as the time zone shows it.
    pub fn local(&self, time: Time) -> String {
        let zone = match self {
            Self::Cron(_, zone) => *zone,
            Self::Every { .. } => Tz::UTC,
        };
        DateTime::<Utc>::from_timestamp_millis(time.0).map_or_else(
            || time.to_rfc3339(),
            |at| {
                at.with_timezone(&zone)
                    .to_rfc3339_opts(SecondsFormat::Secs, false)
            },
        )
    }
}

fn read(pattern: &str) -> Result<Cron, CalendarError> {
    if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
        return Err(CalendarError::PatternLength(pattern.len()));
    }
    let parser = CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build();
    parser
        .parse(pattern)
        .map_err(|error| CalendarError::Pattern {
            pattern: pattern.to_owned(),
            reason: reason(error),
        })
}

/// Returns what is wrong with a pattern, in the parser's words without its name for the part.
fn reason(error: CronError) -> String {
    let text = match error {
        CronError::ComponentError(text)
        | CronError::InvalidPattern(text)
        | CronError::IllegalCharacters(text) => text,
        other => other.to_string(),
    };
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|first| first.to_ascii_lowercase());
    first.into_iter().chain(letters).collect()
}
