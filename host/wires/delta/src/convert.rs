//! The words of the wire and those of the host, both ways. Pure.

#[cfg(test)]
mod tests;

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::{Attempt, Outcome, Progress, WorkerReport};
use host_core::port::Assignment;
use host_core::port::lease::{GrantedLease, Standing};
use host_core::time::Time;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::messages::fields::{Fields, cut};
use crate::messages::lease_id::LeaseText;
use crate::messages::read::{Artifact, EndIn, HeartbeatIn, Status, WAIT_SECONDS_MAX};
use crate::messages::{Announced, HeartbeatAck, LeaseGranted};
use crate::settings::Times;

/// The job's attribute with the id of the run that it belongs to.
const RUN_ID: &str = "delta.run_id";

/// The longest message of a failure, in bytes. The details have the whole summary.
const MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Makes the message that grants a lease.
pub(super) fn granted(granted: &GrantedLease, times: Times) -> LeaseGranted {
    let assignment = &granted.assignment;
    let run_id = assignment
        .attributes
        .iter()
        .find(|(key, _)| key == RUN_ID)
        .map_or(&assignment.job_id, |(_, id)| id);
    LeaseGranted {
        r#type: "LeaseGranted",
        job_id: assignment.job_id.clone(),
        run_id: run_id.clone(),
        lease_id: LeaseText::of(granted.job, granted.lease),
        lease_ttl_seconds: times.lease_ttl,
        heartbeat_interval_seconds: times.heartbeat_interval,
        max_runtime_seconds: assignment.timeout_ms.div_ceil(1_000).max(1),
        job_spec: job_spec(assignment),
        more: None,
    }
}

/// Makes the message that grants a lease over the network: the runner may use what the document does not have.
pub(super) fn granted_to_network(granted: &GrantedLease, times: Times) -> LeaseGranted {
    LeaseGranted {
        more: Some(Announced {
            heartbeat_wait_seconds: WAIT_SECONDS_MAX,
            log_uri: format!("/api/v1/jobs/{}/logs", granted.assignment.job_id),
        }),
        ..self::granted(granted, times)
    }
}

/// Returns the params, with the handler as the name if they have none.
fn job_spec(assignment: &Assignment) -> Box<RawValue> {
    let params = assignment.params.as_str().trim_ascii();
    let has_name = Fields::of(params).is_ok_and(|it| it.present("name").is_some());
    let spec = match params.strip_prefix('{') {
        Some(rest) if !has_name => {
            let name = serde_json::Value::from(assignment.handler.as_str());
            let comma = if rest.trim_ascii_start().starts_with('}') {
                ""
            } else {
                ","
            };
            format!("{{\"name\":{name}{comma}{rest}")
        }
        _ => params.to_owned(),
    };
    RawValue::from_string(spec).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Returns the progress that a heartbeat reports, if it does.
pub(super) fn progress(heartbeat: &HeartbeatIn) -> Option<Progress> {
    let step = heartbeat
        .current_step
        .as_deref()
        .filter(|it| !it.is_empty());
    let message = heartbeat.message.as_deref().filter(|it| !it.is_empty());
    let number = heartbeat.step_index.map(|index| format!("step {index}"));
    let log = heartbeat
        .bytes_sent
        .map(|bytes| format!("{bytes} bytes of log"));
    let parts: Vec<&str> = [number.as_deref(), step, message, log.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    let has_progress = heartbeat.percent.is_some() || !parts.is_empty();
    has_progress.then(|| Progress {
        percent: heartbeat.percent,
        message: parts.join(" · "),
    })
}

/// Makes the answer to a heartbeat that was accepted.
pub(super) fn heartbeat_ack(
    now: Time,
    lease_id: LeaseText,
    times: Times,
    standing: &Standing,
    warnings: Vec<String>,
) -> HeartbeatAck {
    let cancel = standing.cancel.as_ref();
    let deadline = cancel.and_then(|cancel| cancel.grace_ends_at);
    HeartbeatAck {
        r#type: "HeartbeatAck",
        lease_id,
        extend_lease: true,
        new_lease_ttl_seconds: times.lease_ttl,
        cancel_requested: cancel.is_some(),
        cancel_deadline_seconds: deadline.map_or(0, |end| end.since_ms(now).div_ceil(1_000)),
        warnings,
    }
}

/// What is kept of an end: the result of a job, the details of a failure, or what was done by the
/// time of a cancel.
#[derive(Serialize)]
struct KeptEnd<'a> {
    status: &'static str,
    exit_code: Option<i32>,
    artifacts: &'a [Artifact],
    summary: Option<&'a str>,
    timings: Timings<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Timings<'a> {
    started_at: Option<&'a str>,
    finished_at: Option<&'a str>,
}

/// Returns what is kept of an end.
pub(super) fn kept(end: &EndIn) -> JsonText {
    let kept = KeptEnd {
        status: end.status.as_str(),
        exit_code: end.exit_code,
        artifacts: &end.artifacts,
        summary: end.summary.as_deref(),
        timings: Timings {
            started_at: end.started_at.as_deref(),
            finished_at: end.finished_at.as_deref(),
        },
        warnings: &end.warnings,
    };
    serde_json::to_string(&kept).map_or_else(|_| JsonText::null(), JsonText)
}

/// Returns how an attempt ended.
pub(super) fn outcome(end: &EndIn) -> Outcome {
    match end.status {
        Status::Succeeded => Outcome::Completed {
            result: Some(kept(end)),
        },
        Status::Failed => Outcome::Failed(failure(end, FailureKind::UserError)),
        Status::TimedOut => Outcome::Failed(failure(end, FailureKind::TimedOut)),
        // Whether a user has asked for it stands with the job, not here.
        Status::Canceled => Outcome::Failed(failure(end, FailureKind::Cancelled)),
    }
}

fn failure(end: &EndIn, kind: FailureKind) -> Failure {
    Failure {
        code: end.exit_code.map(|code| code.to_string()),
        details: Some(kept(end)),
        ..Failure::new(kind, message(end))
    }
}

/// Returns the status of a recorded end.
pub(super) fn status(attempt: &Attempt) -> Status {
    match attempt.failure.as_ref().map(|failure| failure.kind) {
        None => Status::Succeeded,
        Some(FailureKind::TimedOut) => Status::TimedOut,
        Some(FailureKind::Cancelled) => Status::Canceled,
        Some(_) => Status::Failed,
    }
}

/// Returns what the runner says about its end.
pub(super) fn worker(end: &EndIn) -> WorkerReport {
    let ended_at = end.finished_at.as_deref();
    WorkerReport {
        ended_at: ended_at.and_then(Time::parse_rfc3339),
        ..WorkerReport::default()
    }
}

/// Returns the sentence about an end, in the runner's words if it has some.
pub(super) fn message(end: &EndIn) -> String {
    let summary = end.summary.as_deref().filter(|text| !text.is_empty());
    let mut message = summary.map_or_else(
        || format!("the runner reports {}", end.status.as_str()),
        str::to_owned,
    );
    let _ = cut(&mut message, MESSAGE_BYTES_MAX);
    message
}
