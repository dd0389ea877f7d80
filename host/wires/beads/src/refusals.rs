//! Why a message is refused: one stable code for each cause, a text for the log, and the start of the
//! message, truncated and escaped. Knows no state.

use host_wire_kit::fields::Wrong;
use host_wire_kit::stream::Pending;

use super::frame::{Defect, MESSAGE_BYTES_MAX};

/// How many bytes of a refused message are shown.
const SHOWN_BYTES: usize = 64;

host_wire_kit::codes! {
    Abuse = "E_ABUSE",
        "A connection sent 100 bad messages within 10 s and was closed; look at the log for the \
         first of them.";
    Busy = "E_BUSY",
        "TASK came while the worker had another one, and was answered FAILED with `busy`; the \
         orchestrator gives a worker one task at a time.";
    Direction = "E_DIRECTION",
        "The message is one that the other side sends: workers send READY, DONE and FAILED, \
         orchestrators TASK, WAIT and SHUTDOWN.";
    FieldRange = "E_FIELD_RANGE",
        "A field's value is outside its range; the log names the field and the limit. A worker_id \
         has 1 to 64 characters, an issue_id that a worker executes 1 to 256 bytes and no `-` in \
         front.";
    FieldType = "E_FIELD_TYPE",
        "A required field is missing or has the wrong type; the log names it.";
    FrameTimeout = "E_FRAME_TIMEOUT", "A frame was incomplete after 30 s.";
    FrameTooLarge = "E_FRAME_TOO_LARGE",
        "A frame's length is above 1 MiB; often it is another protocol on this socket.";
    Json = "E_JSON",
        "A line or frame is not one valid JSON object: UTF-8, no duplicate keys, no number beyond a double, \
         fewer than 128 levels, nothing after it.";
    LineTimeout = "E_LINE_TIMEOUT",
        "A line did not end within 30 s; it is skipped up to its newline.";
    LineTooLong = "E_LINE_TOO_LONG",
        "A line is longer than 1 MiB; it is skipped up to its newline. After 64 MiB without one \
         the connection ends.";
    Peer = "E_PEER",
        "A process of another user connected and was refused; run workers as the user of the \
         host.";
    Truncated = "E_TRUNCATED", "The peer closed the connection within a line or frame.";
    Unexpected = "E_UNEXPECTED",
        "DONE or FAILED for a task that the worker does not hold; the worker gets WAIT.";
    UnknownType = "E_UNKNOWN_TYPE", "A message's type is missing or unknown.";
}

/// One refused message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    /// What is wrong. Quotes nothing of the message.
    pub(super) message: String,
    /// The start of the refused message, escaped.
    pub(super) start: String,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            start: String::new(),
        }
    }

    /// Shows the start of the refused message.
    pub(super) fn of(self, refused: &[u8]) -> Self {
        let start = refused.get(..SHOWN_BYTES).unwrap_or(refused);
        Self {
            start: start.escape_ascii().to_string(),
            ..self
        }
    }
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        Self::new(Code::FieldType, wrong.to_string())
    }
}

impl From<Defect> for Refusal {
    fn from(defect: Defect) -> Self {
        let late = "the line's end did not come in time";
        match defect {
            Defect::LineTooLong(start) => {
                let message = format!("the line is longer than {MESSAGE_BYTES_MAX} bytes");
                Self::new(Code::LineTooLong, message).of(&start)
            }
            Defect::LineEndless => Self::new(Code::LineTooLong, "the line has no end"),
            Defect::LineLate(start) => Self::new(Code::LineTimeout, late).of(&start),
            Defect::LineBinary(start) => {
                Self::new(Code::Json, "the line begins with a zero byte").of(&start)
            }
            Defect::Truncated(bytes) => {
                let message = format!("the peer closed after {bytes} bytes of a message");
                Self::new(Code::Truncated, message)
            }
            Defect::FrameTooLarge(header) => {
                let length = u32::from_be_bytes(header);
                let message = format!(
                    "the frame's length is {length} bytes, at most {MESSAGE_BYTES_MAX} are accepted"
                );
                Self::new(Code::FrameTooLarge, message).of(&header)
            }
            Defect::FrameLate(pending) => Self::new(
                Code::FrameTimeout,
                match pending {
                    Pending::Nothing | Pending::Header => "the frame's length did not come in time",
                    Pending::Body => "the frame's payload did not come in time",
                },
            ),
        }
    }
}
