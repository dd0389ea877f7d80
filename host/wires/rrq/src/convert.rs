//! Translates outcomes of the core into outcomes of the wire and back. Maps each kind of failure by
//! name.

#[cfg(test)]
mod tests;

use host_core::failure::{Category, Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::seconds::SECONDS_MAX;
use serde_json::value::RawValue;

use super::messages::{ErrorOut, Out, ResponseOut, Status};
use super::read::{RunnerError, Verdict};
use super::refusals::{Code, Ids, Refusal};

/// Makes the wire's outcome for the request with these ids.
pub(super) fn response(ids: &Ids, outcome: &Outcome) -> Out {
    match outcome {
        Outcome::Completed { result } => match result.as_ref().map(raw).transpose() {
            Ok(result) => out(ids, Status::Success, result, None, None),
            Err(()) => error(ids, Some("trap"), "The handler's result is not JSON"),
        },
        Outcome::Failed(failure) => failed(ids, failure),
        Outcome::Retry { reason, after_ms } => {
            let after_seconds = after_ms.map(|ms| {
                #[expect(clippy::cast_precision_loss, reason = "a delay, not a count")]
                let ms = ms as f64;
                ms / 1000.0
            });
            let why = ErrorOut {
                message: reason.clone(),
                kind: None,
                code: None,
                details: None,
            };
            out(ids, Status::Retry, None, Some(why), after_seconds)
        }
        Outcome::Cancelled { .. } => cancelled(ids),
    }
}

fn failed(ids: &Ids, failure: &Failure) -> Out {
    let (status, kind) = match failure.kind {
        FailureKind::UserError => (Status::Error, failure.user_kind.as_deref()),
        FailureKind::Trapped => (Status::Error, Some("trap")),
        FailureKind::TimedOut => (Status::Timeout, Some("timeout")),
        FailureKind::MemoryLimit => (Status::Error, Some("out_of_memory")),
        FailureKind::Cancelled => return cancelled(ids),
        FailureKind::FuelExhausted
        | FailureKind::ResultTooLarge
        | FailureKind::InvalidParams
        | FailureKind::HandlerNotFound
        | FailureKind::GrantMissing
        | FailureKind::CancelTimeout
        | FailureKind::LeaseLost
        | FailureKind::CellLost
        | FailureKind::Poison
        | FailureKind::PrerequisiteFailed
        | FailureKind::InputFailed
        | FailureKind::StepsDiverged
        | FailureKind::WritesRefused => (Status::Error, Some(failure.kind.as_str())),
    };
    let error = ErrorOut {
        message: failure.message.clone(),
        kind: kind.map(str::to_owned),
        code: failure.code.clone(),
        details: failure.details.as_ref().and_then(|text| raw(text).ok()),
    };
    out(ids, status, None, Some(error), None)
}

/// Makes the outcome of a request that was cancelled.
pub(super) fn cancelled(ids: &Ids) -> Out {
    error(ids, Some("cancelled"), "Job cancelled")
}

/// Makes the outcome of a request that exceeded its deadline.
pub(super) fn timed_out(ids: &Ids, message: &str) -> Out {
    let error = words(Some("timeout"), message);
    out(ids, Status::Timeout, None, Some(error), None)
}

/// Makes the outcome of a request that failed, with our message.
pub(super) fn error(ids: &Ids, kind: Option<&str>, message: &str) -> Out {
    out(ids, Status::Error, None, Some(words(kind, message)), None)
}

/// Makes the outcome of a request for an unknown handler.
pub(super) fn handler_not_found(ids: &Ids, function: &str) -> Out {
    let cut: String = function.chars().take(128).collect();
    let quoted = cut.escape_debug();
    let message = format!("No handler registered for function '{quoted}'");
    error(ids, Some("handler_not_found"), &message)
}

/// Makes the outcome of a request for which there is no room.
pub(super) fn busy(ids: &Ids) -> Out {
    let message = "Runner busy: too many in-flight requests";
    let mut error = words(Some("runner_busy"), message);
    error.code = Some(Code::Busy.as_str().to_owned());
    out(ids, Status::Error, None, Some(error), None)
}

fn words(kind: Option<&str>, message: &str) -> ErrorOut {
    ErrorOut {
        message: message.to_owned(),
        kind: kind.map(str::to_owned),
        code: None,
        details: None,
    }
}

fn out(
    ids: &Ids,
    status: Status,
    result: Option<Box<RawValue>>,
    error: Option<ErrorOut>,
    retry_after_seconds: Option<f64>,
) -> Out {
    Out::Response(Box::new(ResponseOut {
        job_id: ids.job.clone(),
        request_id: Some(ids.request.clone()),
        status,
        result,
        error,
        retry_after_seconds,
    }))
}

fn raw(text: &JsonText) -> Result<Box<RawValue>, ()> {
    RawValue::from_string(text.0.clone()).map_err(drop)
}

/// Translates the answer of a runner that was not asked to stop.
pub(super) fn outcome(verdict: Verdict) -> Outcome {
    match verdict {
        Verdict::Success(result) => Outcome::Completed {
            result: Some(result),
        },
        Verdict::Retry {
            error,
            after_seconds,
        } => Outcome::Retry {
            reason: message_or(error.as_ref(), "Job requested retry"),
            after_ms: after_seconds.map(delay_ms),
        },
        Verdict::Timeout(error) => {
            let message = message_or(error.as_ref(), "the runner ended the execution in time");
            Outcome::Failed(final_timeout(message))
        }
        Verdict::Error(error) => Outcome::Failed(runner_failure(error.unwrap_or_default())),
    }
}

/// Makes the failure of an execution that exceeded its time limit. Jobs of this wire are not
/// retried then.
pub(super) fn final_timeout(message: impl Into<String>) -> Failure {
    Failure {
        retryable: Some(false),
        ..Failure::new(FailureKind::TimedOut, message)
    }
}

/// Makes the outcome of an execution that we ended because its time was over.
pub(super) fn not_ended_in_time() -> Outcome {
    Outcome::Failed(final_timeout("the runner did not end in time"))
}

/// Makes the failure of an execution whose runner sent something that is not an outcome.
pub(super) fn broken_answer(refusal: &Refusal) -> Failure {
    if refusal.code == Code::FrameTooLarge {
        return Failure {
            code: Some(refusal.code.as_str().to_owned()),
            ..Failure::new(
                FailureKind::ResultTooLarge,
                format!("the runner's answer is too large: {}", refusal.message),
            )
        };
    }
    Failure {
        category: Some(Category::Infrastructure),
        code: Some(refusal.code.as_str().to_owned()),
        ..Failure::new(
            FailureKind::UserError,
            format!("the runner's answer is not an outcome: {}", refusal.message),
        )
    }
}

fn runner_failure(error: RunnerError) -> Failure {
    let message = message_or(Some(&error), "Job failed");
    if error.kind.as_deref() == Some("handler_not_found") {
        return Failure::new(FailureKind::HandlerNotFound, message);
    }
    Failure {
        user_kind: error.kind,
        code: error.code,
        details: error.details,
        retryable: Some(true),
        ..Failure::new(FailureKind::UserError, message)
    }
}

fn message_or(error: Option<&RunnerError>, otherwise: &str) -> String {
    error
        .and_then(|error| error.message.clone())
        .unwrap_or_else(|| otherwise.to_owned())
}

/// Reads a delay. An invalid one counts as none, and the longest is a year.
fn delay_ms(seconds: f64) -> u64 {
    let seconds = if seconds.is_nan() { 0.0 } else { seconds };
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped before"
    )]
    let ms = (seconds.clamp(0.0, SECONDS_MAX) * 1000.0).round() as u64;
    ms
}
