//! The messages that we write, as documented. Knows no rules and no state.

use bytes::BytesMut;
use serde::Serialize;
use serde_json::value::RawValue;

use super::frame;

/// The only supported version.
pub(super) const VERSION: &str = "2";

/// How an execution ended, as named by the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Status {
    Success,
    Retry,
    Timeout,
    Error,
}

/// A message that we write.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "type", content = "payload", rename_all = "snake_case")]
pub(super) enum Out {
    /// An `ExecutionRequest`.
    Request(Box<RequestOut>),
    /// An `ExecutionOutcome`.
    Response(Box<ResponseOut>),
    /// A `CancelRequest`.
    Cancel(CancelOut),
}

/// An `ExecutionRequest` that we write.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RequestOut {
    pub(super) protocol_version: &'static str,
    pub(super) request_id: String,
    pub(super) job_id: String,
    pub(super) function_name: String,
    pub(super) params: Box<RawValue>,
    pub(super) context: ContextOut,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ContextOut {
    pub(super) job_id: String,
    pub(super) attempt: u32,
    pub(super) enqueue_time: String,
    pub(super) queue_name: String,
    pub(super) deadline: Option<String>,
    pub(super) trace_context: Option<Pairs>,
    /// Omitted if the dialect does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation_context: Option<Correlation>,
    pub(super) worker_id: Option<String>,
}

/// A `correlation_context`; `null` if there is none.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Correlation(pub(super) Option<Pairs>);

/// Pairs that are written as an object, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pairs(pub(super) Vec<(String, String)>);

impl Serialize for Pairs {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
    }
}

/// An `ExecutionOutcome` that we write.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ResponseOut {
    pub(super) job_id: String,
    pub(super) request_id: Option<String>,
    pub(super) status: Status,
    pub(super) result: Option<Box<RawValue>>,
    pub(super) error: Option<ErrorOut>,
    pub(super) retry_after_seconds: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct ErrorOut {
    pub(super) message: String,
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
    pub(super) details: Option<Box<RawValue>>,
}

/// A `CancelRequest` that we write.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CancelOut {
    pub(super) protocol_version: &'static str,
    pub(super) job_id: String,
    pub(super) request_id: Option<String>,
    pub(super) hard_kill: bool,
}

/// Appends a frame with `message` to `out`. If an outcome is too large for a frame, writes the
/// error `result_too_large` instead. Other large messages were refused earlier.
pub(super) fn put(message: &Out, out: &mut BytesMut) {
    let write = |message: &Out, out: &mut BytesMut| {
        frame::put(out, |payload| {
            let written = serde_json::to_writer(payload, message);
            debug_assert!(written.is_ok(), "memory takes everything: {written:?}");
        })
    };
    if write(message, out).is_ok() {
        return;
    }
    if let Out::Response(response) = message {
        let small = Out::Response(Box::new(too_large(response)));
        let written = write(&small, out);
        debug_assert!(written.is_ok(), "ids are bounded");
    }
}

fn too_large(response: &ResponseOut) -> ResponseOut {
    let limit = frame::PAYLOAD_BYTES_MAX;
    ResponseOut {
        job_id: response.job_id.clone(),
        request_id: response.request_id.clone(),
        status: Status::Error,
        result: None,
        error: Some(ErrorOut {
            message: format!("the outcome does not fit into a frame of {limit} bytes"),
            kind: Some("result_too_large".to_owned()),
            code: None,
            details: None,
        }),
        retry_after_seconds: None,
    }
}
