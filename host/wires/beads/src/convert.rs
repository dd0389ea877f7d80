//! Converts outcomes for an orchestrator.

use host_core::failure::FailureKind;
use host_core::outcome::Outcome;

use host_wire_kit::text::cut_marked;

/// The longest error that is sent, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// Returns the `error` of FAILED; `None` if the task is done. `None` as the outcome means that there
/// was no room.
pub(super) fn error_text(outcome: Option<&Outcome>) -> Option<String> {
    let text = match outcome {
        Some(Outcome::Completed { .. }) => return None,
        None => "no room: this worker's host is busy".to_owned(),
        Some(Outcome::Retry { reason, .. }) => format!("retry: {reason}"),
        Some(Outcome::Cancelled { .. }) => "cancelled".to_owned(),
        // The public orchestrator closes the connection of a worker whose error is empty.
        Some(Outcome::Failed(failure)) if failure.message.is_empty() => {
            format!("{}: no message", failure.kind.as_str())
        }
        // The handler's own errors need no kind as prefix.
        Some(Outcome::Failed(failure)) if failure.kind == FailureKind::UserError => {
            failure.message.clone()
        }
        Some(Outcome::Failed(failure)) => format!("{}: {}", failure.kind.as_str(), failure.message),
    };
    Some(cut_marked(&text, ERROR_BYTES_MAX).into_owned())
}
