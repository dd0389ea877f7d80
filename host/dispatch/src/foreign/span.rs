//! The span of one execution for another orchestrator, a child of the trace that came with it.

use std::fmt;

use host_core::outcome::Outcome;
use host_core::port::ForeignJob;
use host_core::port::spans::{Attribute, Span as Ended};
use host_core::time::Time;
use host_runtime::ids as random;
use tracing::Span;

use super::request::Ids;

/// The header of W3C trace context that names the trace and the parent span.
const TRACEPARENT: &str = "traceparent";

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// The digits of a span's id.
const SPAN_DIGITS: usize = 16;

/// Opens the span of a job when a cell gets it.
pub(super) fn open(ids: Ids, job: &ForeignJob) -> Span {
    let trace = parent(job);
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

fn parent(job: &ForeignJob) -> Option<Parent<'_>> {
    let parent = job.trace.iter().find(|(name, _)| name == TRACEPARENT);
    parent.and_then(|(_, value)| Parent::read(value))
}

/// The place of an execution in its trace, where spans are collected.
pub(super) struct Place {
    trace_id: String,
    id: String,
    parent_id: Option<String>,
    attributes: Vec<(String, Attribute)>,
    name: &'static str,
}

impl Place {
    /// Begins a span, and makes it the parent of what the guest does. A trace whose sender does not
    /// record it gets none.
    pub(super) fn begin(
        now: Time,
        job: &ForeignJob,
        trace: &mut Vec<(String, String)>,
    ) -> Option<Self> {
        let parent = parent(job);
        if parent.is_some_and(|parent| parent.flags & SAMPLED == 0) {
            return None;
        }
        let trace_id = parent.map_or_else(random::unique, |parent| parent.trace_id.to_string());
        let mut id = random::unique();
        id.drain(..id.len() - SPAN_DIGITS);
        trace.retain(|(name, _)| name != TRACEPARENT);
        let here = format!("00-{trace_id}-{id}-{SAMPLED:02x}");
        trace.push((TRACEPARENT.to_owned(), here));
        Some(Self {
            trace_id,
            id,
            parent_id: parent.map(|parent| parent.span_id.to_string()),
            attributes: attributes(now, job),
            name: job.span,
        })
    }

    /// Ends the span.
    pub(super) fn end(
        self,
        wire: &str,
        (began_at, ended_at): (Time, Time),
        outcome: &Outcome,
    ) -> Ended {
        let mut attributes = self.attributes;
        let mut add = |name: &str, value| attributes.push((format!("{wire}.{name}"), value));
        add("outcome", Attribute::Text(outcome.as_str().to_owned()));
        add("duration_ms", number(ended_at.since_ms(began_at)));
        let mut error = None;
        match outcome {
            Outcome::Failed(failure) => {
                let kind = failure.user_kind.as_deref();
                let kind = kind.unwrap_or(failure.kind.as_str());
                add("error_type", Attribute::Text(kind.to_owned()));
                error = Some(failure.message.clone());
            }
            Outcome::Retry { after_ms, .. } => {
                if let Some(after_ms) = after_ms {
                    add("retry_delay_ms", number(*after_ms));
                }
            }
            Outcome::Completed { .. } | Outcome::Cancelled { .. } => {}
        }
        Ended {
            name: self.name,
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            began_at,
            ended_at,
            attributes,
            error,
        }
    }
}

/// Returns what is known of an execution before it begins, in names that begin with its wire's.
fn attributes(now: Time, job: &ForeignJob) -> Vec<(String, Attribute)> {
    let text = |text: &str| Some(Attribute::Text(text.to_owned()));
    let left_ms = job.deadline.map(|deadline| number(deadline.since_ms(now)));
    let waited_ms = job.enqueued_at.map(|at| number(now.since_ms(at)));
    let all = [
        ("job_id", text(&job.external_id)),
        ("request_id", text(&job.request_id)),
        ("function", text(job.handler.as_str())),
        ("queue", text(&job.queue)),
        ("attempt", Some(number(job.attempt.into()))),
        ("worker_id", job.worker_id.as_deref().and_then(text)),
        ("deadline_remaining_ms", left_ms),
        ("queue_wait_ms", waited_ms),
    ];
    let all = all.into_iter();
    all.filter_map(|(name, value)| Some((format!("{}.{name}", job.wire), value?)))
        .collect()
}

fn number(number: u64) -> Attribute {
    Attribute::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

/// The parent of the span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent<'a> {
    trace_id: Hex<'a>,
    span_id: Hex<'a>,
    flags: u8,
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
        let flags = hex(parts.next()?, 2)?;
        let more = parts.next().is_some();
        let zero = |id: Hex<'_>| id.0.bytes().all(|digit| digit == b'0');
        if zero(trace_id) || zero(span_id) || (more && version.0 == "00") {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            flags: u8::from_str_radix(flags.0, 16).ok()?,
        })
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
