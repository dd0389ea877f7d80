//! The reasons for refusing a peer's message: one stable code for each cause, its message, and
//! whether the peer can be answered. Knows no state.

use host_wire_kit::fields::{Fault, Wrong};
use host_wire_kit::stream::{Cut, Pending};
use host_wire_kit::text;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::frame::{Defect, PAYLOAD_BYTES_MAX};
pub(super) use super::ids::Ids;
use super::messages::{ErrorOut, Out, ResponseOut, Status};

host_wire_kit::codes! {
    Busy = "E_BUSY",
        "64 requests of this connection are in flight, or the host has no room; wait for an answer \
         before the next request.";
    CancelPeer = "E_CANCEL_PEER",
        "A cancel names a request of another user of this machine; it is not followed. \
         protocol.rrq.cancels_for_all allows it.";
    Direction = "E_DIRECTION",
        "The message is one that the other side sends: a runner takes request and cancel, an \
         orchestrator response.";
    FieldMismatch = "E_FIELD_MISMATCH", "Two fields that must agree do not; the answer names them.";
    FieldRange = "E_FIELD_RANGE", "A field's value is outside its range; the answer names both.";
    FieldType = "E_FIELD_TYPE",
        "A field has the wrong type; the answer names it.";
    FrameEmpty = "E_FRAME_EMPTY", "A frame's length is 0; a payload has 1 byte or more.";
    FrameTimeout = "E_FRAME_TIMEOUT",
        "A frame was not complete in time: 10 s for its length, 30 s for the rest.";
    FrameTooLarge = "E_FRAME_TOO_LARGE",
        "A frame's length is above 16 MiB; often it is another protocol on this port.";
    FrameTruncated = "E_FRAME_TRUNCATED", "The peer closed the connection within a frame.";
    Json = "E_JSON",
        "A payload is not valid JSON: UTF-8, no duplicate keys, no number beyond a double, fewer than 128 \
         levels; the answer names the byte.";
    OutcomeJob = "E_OUTCOME_JOB", "A runner answered a request with the id of another job.";
    OutcomeRequest = "E_OUTCOME_REQUEST",
        "A runner's outcome has no request_id; it cannot be matched to a request.";
    OutcomeStatus = "E_OUTCOME_STATUS",
        "A runner's outcome has a status other than success, retry, timeout and error.";
    OutcomeUnknown = "E_OUTCOME_UNKNOWN",
        "A runner's outcome matches no request in flight: late, duplicate or unsolicited.";
    UnknownType = "E_UNKNOWN_TYPE", "A message's type is not request, response or cancel.";
    Version = "E_VERSION", "The request's protocol_version is not \"2\".";
}

/// What a refused message was about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// The frame itself: nothing after it can be read.
    Frame,
    /// A message whose two ids could be read.
    Ids(Ids),
    /// A message that cannot be answered: its ids are missing.
    Unknown,
    /// A message that is only counted: a cancel, because an answer to it would look like the answer
    /// to its request, or one that only the other side sends.
    Aside,
}

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: Code,
    pub(super) message: String,
    /// The field, its limit and what was found. Never contains a value.
    pub(super) details: Option<serde_json::Value>,
    pub(super) about: About,
}

impl Refusal {
    pub(super) fn new(code: Code, message: impl Into<String>, about: About) -> Self {
        Self {
            code,
            message: message.into(),
            details: None,
            about,
        }
    }

    /// Refuses a message because of one of its fields.
    pub(super) fn field(wrong: &Wrong, about: About) -> Self {
        let code = match wrong.fault {
            Fault::Type => Code::FieldType,
            Fault::Range => Code::FieldRange,
            Fault::Mismatch => Code::FieldMismatch,
        };
        let Wrong {
            field,
            expected,
            found,
            ..
        } = wrong;
        Self {
            details: Some(json!({"field": field, "expected": expected, "found": found})),
            ..Self::new(code, wrong.to_string(), about)
        }
    }

    /// Returns the answer for the peer, or `None` if it cannot be answered.
    pub(super) fn answer(&self) -> Option<Out> {
        let (kind, ids) = match &self.about {
            About::Frame => ("invalid_frame", None),
            About::Ids(ids) => ("invalid_request", Some(ids)),
            About::Unknown | About::Aside => return None,
        };
        if matches!(self.code, Code::FrameTimeout | Code::FrameTruncated) {
            return None;
        }
        Some(Out::Response(Box::new(ResponseOut {
            job_id: ids.map_or_else(|| "unknown".to_owned(), |ids| ids.job.clone()),
            request_id: ids.map(|ids| ids.request.clone()),
            status: Status::Error,
            result: None,
            error: Some(ErrorOut {
                message: self.message.clone(),
                kind: Some(kind.to_owned()),
                code: Some(self.code.as_str().to_owned()),
                details: self
                    .details
                    .as_ref()
                    .and_then(|details| to_raw_value(details).ok()),
            }),
            retry_after_seconds: None,
        })))
    }

    /// Returns whether nothing more can be read from the connection.
    pub(super) const fn is_fatal(&self) -> bool {
        matches!(self.about, About::Frame | About::Unknown)
    }
}

impl From<Defect> for Refusal {
    fn from(defect: Defect) -> Self {
        let mut about = About::Frame;
        let (code, message) = match defect {
            Defect::Skipped { bytes, ids } => {
                about = ids.map_or(About::Frame, About::Ids);
                (Code::FrameTooLarge, length_refused(bytes))
            }
            Defect::Empty => (
                Code::FrameEmpty,
                "the frame has no payload; send 1 byte or more".to_owned(),
            ),
            Defect::TooLarge { header } => (Code::FrameTooLarge, too_large(header)),
            Defect::Cut(Cut::Late(pending)) => (
                Code::FrameTimeout,
                match pending {
                    Pending::Nothing | Pending::Header => "the frame's length did not come in time",
                    Pending::Body => "the frame's payload did not come in time",
                }
                .to_owned(),
            ),
            Defect::Cut(Cut::Short { bytes }) => (
                Code::FrameTruncated,
                format!("the peer closed after {bytes} bytes of a frame"),
            ),
        };
        Self::new(code, message, about)
    }
}

fn length_refused(bytes: u32) -> String {
    format!("the frame's length is {bytes} bytes, at most {PAYLOAD_BYTES_MAX} are accepted")
}

fn too_large(header: [u8; 4]) -> String {
    let message = length_refused(u32::from_be_bytes(header));
    match text::looks_like(&header) {
        Some(other) => {
            format!(
                "{message}; this looks like {other}, but this port speaks the RRQ runner protocol"
            )
        }
        None => message,
    }
}
