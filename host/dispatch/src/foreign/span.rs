//! The span of one execution for another orchestrator, a child of the trace that came with it.

use host_core::outcome::Outcome;
use host_core::port::ForeignJob;
use host_core::port::spans::{Attribute, Kind};
use host_core::time::Time;
use host_core::trace::Parent;
use tracing::Span;

use super::request::Ids;
use crate::span::Open;

/// Opens the span of a job when a cell gets it.
pub(super) fn open(ids: Ids, job: &ForeignJob) -> Span {
    let parent = Parent::of(&job.trace);
    tracing::debug_span!(
        "foreign.run",
        otel.name = job.span,
        wire = job.wire,
        trace_id = parent.map(|parent| format!("{:032x}", parent.trace_id)),
        parent_id = parent.map(|parent| format!("{:016x}", parent.span_id)),
        job = %ids.job,
        external_id = job.external_id.as_str(),
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

/// Begins the span for the collector, and makes it the parent of what the guest does.
pub(super) fn begin(
    now: Time,
    job: &ForeignJob,
    trace: &mut Vec<(String, String)>,
) -> Option<Box<Open>> {
    let mut open = Open::begin(now, (job.span, Kind::Consumer, job.wire), trace)?;
    let text = |text: &str| Some(Attribute::text(text));
    let left_ms = job
        .deadline
        .map(|deadline| Attribute::number(deadline.since_ms(now)));
    let waited_ms = job
        .enqueued_at
        .map(|at| Attribute::number(now.since_ms(at)));
    let all = [
        ("job_id", text(&job.external_id)),
        ("request_id", text(&job.request_id)),
        ("function", text(job.handler.as_str())),
        ("queue", text(&job.queue)),
        ("attempt", Some(Attribute::number(job.attempt.into()))),
        ("worker_id", job.worker_id.as_deref().and_then(text)),
        ("deadline_remaining_ms", left_ms),
        ("queue_wait_ms", waited_ms),
    ];
    for (name, value) in all {
        if let Some(value) = value {
            open.add(name, value);
        }
    }
    open.correlate(&job.attributes);
    Some(Box::new(open))
}
