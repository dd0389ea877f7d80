//! Instants and durations of the rules: integer milliseconds of host time, which the caller passes. Reads no
//! clock.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

/// An instant of host time, in milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub i64);

impl Time {
    /// Returns the instant `ms` milliseconds later, at most the largest instant.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add_unsigned(ms))
    }

    /// Returns the instant `ms` milliseconds earlier, at least the smallest instant.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub_unsigned(ms))
    }

    /// Returns the milliseconds from `earlier` to this instant; 0 if `earlier` is later.
    pub const fn since_ms(self, earlier: Self) -> u64 {
        if self.0 > earlier.0 {
            self.0.abs_diff(earlier.0)
        } else {
            0
        }
    }

    /// Formats as RFC 3339 in UTC with milliseconds, or as the plain number if the year is not
    /// 0–9999.
    pub fn to_rfc3339(self) -> String {
        DateTime::<Utc>::from_timestamp_millis(self.0).map_or_else(
            || self.0.to_string(),
            |at| at.to_rfc3339_opts(SecondsFormat::Millis, true),
        )
    }

    /// Parses RFC 3339 with any fraction and offset; returns `None` for any other text.
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|at| Self(at.timestamp_millis()))
    }
}
