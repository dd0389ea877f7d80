//! Turns frames into checked messages: makes all checks that need no state. Accepts what the
//! document allows, and otherwise names the wrong field.

#[cfg(test)]
mod tests;

use host_core::json::JsonText;
use host_core::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::field;
use super::frame::Defect;
use super::ids::Scan;
use super::messages::{CancelIn, ContextIn, Envelope, ErrorIn, RequestIn, ResponseIn, VERSION};
use super::refusals::{About, Code, Ids, Refusal};
use crate::kit::json;
use crate::kit::text::found;

/// One checked message of an orchestrator.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Message {
    Request(Box<Request>),
    Cancel(Cancel),
}

/// A checked `ExecutionRequest`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) ids: Ids,
    pub(super) function: String,
    pub(super) params: JsonText,
    pub(super) attempt: u32,
    pub(super) enqueued_at: Option<Time>,
    pub(super) queue: String,
    pub(super) deadline: Option<Time>,
    pub(super) trace: Vec<(String, String)>,
    pub(super) correlation: Vec<(String, String)>,
    pub(super) worker_id: Option<String>,
}

/// A checked `CancelRequest`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cancel {
    pub(super) job: String,
    pub(super) request: Option<String>,
    pub(super) hard_kill: bool,
}

/// An `ExecutionOutcome` with checked ids and status.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Response {
    pub(super) ids: Ids,
    pub(super) verdict: Verdict,
}

/// The result in an outcome.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Verdict {
    Success(JsonText),
    Retry {
        error: Option<RunnerError>,
        after_seconds: Option<f64>,
    },
    Timeout(Option<RunnerError>),
    Error(Option<RunnerError>),
}

/// The `error` of an outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunnerError {
    pub(super) message: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) code: Option<String>,
    pub(super) details: Option<JsonText>,
}

/// Reads a frame of an orchestrator, or turns a defect into a refusal.
pub(super) fn for_worker(frame: Result<&[u8], Defect>) -> Result<Message, Refusal> {
    let text = frame?;
    if let Err(fault) = json::check(text) {
        return Err(not_json(&fault, loosely_about(text)));
    }
    let (kind, payload) = envelope(text)?;
    match kind {
        Kind::Request => request(payload).map(|request| Message::Request(Box::new(request))),
        Kind::Cancel => cancel(payload).map(Message::Cancel),
        Kind::Response => {
            let message = "a runner takes request and cancel, not response";
            let about = loosely_about(text);
            Err(Refusal::new(Code::Direction, message, about))
        }
    }
}

/// Reads a frame of a runner, or turns a defect into a refusal. In a text that is not JSON the ids
/// are looked for, so that only their job fails.
pub(super) fn for_orchestrator(frame: Result<&[u8], Defect>) -> Result<Response, Refusal> {
    let text = frame?;
    let Err(fault) = json::check(text) else {
        return outcome(text);
    };
    let scan = Scan::of(text);
    if let Some(mended) = scan.with_delay_as_number(text)
        && json::check(&mended).is_ok()
    {
        return outcome(&mended);
    }
    let about = scan.ids().map_or_else(|| loosely_about(text), About::Known);
    Err(not_json(&fault, about))
}

fn outcome(text: &[u8]) -> Result<Response, Refusal> {
    match envelope(text)? {
        (Kind::Response, payload) => response(payload),
        (Kind::Request | Kind::Cancel, _) => {
            let message = "an orchestrator takes response, not request or cancel";
            Err(Refusal::new(Code::Direction, message, About::Aside))
        }
    }
}

fn not_json(fault: &json::Fault, about: About) -> Refusal {
    let message = format!("byte {}: {}", fault.offset, fault.message);
    Refusal::new(Code::Json, message, about)
}

/// The types of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Cancel,
}

/// Reads the type and the payload of a message.
fn envelope(text: &[u8]) -> Result<(Kind, &RawValue), Refusal> {
    let whole = |found: &str| {
        let expected = "an object with type and payload";
        let about = About::Unknown;
        Refusal::field(Code::FieldType, "the frame", expected, found, about)
    };
    // The derived reader would accept an array and take its elements as the fields.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(whole("another value"));
    }
    let envelope: Envelope = serde_json::from_slice(text).map_err(|_| whole("another object"))?;
    let payload = envelope.payload.unwrap_or(RawValue::NULL);
    let kind = match envelope.kind.map(field::text).transpose() {
        Ok(Some(kind)) => kind,
        Ok(None) => return Err(unknown_type("nothing", text)),
        Err(found) => return Err(unknown_type(&found, text)),
    };
    match kind.as_str() {
        "request" => Ok((Kind::Request, payload)),
        "response" => Ok((Kind::Response, payload)),
        "cancel" => Ok((Kind::Cancel, payload)),
        _ => Err(unknown_type("another text", text)),
    }
}

fn unknown_type(found: &str, text: &[u8]) -> Refusal {
    let expected = "request, response or cancel";
    Refusal::field(
        Code::UnknownType,
        "type",
        expected,
        found,
        loosely_about(text),
    )
}

/// Finds out what a faulty message is about, as far as possible.
fn loosely_about(text: &[u8]) -> About {
    #[derive(Deserialize)]
    struct Loose {
        #[serde(default, rename = "type")]
        kind: Option<serde_json::Value>,
        #[serde(default)]
        payload: Option<LoosePayload>,
    }
    #[derive(Deserialize)]
    struct LoosePayload {
        request_id: Option<String>,
        job_id: Option<String>,
    }
    let Ok(loose) = serde_json::from_slice::<Loose>(text) else {
        return About::Unknown;
    };
    if loose.kind.is_some_and(|kind| kind == "cancel") {
        return About::Aside;
    }
    match loose.payload {
        Some(LoosePayload {
            request_id: Some(request),
            job_id: Some(job),
        }) if request.len().max(job.len()) <= field::ID_BYTES_MAX => {
            About::Known(Ids { request, job })
        }
        _ => About::Unknown,
    }
}

fn request(payload: &RawValue) -> Result<Request, Refusal> {
    let unknown = |code, field: &str, expected: &str, found: &str| {
        Refusal::field(code, field, expected, found, About::Unknown)
    };
    let raw: RequestIn = field::object(payload)
        .map_err(|found| unknown(Code::FieldType, "payload", "an object", &found))?;
    let ids = Ids {
        request: id("request_id", raw.request_id)?,
        job: id("job_id", raw.job_id)?,
    };
    let refuse = |code, field: &str, expected: &str, found: &str| {
        Refusal::field(code, field, expected, found, About::Known(ids.clone()))
    };
    if let Err(found) = version(raw.protocol_version) {
        let mut refusal = refuse(Code::Version, "protocol_version", "\"2\"", &found);
        "Unsupported protocol version".clone_into(&mut refusal.message);
        return Err(refusal);
    }
    if raw.args.or(raw.kwargs).is_some() {
        let found = "args or kwargs";
        return Err(refuse(
            Code::FieldType,
            "params",
            "an object and no args or kwargs",
            found,
        ));
    }
    let params = match raw.params {
        None => JsonText("{}".to_owned()),
        Some(params) if params.get().starts_with('{') => JsonText(params.get().to_owned()),
        Some(other) => {
            let found = found(other.get());
            return Err(refuse(Code::FieldType, "params", "an object", &found));
        }
    };
    let function = field::required(raw.function_name, field::text)
        .map_err(|found| refuse(Code::FieldType, "function_name", "a string", &found))?;
    let context = field::required(raw.context, field::object::<ContextIn>)
        .map_err(|found| refuse(Code::FieldType, "context", "an object", &found))?;
    context_into(&context, ids.clone(), function, params).map_err(|wrong| {
        let field = format!("context.{}", wrong.field);
        refuse(wrong.code, &field, wrong.expected, &wrong.found)
    })
}

/// A wrong field of a context.
struct Wrong {
    code: Code,
    field: &'static str,
    expected: &'static str,
    found: String,
}

fn context_into(
    raw: &ContextIn,
    ids: Ids,
    function: String,
    params: JsonText,
) -> Result<Request, Wrong> {
    let text = |field: &'static str, value| {
        field::optional(value, field::text).map_err(|found| Wrong {
            code: Code::FieldType,
            field,
            expected: "a string",
            found,
        })
    };
    let time = |field: &'static str, value| {
        field::optional(value, field::time).map_err(|found| Wrong {
            code: Code::FieldType,
            field,
            expected: "an RFC 3339 time with an offset",
            found,
        })
    };
    if text("job_id", raw.job_id)?.is_some_and(|job| job != ids.job) {
        return Err(Wrong {
            code: Code::FieldMismatch,
            field: "job_id",
            expected: "the job_id of the request",
            found: "another".to_owned(),
        });
    }
    let attempt = field::required(raw.attempt, field::attempt).map_err(|found| Wrong {
        code: if found.contains("number") {
            Code::FieldRange
        } else {
            Code::FieldType
        },
        field: "attempt",
        expected: "a whole number from 1 to 4294967295",
        found,
    })?;
    Ok(Request {
        ids,
        function,
        params,
        attempt,
        enqueued_at: time("enqueue_time", raw.enqueue_time)?,
        queue: text("queue_name", raw.queue_name)?.unwrap_or_else(|| "default".to_owned()),
        deadline: time("deadline", raw.deadline)?,
        trace: field::trace(raw.trace_context),
        correlation: field::pairs(raw.correlation_context),
        worker_id: text("worker_id", raw.worker_id)?,
    })
}

fn id(field: &str, raw: Option<&RawValue>) -> Result<String, Refusal> {
    field::required(raw, field::id).map_err(|found| {
        let code = if found.contains("string") {
            Code::FieldRange
        } else {
            Code::FieldType
        };
        let expected = "a string of at most 4096 bytes";
        Refusal::field(code, field, expected, &found, About::Unknown)
    })
}

fn version(raw: Option<&RawValue>) -> Result<(), String> {
    match field::required(raw, field::text)?.as_str() {
        VERSION => Ok(()),
        other => Err(format!("a string of {} bytes", other.len())),
    }
}

fn cancel(payload: &RawValue) -> Result<Cancel, Refusal> {
    let refuse = |code, field: &str, expected: &str, found: &str| {
        Refusal::field(code, field, expected, found, About::Aside)
    };
    let raw: CancelIn = field::object(payload)
        .map_err(|found| refuse(Code::FieldType, "payload", "an object", &found))?;
    // Peers omit it in cancels.
    if !field::is_absent(raw.protocol_version)
        && let Err(found) = version(raw.protocol_version)
    {
        return Err(refuse(Code::Version, "protocol_version", "\"2\"", &found));
    }
    let wrong = |field: &'static str, expected: &'static str| {
        move |found: String| refuse(Code::FieldType, field, expected, &found)
    };
    Ok(Cancel {
        job: field::required(raw.job_id, field::id).map_err(wrong("job_id", "a string"))?,
        request: field::optional(raw.request_id, field::id)
            .map_err(wrong("request_id", "a string"))?,
        hard_kill: field::optional(raw.hard_kill, field::boolean)
            .map_err(wrong("hard_kill", "true or false"))?
            .unwrap_or(false),
    })
}

fn response(payload: &RawValue) -> Result<Response, Refusal> {
    let raw: ResponseIn = field::object(payload).map_err(|found| {
        let expected = "an object";
        Refusal::field(Code::FieldType, "payload", expected, &found, About::Unknown)
    })?;
    // A missing job id is treated as one that does not match.
    let request = id("request_id", raw.request_id).map_err(|refusal| Refusal {
        code: Code::OutcomeRequest,
        ..refusal
    })?;
    let job = id("job_id", raw.job_id).unwrap_or_default();
    let ids = Ids { request, job };
    let refuse = |code, field: &str, expected: &str, found: &str| {
        Refusal::field(code, field, expected, found, About::Known(ids.clone()))
    };
    let status = field::required(raw.status, field::text)
        .map_err(|found| refuse(Code::OutcomeStatus, "status", STATUSES, &found))?;
    let error = || {
        field::optional(raw.error, runner_error)
            .map_err(|found| refuse(Code::FieldType, "error", "an object", &found))
    };
    let verdict = match status.as_str() {
        // An invalid `error` does not make a success fail.
        "success" => Verdict::Success(
            raw.result
                .map_or_else(JsonText::null, |result| JsonText(result.get().to_owned())),
        ),
        "retry" => Verdict::Retry {
            error: error()?,
            after_seconds: field::optional(raw.retry_after_seconds, field::number).map_err(
                |found| refuse(Code::FieldType, "retry_after_seconds", "a number", &found),
            )?,
        },
        "timeout" => Verdict::Timeout(error()?),
        "error" => Verdict::Error(error()?),
        _ => {
            return Err(refuse(
                Code::OutcomeStatus,
                "status",
                STATUSES,
                "another text",
            ));
        }
    };
    Ok(Response { ids, verdict })
}

const STATUSES: &str = "success, retry, timeout or error";

/// Reads an error as far as possible, since its fields are only for people.
fn runner_error(raw: &RawValue) -> Result<RunnerError, String> {
    let raw: ErrorIn = field::object(raw)?;
    let text = |field| field::optional(field, field::text).ok().flatten();
    Ok(RunnerError {
        message: text(raw.message),
        kind: text(raw.kind),
        code: text(raw.code),
        details: raw
            .details
            .filter(|details| details.get() != "null")
            .map(|details| JsonText(details.get().to_owned())),
    })
}
