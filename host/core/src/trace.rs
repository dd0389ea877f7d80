//! W3C trace context: the header that names a trace and the span that caused what follows. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The name of the header.
pub const TRACEPARENT: &str = "traceparent";

/// The name of the accompanying header, with data for tracing systems.
pub const TRACESTATE: &str = "tracestate";

/// The start of the names of attributes that describe the spans of a job too.
pub const CORRELATION: &str = "correlation.";

/// The flag of a sampled trace.
const SAMPLED: u8 = 1;

/// A span as seen by its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub trace_id: u128,
    pub span_id: u64,
    pub is_sampled: bool,
}

impl Parent {
    /// Parses `00-<32 digits>-<16 digits>-<2 digits>` in lower-case hexadecimal, with neither id
    /// zero. Later versions may append fields.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2).filter(|version| *version != 0xff)?;
        let trace_id = hex(parts.next()?, 32).filter(|id| *id != 0)?;
        let span_id = hex(parts.next()?, 16).filter(|id| *id != 0)?;
        let flags = hex(parts.next()?, 2)?;
        let more = parts.next().is_some();
        if more && version == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            span_id: u64::try_from(span_id).ok()?,
            is_sampled: flags & u128::from(SAMPLED) != 0,
        })
    }

    /// Finds the header among the pairs of a trace context. Its name is lower-case, as peers write it.
    pub fn of(pairs: &[(String, String)]) -> Option<Self> {
        let header = pairs.iter().find(|(name, _)| name == TRACEPARENT);
        header.and_then(|(_, value)| Self::read(value))
    }

    /// Puts the header before the pairs of a trace context, replacing an existing one, because some peers
    /// read only the first pairs.
    pub fn put(self, pairs: &mut Vec<(String, String)>) {
        pairs.retain(|(name, _)| name != TRACEPARENT);
        pairs.insert(0, (TRACEPARENT.to_owned(), self.to_string()));
    }
}

/// Writes the value of the header.
impl fmt::Display for Parent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, span, flags) = (self.trace_id, self.span_id, u8::from(self.is_sampled));
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let is_hex = text.len() == digits && text.bytes().all(digit);
    is_hex
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    #[test]
    fn only_whole_headers_are_read() {
        let good = format!("00-{TRACE}-{SPAN}-01");
        let parent = Parent::read(&good).unwrap();
        assert!(parent.is_sampled);
        assert_eq!(parent.to_string(), good);
        let other = format!("00-{TRACE}-{SPAN}-00");
        assert!(!Parent::read(&other).unwrap().is_sampled);
        assert!(
            Parent::read(&format!("01-{TRACE}-{SPAN}-03-more"))
                .unwrap()
                .is_sampled
        );
        for bad in [
            String::new(),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-+{}-01", &SPAN[1..]),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{}-{SPAN}-01", "0".repeat(32)),
        ] {
            assert_eq!(Parent::read(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_header_takes_the_place_of_another_one() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let old = format!("00-{TRACE}-{SPAN}-01");
        let mut pairs = vec![pair(TRACEPARENT, &old), pair(TRACESTATE, "a=1")];
        let parent = Parent::of(&pairs).unwrap();
        let here = Parent {
            span_id: 1,
            ..parent
        };
        here.put(&mut pairs);
        let new = format!("00-{TRACE}-0000000000000001-01");
        assert_eq!(pairs, [pair(TRACEPARENT, &new), pair(TRACESTATE, "a=1")]);
    }
}
