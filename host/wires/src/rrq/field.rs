//! Reads single fields of a message. An error describes a wrong value by its type and length, never
//! by its content.

use std::collections::BTreeMap;

use host_core::time::Time;
use host_core::trace::{Parent, TRACEPARENT, TRACESTATE};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::kit::text::found;

/// The longest id that is accepted and echoed, in bytes.
pub(super) const ID_BYTES_MAX: usize = 4_096;

/// The most pairs kept of a trace or correlation context.
pub(super) const PAIRS_MAX: usize = 16;

/// The longest key or value of such a pair, in bytes.
pub(super) const PAIR_BYTES_MAX: usize = 512;

/// Returns whether the field is absent or `null`.
pub(super) fn is_absent(raw: Option<&RawValue>) -> bool {
    raw.is_none_or(|raw| raw.get() == "null")
}

/// Reads a field that must be present.
pub(super) fn required<'a, T>(
    raw: Option<&'a RawValue>,
    read: impl FnOnce(&'a RawValue) -> Result<T, String>,
) -> Result<T, String> {
    raw.ok_or_else(|| "nothing".to_owned()).and_then(read)
}

/// Reads a field that may be absent or `null`.
pub(super) fn optional<'a, T>(
    raw: Option<&'a RawValue>,
    read: impl FnOnce(&'a RawValue) -> Result<T, String>,
) -> Result<Option<T>, String> {
    raw.filter(|raw| raw.get() != "null").map(read).transpose()
}

fn parse<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, String> {
    serde_json::from_str(raw.get()).map_err(|_| found(raw.get()))
}

pub(super) fn text(raw: &RawValue) -> Result<String, String> {
    parse(raw)
}

pub(super) fn boolean(raw: &RawValue) -> Result<bool, String> {
    parse(raw)
}

pub(super) fn number(raw: &RawValue) -> Result<f64, String> {
    parse(raw)
}

/// Reads an object. Rejects all other types.
pub(super) fn object<'a, T: Deserialize<'a>>(raw: &'a RawValue) -> Result<T, String> {
    if !raw.get().starts_with('{') {
        return Err(found(raw.get()));
    }
    parse(raw)
}

/// Reads an id: any string that is not too long.
pub(super) fn id(raw: &RawValue) -> Result<String, String> {
    let id: String = parse(raw)?;
    if id.len() > ID_BYTES_MAX {
        return Err(format!("a string of {} bytes", id.len()));
    }
    Ok(id)
}

/// Reads the number of an attempt.
pub(super) fn attempt(raw: &RawValue) -> Result<u32, String> {
    match parse(raw)? {
        0 => Err("a number below 1".to_owned()),
        attempt => Ok(attempt),
    }
}

/// Reads an RFC 3339 time with any fraction and offset.
pub(super) fn time(raw: &RawValue) -> Result<Time, String> {
    let text: String = parse(raw)?;
    Time::parse_rfc3339(&text).ok_or_else(|| found(raw.get()))
}

/// Reads the pairs of an object whose values are strings, up to our limits. Skips everything else,
/// because no job may fail for its context.
pub(super) fn pairs(raw: Option<&RawValue>) -> Vec<(String, String)> {
    let Ok(Some(all)) = optional(raw, object::<BTreeMap<String, &RawValue>>) else {
        return Vec::new();
    };
    all.into_iter()
        .filter_map(|(key, value)| Some((key, text(value).ok()?)))
        .filter(|(key, value)| fits(key) && fits(value))
        .take(PAIRS_MAX)
        .collect()
}

fn fits(text: &str) -> bool {
    text.len() <= PAIR_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Reads a trace context as pairs, with the names of its headers in lower case. Skips an invalid
/// `traceparent`, and with it the `tracestate`.
pub(super) fn trace(raw: Option<&RawValue>) -> Vec<(String, String)> {
    let is = |key: &str, header: &str| key.eq_ignore_ascii_case(header);
    let mut pairs = pairs(raw);
    let broken = pairs
        .iter()
        .any(|(key, value)| is(key, TRACEPARENT) && Parent::read(value).is_none());
    if broken {
        pairs.retain(|(key, _)| !is(key, TRACEPARENT) && !is(key, TRACESTATE));
    }
    for (key, _) in &mut pairs {
        if is(key, TRACEPARENT) || is(key, TRACESTATE) {
            key.make_ascii_lowercase();
        }
    }
    pairs
}
