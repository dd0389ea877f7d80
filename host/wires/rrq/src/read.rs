//! Turns frames into checked messages: makes all checks that need no state. Accepts what the
//! document allows, and otherwise names the wrong field.

mod context;

#[cfg(test)]
mod tests;

use host_core::json::JsonText;
use host_core::time::Time;
use host_wire_kit::fields::{Fault, Fields, Wrong};
use host_wire_kit::json;
use host_wire_kit::text::found;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::context::{PAIR_BYTES_MAX, PAIRS_MAX};
use self::context::{pairs, trace};
use super::frame::Defect;
use super::ids::{ID_BYTES_MAX, Scan};
use super::messages::VERSION;
use super::refusals::{About, Code, Ids, Refusal};

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
    let about = scan.ids().map_or_else(|| loosely_about(text), About::Ids);
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
    Refusal::new(Code::Json, fault.to_string(), about)
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
    // What was checked is UTF-8.
    let whole = std::str::from_utf8(text).unwrap_or_default();
    let envelope = Fields::of(whole).map_err(|_| {
        let expected = "an object with type and payload";
        Refusal::field(
            &Wrong::kind("the frame", expected, "another value"),
            About::Unknown,
        )
    })?;
    let expected = "request, response or cancel";
    let name = envelope.required::<String>("type", expected);
    let kind = name
        .and_then(|name| match name.as_str() {
            "request" => Ok(Kind::Request),
            "response" => Ok(Kind::Response),
            "cancel" => Ok(Kind::Cancel),
            _ => Err(Wrong::kind("type", expected, "another text")),
        })
        .map_err(|wrong| Refusal {
            code: Code::UnknownType,
            ..Refusal::field(&wrong, loosely_about(text))
        })?;
    Ok((kind, envelope.present("payload").unwrap_or(RawValue::NULL)))
}

/// Reads the payload of a message.
fn fields(payload: &RawValue, about: About) -> Result<Fields<'_>, Refusal> {
    Fields::of(payload.get())
        .map_err(|found| Refusal::field(&Wrong::kind("payload", "an object", found), about))
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
        }) if request.len().max(job.len()) <= ID_BYTES_MAX => About::Ids(Ids { request, job }),
        _ => About::Unknown,
    }
}

fn request(payload: &RawValue) -> Result<Request, Refusal> {
    let fields = fields(payload, About::Unknown)?;
    let unknown = |wrong| Refusal::field(&wrong, About::Unknown);
    let ids = Ids {
        request: id(&fields, "request_id").map_err(unknown)?,
        job: id(&fields, "job_id").map_err(unknown)?,
    };
    let refuse = |wrong| Refusal::field(&wrong, About::Ids(ids.clone()));
    version(&fields).map_err(|wrong| Refusal {
        code: Code::Version,
        message: "Unsupported protocol version".to_owned(),
        ..refuse(wrong)
    })?;
    checked_request(&fields, &ids).map_err(refuse)
}

fn checked_request(fields: &Fields<'_>, ids: &Ids) -> Result<Request, Wrong> {
    // Fields of version 1.
    if fields
        .present("args")
        .or(fields.present("kwargs"))
        .is_some()
    {
        let expected = "an object and no args or kwargs";
        return Err(Wrong::kind("params", expected, "args or kwargs"));
    }
    let params = match fields.present("params") {
        None => "{}",
        Some(params) if params.get().starts_with('{') => params.get(),
        Some(other) => return Err(Wrong::kind("params", "an object", found(other.get()))),
    };
    let function = fields.required("function_name", "a string")?;
    let context: Fields<'_> = fields.required("context", "an object")?;
    let request = context_into(&context, ids.clone(), function, JsonText(params.to_owned()));
    request.map_err(|wrong| wrong.within("context"))
}

fn context_into(
    context: &Fields<'_>,
    ids: Ids,
    function: String,
    params: JsonText,
) -> Result<Request, Wrong> {
    let text = |name| context.optional::<String>(name, "a string");
    if text("job_id")?.is_some_and(|job| job != ids.job) {
        return Err(Wrong {
            fault: Fault::Mismatch,
            ..Wrong::kind("job_id", "the job_id of the request", "another")
        });
    }
    Ok(Request {
        ids,
        function,
        params,
        attempt: attempt(context)?,
        enqueued_at: time(context, "enqueue_time")?,
        queue: text("queue_name")?.unwrap_or_else(|| "default".to_owned()),
        deadline: time(context, "deadline")?,
        trace: trace(context),
        correlation: pairs(context, "correlation_context"),
        worker_id: text("worker_id")?,
    })
}

/// Reads an id: any string that is not too long.
fn id(fields: &Fields<'_>, name: &str) -> Result<String, Wrong> {
    let expected = "a string of at most 4096 bytes";
    let id: String = fields.required(name, expected)?;
    if id.len() > ID_BYTES_MAX {
        return Err(Wrong {
            fault: Fault::Range,
            ..Wrong::kind(name, expected, format!("a string of {} bytes", id.len()))
        });
    }
    Ok(id)
}

fn attempt(context: &Fields<'_>) -> Result<u32, Wrong> {
    let expected = "a whole number from 1 to 4294967295";
    let out_of_range = |found: &str| Wrong {
        fault: Fault::Range,
        ..Wrong::kind("attempt", expected, found)
    };
    match context.required("attempt", expected) {
        Ok(0) => Err(out_of_range("a number below 1")),
        Err(wrong) if wrong.found == "a number" => Err(out_of_range("a number")),
        attempt => attempt,
    }
}

/// Reads an RFC 3339 time with any fraction and offset.
fn time(fields: &Fields<'_>, name: &str) -> Result<Option<Time>, Wrong> {
    let expected = "an RFC 3339 time with an offset";
    let Some(text) = fields.optional::<String>(name, expected)? else {
        return Ok(None);
    };
    let time = Time::parse_rfc3339(&text);
    let wrong = || {
        Wrong::kind(
            name,
            expected,
            fields
                .raw(name)
                .map_or_else(String::new, |raw| found(raw.get())),
        )
    };
    time.ok_or_else(wrong).map(Some)
}

fn version(fields: &Fields<'_>) -> Result<(), Wrong> {
    let expected = "\"2\"";
    let version: String = fields.required("protocol_version", expected)?;
    if version == VERSION {
        return Ok(());
    }
    let found = format!("a string of {} bytes", version.len());
    Err(Wrong::kind("protocol_version", expected, found))
}

fn cancel(payload: &RawValue) -> Result<Cancel, Refusal> {
    let fields = fields(payload, About::Aside)?;
    let refuse = |wrong| Refusal::field(&wrong, About::Aside);
    // Peers omit it in cancels.
    if fields.raw("protocol_version").is_some() {
        version(&fields).map_err(|wrong| Refusal {
            code: Code::Version,
            ..refuse(wrong)
        })?;
    }
    let request = fields.raw("request_id").map(|_| id(&fields, "request_id"));
    let hard_kill = fields.optional("hard_kill", "true or false");
    Ok(Cancel {
        job: id(&fields, "job_id").map_err(refuse)?,
        request: request.transpose().map_err(refuse)?,
        hard_kill: hard_kill.map_err(refuse)?.unwrap_or(false),
    })
}

fn response(payload: &RawValue) -> Result<Response, Refusal> {
    let fields = fields(payload, About::Unknown)?;
    let request = id(&fields, "request_id").map_err(|wrong| Refusal {
        code: Code::OutcomeRequest,
        ..Refusal::field(&wrong, About::Unknown)
    })?;
    // A missing job id is treated as one that does not match.
    let job = id(&fields, "job_id").unwrap_or_default();
    let ids = Ids { request, job };
    let refuse = |wrong| Refusal::field(&wrong, About::Ids(ids.clone()));
    let unknown_status = |wrong| Refusal {
        code: Code::OutcomeStatus,
        ..refuse(wrong)
    };
    let status: String = fields
        .required("status", STATUSES)
        .map_err(unknown_status)?;
    let error = || -> Result<Option<RunnerError>, Refusal> {
        let error = fields.optional("error", "an object").map_err(refuse)?;
        Ok(error.as_ref().map(runner_error))
    };
    let verdict = match status.as_str() {
        // An invalid `error` does not make a success fail.
        "success" => {
            let result = fields.raw("result").unwrap_or(RawValue::NULL);
            Verdict::Success(JsonText(result.get().to_owned()))
        }
        "retry" => Verdict::Retry {
            error: error()?,
            after_seconds: fields
                .optional("retry_after_seconds", "a number")
                .map_err(refuse)?,
        },
        "timeout" => Verdict::Timeout(error()?),
        "error" => Verdict::Error(error()?),
        _ => {
            return Err(unknown_status(Wrong::kind(
                "status",
                STATUSES,
                "another text",
            )));
        }
    };
    Ok(Response { ids, verdict })
}

const STATUSES: &str = "success, retry, timeout or error";

/// Reads an error as far as possible, since its fields are only for people.
fn runner_error(fields: &Fields<'_>) -> RunnerError {
    RunnerError {
        message: fields.lenient("message"),
        kind: fields.lenient("type"),
        code: fields.lenient("code"),
        details: fields
            .raw("details")
            .map(|details| JsonText(details.get().to_owned())),
    }
}
