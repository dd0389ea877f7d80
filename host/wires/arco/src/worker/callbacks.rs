//! Sends callbacks and reads their answers.

use std::time::Duration;

use host_wire_kit::http_client::{Answer, BaseUrl, HttpClient, Post, RequestError};
use host_wire_kit::text::cut_marked;

use crate::messages::{AnswerIn, CallbackError, Secret};
use host_core::time::Time;
use host_http::json::read_object;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

/// How long the answer to a callback may take, beside the time for its body.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);

/// How slowly a body may be taken, in bytes per second.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// How much of a refusal's reason is kept, in bytes.
const REASON_BYTES_MAX: usize = 1 << 10;

/// The answer to a callback, sorted by what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CallbackAnswer {
    Accepted {
        should_cancel: bool,
        /// The control plane's wall clock, if the answer has it.
        server_time: Option<Time>,
    },
    /// The attempt is over for the control plane; nothing more is sent about it.
    Over(u16),
    /// The control plane refuses it with an error of the contract, or says that it cannot process the body.
    Refused {
        status: u16,
        /// Why, in the words of the control plane.
        why: String,
    },
    /// The body is too large for the control plane or something before it.
    TooLarge,
    /// It may be sent again.
    Again {
        /// The wait that the control plane asks for, in milliseconds.
        after_ms: u64,
        /// Why, for people.
        why: String,
    },
}

impl CallbackAnswer {
    /// Returns why the callback was not accepted, for people.
    pub(super) fn not_accepted(&self) -> Option<String> {
        match self {
            Self::Accepted { .. } => None,
            Self::Over(status) => Some(format!("status {status}")),
            Self::Refused { status, why } => Some(format!("status {status}: {why}")),
            Self::TooLarge => Some("it is too large (status 413)".to_owned()),
            Self::Again { why, .. } => Some(why.clone()),
        }
    }
}

/// One callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Callback {
    pub(super) base: BaseUrl,
    pub(super) path: String,
    pub(super) token: Secret,
    pub(super) body: String,
}

/// Sends a callback once.
pub(super) async fn send(client: &HttpClient, callback: &Callback) -> CallbackAnswer {
    let bearer = HeaderValue::try_from(format!("Bearer {}", callback.token.expose()));
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    if let Ok(mut bearer) = bearer {
        bearer.set_sensitive(true);
        headers.push((AUTHORIZATION, bearer));
    }
    let post = Post {
        base: &callback.base,
        path: &callback.path,
        headers: &headers,
        body: callback.body.clone().into(),
        timeout: time_limit(callback.body.len()),
    };
    read_answer(client.post(post).await)
}

/// Returns how long the answer to a callback with a body of this size may take.
fn time_limit(body_bytes: usize) -> Duration {
    CALLBACK_TIMEOUT + Duration::from_secs(body_bytes as u64 / BYTES_PER_SECOND)
}

/// Sorts the answer to a callback. Only the control plane itself can refuse it for good: pages of proxies, which
/// may stand before it for a while, are no refusals.
pub(super) fn read_answer(answer: Result<Answer, RequestError>) -> CallbackAnswer {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            return CallbackAnswer::Again {
                after_ms: 0,
                why: error.to_string(),
            };
        }
    };
    match answer.status {
        200..=299 => accepted(&answer),
        409 | 410 => CallbackAnswer::Over(answer.status),
        413 => CallbackAnswer::TooLarge,
        status => match refusal(status, &answer.body) {
            Some(why) => CallbackAnswer::Refused { status, why },
            // A redirect is one of these: it is not followed.
            None => CallbackAnswer::Again {
                after_ms: after_ms(&answer),
                why: format!("status {status}"),
            },
        },
    }
}

/// Returns why a callback is refused for good. `None` if it may be sent again.
fn refusal(status: u16, body: &[u8]) -> Option<String> {
    if matches!(status, ..400 | 408 | 425 | 429 | 500..) {
        return None;
    }
    let is_code = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'_')
    };
    let error = read_object::<CallbackError>(body).ok();
    let reason = match error.filter(|it| !it.error.is_empty() && is_code(&it.error)) {
        Some(error) => error.message,
        // The real control plane answers this in plain text if it cannot read a body.
        None if status == 422 => String::from_utf8_lossy(body).trim().to_owned(),
        None => return None,
    };
    let why = reason.replace(|c: char| c.is_control(), " ");
    Some(cut_marked(&why, REASON_BYTES_MAX).into_owned())
}

fn after_ms(answer: &Answer) -> u64 {
    let after = answer.retry_after.unwrap_or_default();
    u64::try_from(after.as_millis()).unwrap_or(u64::MAX)
}

/// Reads an acknowledgement, which may be empty. A proxy's page is not one.
fn accepted(answer: &Answer) -> CallbackAnswer {
    if answer.body.trim_ascii().is_empty() {
        return CallbackAnswer::Accepted {
            should_cancel: false,
            server_time: None,
        };
    }
    match read_object::<AnswerIn>(&answer.body) {
        Ok(read) => CallbackAnswer::Accepted {
            should_cancel: read.should_cancel,
            server_time: read.server_time.as_deref().and_then(Time::parse_rfc3339),
        },
        Err(_) => CallbackAnswer::Again {
            after_ms: after_ms(answer),
            why: "the answer is not an acknowledgement".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> CallbackAnswer {
        read_answer(Ok(Answer {
            status,
            retry_after: None,
            body: body.into(),
        }))
    }

    #[test]
    fn an_answer_is_an_acknowledgement_only_if_it_says_so() {
        let at = "2027-01-15T08:00:00Z";
        let body =
            r#"{"acknowledged":true,"serverTime":"2027-01-15T08:00:00Z","shouldCancel":true}"#;
        let expected = CallbackAnswer::Accepted {
            should_cancel: true,
            server_time: Time::parse_rfc3339(at),
        };
        assert_eq!(answer(200, body), expected);
        let nothing = CallbackAnswer::Accepted {
            should_cancel: false,
            server_time: None,
        };
        for body in ["{}", "", " \n"] {
            assert_eq!(answer(200, body), nothing, "{body:?}");
        }
        for body in [
            "<html>ok</html>",
            "ok",
            r#"{"shouldCancel":"yes"}"#,
            r#"{"shouldCancel":1}"#,
            "[]",
        ] {
            assert!(
                matches!(answer(200, body), CallbackAnswer::Again { .. }),
                "{body}"
            );
        }
    }

    #[test]
    fn only_the_control_plane_refuses_for_good() {
        let error = r#"{"error":"task_not_found","message":"no such task"}"#;
        for body in ["", "{}", "<html>nginx</html>", error] {
            for status in [409, 410] {
                assert_eq!(answer(status, body), CallbackAnswer::Over(status));
            }
            assert_eq!(answer(413, body), CallbackAnswer::TooLarge);
            for status in [301, 302, 307, 308, 408, 429, 500, 502, 503, 504] {
                let again = matches!(answer(status, body), CallbackAnswer::Again { .. });
                assert!(again, "{status} {body}");
            }
        }
        for status in [400, 401, 403, 404, 422] {
            let why = "no such task".to_owned();
            assert_eq!(
                answer(status, error),
                CallbackAnswer::Refused { status, why }
            );
        }
        for body in [
            "",
            "<html>nginx</html>",
            r#"{"message":"no route"}"#,
            r#"{"error":"Not Found","message":"No message available"}"#,
        ] {
            for status in [400, 401, 403, 404, 405] {
                let again = matches!(answer(status, body), CallbackAnswer::Again { .. });
                assert!(again, "{status} {body}");
            }
        }
        let why = "output.rowCount: invalid type".to_owned();
        let refused = CallbackAnswer::Refused { status: 422, why };
        assert_eq!(answer(422, "output.rowCount: invalid type\n"), refused);
    }

    #[test]
    fn the_time_limit_grows_with_the_body() {
        assert_eq!(time_limit(100), Duration::from_secs(30));
        assert_eq!(time_limit(16 << 20), Duration::from_secs(30 + 256));
    }
}
