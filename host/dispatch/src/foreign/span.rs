//! The span of one execution for another orchestrator, a child of the trace that came with it.

use std::fmt;

use host_core::outcome::Outcome;
use host_core::port::ForeignJob;
use tracing::Span;

use super::request::Ids;

/// The header of W3C trace context that names the trace and the parent span.
const TRACEPARENT: &str = "traceparent";

/// Opens the span of a job when a cell gets it.
pub(super) fn open(ids: Ids, job: &ForeignJob) -> Span {
    let parent = job.trace.iter().find(|(name, _)| name == TRACEPARENT);
    let trace = parent.and_then(|(_, value)| Parent::read(value));
    tracing::debug_span!(
        "foreign.run",
        otel.name = job.span,
        wire = job.wire,
        trace_id = trace.map(|parent| tracing::field::display(parent.trace_id)),
        parent_id = trace.map(|parent| tracing::field::display(parent.span_id)),
        job = %ids.job,
        external_id = ?job.external_id,
        handler = job.handler.as_str(),
        attempt = job.attempt,
    )
}

/// Closes the span with the job's outcome.
pub(super) fn close(span: &Span, outcome: &Outcome, ran_ms: u64) {
    span.in_scope(|| {
        let outcome = outcome.as_str();
        tracing::debug!(outcome, ran_ms, "the execution has ended");
    });
}

/// The parent of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent<'a> {
    trace_id: Hex<'a>,
    span_id: Hex<'a>,
}

/// Lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hex<'a>(&'a str);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl<'a> Parent<'a> {
    /// Parses `00-<32 digits>-<16 digits>-<2 digits>`. Later versions may append fields.
    fn read(text: &'a str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2).filter(|version| version.0 != "ff")?;
        let trace_id = hex(parts.next()?, 32)?;
        let span_id = hex(parts.next()?, 16)?;
        hex(parts.next()?, 2)?;
        let more = parts.next().is_some();
        let zero = |id: Hex<'_>| id.0.bytes().all(|digit| digit == b'0');
        if zero(trace_id) || zero(span_id) || (more && version.0 == "00") {
            return None;
        }
        Some(Self { trace_id, span_id })
    }
}

fn hex(text: &str, digits: usize) -> Option<Hex<'_>> {
    let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    (text.len() == digits && text.bytes().all(digit)).then_some(Hex(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_parents_are_read() {
        let trace = "4bf92f3577b34da6a3ce929d0e0e4736";
        let span = "00f067aa0ba902b7";
        let good = format!("00-{trace}-{span}-01");
        let parent = Parent::read(&good).unwrap();
        assert_eq!((parent.trace_id.0, parent.span_id.0), (trace, span));
        assert!(Parent::read(&format!("01-{trace}-{span}-01-more")).is_some());
        for bad in [
            String::new(),
            format!("ff-{trace}-{span}-01"),
            format!("00-{trace}-{span}"),
            format!("00-{trace}-{span}-01-more"),
            format!("00-{}-{span}-01", trace.to_uppercase()),
            format!("00-{trace}-{}-01", "0".repeat(16)),
            format!("00-{}-{span}-01", "0".repeat(32)),
        ] {
            assert_eq!(Parent::read(&bad), None, "{bad}");
        }
    }
}
