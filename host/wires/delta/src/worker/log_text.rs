//! Lines of a guest as text: time, level, message, fields. Pure.

use std::fmt::Write as _;

use host_core::cell::LogLine;
use host_core::time::Time;

/// Writes each line on one line. `started_at` is what the times of the lines count from.
pub(super) fn text(started_at: Time, lines: &[LogLine]) -> String {
    let mut text = String::new();
    for line in lines {
        let at = started_at.plus_ms(line.at_ms).to_rfc3339();
        let level = line.level.as_str();
        let message = line.message.replace(['\r', '\n'], " ");
        let _ = write!(text, "{at} {level} {message}");
        for (name, value) in &line.fields {
            let _ = write!(text, " {name}={:?}", value.plain());
        }
        text.push('\n');
    }
    text
}
