//! The pairs of a request's trace and correlation contexts.

use std::collections::BTreeMap;

use host_core::trace::{Parent, TRACEPARENT, TRACESTATE};
use serde_json::value::RawValue;

use host_wire_kit::fields::Fields;

/// The most pairs kept of a trace or correlation context.
pub(crate) const PAIRS_MAX: usize = 16;

/// The longest key or value of such a pair, in bytes.
pub(crate) const PAIR_BYTES_MAX: usize = 512;

/// Reads the pairs of an object whose values are strings, up to our limits. Skips everything else,
/// because no job may fail for its context.
pub(super) fn pairs(context: &Fields<'_>, name: &str) -> Vec<(String, String)> {
    let all: Option<BTreeMap<String, &RawValue>> = context.lenient(name);
    all.unwrap_or_default()
        .into_iter()
        .filter_map(|(key, value)| Some((key, serde_json::from_str(value.get()).ok()?)))
        .filter(|(key, value): &(String, String)| fits(key) && fits(value))
        .take(PAIRS_MAX)
        .collect()
}

fn fits(text: &str) -> bool {
    text.len() <= PAIR_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Reads a trace context as pairs, with the names of its headers in lower case. Skips an invalid
/// `traceparent`, and with it the `tracestate`.
pub(super) fn trace(context: &Fields<'_>) -> Vec<(String, String)> {
    let is = |key: &str, header: &str| key.eq_ignore_ascii_case(header);
    let mut pairs = pairs(context, "trace_context");
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
