//! How numbers and times are written on pages.

use host_api::pretty;
use host_core::time::Time;

/// A whole number, or a reference to one as templates pass it.
pub(crate) trait Whole {
    fn whole(&self) -> u64;
}

impl Whole for u64 {
    fn whole(&self) -> u64 {
        *self
    }
}

impl Whole for u32 {
    fn whole(&self) -> u64 {
        (*self).into()
    }
}

impl<T: Whole> Whole for &T {
    fn whole(&self) -> u64 {
        (**self).whole()
    }
}

/// Writes a duration with its two largest units: `340 ms`, `1.2 s`, `4 min 3 s`, `2 d 1 h`.
pub(crate) fn duration(ms: impl Whole) -> String {
    let ms = ms.whole();
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{seconds}.{} s", ms % 1_000 / 100),
        60_000..3_600_000 => format!("{minutes} min {} s", seconds % 60),
        3_600_000..86_400_000 => format!("{hours} h {} min", minutes % 60),
        _ => format!("{} d {} h", hours / 24, hours % 24),
    }
}

/// Writes a duration with its largest unit: `4 min`, `2 d`.
fn roughly(ms: u64) -> String {
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..60_000 => format!("{seconds} s"),
        60_000..3_600_000 => format!("{minutes} min"),
        3_600_000..172_800_000 => format!("{hours} h"),
        _ => format!("{} d", hours / 24),
    }
}

/// Writes roughly how long ago an instant was. Clocks apart never make it negative.
pub(crate) fn ago(now: Time, at: impl AsRef<str>) -> String {
    match Time::parse_rfc3339(at.as_ref()) {
        Some(at) if at > now => format!("in {}", roughly(at.since_ms(now))),
        Some(at) if now.since_ms(at) < 1_000 => "now".to_owned(),
        Some(at) => format!("{} ago", roughly(now.since_ms(at))),
        None => String::new(),
    }
}

/// Writes an instant as people read it, in UTC: `2026-05-17 18:30:00`.
pub(crate) fn instant(at: impl AsRef<str>) -> String {
    let text = at.as_ref();
    let seconds = text.split('.').next().unwrap_or(text);
    seconds.trim_end_matches('Z').replace('T', " ")
}

/// Writes a number in groups of three digits.
pub(crate) fn number(number: impl Whole) -> String {
    pretty::count(number.whole())
}

/// Writes a number with three digits at most: `999`, `1.2k`, `35k`, `1.2M`.
pub(crate) fn compact(number: impl Whole) -> String {
    let number = number.whole();
    let in_units = |unit: u64, name: &str| match number / unit {
        whole @ 0..10 => format!("{whole}.{}{name}", number % unit * 10 / unit),
        whole => format!("{whole}{name}"),
    };
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => in_units(1_000, "k"),
        1_000_000..1_000_000_000 => in_units(1_000_000, "M"),
        _ => in_units(1_000_000_000, "G"),
    }
}

/// Writes the end of an id or the start of a digest, which tells it from others at a glance.
pub(crate) fn short(id: impl AsRef<str>) -> String {
    const CHARS: usize = 8;
    let id = id.as_ref();
    let is_id = id.contains('-') && id.is_ascii() && id.len() > CHARS;
    if is_id {
        return format!("…{}", &id[id.len() - CHARS..]);
    }
    id.chars().take(CHARS).collect()
}

/// Writes a number of jobs.
pub(crate) fn jobs(jobs: impl Whole) -> String {
    let jobs = jobs.whole();
    let noun = if jobs == 1 { "job" } else { "jobs" };
    format!("{} {noun}", number(jobs))
}

/// The units of bytes.
const UNITS: &[(u64, &str)] = &[(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// Writes a number of bytes.
pub(crate) fn bytes(bytes: impl Whole) -> String {
    let bytes = bytes.whole();
    match UNITS.iter().find(|(size, _)| bytes >= *size) {
        Some((size, unit)) => format!("{}.{} {unit}", bytes / size, bytes % size * 10 / size),
        None => format!("{bytes} B"),
    }
}

/// How many names a cell of a table shows.
pub(crate) const NAMES_SHOWN: usize = 20;

/// How many grants a page shows, and the longest line about one, in bytes.
pub(crate) const GRANTS_SHOWN: usize = 50;
const GRANT_BYTES_MAX: usize = 300;

/// The most of a text that a page shows, in bytes.
pub(crate) const SHOWN_BYTES_MAX: usize = 16 << 10;

/// Cuts a text that takes more than so many bytes on a page, where some characters are escaped. Returns whether it was.
pub(crate) fn cut(text: &str, bytes_max: usize) -> (&str, bool) {
    let mut bytes = 0;
    let end = text.char_indices().find(|(_, c)| {
        bytes += on_page(*c);
        bytes > bytes_max
    });
    match end {
        Some((end, _)) => (&text[..end], true),
        None => (text, false),
    }
}

/// Returns how many bytes a character takes on a page.
fn on_page(c: char) -> usize {
    match c {
        '<' | '>' | '&' | '"' | '\'' => "&#60;".len(),
        c => c.len_utf8(),
    }
}

/// Cuts a text where it is. Returns whether it was too long.
pub(crate) fn shorten(text: &mut String, bytes_max: usize) -> bool {
    let (shown, is_cut) = cut(text, bytes_max);
    let shown = shown.len();
    if is_cut {
        text.truncate(shown);
        text.push('…');
    }
    is_cut
}

/// How many bytes a page still has for what others wrote.
pub(crate) struct PageBudget(pub(crate) usize);

impl PageBudget {
    /// Takes the room for a text and cuts what is more than that, or than `bytes_max`. Returns whether it was cut.
    pub(crate) fn take(&mut self, text: &mut String, bytes_max: usize) -> bool {
        let is_cut = shorten(text, bytes_max.min(self.0));
        self.0 = self.0.saturating_sub(text.chars().map(on_page).sum());
        is_cut
    }

    /// The same for the first lines about grants.
    pub(crate) fn take_grants(&mut self, lines: &mut [String]) {
        for line in lines.iter_mut().take(GRANTS_SHOWN) {
            self.take(line, GRANT_BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_their_two_largest_units() {
        for (ms, expected) in [
            (0_u64, "0 ms"),
            (999, "999 ms"),
            (1_250, "1.2 s"),
            (243_000, "4 min 3 s"),
            (3_660_000, "1 h 1 min"),
            (176_400_000, "2 d 1 h"),
        ] {
            assert_eq!(duration(ms), expected);
        }
    }

    #[test]
    fn numbers_are_grouped_and_bytes_have_units() {
        for (number_, expected) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(number(number_), expected);
        }
        assert_eq!(
            [bytes(1_023_u32), bytes(1_536_u32), bytes(64_u32 << 20)],
            ["1023 B", "1.5 KiB", "64.0 MiB"]
        );
    }

    #[test]
    fn compact_numbers_have_three_digits_at_most() {
        for (number, expected) in [
            (999_u64, "999"),
            (1_250, "1.2k"),
            (35_400, "35k"),
            (999_999, "999k"),
            (1_000_000, "1.0M"),
            (2_500_000_000, "2.5G"),
        ] {
            assert_eq!(compact(number), expected);
        }
    }

    #[test]
    fn texts_are_cut_by_what_they_take_on_a_page() {
        for (text, bytes_max, expected) in [
            ("abc", 3, ("abc", false)),
            ("abcd", 3, ("abc", true)),
            ("äb", 2, ("ä", true)),
            ("äb", 1, ("", true)),
            ("a<b", 6, ("a<", true)),
            ("a<b", 5, ("a", true)),
        ] {
            assert_eq!(cut(text, bytes_max), expected, "{text} {bytes_max}");
        }
        let mut text = "a'b".to_owned();
        shorten(&mut text, 4);
        assert_eq!(text, "a…");
    }

    #[test]
    fn instants_are_readable() {
        assert_eq!(instant("2026-05-17T18:30:00.250Z"), "2026-05-17 18:30:00");
        let now = Time::parse_rfc3339("2026-05-17T18:30:10Z").unwrap();
        for (at, expected) in [
            ("2026-05-17T18:30:00Z", "10 s ago"),
            ("2026-05-17T18:31:10Z", "in 1 min"),
            ("yesterday", ""),
        ] {
            assert_eq!(ago(now, at), expected);
        }
    }
}
