//! The messages that we write, as documented, in either dialect. Knows no rules and no state.

use bytes::{BufMut as _, BytesMut};
use host_core::time::Time;
use serde::Serialize;

use super::frame::{Dialect, HEADER_BYTES};

/// A message we write, and how.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Out {
    pub(super) dialect: Dialect,
    /// The wall clock when the message was made.
    pub(super) at: Time,
    pub(super) worker_id: String,
    pub(super) message: OutMessage,
}

/// Our messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutMessage {
    Ready,
    /// Only in the framed dialect.
    Heartbeat,
    Done {
        issue_id: String,
        duration_ms: u64,
    },
    Failed {
        issue_id: String,
        error: String,
        duration_ms: u64,
    },
    Task {
        issue_id: String,
        priority: u8,
        title: String,
    },
    Wait {
        seconds: u64,
    },
    Shutdown {
        reason: &'static str,
    },
}

/// All fields of all messages, in the order of the document.
#[derive(Serialize)]
struct MessageOut<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    worker_id: &'a str,
    timestamp: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    issue_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

/// The envelope of our messages in the framed dialect.
#[derive(Serialize)]
struct EnvelopeOut<T> {
    version: u32,
    payload: T,
}

/// The longest `duration_ms` in the framed dialect: the public orchestrator closes the connection of a worker
/// that reports more.
const FRAMED_DURATION_MS_MAX: u64 = 3_600_000;

/// The version of the framed dialect.
const VERSION: u32 = 1;

impl Out {
    /// Appends the message to `out`.
    pub(super) fn write(&self, out: &mut BytesMut) {
        // Writing JSON without maps into memory cannot fail.
        match self.dialect {
            Dialect::Lines => {
                let _ = serde_json::to_writer(out.writer(), &self.message());
                out.put_u8(b'\n');
            }
            Dialect::Framed => {
                let begin = out.len();
                out.put_u32(0);
                let whole = EnvelopeOut {
                    version: VERSION,
                    payload: self.message(),
                };
                let _ = serde_json::to_writer((&mut *out).writer(), &whole);
                let bytes = out.len() - begin - HEADER_BYTES;
                let length = u32::try_from(bytes).unwrap_or(u32::MAX).to_be_bytes();
                out[begin..begin + HEADER_BYTES].copy_from_slice(&length);
            }
        }
    }

    fn duration_ms(&self, ms: u64) -> u64 {
        match self.dialect {
            Dialect::Lines => ms,
            Dialect::Framed => ms.min(FRAMED_DURATION_MS_MAX),
        }
    }

    fn message(&self) -> MessageOut<'_> {
        #[expect(clippy::cast_precision_loss, reason = "exact for 285,000 years")]
        let timestamp = self.at.0 as f64 / 1_000.0;
        let blank = MessageOut {
            kind: "",
            worker_id: &self.worker_id,
            timestamp,
            issue_id: None,
            priority: None,
            title: None,
            error: None,
            duration_ms: None,
            wait_seconds: None,
            reason: None,
        };
        match &self.message {
            OutMessage::Ready => MessageOut {
                kind: "READY",
                ..blank
            },
            OutMessage::Heartbeat => MessageOut {
                kind: "HEARTBEAT",
                ..blank
            },
            OutMessage::Done {
                issue_id,
                duration_ms,
            } => MessageOut {
                kind: "DONE",
                issue_id: Some(issue_id),
                duration_ms: Some(self.duration_ms(*duration_ms)),
                ..blank
            },
            OutMessage::Failed {
                issue_id,
                error,
                duration_ms,
            } => MessageOut {
                kind: "FAILED",
                issue_id: Some(issue_id),
                error: Some(error),
                duration_ms: Some(self.duration_ms(*duration_ms)),
                ..blank
            },
            OutMessage::Task {
                issue_id,
                priority,
                title,
            } => MessageOut {
                kind: "TASK",
                issue_id: Some(issue_id),
                priority: Some(*priority),
                title: Some(title),
                ..blank
            },
            OutMessage::Wait { seconds } => MessageOut {
                kind: "WAIT",
                wait_seconds: Some(*seconds),
                ..blank
            },
            OutMessage::Shutdown { reason } => MessageOut {
                kind: "SHUTDOWN",
                reason: Some(reason),
                ..blank
            },
        }
    }
}
