//! Times in documents and queries.

use host_core::time::Time;

/// Reads the time of a field or a parameter, RFC 3339 with its offset. An error begins with the field.
pub fn instant(field: &str, text: &str) -> Result<Time, String> {
    Time::parse_rfc3339(text).ok_or_else(|| {
        format!("{field}: expected an RFC 3339 time with its offset, such as 2026-05-17T18:30:00Z")
    })
}
