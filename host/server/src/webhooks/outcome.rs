//! What the answer of a receiver means for its delivery. Pure.

use std::time::UNIX_EPOCH;

use host_core::egress::{HttpError, HttpErrorKind, HttpResponse};
use host_core::failure::{Failure, FailureKind};
use host_core::json::JsonText;
use host_core::outcome::Outcome;
use host_core::time::Time;
use serde_json::json;

/// The longest pause that a receiver may ask for, in seconds: as long as the longest between two attempts.
const RETRY_AFTER_SECONDS_MAX: u64 = 4 * 3_600;

/// Returns how the attempt of a delivery ended at the time `now`.
pub(super) fn read(answer: Result<HttpResponse, HttpError>, now: Time) -> Outcome {
    match answer {
        Ok(response) => of_response(&response, now),
        Err(error) => Outcome::Failed(of_error(error)),
    }
}

fn of_response(response: &HttpResponse, now: Time) -> Outcome {
    let status = response.status;
    let text = String::from_utf8_lossy(&response.body);
    let body = json!({"status": status, "body": text});
    if (200..300).contains(&status) {
        let result = Some(JsonText(body.to_string()));
        return Outcome::Completed { result };
    }
    if let Some(seconds) = retry_after(response, now) {
        return Outcome::Retry {
            reason: format!("the receiver answered {status} and asks to wait {seconds} s"),
            after_ms: Some(seconds * 1_000),
        };
    }
    let is_gone = status == 410;
    let message = if is_gone {
        "the receiver answered 410: it accepts no more deliveries".to_owned()
    } else {
        format!("the receiver answered {status}")
    };
    Outcome::Failed(Failure {
        retryable: Some(!is_gone),
        code: Some(status.to_string()),
        details: Some(JsonText(body.to_string())),
        ..Failure::new(FailureKind::UserError, message)
    })
}

/// Returns for how long a busy receiver wants to be left alone, in seconds. It writes them, or a date.
fn retry_after(response: &HttpResponse, now: Time) -> Option<u64> {
    if !matches!(response.status, 429 | 503) {
        return None;
    }
    let mut headers = response.headers.iter();
    let (_, value) = headers.find(|(name, _)| name == "retry-after")?;
    let value = value.trim();
    let seconds = if let Ok(seconds) = value.parse::<u64>() {
        seconds
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        let since = date.duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = Time::default().plus_ms(since.as_secs() * 1_000);
        until.since_ms(now).div_ceil(1_000)
    };
    Some(seconds.min(RETRY_AFTER_SECONDS_MAX))
}

fn of_error(error: HttpError) -> Failure {
    let HttpError { kind, message } = error;
    match kind {
        HttpErrorKind::NotGranted
        | HttpErrorKind::AddressNotAllowed
        | HttpErrorKind::InvalidRequest
        | HttpErrorKind::RequestTooLarge => Failure::new(FailureKind::GrantMissing, message),
        HttpErrorKind::TimedOut => Failure::new(FailureKind::TimedOut, message),
        _ => Failure {
            retryable: Some(true),
            user_kind: Some(kind.as_str().to_owned()),
            ..Failure::new(FailureKind::UserError, message)
        },
    }
}
