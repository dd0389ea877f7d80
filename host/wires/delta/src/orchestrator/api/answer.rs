//! How answers look: the messages of the document, and refusals with their code.

use axum::Json;
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_http::refusal::Refusal;
use serde::Serialize;

use crate::convert;
use crate::messages::{CompleteAck, LogAck, Nothing};
use crate::orchestrator::Answer;
use crate::refusals::{Code, More, WireRefusal};
use crate::settings::Times;

/// A refusal as it is written.
#[derive(Serialize)]
struct ErrorOut<'a> {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_id: Option<&'a str>,
    /// What the answer to a heartbeat says of a stale lease. Other messages have it too.
    #[serde(flatten)]
    heartbeat: Option<StaleBeat>,
    /// Why a lease is stale.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// How the lease ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<&'static str>,
    /// Where a log continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    error: Cause<'a>,
}

#[derive(Serialize)]
struct StaleBeat {
    extend_lease: bool,
    stale: bool,
}

#[derive(Serialize)]
struct Cause<'a> {
    code: &'static str,
    message: &'a str,
}

/// Answers a request that was not refused.
pub(super) fn answered(answer: Answer, times: Times) -> Response {
    match answer {
        Answer::Granted(Some(granted)) => ok(&convert::granted_to_network(&granted, times)),
        Answer::Granted(None) => StatusCode::NO_CONTENT.into_response(),
        Answer::Completed(lease_id) => ok(&CompleteAck {
            r#type: "CompleteAck",
            lease_id,
            accepted: true,
        }),
        Answer::Heartbeat(ack) => ok(&ack),
        Answer::Logged(next_offset) => ok(&LogAck {
            r#type: "LogAck",
            next_offset,
        }),
        Answer::Accepted => ok(&Nothing {}),
    }
}

fn ok(message: &impl Serialize) -> Response {
    Json(message).into_response()
}

/// Answers with a refusal.
pub(super) fn refused(refusal: &WireRefusal, lease_id: Option<&str>) -> Response {
    let status = StatusCode::from_u16(refusal.status());
    written(refusal, lease_id, status.unwrap_or(StatusCode::BAD_REQUEST))
}

fn written(refusal: &WireRefusal, lease_id: Option<&str>, status: StatusCode) -> Response {
    let mut out = ErrorOut {
        r#type: "Error",
        lease_id: None,
        heartbeat: None,
        reason: None,
        status: None,
        next_offset: None,
        error: Cause {
            code: refusal.code.as_str(),
            message: &refusal.message,
        },
    };
    match refusal.more {
        More::Nothing | More::Status(_) => {}
        More::Stale(why) => {
            out.r#type = "StaleLease";
            out.lease_id = lease_id;
            out.reason = Some(why.as_str());
            out.heartbeat = Some(StaleBeat {
                extend_lease: false,
                stale: true,
            });
            // The wire has no prefix here.
            out.error.code = "STALE_LEASE";
        }
        More::Recorded(status) => {
            out.lease_id = lease_id;
            out.status = Some(status);
        }
        More::NextOffset(next) => out.next_offset = Some(next),
    }
    let mut response = (status, Json(&out)).into_response();
    let headers = response.headers_mut();
    if refusal.code == Code::Auth {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if refusal.code.is_repeatable() {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

/// Renders what the server refuses before a handler sees it.
pub(super) fn render(refusal: &Refusal) -> Response {
    written(&of_http(refusal), None, refusal.status())
}

/// Returns what the server refuses, in the words of the wire.
pub(super) fn of_http(refusal: &Refusal) -> WireRefusal {
    let code = match refusal {
        Refusal::BodyTooLarge { .. } => Code::BodyTooLarge,
        Refusal::Busy
        | Refusal::ShareUsed
        | Refusal::WaitsUsed
        | Refusal::ConnectionsUsed
        | Refusal::TimedOut { .. }
        | Refusal::AnswerBroken => Code::Busy,
        // These routes ask for proofs of their own, so the first five do not occur.
        Refusal::Unauthenticated
        | Refusal::Forbidden { .. }
        | Refusal::Unscoped
        | Refusal::TooManyWrong { .. }
        | Refusal::RateLimited { .. }
        | Refusal::NotRecorded
        | Refusal::HostHeaderCount
        | Refusal::HostHeaderNotAscii
        | Refusal::HostNotAllowed { .. }
        | Refusal::ForeignOrigin
        | Refusal::ForeignSite
        | Refusal::ContentEncoding
        | Refusal::MediaTypeMissing { .. }
        | Refusal::MediaTypeRepeated
        | Refusal::MediaType { .. }
        | Refusal::BodyTimeout { .. }
        | Refusal::BodyBroken
        | Refusal::NotHttp
        | Refusal::LengthUnclear
        | Refusal::HeaderTooLarge { .. }
        | Refusal::NotFound
        | Refusal::MethodNotAllowed { .. } => Code::Request,
    };
    WireRefusal {
        more: More::Status(refusal.status().as_u16()),
        ..WireRefusal::new(code, refusal.to_string())
    }
}
