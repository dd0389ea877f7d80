//! JSON from the server for a terminal, and JSON of arguments.

mod argument;

pub use argument::argument;

use std::fmt::Write as _;

use crate::plain;

/// Returns valid JSON in which every character that could control a terminal is written as a `\u`
/// escape. The meaning stays the same.
pub fn harmless(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if plain::acts(c) && !c.is_ascii_whitespace() {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// Returns the JSON object `object` with one more member at its end.
pub fn with_member(object: &str, key: &str, value: &str) -> String {
    let Some(open) = object.trim_end().strip_suffix('}') else {
        return object.to_owned();
    };
    let comma = if open.trim_end().ends_with('{') {
        ""
    } else {
        ","
    };
    format!("{open}{comma}\"{key}\":{value}}}")
}

#[cfg(test)]
mod tests;
