//! Durations as people write them: seconds with fractions, kept as whole milliseconds.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// A duration written in seconds (`1.5`), at most [`SECONDS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Seconds {
    pub ms: u64,
}

/// The longest duration: a year.
pub const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

/// The units of a written duration, in milliseconds.
const UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("ms", 1),
    ("m", 60_000),
    ("s", 1_000),
];

impl Seconds {
    /// Reads `30s`, `1h30m`, `250ms`, `2d`: whole numbers, each with a unit.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let form = "expected numbers with units (ms, s, m, h, d), such as 30s or 1h30m";
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(form.to_owned());
        }
        let mut total_ms = 0_u64;
        while !rest.is_empty() {
            let digits = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (number, tail) = rest.split_at(digits);
            let letters = tail
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            let unit_ms = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, ms)| *ms)
                .ok_or(form)?;
            let number: u64 = number.parse().map_err(|_| form)?;
            total_ms = number
                .checked_mul(unit_ms)
                .and_then(|ms| total_ms.checked_add(ms))
                .ok_or("a duration must be at most 365d")?;
            rest = tail.trim_start();
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a year fits, and the constant is positive"
        )]
        let longest_ms = (SECONDS_MAX * 1000.0) as u64;
        if total_ms > longest_ms {
            return Err("a duration must be at most 365d".to_owned());
        }
        Ok(Self { ms: total_ms })
    }

    /// Writes it as [`Seconds::from_text`] reads it: `1h30m`.
    pub fn to_text(self) -> String {
        let (mut rest, mut text) = (self.ms, String::new());
        for unit in ["d", "h", "m", "s", "ms"] {
            let unit_ms = UNITS
                .iter()
                .find(|(name, _)| *name == unit)
                .map_or(1, |(_, ms)| *ms);
            if rest >= unit_ms {
                // Writing to a string cannot fail.
                let _ = write!(text, "{}{unit}", rest / unit_ms);
                rest %= unit_ms;
            }
        }
        if text.is_empty() {
            "0s".to_owned()
        } else {
            text
        }
    }
}

/// Shows a number in an error: a very large one with an exponent, not with all its digits.
pub fn shown(number: f64) -> String {
    if number.abs() < 1e15 {
        number.to_string()
    } else {
        format!("{number:?}")
    }
}

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            let given = shown(seconds);
            return Err(format!("must be 0–{SECONDS_MAX} seconds, got {given}"));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked above"
        )]
        let ms = (seconds * 1000.0).round() as u64;
        Ok(Self { ms })
    }
}

impl From<Seconds> for f64 {
    fn from(seconds: Seconds) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "at most a year of milliseconds")]
        let ms = seconds.ms as Self;
        ms / 1000.0
    }
}
