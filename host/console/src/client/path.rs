//! Builds paths and query strings from names and values.

use std::fmt::Write as _;

/// Escapes a name or id as one segment of a path.
pub fn segment(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _infallible = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Joins the given parameters to a query string, empty if there are none.
pub fn query(parameters: &[(&str, Option<String>)]) -> String {
    let mut out = String::new();
    for (key, value) in parameters {
        if let Some(value) = value {
            out.push(if out.is_empty() { '?' } else { '&' });
            out.push_str(key);
            out.push('=');
            out.push_str(&segment(value));
        }
    }
    out
}
