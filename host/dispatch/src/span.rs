//! A span that has begun: its place in its trace, and what is known of it.

use host_core::failure::Failure;
use host_core::outcome::Outcome;
use host_core::port::spans::{Attribute, Kind, Span};
use host_core::time::Time;
use host_core::trace::{CORRELATION, Parent};
use host_runtime::ids;

/// The spans of new jobs, in their order; none of those whose trace is not recorded.
pub(crate) type Enqueues = Vec<Option<Open>>;

/// A span that has not ended.
#[derive(Debug)]
pub(crate) struct Open {
    name: &'static str,
    kind: Kind,
    trace_id: u128,
    id: u64,
    parent_id: Option<u64>,
    began_at: Time,
    /// The names of its own attributes begin with this and a dot.
    prefix: &'static str,
    attributes: Vec<(String, Attribute)>,
}

impl Open {
    /// Begins a span of the trace, and makes it the parent of what comes after. A trace whose sender
    /// does not record it gets none. Without a trace one begins here.
    pub(crate) fn begin(
        now: Time,
        (name, kind, prefix): (&'static str, Kind, &'static str),
        trace: &mut Vec<(String, String)>,
    ) -> Option<Self> {
        let parent = Parent::of(trace);
        if parent.is_some_and(|parent| !parent.is_sampled) {
            return None;
        }
        let here = Parent {
            trace_id: parent.map_or_else(ids::trace, |parent| parent.trace_id),
            span_id: ids::span(),
            is_sampled: true,
        };
        here.put(trace);
        Some(Self {
            name,
            kind,
            trace_id: here.trace_id,
            id: here.span_id,
            parent_id: parent.map(|parent| parent.span_id),
            began_at: now,
            prefix,
            attributes: Vec::new(),
        })
    }

    /// Adds an attribute.
    pub(crate) fn add(&mut self, name: &str, value: Attribute) {
        self.attributes
            .push((format!("{}.{name}", self.prefix), value));
    }

    /// Adds those attributes of a job that describe its spans too, under their names there. They do
    /// not replace ours.
    pub(crate) fn correlate(&mut self, attributes: &[(String, String)]) {
        for (name, value) in attributes {
            let Some(name) = name.strip_prefix(CORRELATION) else {
                continue;
            };
            if !name.is_empty() && self.attributes.iter().all(|(ours, _)| ours != name) {
                let value = Attribute::text(value);
                self.attributes.push((name.to_owned(), value));
            }
        }
    }

    /// Ends the span of an attempt.
    pub(crate) fn end_as(mut self, ended_at: Time, ended: SpanEnd) -> Span {
        self.add("outcome", Attribute::text(ended.outcome));
        if let Some(kind) = &ended.error_type {
            self.add("error_type", Attribute::text(kind));
        }
        if let Some(ms) = ended.retry_delay_ms {
            self.add("retry_delay_ms", Attribute::number(ms));
        }
        self.end(ended_at, ended.error)
    }

    /// Ends the span. `error` says why it failed, if it did.
    pub(crate) fn end(mut self, ended_at: Time, error: Option<String>) -> Span {
        let took_ms = Attribute::number(ended_at.since_ms(self.began_at));
        self.add("duration_ms", took_ms);
        Span {
            name: self.name,
            kind: self.kind,
            trace_id: self.trace_id,
            id: self.id,
            parent_id: self.parent_id,
            began_at: self.began_at,
            ended_at,
            attributes: self.attributes,
            error,
        }
    }
}

/// How an attempt has ended, as its span shows it.
#[derive(Debug)]
pub(crate) struct SpanEnd {
    outcome: &'static str,
    error_type: Option<String>,
    error: Option<String>,
    retry_delay_ms: Option<u64>,
}

impl SpanEnd {
    /// Makes an end without an error.
    pub(crate) const fn well(outcome: &'static str) -> Self {
        Self {
            outcome,
            error_type: None,
            error: None,
            retry_delay_ms: None,
        }
    }

    pub(crate) fn is_completed(&self) -> bool {
        self.outcome == "completed"
    }

    /// Makes the end of an attempt without a reported outcome.
    pub(crate) fn lost(failure: Failure) -> Self {
        Self {
            error_type: Some(failure.kind.as_str().to_owned()),
            error: Some(failure.message),
            ..Self::well("lost")
        }
    }
}

impl From<&Outcome> for SpanEnd {
    fn from(outcome: &Outcome) -> Self {
        let well = Self::well(outcome.as_str());
        match outcome {
            Outcome::Failed(failure) => {
                let kind = failure.error_name();
                Self {
                    error_type: Some(kind.to_owned()),
                    error: Some(failure.message.clone()),
                    ..well
                }
            }
            Outcome::Retry { after_ms, .. } => Self {
                retry_delay_ms: *after_ms,
                ..well
            },
            Outcome::Completed { .. } | Outcome::Cancelled { .. } => well,
        }
    }
}

#[cfg(test)]
pub(crate) mod collected {
    use parking_lot::Mutex;

    use host_core::port::spans::{Span, Spans};

    /// Keeps all spans.
    #[derive(Default)]
    pub(crate) struct Collected(pub(crate) Mutex<Vec<Span>>);

    impl Spans for Collected {
        fn ended(&self, span: Span) {
            self.0.lock().push(span);
        }
    }
}
