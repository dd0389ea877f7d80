//! Sends callbacks, and says what their answers mean.

use std::time::Duration;

use host_core::time::Time;
use host_http::json::read_object;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde::Serialize;

use crate::arco::messages::{AnswerIn, Secret};
use crate::kit::http_client::{Answer, BaseUrl, HttpClient, Post, RequestError};

/// How long the answer to a callback may take.
const CALLBACK_TIMEOUT: Duration = Duration::from_secs(30);

/// What the answer to a callback means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// It was taken.
    Taken {
        should_cancel: bool,
        /// The control plane's wall clock, if it was told.
        server_time: Option<Time>,
    },
    /// The attempt is over for the control plane: nothing more is to be sent about it.
    Over(u16),
    /// The control plane will never take this.
    Refused(u16),
    /// It may be sent again.
    Again {
        /// The wait that the control plane asks for.
        after: Option<Duration>,
        /// Why, for people.
        why: String,
    },
}

/// Where a callback goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct To<'a> {
    pub(super) base: &'a BaseUrl,
    pub(super) path: &'a str,
    pub(super) token: &'a Secret,
}

/// Sends callbacks.
#[derive(Clone, Debug, Default)]
pub(super) struct Callbacks(HttpClient);

impl Callbacks {
    /// Sends a message once.
    pub(super) async fn send(&self, to: To<'_>, message: &impl Serialize) -> Heard {
        let body = serde_json::to_vec(message).unwrap_or_default();
        self.send_bytes(to, body).await
    }

    /// Sends a message that is written already.
    pub(super) async fn send_bytes(&self, to: To<'_>, body: Vec<u8>) -> Heard {
        heard(self.exchange(to, body).await)
    }

    async fn exchange(&self, to: To<'_>, body: Vec<u8>) -> Result<Answer, RequestError> {
        let bearer = HeaderValue::try_from(format!("Bearer {}", to.token.expose()));
        let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
        if let Ok(mut bearer) = bearer {
            bearer.set_sensitive(true);
            headers.push((AUTHORIZATION, bearer));
        }
        let post = Post {
            base: to.base,
            path: to.path,
            headers: &headers,
            body: body.into(),
            timeout: CALLBACK_TIMEOUT,
        };
        self.0.post(post).await
    }
}

fn heard(answer: Result<Answer, RequestError>) -> Heard {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            return Heard::Again {
                after: None,
                why: error.to_string(),
            };
        }
    };
    match answer.status {
        200..=299 => taken(&answer),
        409 | 410 => Heard::Over(answer.status),
        408 | 425 | 429 | 500.. => Heard::Again {
            after: answer.retry_after,
            why: format!("it answers {}", answer.status),
        },
        // A redirect is one of these: it is not followed.
        status => Heard::Refused(status),
    }
}

/// Reads an acknowledgement. A page of a proxy is none.
fn taken(answer: &Answer) -> Heard {
    match read_object::<AnswerIn>(&answer.body) {
        Ok(read) => Heard::Taken {
            should_cancel: read.should_cancel,
            server_time: read.server_time.as_deref().and_then(Time::parse_rfc3339),
        },
        Err(_) => Heard::Again {
            after: answer.retry_after,
            why: "its answer is not an acknowledgement".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, body: &'static str) -> Heard {
        heard(Ok(Answer {
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
        let expected = Heard::Taken {
            should_cancel: true,
            server_time: Time::parse_rfc3339(at),
        };
        assert_eq!(answer(200, body), expected);
        let nothing = Heard::Taken {
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
            assert!(matches!(answer(200, body), Heard::Again { .. }), "{body}");
        }
        for status in [409, 410] {
            assert_eq!(answer(status, "{}"), Heard::Over(status));
        }
        for status in [301, 302, 307, 308, 400, 401, 403, 404, 422] {
            assert_eq!(answer(status, "{}"), Heard::Refused(status));
        }
        for status in [408, 429, 500, 502, 503, 504] {
            assert!(
                matches!(answer(status, "{}"), Heard::Again { .. }),
                "{status}"
            );
        }
    }
}
