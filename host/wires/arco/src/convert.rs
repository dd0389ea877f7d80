//! Converts between the messages of the wire and the types of the host. Pure.

#[cfg(test)]
mod tests;

use host_core::failure::{Category, Failure, FailureKind};
use host_core::job::State;
use host_core::json::JsonText;
use host_core::outcome::{Meter, Outcome, Progress, WorkerReport};
use host_core::time::Time;
use host_wire_kit::text::cut_marked;
use serde_json::value::RawValue;

use super::messages::{
    CANCELLED, FAILED, SUCCEEDED, TaskCompleted, TaskError, TaskHeartbeat, TaskMetrics,
};
use super::output::output;
use super::refusals::WireRefusal;

/// How much of the name of a worker is kept, in characters.
pub(super) const NAME_CHARS_MAX: usize = 256;

/// The longest stack trace that is kept, in bytes.
const STACK_BYTES_MAX: usize = 64 << 10;

/// The longest message that is kept, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// The longest message of an end that was too large, in bytes.
const SHORT_BYTES_MAX: usize = 1 << 10;

/// How an attempt ended, as its worker reports it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ReportedEnd {
    pub(super) outcome: Outcome,
    pub(super) meter: Meter,
    pub(super) worker: WorkerReport,
}

/// Reads how an attempt ended.
pub(super) fn ended(message: &TaskCompleted) -> Result<ReportedEnd, WireRefusal> {
    let metrics = metrics(message.metrics.as_deref())?;
    let outcome = match message.outcome.as_str() {
        SUCCEEDED => completed(message)?,
        FAILED => Outcome::Failed(failure(message.error.as_ref())?),
        CANCELLED => cancelled(message),
        "" => return Err(WireRefusal::field("missing outcome")),
        _ => {
            let words = "outcome: must be SUCCEEDED, FAILED or CANCELLED";
            return Err(WireRefusal::field(words));
        }
    };
    let name = message.worker_id.as_deref();
    let ended_at = message.completed_at.as_deref();
    Ok(ReportedEnd {
        outcome,
        worker: WorkerReport {
            name: name.map(|name| name.chars().take(NAME_CHARS_MAX).collect()),
            ended_at: ended_at.and_then(Time::parse_rfc3339),
            read_bytes: metrics.io_read_bytes,
            written_bytes: metrics.io_write_bytes,
        },
        meter: Meter {
            fuel: metrics.fuel.unwrap_or_default(),
            cpu_us: metrics
                .cpu_time_ms
                .unwrap_or_default()
                .saturating_mul(1_000),
            peak_memory_bytes: metrics.peak_memory_bytes.unwrap_or_default(),
        },
    })
}

fn metrics(raw: Option<&RawValue>) -> Result<TaskMetrics, WireRefusal> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else {
        return Ok(TaskMetrics::default());
    };
    let wanted = "metrics: must be an object whose known fields are whole numbers of at least 0";
    if !raw.get().starts_with('{') {
        return Err(WireRefusal::field(wanted));
    }
    serde_json::from_str(raw.get()).map_err(|_| WireRefusal::field(wanted))
}

fn completed(message: &TaskCompleted) -> Result<Outcome, WireRefusal> {
    if message.error.is_some() {
        let words = "error: not allowed with SUCCEEDED";
        return Err(WireRefusal::field(words));
    }
    let text = |raw: Option<&RawValue>| raw.map_or("null", RawValue::get).to_owned();
    let (output, metrics) = (
        text(message.output.as_deref()),
        text(message.metrics.as_deref()),
    );
    let result = JsonText(format!(r#"{{"output":{output},"metrics":{metrics}}}"#));
    Ok(Outcome::Completed {
        result: Some(result),
    })
}

fn cancelled(message: &TaskCompleted) -> Outcome {
    let phase = message.cancelled_during_phase.as_deref();
    let progress = message.partial_progress.as_deref();
    if phase.is_none() && progress.is_none() {
        return Outcome::Cancelled { partial: None };
    }
    let phase = serde_json::to_string(&phase.map(|phase| cut_marked(phase, MESSAGE_BYTES_MAX)));
    let partial = JsonText(format!(
        r#"{{"cancelledDuringPhase":{},"partialProgress":{}}}"#,
        phase.unwrap_or_else(|_| "null".to_owned()),
        progress.map_or("null", RawValue::get),
    ));
    Outcome::Cancelled {
        partial: Some(partial),
    }
}

/// Reads a failure with the worker's category. A timeout has a kind of its own.
fn failure(error: Option<&TaskError>) -> Result<Failure, WireRefusal> {
    let Some(error) = error else {
        return Ok(Failure::new(
            FailureKind::UserError,
            "the worker gave no reason",
        ));
    };
    let Some(category) = Category::from_name(&error.category) else {
        let words = "error.category: must be USER_CODE, DATA_QUALITY, INFRASTRUCTURE, CONFIGURATION, \
                     TIMEOUT or CANCELLED";
        return Err(WireRefusal::field(words));
    };
    let kind = match category {
        Category::Timeout => FailureKind::TimedOut,
        _ => FailureKind::UserError,
    };
    let stack = error.stack_trace.as_deref().filter(|it| !it.is_empty());
    Ok(Failure {
        category: Some(category),
        stack: stack.map(|stack| cut_marked(stack, STACK_BYTES_MAX).into_owned()),
        retryable: error.retryable,
        ..Failure::new(kind, cut_marked(&error.message, MESSAGE_BYTES_MAX))
    })
}

/// Reads the progress of a heartbeat, if it has any.
pub(super) fn progress(message: &TaskHeartbeat) -> Option<Progress> {
    let percent = message.progress_pct.map(f32::from);
    let text = message.message.as_deref().unwrap_or_default();
    if percent.is_none() && text.is_empty() {
        return None;
    }
    let message = cut_marked(text, MESSAGE_BYTES_MAX).into_owned();
    Some(Progress { percent, message })
}

/// Returns the final state of a job as the wire writes it; `None` while it has not ended.
pub(super) const fn final_state(state: State) -> Option<&'static str> {
    match state {
        State::Completed => Some(SUCCEEDED),
        State::Cancelled => Some(CANCELLED),
        State::Discarded => Some(FAILED),
        State::Pending
        | State::Scheduled
        | State::Available
        | State::Running
        | State::Retryable => None,
    }
}

/// Reports an execution of ours.
pub(super) fn report(outcome: &Outcome, meter: &Meter) -> TaskCompleted {
    let metrics = TaskMetrics {
        cpu_time_ms: Some(meter.cpu_us.div_ceil(1_000)),
        peak_memory_bytes: Some(meter.peak_memory_bytes),
        fuel: Some(meter.fuel),
        ..TaskMetrics::default()
    };
    let mut message = TaskCompleted {
        metrics: serde_json::value::to_raw_value(&metrics).ok(),
        ..TaskCompleted::default()
    };
    let raw = |text: &JsonText| RawValue::from_string(text.0.clone()).ok();
    match outcome {
        Outcome::Completed { result } => {
            SUCCEEDED.clone_into(&mut message.outcome);
            message.output = result.as_ref().map(output).as_ref().and_then(raw);
        }
        Outcome::Cancelled { partial } => {
            CANCELLED.clone_into(&mut message.outcome);
            message.partial_progress = partial.as_ref().and_then(raw);
        }
        Outcome::Failed(failure) if failure.kind == FailureKind::Cancelled => {
            CANCELLED.clone_into(&mut message.outcome);
        }
        Outcome::Failed(failure) => fail(&mut message, failure),
        Outcome::Retry { reason, .. } => {
            let mut failure = Failure::new(FailureKind::UserError, reason.clone());
            failure.retryable = Some(true);
            fail(&mut message, &failure);
        }
    }
    message
}

/// Returns the failure to report instead of a result that the control plane refuses with this status for this
/// reason. `None` if its reason cannot be the result.
pub(super) fn refused(body: &str, status: u16, why: &str) -> Option<TaskCompleted> {
    let mut message: TaskCompleted = serde_json::from_str(body).ok()?;
    if !matches!(status, 400 | 422) || message.outcome != SUCCEEDED {
        return None;
    }
    let words = format!("the control plane refuses the result: {why}");
    let failure = Failure {
        category: Some(Category::DataQuality),
        ..Failure::new(FailureKind::UserError, words)
    };
    message.output = None;
    fail(&mut message, &failure);
    Some(message)
}

/// Returns an end of a few KiB to report instead of one that is too large for the control plane.
pub(super) fn shortened(body: &str) -> Option<TaskCompleted> {
    let mut message: TaskCompleted = serde_json::from_str(body).ok()?;
    message.partial_progress = None;
    if let Some(error) = &mut message.error {
        error.stack_trace = None;
        error.message = cut_marked(&error.message, SHORT_BYTES_MAX).into_owned();
    }
    if message.outcome == SUCCEEDED {
        let bytes = message.output.take().map_or(0, |output| output.get().len());
        let words =
            format!("the result has {bytes} bytes, which is too large for the control plane");
        fail(
            &mut message,
            &Failure::new(FailureKind::ResultTooLarge, words),
        );
    }
    Some(message)
}

fn fail(message: &mut TaskCompleted, failure: &Failure) {
    FAILED.clone_into(&mut message.outcome);
    let stack = failure.stack.as_deref();
    message.error = Some(TaskError {
        category: failure.category().as_str().to_owned(),
        message: cut_marked(&failure.message, MESSAGE_BYTES_MAX).into_owned(),
        stack_trace: stack.map(|stack| cut_marked(stack, STACK_BYTES_MAX).into_owned()),
        retryable: Some(failure.is_retryable()),
    });
}
