//! Sends callbacks and reads their answers.

use std::time::Duration;

use crate::arco::messages::{AnswerIn, Secret};
use crate::kit::http_client::{Answer, BaseUrl, HttpClient, Post, RequestError};
use host_core::time::Time;
use host_http::json::read_object;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};

/// How long the answer to a callback may take.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);

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
    /// The control plane will never accept it.
    Refused(u16),
    /// It may be sent again.
    Again {
        /// The wait that the control plane asks for, in milliseconds.
        after_ms: u64,
        /// Why, for people.
        why: String,
    },
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
        timeout: CALLBACK_TIMEOUT,
    };
    read_answer(client.post(post).await)
}

/// Sorts the answer to a callback.
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
        408 | 425 | 429 | 500.. => CallbackAnswer::Again {
            after_ms: after_ms(&answer),
            why: format!("status {}", answer.status),
        },
        // A redirect is one of these: it is not followed.
        status => CallbackAnswer::Refused(status),
    }
}

fn after_ms(answer: &Answer) -> u64 {
    let after = answer.retry_after.unwrap_or_default();
    u64::try_from(after.as_millis()).unwrap_or(u64::MAX)
}

/// Reads an acknowledgement. A proxy's page is not one.
fn accepted(answer: &Answer) -> CallbackAnswer {
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
        assert_eq!(answer(200, "{}"), nothing);
        for body in [
            "",
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
        for status in [409, 410] {
            assert_eq!(answer(status, "{}"), CallbackAnswer::Over(status));
        }
        for status in [301, 302, 307, 308, 400, 401, 403, 404, 422] {
            assert_eq!(answer(status, "{}"), CallbackAnswer::Refused(status));
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(
                matches!(answer(status, "{}"), CallbackAnswer::Again { .. }),
                "{status}"
            );
        }
    }
}
