//! Converts frames to checked messages: makes all checks that need no state. Accepts what the document
//! allows, and otherwise names the wrong field.

#[cfg(test)]
mod tests;

use std::ops::RangeInclusive;

use bytes::Bytes;
use host_wire_kit::fields::{Fields, Wrong};
use host_wire_kit::json;
use host_wire_kit::text::{cut_marked, looks_like};

use super::frame::{Defect, Dialect, dialect_of, text_of};
use super::refusals::{Code, Refusal};

/// The longest `duration_ms`: the largest integer that every JSON reader keeps exactly.
const DURATION_MS_MAX: f64 = 9_007_199_254_740_991.0;

/// The longest usable name of a worker, in characters.
const WORKER_ID_CHARS_MAX: usize = 64;

/// The longest `error` that is kept, in bytes.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// The text for a missing error.
const NO_ERROR: &str = "the worker gave no error";

/// The shortest and the longest wait, in milliseconds.
const WAIT_MS_MIN: f64 = 100.0;
const WAIT_MS_MAX: f64 = 3_600_000.0;

/// The default wait of WAIT, in milliseconds.
const WAIT_MS: u64 = 30_000;

/// One message, or why it is refused.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct In<M> {
    /// The dialect; `None` if no frame could be cut.
    pub(super) dialect: Option<Dialect>,
    pub(super) message: Result<M, Refusal>,
}

/// A checked message.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Message {
    /// The sender's name for the worker, of any length.
    pub(super) worker_id: String,
    pub(super) kind: Kind,
}

/// A worker's message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Ready,
    Done(Report),
    Failed(Report, String),
    /// `HEARTBEAT` or `PROGRESS`: the worker is alive.
    Alive,
}

/// The common fields of DONE and FAILED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) issue_id: String,
    pub(super) duration_ms: Option<u64>,
}

/// A checked message of an orchestrator.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OrchestratorMessage {
    /// The orchestrator's name for this worker, if valid.
    pub(super) worker_id: Option<String>,
    pub(super) order: Order,
}

/// An orchestrator's message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Order {
    Task(Task),
    Wait { ms: u64 },
    Shutdown,
}

/// The fields of TASK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub(super) issue_id: String,
    pub(super) title: String,
    /// 0 is the most urgent, 4 the least; `None` if it is not given.
    pub(super) priority: Option<u8>,
}

/// Reads a message of a worker.
pub(super) fn read_worker(frame: Result<Bytes, Defect>) -> In<Message> {
    read(frame, message)
}

/// Reads a message of an orchestrator.
pub(super) fn read_orchestrator(frame: Result<Bytes, Defect>) -> In<OrchestratorMessage> {
    read(frame, orchestrator_message)
}

type Reader<M> = fn(&Fields<'_>) -> Result<M, Refusal>;

fn read<M>(frame: Result<Bytes, Defect>, message: Reader<M>) -> In<M> {
    match frame {
        Ok(frame) => In {
            dialect: Some(dialect_of(&frame)),
            message: parse(dialect_of(&frame), text_of(&frame), message),
        },
        Err(defect) => In {
            dialect: None,
            message: Err(defect.into()),
        },
    }
}

fn parse<M>(dialect: Dialect, text: &[u8], message: Reader<M>) -> Result<M, Refusal> {
    let plain;
    let text = match json::check(text) {
        Ok(()) => text,
        Err(fault) => {
            plain = without_nan(text).filter(|plain| json::check(plain).is_ok());
            plain.as_deref().ok_or_else(|| {
                let message = looks_like(text).map_or_else(
                    || fault.to_string(),
                    |other| {
                        format!(
                            "{fault}; this looks like {other}, but this socket speaks beads-workers"
                        )
                    },
                );
                Refusal::new(Code::Json, message).of(text)
            })?
        }
    };
    // What was checked is UTF-8.
    let whole = std::str::from_utf8(text).unwrap_or_default();
    fields(dialect, whole)
        .and_then(|fields| message(&fields))
        .map_err(|refusal| refusal.of(text))
}

fn fields(dialect: Dialect, text: &str) -> Result<Fields<'_>, Refusal> {
    let message = Fields::of(text)
        .map_err(|_| Refusal::new(Code::Json, "the message is not a JSON object"))?;
    match dialect {
        Dialect::Lines => Ok(message),
        Dialect::Framed => Ok(message.required("payload", "an object")?),
    }
}

/// Reads the type of a message.
fn kind(fields: &Fields<'_>) -> Result<String, Refusal> {
    fields
        .required("type", "a message type")
        .map_err(|wrong| Refusal::new(Code::UnknownType, wrong.to_string()))
}

fn message(fields: &Fields<'_>) -> Result<Message, Refusal> {
    let kind = match kind(fields)?.as_str() {
        "READY" => Kind::Ready,
        "DONE" => Kind::Done(report(fields)?),
        "FAILED" => Kind::Failed(report(fields)?, error(fields)),
        "HEARTBEAT" | "PROGRESS" => Kind::Alive,
        "TASK" | "WAIT" | "SHUTDOWN" => {
            let why = "type: TASK, WAIT and SHUTDOWN go to workers, not to orchestrators";
            return Err(Refusal::new(Code::Direction, why));
        }
        _ => {
            let why = "type: it is not READY, DONE, FAILED, HEARTBEAT or PROGRESS";
            return Err(Refusal::new(Code::UnknownType, why));
        }
    };
    Ok(Message {
        worker_id: fields.required("worker_id", "a string")?,
        kind,
    })
}

fn orchestrator_message(fields: &Fields<'_>) -> Result<OrchestratorMessage, Refusal> {
    let order = match kind(fields)?.as_str() {
        "TASK" => Order::Task(Task {
            issue_id: issue_id(fields)?,
            title: fields.lenient("title").unwrap_or_default(),
            priority: clamped(fields, "priority", 1.0, 0.0..=4.0)
                .and_then(|it| u8::try_from(it).ok()),
        }),
        "WAIT" => Order::Wait {
            ms: clamped(fields, "wait_seconds", 1_000.0, WAIT_MS_MIN..=WAIT_MS_MAX)
                .unwrap_or(WAIT_MS),
        },
        "SHUTDOWN" => Order::Shutdown,
        "READY" | "DONE" | "FAILED" | "HEARTBEAT" | "PROGRESS" => {
            let why = "type: workers send it, orchestrators do not";
            return Err(Refusal::new(Code::Direction, why));
        }
        _ => {
            let why = "type: it is not TASK, WAIT or SHUTDOWN";
            return Err(Refusal::new(Code::UnknownType, why));
        }
    };
    let worker_id: Option<String> = fields.lenient("worker_id");
    Ok(OrchestratorMessage {
        worker_id: worker_id.filter(|name| is_worker_id(name)),
        order,
    })
}

/// Returns whether this is a valid name for a worker.
pub(super) fn is_worker_id(name: &str) -> bool {
    (1..=WORKER_ID_CHARS_MAX).contains(&name.chars().count())
}

fn issue_id(fields: &Fields<'_>) -> Result<String, Wrong> {
    fields.required("issue_id", "a string")
}

/// Reads a number, multiplied and clamped to a range within 0 and 2⁵³. `None` if it is not a number.
fn clamped(
    fields: &Fields<'_>,
    name: &str,
    factor: f64,
    range: RangeInclusive<f64>,
) -> Option<u64> {
    let number = fields.lenient::<f64>(name)? * factor;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped"
    )]
    let number = number.clamp(*range.start(), *range.end()) as u64;
    Some(number)
}

fn report(fields: &Fields<'_>) -> Result<Report, Wrong> {
    Ok(Report {
        issue_id: issue_id(fields)?,
        duration_ms: clamped(fields, "duration_ms", 1.0, 0.0..=DURATION_MS_MAX),
    })
}

/// Reads the error of FAILED. No form of it makes the message unusable.
fn error(fields: &Fields<'_>) -> String {
    let text = || fields.lenient("error");
    let json = || Some(fields.raw("error")?.get().to_owned());
    let error: Option<String> = text().or_else(json);
    cut_marked(error.as_deref().unwrap_or(NO_ERROR), ERROR_BYTES_MAX).into_owned()
}

/// Replaces `NaN` and `Infinity`, which some JSON writers produce, by `null`. `None` if there are none.
fn without_nan(text: &[u8]) -> Option<Vec<u8>> {
    let words: [&[u8]; 3] = [b"NaN", b"-Infinity", b"Infinity"];
    let mut plain = Vec::with_capacity(text.len());
    let (mut rest, mut found) = (text, false);
    let (mut quoted, mut escaped) = (false, false);
    while let Some((byte, after)) = rest.split_first() {
        let word = words.iter().find(|word| !quoted && rest.starts_with(word));
        if let Some(word) = word {
            plain.extend_from_slice(b"null");
            rest = rest.get(word.len()..).unwrap_or_default();
            found = true;
            continue;
        }
        (quoted, escaped) = match byte {
            _ if escaped => (quoted, false),
            b'\\' if quoted => (quoted, true),
            b'"' => (!quoted, false),
            _ => (quoted, false),
        };
        plain.push(*byte);
        rest = after;
    }
    found.then_some(plain)
}
