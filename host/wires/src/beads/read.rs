//! Converts frames to checked messages: makes all checks that need no state. Accepts what the document
//! allows, and otherwise names the wrong field.

#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::value::RawValue;

use super::frame::{Defect, Dialect, dialect_of, text_of};
use super::messages::{EnvelopeIn, MessageIn};
use super::refusals::{Code, Refusal, other_protocol};
use crate::kit::json;
use crate::kit::text::{cut_marked, found};

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
pub(super) struct Said {
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
pub(super) fn read_orchestrator(frame: Result<Bytes, Defect>) -> In<Said> {
    read(frame, said)
}

/// Reads the fields of a message. The second argument is the text for a refusal.
type Reader<M> = fn(&MessageIn, &[u8]) -> Result<M, Refusal>;

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
                let other = other_protocol(text);
                let message = format!("byte {}: {}{other}", fault.offset, fault.message);
                Refusal::new(Code::Json, message, text)
            })?
        }
    };
    // The derived readers would accept an array and take its elements as the fields.
    let is_object = |text: &str| text.trim_start().starts_with('{');
    let wrong = || Refusal::new(Code::Json, "the message is not a JSON object", text);
    let shown = std::str::from_utf8(text).map_err(|_| wrong())?;
    if !is_object(shown) {
        return Err(wrong());
    }
    let payload = match dialect {
        Dialect::Lines => shown,
        Dialect::Framed => {
            let envelope: EnvelopeIn = serde_json::from_str(shown).map_err(|_| wrong())?;
            let payload = envelope.payload.map_or("nothing", RawValue::get);
            if !is_object(payload) {
                let found = envelope
                    .payload
                    .map_or("nothing".to_owned(), |raw| found(raw.get()));
                return Err(Refusal::field("payload", "an object", &found, text));
            }
            payload
        }
    };
    let fields: MessageIn = serde_json::from_str(payload).map_err(|_| wrong())?;
    message(&fields, text)
}

/// Reads the type of a message.
fn kind(fields: &MessageIn, text: &[u8]) -> Result<String, Refusal> {
    string(fields.kind).map_err(|found| {
        let why = format!("type: expected a message type, found {found}");
        Refusal::new(Code::UnknownType, why, text)
    })
}

fn message(fields: &MessageIn, text: &[u8]) -> Result<Message, Refusal> {
    let kind = match kind(fields, text)?.as_str() {
        "READY" => Kind::Ready,
        "DONE" => Kind::Done(report(fields, text)?),
        "FAILED" => Kind::Failed(report(fields, text)?, error(fields)),
        "HEARTBEAT" | "PROGRESS" => Kind::Alive,
        "TASK" | "WAIT" | "SHUTDOWN" => {
            let why = "type: TASK, WAIT and SHUTDOWN go to workers, not to orchestrators";
            return Err(Refusal::new(Code::Direction, why, text));
        }
        _ => {
            let why = "type: it is not READY, DONE, FAILED, HEARTBEAT or PROGRESS";
            return Err(Refusal::new(Code::UnknownType, why, text));
        }
    };
    let worker_id = string(fields.worker_id)
        .map_err(|found| Refusal::field("worker_id", "a string", &found, text))?;
    Ok(Message { worker_id, kind })
}

fn said(fields: &MessageIn, text: &[u8]) -> Result<Said, Refusal> {
    let order = match kind(fields, text)?.as_str() {
        "TASK" => Order::Task(Task {
            issue_id: issue_id(fields, text)?,
            title: string(fields.title).unwrap_or_default(),
            priority: fields.priority.and_then(priority),
        }),
        "WAIT" => Order::Wait {
            ms: fields.wait_seconds.and_then(wait_ms).unwrap_or(WAIT_MS),
        },
        "SHUTDOWN" => Order::Shutdown,
        "READY" | "DONE" | "FAILED" | "HEARTBEAT" | "PROGRESS" => {
            let why = "type: workers send it, orchestrators do not";
            return Err(Refusal::new(Code::Direction, why, text));
        }
        _ => {
            let why = "type: it is not TASK, WAIT or SHUTDOWN";
            return Err(Refusal::new(Code::UnknownType, why, text));
        }
    };
    let worker_id = string(fields.worker_id).ok();
    Ok(Said {
        worker_id: worker_id.filter(|name| is_worker_id(name)),
        order,
    })
}

/// Returns whether this is a valid name for a worker.
pub(super) fn is_worker_id(name: &str) -> bool {
    (1..=WORKER_ID_CHARS_MAX).contains(&name.chars().count())
}

fn issue_id(fields: &MessageIn, text: &[u8]) -> Result<String, Refusal> {
    string(fields.issue_id).map_err(|found| Refusal::field("issue_id", "a string", &found, text))
}

/// Reads a priority, clamped to the document's range.
fn priority(raw: &RawValue) -> Option<u8> {
    let priority: f64 = serde_json::from_str(raw.get()).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped before"
    )]
    let priority = priority.clamp(0.0, 4.0) as u8;
    Some(priority)
}

/// Reads a number of seconds as milliseconds, within limits.
fn wait_ms(raw: &RawValue) -> Option<u64> {
    let seconds: f64 = serde_json::from_str(raw.get()).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped before"
    )]
    let ms = (seconds * 1_000.0).clamp(WAIT_MS_MIN, WAIT_MS_MAX) as u64;
    Some(ms)
}

fn report(fields: &MessageIn, text: &[u8]) -> Result<Report, Refusal> {
    Ok(Report {
        issue_id: issue_id(fields, text)?,
        duration_ms: fields.duration_ms.and_then(duration_ms),
    })
}

/// Reads the error of FAILED. No form of it makes the message unusable.
fn error(fields: &MessageIn) -> String {
    let error = match fields.error {
        Some(raw) if raw.get() != "null" => {
            string(Some(raw)).unwrap_or_else(|_| raw.get().to_owned())
        }
        _ => NO_ERROR.to_owned(),
    };
    cut_marked(&error, ERROR_BYTES_MAX).into_owned()
}

/// Reads a duration: at least 0 and at most what every reader keeps. `None` if it is not a number.
fn duration_ms(raw: &RawValue) -> Option<u64> {
    let ms: f64 = serde_json::from_str(raw.get()).ok()?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped before"
    )]
    let ms = ms.clamp(0.0, DURATION_MS_MAX) as u64;
    Some(ms)
}

/// Reads a string. The error describes what is there instead.
fn string(raw: Option<&RawValue>) -> Result<String, String> {
    let raw = raw.ok_or("nothing")?;
    serde_json::from_str(raw.get()).map_err(|_| match raw.get().as_bytes() {
        [b'"', ..] => "a string that is not whole Unicode".to_owned(),
        _ => found(raw.get()),
    })
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
