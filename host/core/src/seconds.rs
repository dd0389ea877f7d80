//! Durations as people write them: seconds with fractions, kept as whole milliseconds.

use serde::{Deserialize, Serialize};

/// A duration written in seconds (`1.5`), at most [`SECONDS_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Seconds {
    pub ms: u64,
}

/// The longest duration: a year.
pub const SECONDS_MAX: f64 = 365.0 * 24.0 * 3600.0;

impl TryFrom<f64> for Seconds {
    type Error = String;

    fn try_from(seconds: f64) -> Result<Self, String> {
        if !(0.0..=SECONDS_MAX).contains(&seconds) {
            return Err(format!("must be 0–{SECONDS_MAX} seconds, got {seconds}"));
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
