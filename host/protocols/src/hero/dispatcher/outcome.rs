//! What a foreign worker wrote about a job, as an outcome of the core.

use host_core::failure::{Failure, FailureKind};
use host_core::json::{DEPTH_MAX, JsonText};
use host_core::outcome::Outcome;
use serde_json::Value;

use crate::json;

/// How much of an error is kept, in bytes.
const ERROR_BYTES_MAX: usize = 8 << 10;

/// Reads an output: JSON if it is some, else a text; nothing is `null`.
pub(super) fn finished(output: &str) -> Outcome {
    let document = JsonText(output.to_owned());
    let is_json = json::check(output.as_bytes()).is_ok() && document.depth() <= DEPTH_MAX;
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

/// Reads an error; the document names three.
pub(super) fn failed(error: &str, stopping: bool) -> Outcome {
    let message = error[..error.floor_char_boundary(ERROR_BYTES_MAX)].to_owned();
    let kind = match error {
        "stopped" | "stopped_by_request" if stopping => {
            return Outcome::Cancelled { partial: None };
        }
        "stopped" | "stopped_by_request" => FailureKind::Cancelled,
        "timeout" => FailureKind::TimedOut,
        _ if error.starts_with("handler_not_found") => FailureKind::HandlerNotFound,
        _ => FailureKind::UserError,
    };
    let message = if message.is_empty() {
        "the worker gives no reason".to_owned()
    } else {
        message
    };
    Outcome::Failed(Failure::new(kind, message))
}
