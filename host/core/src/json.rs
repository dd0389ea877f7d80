//! JSON as text: the host passes params, results and details on unparsed.

mod strict;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use self::strict::Strict;

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

    /// Returns the document `null`.
    pub fn null() -> Self {
        Self("null".to_owned())
    }
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
