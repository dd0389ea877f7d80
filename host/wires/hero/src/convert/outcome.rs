//! Translates the result that a foreign worker wrote into an outcome.

use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_wire_kit::json;
use serde_json::Value;

use super::TIMEOUT;
use crate::job::OUTPUT_BYTES_MAX;
use crate::messages::STOPPED;

/// The most bytes kept of an error.
const ERROR_BYTES_MAX: usize = 8 << 10;

/// Reads an output: JSON if it parses, otherwise a string. An empty output is `null`.
pub(crate) fn finished(output: &str) -> Outcome {
    let document = JsonText(output.to_owned());
    let is_json = json::check(output.as_bytes()).is_ok() && document.flaw().is_none();
    let result = if output.is_empty() {
        JsonText::null()
    } else if is_json {
        document
    } else {
        JsonText(Value::String(output.to_owned()).to_string())
    };
    Outcome::Completed {
        result: Some(result),
    }
}

/// Makes the outcome of a job whose output is too large.
pub(crate) fn too_large(bytes: u64) -> Outcome {
    let message = format!("the output has {bytes} bytes, at most {OUTPUT_BYTES_MAX} are accepted");
    Outcome::Failed(Failure::new(FailureKind::ResultTooLarge, message))
}

/// Why a job was asked to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The dispatcher did not ask for it.
    Unasked,
    /// The job was cancelled.
    Cancelled,
    /// The job exceeded its time limit.
    Late,
}

/// The kinds of failure that our own workers write at the start of an error.
const NAMED: [FailureKind; 7] = [
    FailureKind::Trapped,
    FailureKind::FuelExhausted,
    FailureKind::MemoryLimit,
    FailureKind::ResultTooLarge,
    FailureKind::InvalidParams,
    FailureKind::HandlerNotFound,
    FailureKind::GrantMissing,
];

/// Reads an error. The protocol defines three.
pub(crate) fn failed(error: &str, stop: Stop) -> Outcome {
    let message = error[..error.floor_char_boundary(ERROR_BYTES_MAX)].to_owned();
    let named = |kind: &FailureKind| error.starts_with(kind.as_str());
    let kind = match (error, stop) {
        ("stopped" | STOPPED, Stop::Cancelled) => return Outcome::Cancelled { partial: None },
        ("stopped" | STOPPED, Stop::Late) | (TIMEOUT, _) => FailureKind::TimedOut,
        ("stopped" | STOPPED, Stop::Unasked) => FailureKind::Cancelled,
        _ if error.starts_with("E_FIELD_") => FailureKind::InvalidParams,
        _ => NAMED
            .into_iter()
            .find(named)
            .unwrap_or(FailureKind::UserError),
    };
    let message = if message.is_empty() {
        "the worker gives no reason".to_owned()
    } else {
        message
    };
    Outcome::Failed(Failure::new(kind, message))
}
