//! Reads and writes durations, sizes, counts and ages in the form that people use. It reads no
//! clock: the caller gives both times of an age.

pub use host_api::pretty::count;
use host_core::seconds::Seconds;
use host_core::time::Time;

use crate::plain;

/// Parses `30s`, `1h30m`, `250ms`, `2d`: whole numbers, each with a unit.
pub fn parse_duration(text: &str) -> Result<Seconds, String> {
    Seconds::from_text(text)
}

/// Returns a parser of whole numbers in a range, for options.
pub fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let parsed = text.parse().ok();
        let in_range = parsed.filter(|parsed| (least..=most).contains(parsed));
        let number = in_range.and_then(|in_range| T::try_from(in_range).ok());
        number.ok_or_else(|| format!("expected a whole number, {least}–{most}"))
    }
}

/// Parses an RFC 3339 time and returns it in UTC.
pub fn parse_time(text: &str) -> Result<String, String> {
    Time::parse_rfc3339(text)
        .map(Time::to_rfc3339)
        .ok_or_else(|| {
            "expected an RFC 3339 time with its zone, such as 2026-05-17T18:30:00Z".to_owned()
        })
}

/// Formats how long something took: `850 ms`, `1.2 s`, `2m05s`, `3h10m`, `4d02h`.
pub fn took(ms: u64) -> String {
    let seconds = ms / 1000;
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", seconds, ms % 1000 / 100),
        60_000..3_600_000 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600_000..86_400_000 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Formats a time that is known in microseconds: `0.2 ms`, `9.8 ms`, `850 ms`, `1.2 s`.
pub fn took_us(us: u64) -> String {
    match us {
        0..10_000 => format!("{}.{} ms", us / 1000, us % 1000 / 100),
        _ => took(us / 1000),
    }
}

/// Formats the time between two instants in the largest unit that fits: `12s`, `4m`, `3h`, `2d`.
/// The host's time has whole seconds, so an instant less than a second ahead counts as now.
pub fn age(now: Time, then: Time) -> String {
    let (ahead, ms) = if then > now.plus_ms(999) {
        ("in ", then.since_ms(now))
    } else {
        ("", now.since_ms(then))
    };
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{ahead}{seconds}s"),
        60..3_600 => format!("{ahead}{}m", seconds / 60),
        3_600..86_400 => format!("{ahead}{}h", seconds / 3_600),
        _ => format!("{ahead}{}d", seconds / 86_400),
    }
}

/// Formats how long ago `then` was. Returns an empty text if either instant is unknown.
pub fn ago(now: Option<Time>, then: Option<&str>) -> String {
    match (now, then.and_then(Time::parse_rfc3339)) {
        (Some(now), Some(then)) => age(now, then),
        _ => String::new(),
    }
}

/// Formats an instant and its distance from now. Other text is made safe for a terminal.
pub fn instant(now: Option<Time>, at: &str) -> String {
    let shown = plain::line(at);
    match ago(now, Some(at)) {
        age if age.starts_with("in ") => format!("{shown} ({age})"),
        age if age.is_empty() => shown.into_owned(),
        age => format!("{shown} ({age} ago)"),
    }
}

/// Formats a number of things: `1 job`, `1,007 jobs`.
pub fn counted(n: u64, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{} {noun}{s}", count(n))
}

/// Formats a size: `512 B`, `1.1 MiB`.
pub fn bytes(n: u64) -> String {
    const NAMES: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if n < 1 << 10 {
        return format!("{n} B");
    }
    let mut power = 0;
    while power + 1 < NAMES.len() && n >> (10 * (power + 2)) > 0 {
        power += 1;
    }
    let unit = 1_u128 << (10 * (power + 1));
    let tenths = u128::from(n) * 10 / unit;
    let name = NAMES.get(power).copied().unwrap_or_default();
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests;
