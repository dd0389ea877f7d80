//! Makes a request from an assignment.

use std::collections::BTreeMap;

use host_core::failure::{Failure, FailureKind};
use host_core::outcome::Outcome;
use host_core::port::Assignment;
use host_core::trace::CORRELATION;
use host_wire_kit::session::Moment;
use serde_json::value::RawValue;

use super::super::config::Dialect;
use super::super::frame::PAYLOAD_BYTES_MAX;
use super::super::ids::ID_BYTES_MAX;
use super::super::messages::{ContextOut, Correlation, Pairs, RequestOut, VERSION};
use super::super::read::{PAIR_BYTES_MAX, PAIRS_MAX};

/// The space a request needs besides its params, with all names and pairs at their longest and
/// escaped, in bytes.
const OVERHEAD_BYTES: usize = 768 << 10;

/// The most bytes of a correlation context; all attributes that a job may have fit.
const CORRELATION_BYTES_MAX: usize = 32 << 10;

/// Makes the request, or returns why no runner can execute this job.
pub(super) fn request(
    assignment: Assignment,
    at: Moment,
    dialect: Dialect,
) -> Result<RequestOut, Outcome> {
    let refuse = |message: String| {
        Err(Outcome::Failed(Failure::new(
            FailureKind::InvalidParams,
            message,
        )))
    };
    let limit = PAYLOAD_BYTES_MAX - OVERHEAD_BYTES;
    let bytes = assignment.params.as_str().len();
    if bytes > limit {
        return refuse(format!(
            "the params have {bytes} bytes, a frame has room for {limit}"
        ));
    }
    if !assignment
        .params
        .as_str()
        .trim_ascii_start()
        .starts_with('{')
    {
        return refuse("a runner takes an object as params".to_owned());
    }
    let names = [
        &assignment.request_id,
        &assignment.job_id,
        &assignment.handler,
        &assignment.queue,
    ];
    if names.iter().any(|name| name.len() > ID_BYTES_MAX) {
        return refuse(format!(
            "ids and names of more than {ID_BYTES_MAX} bytes are not sent"
        ));
    }
    let Ok(params) = RawValue::from_string(assignment.params.0) else {
        return refuse("the params are not JSON".to_owned());
    };
    let correlation = match dialect {
        Dialect::Current => Some(Correlation(correlation(assignment.attributes))),
        Dialect::Documented => None,
    };
    Ok(RequestOut {
        protocol_version: VERSION,
        request_id: assignment.request_id,
        job_id: assignment.job_id.clone(),
        function_name: assignment.handler,
        params,
        context: ContextOut {
            job_id: assignment.job_id,
            attempt: assignment.attempt,
            enqueue_time: assignment.enqueued_at.to_rfc3339(),
            queue_name: assignment.queue,
            deadline: Some(at.wall.plus_ms(assignment.timeout_ms).to_rfc3339()),
            trace_context: trace(assignment.trace),
            correlation_context: correlation,
            worker_id: Some(assignment.worker_id),
        },
    })
}

/// Returns a trace context without the pairs that runners do not keep, or `None` if none is left.
fn trace(all: Vec<(String, String)>) -> Option<Pairs> {
    let fits = |(key, value): &(String, String)| key.len().max(value.len()) <= PAIR_BYTES_MAX;
    let pairs: Vec<_> = all.into_iter().filter(fits).take(PAIRS_MAX).collect();
    (!pairs.is_empty()).then_some(Pairs(pairs))
}

/// Makes a correlation context of a job's attributes, or `None` if there are none. Those that were
/// one have their first names again.
fn correlation(attributes: Vec<(String, String)>) -> Option<Pairs> {
    let (first, others): (Vec<_>, Vec<_>) = attributes
        .into_iter()
        .partition(|(key, _)| key.starts_with(CORRELATION));
    let first = first.into_iter().map(|(key, value)| {
        let key = key.trim_start_matches(CORRELATION).to_owned();
        (key, value)
    });
    // Of two with one name, the last is kept.
    let all: BTreeMap<String, String> = others.into_iter().chain(first).collect();
    let mut left = CORRELATION_BYTES_MAX;
    let fits = |(key, value): &(String, String)| {
        let rest = left.checked_sub(key.len() + value.len());
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    let pairs: Vec<_> = all.into_iter().filter(fits).collect();
    (!pairs.is_empty()).then_some(Pairs(pairs))
}
