//! JSON as the server sent it: laid out for reading without touching numbers or the order of keys.

use std::fmt::Write as _;
use std::io::Read as _;

use serde_json::value::RawValue;

use crate::error::{CliError, Exit};
use crate::plain;

/// Lays out valid JSON with two spaces per level; text that is not JSON comes back as it is.
pub(crate) fn pretty(json: &str) -> String {
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

/// Returns valid JSON with every character that could act on a terminal as a `\u` escape, which
/// means the same.
pub(crate) fn harmless(json: &str) -> String {
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
pub(crate) fn with_member(object: &str, key: &str, value: &str) -> String {
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

/// Reads the JSON argument `given` of the option `option`: the text itself, `@FILE`, or `-` for
/// standard input.
pub(crate) fn argument(option: &str, given: &str) -> Result<Box<RawValue>, CliError> {
    let (from, text) = if given == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .map_err(|error| unreadable(option, "standard input", &error))?;
        (" from standard input".to_owned(), text)
    } else if let Some(path) = given.strip_prefix('@') {
        let text =
            std::fs::read_to_string(path).map_err(|error| unreadable(option, path, &error))?;
        (format!(" from {path}"), text)
    } else {
        (String::new(), given.to_owned())
    };
    serde_json::from_str(&text).map_err(|error| {
        CliError::new(Exit::Usage, format!("read {option}{from} as JSON"), error).next(format!(
            "quote it for the shell: {option} '{{\"key\": \"value\"}}'"
        ))
    })
}

fn unreadable(option: &str, source: &str, error: &std::io::Error) -> CliError {
    CliError::new(Exit::Usage, format!("read {option} from {source}"), error).next(format!(
        "{option} takes JSON, @FILE with a readable file, or - for standard input"
    ))
}

#[cfg(test)]
mod tests;
