//! Converts every way a guest can end into an [`Outcome`].

mod thrown;
mod trace;

use std::time::Duration;

use host_core::cell::TimeBound;
use host_core::desk::DESK_JOBS_BYTES_MAX;
use host_core::egress::BODY_BYTES_MAX;
use host_core::failure::{Category, Failure, FailureKind};
use host_core::handler::Limits;
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::bindings::host::jobs::types as wit;
use crate::engine::GUEST_STACK_BYTES;
use crate::limits::{MemoryLimitExceeded, size};
use crate::linker::NotGiven;
use crate::run_output::{RunOutput, truncate};
use crate::stop::{Forced, Stop};

/// The longest message of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// The longest stack trace, in bytes.
const STACK_BYTES_MAX: usize = 16 << 10;

/// The longest kind or code of a handler's own error, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Part of wasmtime's message if a guest passes too much data in one call. The error's type is private.
const HOSTCALL_FUEL_TEXT: &str = "too much data is being copied";

/// How Rust and Python word WASI's errors for a path that does not exist or is not granted.
const NOT_THERE: [&str; 4] = ["os error 44", "os error 76", "Errno 44", "Errno 76"];

/// The addition to such an error, and its maximum length in bytes.
const GIVEN_INTRO: &str = " (the manifest gives the handler ";
const GIVEN_BYTES_MAX: usize = 1 << 10;

/// The kinds of the two errors that the SDK itself reports.
const INVALID_PARAMS: &str = "invalid_params";
const HANDLER_NOT_FOUND: &str = "handler_not_found";

/// Returns the outcome of a call that returned.
pub(crate) fn from_return(
    returned: Result<Option<String>, wit::Failure>,
    limits: &Limits,
) -> Outcome {
    match returned {
        Ok(result) => match result.map(|text| checked_json(text, limits)).transpose() {
            Ok(result) => Outcome::Completed { result },
            Err(failure) => Outcome::Failed(failure),
        },
        Err(wit::Failure::Error(error)) => Outcome::Failed(from_job_error(error)),
        Err(wit::Failure::Retry(retry)) => Outcome::Retry {
            reason: truncated(retry.reason, MESSAGE_BYTES_MAX),
            after_ms: retry.after_ms.map(u64::from),
        },
        Err(wit::Failure::Cancelled(partial)) => Outcome::Cancelled {
            partial: partial.and_then(|text| checked_json(text, limits).ok()),
        },
    }
}

/// Adds the handler's granted directories to a failure about a missing file.
pub(crate) fn explain_missing_file(outcome: &mut Outcome, granted: &[String]) {
    let Outcome::Failed(failure) = outcome else {
        return;
    };
    if !NOT_THERE.iter().any(|text| failure.message.contains(text)) {
        return;
    }
    let given = if granted.is_empty() {
        "no directory; grant one with read_dirs".to_owned()
    } else {
        format!("only these directories: {}", granted.join(", "))
    };
    truncate(&mut failure.message, MESSAGE_BYTES_MAX - GIVEN_BYTES_MAX);
    let given = truncated(given, GIVEN_BYTES_MAX - GIVEN_INTRO.len() - 1);
    failure.message += GIVEN_INTRO;
    failure.message += &given;
    failure.message.push(')');
}

/// Returns the outcome of a call that was stopped by force.
pub(crate) fn from_forced_stop(
    forced: Forced,
    stop: &Stop,
    limits: &Limits,
    time_bound: TimeBound,
) -> Outcome {
    let failure = match forced {
        Forced::TimedOut => Failure::new(FailureKind::TimedOut, exceeded_time(limits, time_bound)),
        Forced::Stopped => Failure::new(
            FailureKind::Cancelled,
            format!(
                "the handler was stopped by force: {}",
                stop.reason().unwrap_or_default()
            ),
        ),
    };
    Outcome::Failed(failure)
}

/// Says which limit of time the handler exceeded, and what would give it more.
fn exceeded_time(limits: &Limits, time_bound: TimeBound) -> String {
    let seconds = Duration::from_millis(limits.timeout_ms).as_secs_f64();
    match time_bound {
        TimeBound::Handler => format!(
            "the handler exceeded its time limit of {seconds} s; raise timeout_seconds in the manifest (a \
             job's own limit can only be shorter)"
        ),
        TimeBound::Job => format!(
            "the handler exceeded the time limit of its job, {seconds} s; raise timeout_seconds of the job"
        ),
        TimeBound::Deadline => format!(
            "the deadline of the job passed after the handler had run for {seconds} s; enqueue the job \
             earlier, or with a later deadline"
        ),
    }
}

/// Returns the failure of a call that trapped, or that exceeded a limit other than time.
pub(crate) fn from_trap(error: &wasmtime::Error, output: &RunOutput, limits: &Limits) -> Failure {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let trap = error.downcast_ref::<Trap>();
    let mut failure = if let Some(exceeded) = error.downcast_ref::<MemoryLimitExceeded>() {
        Failure::new(FailureKind::MemoryLimit, exceeded.to_string())
    } else if let Some(missing) = error.downcast_ref::<NotGiven>() {
        Failure::new(FailureKind::GrantMissing, missing.to_string())
    } else if trap == Some(&Trap::OutOfFuel) {
        Failure::new(
            FailureKind::FuelExhausted,
            "the handler used up its CPU budget; raise fuel in the manifest",
        )
    } else if trap == Some(&Trap::StackOverflow) {
        let message = format!(
            "the handler's calls are nested too deeply for its stack of {} MiB",
            GUEST_STACK_BYTES >> 20
        );
        Failure::new(FailureKind::Trapped, message)
    } else if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let message = format!(
            "the handler called exit with code {}; return a result or an error instead",
            exit.0
        );
        Failure::new(FailureKind::Trapped, message)
    } else if error.is::<PoolConcurrencyLimitError>() {
        Failure::new(
            FailureKind::CellLost,
            "the cell had no free slot for the run",
        )
    } else if is_hostcall_fuel_error(error) {
        hostcall_fuel_failure(backtrace.is_some(), limits)
    } else {
        let mut trapped = Failure::new(FailureKind::Trapped, "");
        if let Some(thrown) = thrown::find(&output.stderr_tail()) {
            (trapped.message, trapped.stack) = (thrown.message, thrown.stack);
        } else {
            trapped.message = trap.map_or_else(|| error.root_cause().to_string(), Trap::to_string);
        }
        trapped
    };
    truncate(&mut failure.message, MESSAGE_BYTES_MAX);
    let stack = failure
        .stack
        .take()
        .or_else(|| backtrace.map(trace::render));
    failure.stack = stack.map(|stack| truncated(stack, STACK_BYTES_MAX));
    failure
}

fn is_hostcall_fuel_error(error: &wasmtime::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.to_string().contains(HOSTCALL_FUEL_TEXT))
}

/// Returns the failure of a guest that passed too much data: an argument if it was in a host call, otherwise
/// its result.
fn hostcall_fuel_failure(in_host_call: bool, limits: &Limits) -> Failure {
    let limit = limits.result_bytes_max;
    if in_host_call {
        return Failure::new(
            FailureKind::Trapped,
            format!(
                "the handler passed more than {} to one host call: the body of a request may have {}, and the jobs \
                 of one call {}",
                size(limit.max(DESK_JOBS_BYTES_MAX as u64)),
                size(BODY_BYTES_MAX as u64),
                size(DESK_JOBS_BYTES_MAX as u64)
            ),
        );
    }
    result_too_large(limit)
}

fn result_too_large(limit: u64) -> Failure {
    Failure::new(
        FailureKind::ResultTooLarge,
        format!(
            "the result is larger than its limit of {}; return less, or raise result_kib in the manifest (at \
             most 16 MiB)",
            size(limit)
        ),
    )
}

/// Checks that the guest returned valid JSON within the limits.
fn checked_json(text: String, limits: &Limits) -> Result<JsonText, Failure> {
    if text.len() as u64 > limits.result_bytes_max {
        return Err(result_too_large(limits.result_bytes_max));
    }
    let text = JsonText(text);
    match text.flaw() {
        Some(flaw) => Err(Failure::new(
            FailureKind::Trapped,
            format!("the handler's result {flaw}"),
        )),
        None => Ok(text),
    }
}

fn from_job_error(error: wit::JobError) -> Failure {
    let kind = match error.kind.as_str() {
        INVALID_PARAMS => FailureKind::InvalidParams,
        HANDLER_NOT_FOUND => FailureKind::HandlerNotFound,
        _ => FailureKind::UserError,
    };
    let details = error.details.map(|details| {
        let details = JsonText(details);
        match details.flaw() {
            None => details,
            Some(_) => JsonText(serde_json::Value::String(details.0).to_string()),
        }
    });
    Failure {
        kind,
        message: truncated(error.message, MESSAGE_BYTES_MAX),
        category: Some(match error.category {
            wit::Category::UserCode => Category::UserCode,
            wit::Category::DataQuality => Category::DataQuality,
            wit::Category::Infrastructure => Category::Infrastructure,
            wit::Category::Configuration => Category::Configuration,
            wit::Category::Timeout => Category::Timeout,
            wit::Category::Cancelled => Category::Cancelled,
        }),
        user_kind: Some(truncated(error.kind, NAME_BYTES_MAX)),
        code: error.code.map(|code| truncated(code, NAME_BYTES_MAX)),
        details,
        stack: error.stack.map(|stack| truncated(stack, STACK_BYTES_MAX)),
        retryable: error.retryable,
    }
}

fn truncated(mut text: String, bytes_max: usize) -> String {
    truncate(&mut text, bytes_max);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_a_handler_are_kept_digit_by_digit_or_refused() {
        let digits = format!("[-0,1e-400,12345678901234567.89,0.{}]", "7".repeat(400));
        let ended = |text: &str| from_return(Ok(Some(text.to_owned())), &Limits::default());
        let result = Some(JsonText(digits.clone()));
        assert_eq!(ended(&digits), Outcome::Completed { result });
        let Outcome::Failed(failure) = ended(r#"["\ud800"]"#) else {
            panic!("a lone surrogate");
        };
        assert_eq!(failure.kind, FailureKind::Trapped);
        assert!(
            failure.message.contains(r"the lone surrogate \ud800"),
            "{failure:?}"
        );
        let deep = "[".repeat(200) + &"]".repeat(200);
        for (details, kept) in [
            (&*digits, digits.clone()),
            (r#"["\ud800"]"#, r#""[\"\\ud800\"]""#.to_owned()),
            (&deep, format!("\"{deep}\"")),
        ] {
            let failed = from_job_error(wit::JobError {
                category: wit::Category::UserCode,
                kind: "k".to_owned(),
                message: String::new(),
                code: None,
                details: Some(details.to_owned()),
                stack: None,
                retryable: None,
            });
            assert_eq!(failed.details, Some(JsonText(kept)));
        }
    }

    #[test]
    fn what_ended_an_attempt_in_time_is_named_with_what_would_give_it_more() {
        let limits = Limits {
            timeout_ms: 1_500,
            ..Limits::default()
        };
        for (bound, advice) in [
            (TimeBound::Handler, "raise timeout_seconds in the manifest"),
            (TimeBound::Job, "raise timeout_seconds of the job"),
            (TimeBound::Deadline, "with a later deadline"),
        ] {
            let message = exceeded_time(&limits, bound);
            let has_advice = message.contains(advice) && message.contains("1.5 s");
            assert!(has_advice, "{message}");
            let is_of_deadline = message.contains("the deadline of the job");
            assert_eq!(is_of_deadline, bound == TimeBound::Deadline, "{message}");
        }
    }
}
