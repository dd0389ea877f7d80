//! Formats one line of a guest's log for people.

use std::borrow::Cow;
use std::fmt::Write as _;

use host_console::plain;

/// Returns the label in front of a line: its source, or the level that the guest gave it.
pub(crate) fn label<'a>(source: &'a str, level: &'a str) -> &'a str {
    match source {
        "stdout" => "out",
        "stderr" => "err",
        "host" => "host",
        _ => level,
    }
}

/// Writes a line with its time and label in front; further lines of
/// the message are indented, so that a guest cannot forge a log line.
pub(crate) fn line<'a>(
    at_ms: u64,
    label: &str,
    message: &str,
    fields: impl Iterator<Item = (&'a str, Cow<'a, str>)>,
) -> String {
    let (seconds, ms) = (at_ms / 1000, at_ms % 1000);
    let text = plain::block(message.trim_end()).replace('\n', "\n               │ ");
    let mut line = format!("{seconds:>4}.{ms:03} {:<5} {text}", plain::line(label));
    for (key, value) in fields {
        let _ = write!(line, " {}={}", plain::line(key), plain::line(&value));
    }
    line
}
