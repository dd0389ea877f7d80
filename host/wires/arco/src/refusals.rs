//! Why we refuse what a peer sends: one code for metrics, and for callbacks the status and body of the
//! document.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_http::refusal::Refusal;

use super::messages::CallbackError;

host_wire_kit::codes! {
    Attempt = "E_ATTEMPT", 400, "invalid_request",
        "A callback names no attempt, or one below 1. Send the `attempt` of the dispatch.";
    Auth = "E_AUTH", 401, "unauthorized",
        "A callback has no token, or one that is forged, expired or for another task or attempt. \
         Send the `taskToken` of the dispatch as `Authorization: Bearer`; with a log, the secret of the \
         worker.";
    Body = "E_BODY", 400, "invalid_request",
        "The body of a callback is not a JSON object, is too large, or has another media type. \
         Check the worker.";
    Busy = "E_BUSY", 503, "busy",
        "The host is busy. The peer repeats the message later; no action is needed.";
    DispatchAuth = "E_DISPATCH_AUTH", 401, "unauthorized",
        "A dispatch to our worker has no secret or a wrong one. Give both sides the same secret.";
    DispatchRefused = "E_DISPATCH_REFUSED", 400, "dispatch_refused",
        "A worker refused a dispatch, so the attempt failed. The failure contains the worker's \
         message.";
    Envelope = "E_ENVELOPE", 400, "invalid_envelope",
        "A dispatch to our worker is not a valid task envelope. Check the control plane.";
    Expired = "E_EXPIRED", 410, "task_expired",
        "A heartbeat is for a task that has ended or whose attempt was lost. The worker must stop.";
    Field = "E_FIELD", 422, "invalid_field",
        "A field of a callback has an invalid value. The answer names the field.";
    Mismatch = "E_MISMATCH", 409, "attempt_mismatch",
        "A callback is about an attempt that is not the current one. The worker must stop.";
    Origin = "E_ORIGIN", 400, "origin_not_allowed",
        "A dispatch to our worker names a callback origin that is not allowed. Add it to \
         `callback_origins` if it is right.";
    Task = "E_TASK", 404, "task_not_found", "A callback names a task that does not exist. It may have been purged.";
    Terminal = "E_TERMINAL", 409, "task_already_terminal",
        "A worker reports the start or end of a task that has ended already. The worker must \
         stop.";
}

/// The refusal of a callback: its code, its status and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WireRefusal {
    pub(super) code: Code,
    pub(super) status: u16,
    pub(super) body: CallbackError,
}

impl WireRefusal {
    pub(super) fn new(code: Code, words: &str) -> Self {
        Self::named(code, code.status(), code.title(), words)
    }

    /// Makes a refusal with a status and a name other than its code's.
    fn named(code: Code, status: u16, error: &str, words: &str) -> Self {
        Self {
            code,
            status,
            body: CallbackError {
                error: error.to_owned(),
                // Real workers look for the name here.
                message: format!("{error}: {words}"),
                ..CallbackError::default()
            },
        }
    }

    pub(super) fn attempt() -> Self {
        Self::new(Code::Attempt, "attempt: must be at least 1")
    }

    pub(super) fn body(words: &str) -> Self {
        Self::new(Code::Body, words)
    }

    pub(super) fn field(words: &str) -> Self {
        Self::new(Code::Field, words)
    }

    pub(super) fn no_worker() -> Self {
        let words = "no worker is configured in [protocol.arco.workers]";
        Self::new(Code::Task, words)
    }

    pub(super) fn task() -> Self {
        Self::new(Code::Task, "no task has this id")
    }

    pub(super) fn token() -> Self {
        let words = "the token is missing or not valid for this task and attempt";
        Self::new(Code::Auth, words)
    }

    pub(super) fn secret() -> Self {
        let words = "the log must present the secret of the job's worker as its bearer";
        Self::new(Code::Auth, words)
    }

    pub(super) fn busy() -> Self {
        let words = "the host is busy; repeat this later";
        Self::new(Code::Busy, words)
    }

    pub(super) fn terminal(state: &str) -> Self {
        let words = format!("the task or its attempt is {state}");
        Self::new(Code::Terminal, &words).with_state(state)
    }

    pub(super) fn expired(state: &str) -> Self {
        let words = format!("the attempt is no longer active: {state}");
        Self::new(Code::Expired, &words).with_state(state)
    }

    pub(super) fn mismatch(expected: u32, received: u32) -> Self {
        let words = format!("the current attempt is {expected}, not {received}");
        let mut refused = Self::new(Code::Mismatch, &words);
        refused.body.expected_attempt = Some(expected);
        refused.body.received_attempt = Some(received);
        refused
    }

    pub(super) fn id_mismatch(attempt: u32, expected: &str, received: &str) -> Self {
        let words = "the attempt's id is not that of the current attempt";
        let code = Code::Mismatch;
        let mut refused = Self::named(code, code.status(), "attempt_id_mismatch", words);
        refused.body.state = Some(super::messages::RUNNING.to_owned());
        refused.body.expected_attempt = Some(attempt);
        refused.body.received_attempt = Some(attempt);
        refused.body.expected_attempt_id = Some(expected.to_owned());
        let received = received.chars().take(ID_CHARS_SHOWN).collect();
        refused.body.received_attempt_id = Some(received);
        refused
    }

    fn with_state(mut self, state: &str) -> Self {
        self.body.state = Some(state.to_owned());
        self
    }

    pub(super) fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(self.body)).into_response();
        let headers = response.headers_mut();
        match self.code {
            Code::Auth => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Code::Busy => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}

/// How many characters of a peer's id are shown.
const ID_CHARS_SHOWN: usize = 64;

/// Renders a refusal of the HTTP server.
pub(super) fn render(refusal: &Refusal) -> Response {
    of_server(refusal).into_response()
}

/// Returns the refusal of a callback for one of the HTTP server.
pub(super) fn of_server(refusal: &Refusal) -> WireRefusal {
    let error = match refusal {
        Refusal::NotFound => "not_found",
        Refusal::MethodNotAllowed { .. } => "method_not_allowed",
        Refusal::BodyTooLarge { .. } => "body_too_large",
        Refusal::ContentEncoding
        | Refusal::MediaTypeMissing { .. }
        | Refusal::MediaTypeRepeated
        | Refusal::MediaType { .. } => "unsupported_media_type",
        Refusal::Busy | Refusal::ShareUsed | Refusal::WaitsUsed | Refusal::ConnectionsUsed => {
            "busy"
        }
        Refusal::TimedOut { .. } | Refusal::BodyTimeout { .. } => "timeout",
        Refusal::AnswerBroken => "internal_error",
        // These routes ask for proofs of their own, so the first five do not occur.
        Refusal::Unauthenticated
        | Refusal::Forbidden { .. }
        | Refusal::Unscoped
        | Refusal::TooManyWrong { .. }
        | Refusal::RateLimited { .. }
        | Refusal::NotRecorded
        | Refusal::BodyBroken
        | Refusal::NotHttp
        | Refusal::LengthUnclear
        | Refusal::HeaderTooLarge { .. }
        | Refusal::HostHeaderCount
        | Refusal::HostHeaderNotAscii
        | Refusal::HostNotAllowed { .. }
        | Refusal::ForeignOrigin
        | Refusal::ForeignSite => "invalid_request",
    };
    let code = if error == "busy" {
        Code::Busy
    } else {
        Code::Body
    };
    WireRefusal::named(code, refusal.status().as_u16(), error, &refusal.to_string())
}
