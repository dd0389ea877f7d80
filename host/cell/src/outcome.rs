//! Every way a guest can end, as an outcome of the rules.

use host_core::failure::{Category, Failure, FailureKind};
use host_core::handler::Limits;
use host_core::json::{DEPTH_MAX, JsonText};
use host_core::outcome::Outcome;
use serde::de::IgnoredAny;
use wasmtime::{PoolConcurrencyLimitError, Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::bindings::host::jobs::types as wit;
use crate::limits::MemoryLimitExceeded;
use crate::said::{Said, cut};
use crate::stop::{Forced, Stop};

/// The longest message of a failure, in bytes.
const MESSAGE_BYTES_MAX: usize = 8 << 10;

/// The longest stack trace, in bytes.
const STACK_BYTES_MAX: usize = 16 << 10;

/// The longest name or code a handler gives its error, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// What wasmtime says when a guest hands over more than it may; the error's type is private to it.
const HOSTCALL_FUEL_TEXT: &str = "too much data is being copied";

/// The names the SDK gives to the two errors that are not the handler's own.
const INVALID_PARAMS: &str = "invalid_params";
const HANDLER_NOT_FOUND: &str = "handler_not_found";

/// Returns the outcome of a call that returned.
pub(crate) fn of_return(
    returned: Result<Option<String>, wit::Failure>,
    limits: &Limits,
) -> Outcome {
    match returned {
        Ok(result) => match result.map(|text| checked(text, limits)).transpose() {
            Ok(result) => Outcome::Completed { result },
            Err(failure) => Outcome::Failed(failure),
        },
        Err(wit::Failure::Error(error)) => Outcome::Failed(of_error(error)),
        Err(wit::Failure::Retry(retry)) => Outcome::Retry {
            reason: shortened(retry.reason, MESSAGE_BYTES_MAX),
            after_ms: retry.after_ms.map(u64::from),
        },
        Err(wit::Failure::Cancelled(partial)) => Outcome::Cancelled {
            partial: partial.and_then(|text| checked(text, limits).ok()),
        },
    }
}

/// Returns the outcome of a guest that was stopped.
pub(crate) fn of_force(forced: Forced, stop: &Stop, limits: &Limits) -> Outcome {
    let failure = match forced {
        Forced::TimedOut => Failure::new(
            FailureKind::TimedOut,
            format!(
                "the handler took longer than its limit of {} ms (timeout_seconds)",
                limits.timeout_ms
            ),
        ),
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

/// Returns the failure of a guest that trapped or was stopped by one of its limits.
pub(crate) fn of_trap(error: &wasmtime::Error, said: &Said, limits: &Limits) -> Failure {
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let trap = error.downcast_ref::<Trap>();
    let mut failure = if let Some(exceeded) = error.downcast_ref::<MemoryLimitExceeded>() {
        Failure::new(FailureKind::MemoryLimit, exceeded.to_string())
    } else if trap == Some(&Trap::OutOfFuel) {
        Failure::new(
            FailureKind::FuelExhausted,
            "the handler used up its CPU budget (fuel in the manifest)",
        )
    } else if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let message = format!(
            "the handler ended its program with exit code {}; return a result or an error instead",
            exit.0
        );
        Failure::new(FailureKind::Trapped, message)
    } else if error.is::<PoolConcurrencyLimitError>() {
        Failure::new(FailureKind::CellLost, "the cell had no room for the run")
    } else if says_too_much(error) {
        too_much(backtrace.is_some(), limits)
    } else {
        let trap = trap.map_or_else(|| error.root_cause().to_string(), Trap::to_string);
        let message = panic_message(&said.stderr_tail()).unwrap_or(trap);
        Failure::new(FailureKind::Trapped, message)
    };
    cut(&mut failure.message, MESSAGE_BYTES_MAX);
    failure.stack = backtrace.map(|backtrace| shortened(backtrace.to_string(), STACK_BYTES_MAX));
    failure
}

fn says_too_much(error: &wasmtime::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.to_string().contains(HOSTCALL_FUEL_TEXT))
}

/// A guest that is in a host call hands over an argument; one that is not, its result.
fn too_much(in_host_call: bool, limits: &Limits) -> Failure {
    let limit = limits.result_bytes_max;
    if in_host_call {
        return Failure::new(
            FailureKind::Trapped,
            format!("the handler passed more than {limit} bytes to one call of the host"),
        );
    }
    too_large(limit)
}

fn too_large(limit: u64) -> Failure {
    Failure::new(
        FailureKind::ResultTooLarge,
        format!(
            "the result is larger than its limit of {limit} bytes; return less, or raise \
             result_kib in the manifest (at most 16 MiB)"
        ),
    )
}

/// Finds the message of a Rust panic in the last lines of standard error.
fn panic_message(stderr: &[String]) -> Option<String> {
    let at = stderr
        .iter()
        .rposition(|line| line.contains("panicked at "))?;
    let place = stderr[at].split("panicked at ").nth(1)?;
    let place = place.trim_end_matches(':');
    let message = stderr[at + 1..]
        .iter()
        .take_while(|line| !line.starts_with("note: "))
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join("\n");
    Some(format!("panicked at {place}: {message}"))
}

/// Checks that a text from the guest is JSON within its limit.
fn checked(text: String, limits: &Limits) -> Result<JsonText, Failure> {
    if text.len() as u64 > limits.result_bytes_max {
        return Err(too_large(limits.result_bytes_max));
    }
    let returned = |what: String| Failure::new(FailureKind::Trapped, what);
    let parsed = serde_json::from_str::<IgnoredAny>(&text);
    parsed.map_err(|error| {
        returned(format!(
            "the handler returned text that is no JSON: {error}"
        ))
    })?;
    let text = JsonText(text);
    if text.depth() > DEPTH_MAX {
        let deep =
            format!("the handler returned JSON that is nested deeper than {DEPTH_MAX} levels");
        return Err(returned(deep));
    }
    Ok(text)
}

fn of_error(error: wit::JobError) -> Failure {
    let kind = match error.kind.as_str() {
        INVALID_PARAMS => FailureKind::InvalidParams,
        HANDLER_NOT_FOUND => FailureKind::HandlerNotFound,
        _ => FailureKind::UserError,
    };
    let details = error.details.map(|details| {
        if serde_json::from_str::<IgnoredAny>(&details).is_ok() {
            JsonText(details)
        } else {
            JsonText(serde_json::Value::String(details).to_string())
        }
    });
    Failure {
        kind,
        message: shortened(error.message, MESSAGE_BYTES_MAX),
        category: Some(match error.category {
            wit::Category::UserCode => Category::UserCode,
            wit::Category::DataQuality => Category::DataQuality,
            wit::Category::Infrastructure => Category::Infrastructure,
            wit::Category::Configuration => Category::Configuration,
            wit::Category::Timeout => Category::Timeout,
            wit::Category::Cancelled => Category::Cancelled,
        }),
        user_kind: Some(shortened(error.kind, NAME_BYTES_MAX)),
        code: error.code.map(|code| shortened(code, NAME_BYTES_MAX)),
        details,
        stack: error.stack.map(|stack| shortened(stack, STACK_BYTES_MAX)),
        retryable: error.retryable,
    }
}

fn shortened(mut text: String, bytes_max: usize) -> String {
    cut(&mut text, bytes_max);
    text
}
