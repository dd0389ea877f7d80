//! JSON as text: the host passes params, results and details on unparsed.

mod find;
mod pairs;
pub mod strict;
pub mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::pairs::Pairs;

/// The deepest nesting of arrays and objects. Most languages' parsers accept this depth.
pub const DEPTH_MAX: usize = 127;

/// One JSON document as UTF-8 text. The caller must check that the text parses.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonText(pub String);

impl JsonText {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns how deep arrays and objects are nested; 0 if the document is neither.
    pub fn depth(&self) -> usize {
        let (mut depth, mut deepest) = (0_usize, 0);
        let (mut quoted, mut escaped) = (false, false);
        for byte in self.0.bytes() {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ if quoted => {}
                b'[' | b'{' => {
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        deepest
    }

    /// Returns the first integer that no integer of 64 bits can be, with or without a sign.
    pub fn wide_integer(&self) -> Option<&str> {
        let mut rest = self.0.as_str();
        while let Some(start) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
            rest = &rest[start..];
            if let Some(text) = rest.strip_prefix('"') {
                rest = after_text(text);
                continue;
            }
            let is_of_number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c);
            let end = rest.find(|c| !is_of_number(c)).unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            let is_integer = !number.contains(['.', 'e', 'E']);
            if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                return Some(number);
            }
            rest = after;
        }
        None
    }

    /// Returns the document `null`.
    pub fn null() -> Self {
        Self("null".to_owned())
    }
}

/// Returns what follows the quote that ends a text.
fn after_text(text: &str) -> &str {
    let mut escaped = false;
    let end = text.bytes().position(|byte| match byte {
        _ if escaped => {
            escaped = false;
            false
        }
        b'\\' => {
            escaped = true;
            false
        }
        byte => byte == b'"',
    });
    end.map_or("", |end| &text[end + 1..])
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JsonText({} bytes)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::JsonText;

    #[test]
    fn integers_wider_than_64_bits_are_found() {
        #[rustfmt::skip]
        let table = [
            ("18446744073709551615", None),
            ("-9223372036854775808", None),
            ("18446744073709551616", Some("18446744073709551616")),
            (r#"{"a":[1,-9223372036854775809]}"#, Some("-9223372036854775809")),
            (r#"{"99999999999999999999":"\"99999999999999999999"}"#, None),
            ("[99999999999999999999.5, 1e30, 0.1, -0]", None),
        ];
        for (text, wide) in table {
            assert_eq!(JsonText(text.to_owned()).wide_integer(), wide, "{text}");
        }
    }

    #[test]
    fn depth_counts_what_is_nested_outside_of_texts() {
        #[rustfmt::skip]
        let table = [
            ("1", 0),
            ("[]", 1),
            ("[[1],{\"a\":[{}]}]", 4),
            ("\"[[[\"", 0),
            ("{\"[\\\"[\":1}", 1),
            ("{\"\\\\\":[1]}", 2),
        ];
        for (text, depth) in table {
            assert_eq!(JsonText(text.to_owned()).depth(), depth, "{text}");
        }
    }
}
