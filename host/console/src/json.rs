//! Lays out JSON from the server for reading. Numbers and the order of keys stay unchanged.

mod argument;

pub use argument::argument;

use std::fmt::Write as _;

use serde_json::value::RawValue;

use crate::plain;

/// Lays out valid JSON with two spaces per level. Text that is not JSON is returned unchanged.
pub fn pretty(json: &str) -> String {
    if serde_json::from_str::<&RawValue>(json).is_err() {
        return json.to_owned();
    }
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut opened = false;
    for c in json.chars() {
        if in_string {
            out.push(c);
            (in_string, escaped) = (escaped || c != '"', !escaped && c == '\\');
            continue;
        }
        if c.is_ascii_whitespace() {
            continue;
        }
        if opened && !matches!(c, '}' | ']') {
            new_line(&mut out, depth);
        }
        match c {
            '{' | '[' => {
                depth += 1;
                out.push(c);
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                if !opened {
                    new_line(&mut out, depth);
                }
                out.push(c);
            }
            ',' => {
                out.push(c);
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c => {
                in_string = c == '"';
                out.push(c);
            }
        }
        opened = matches!(c, '{' | '[');
    }
    out
}

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

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    (0..depth).for_each(|_| out.push_str("  "));
}

#[cfg(test)]
mod tests;
