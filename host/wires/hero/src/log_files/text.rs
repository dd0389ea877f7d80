//! Formats a guest's log line as one line of text: time, level, job, message and fields. Escapes
//! control characters.

use std::fmt::Write as _;

use host_core::cell::{Level, LogLine};
use host_core::time::Time;

/// Appends a line of a job, with a line break.
pub(super) fn add(text: &mut String, job: &str, started_at: Time, line: &LogLine) {
    head(text, started_at.plus_ms(line.at_ms), line.level, job);
    plain(text, &line.message);
    for (name, value) in &line.fields {
        text.push(' ');
        plain(text, name);
        text.push('=');
        plain(text, &value.plain());
    }
    text.push('\n');
}

/// Appends a note of the host, with a line break.
pub(super) fn note(text: &mut String, job: &str, at: Time, words: &str) {
    head(text, at, Level::Warn, job);
    text.push_str(words);
    text.push('\n');
}

fn head(text: &mut String, at: Time, level: Level, job: &str) {
    // Writing to a string cannot fail.
    let _ = write!(text, "{} {:5} {job} ", at.to_rfc3339(), level.as_str());
}

/// Appends a text. Escapes characters that break lines or control terminals.
fn plain(text: &mut String, words: &str) {
    for c in words.chars() {
        let acts = matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        if c == '\t' {
            text.push(c);
        } else if acts || c.is_control() {
            text.extend(c.escape_default());
        } else {
            text.push(c);
        }
    }
}
