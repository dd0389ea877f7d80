//! Reports what a long step does, how long it may take, and how long it took, on standard error, so that
//! standard output stays clean.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How long a step usually takes.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    Seconds,
    /// It builds what changed; on a first run this is a few small packages, or downloads.
    MinuteAtFirst,
    /// It builds what changed; on a first run this is everything.
    MinutesAtFirst,
    Minutes,
}

impl Expected {
    const fn words(self) -> &'static str {
        match self {
            Self::Seconds => "a few seconds",
            Self::MinuteAtFirst => "about a minute on a first run",
            Self::MinutesAtFirst => "several minutes on a first run",
            Self::Minutes => "several minutes",
        }
    }
}

/// Does one step, and reports it before and after.
pub(crate) fn step<T>(
    name: &str,
    expected: Expected,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    eprintln!("== {name}: {}", expected.words());
    let start = Instant::now();
    let made = work().with_context(|| format!("the step `{name}` failed"))?;
    eprintln!("== {name}: done in {}", format_time(start.elapsed()));
    Ok(made)
}

/// Formats a duration: `8 s`, `12 min 30 s`.
fn format_time(elapsed: Duration) -> String {
    let seconds = elapsed.as_secs();
    match seconds / 60 {
        0 => format!("{seconds} s"),
        minutes => format!("{minutes} min {} s", seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::format_time;

    #[test]
    fn durations_are_written_as_a_person_says_them() {
        for (seconds, expected) in [
            (0, "0 s"),
            (59, "59 s"),
            (60, "1 min 0 s"),
            (750, "12 min 30 s"),
        ] {
            assert_eq!(format_time(Duration::from_secs(seconds)), expected);
        }
    }
}
