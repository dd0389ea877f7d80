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

/// Returns whether a name or id in a path is empty.
pub(super) fn lacks_segment(path: &str) -> bool {
    let path = path.split('?').next().unwrap_or_default();
    path.split('/').skip(1).any(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_found() {
        for (path, lacks) in [
            ("/api/v1/jobs", false),
            ("/api/v1/jobs?handler=a/", false),
            ("/api/v1/jobs/", true),
            ("/api/v1/jobs//wait?x=1", true),
        ] {
            assert_eq!(lacks_segment(path), lacks, "{path}");
        }
    }
}
