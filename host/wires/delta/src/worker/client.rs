//! Speaks to an orchestrator over HTTP and sorts its answers. Knows no state of a lease.

use std::fmt::{self, Write as _};
use std::time::Duration;

use bytes::Bytes;
use host_wire_kit::http_client::{BaseUrl, HttpClient, Post, RequestError};
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use serde_json::value::RawValue;

use super::exchange::{Kind, Reply, Response};
use crate::messages::LEASE_HEADER;
use crate::messages::fields::{self, Fields, cut};
use crate::messages::lease_id::LeaseText;

/// How much of a refusal is shown, in bytes.
const SHOWN_BYTES_MAX: usize = 300;

/// One orchestrator.
#[derive(Clone)]
pub(super) struct Client {
    http: HttpClient,
    base: BaseUrl,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.base)
    }
}

/// Whose log a part is of.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) lease_id: LeaseText,
    pub(super) runner_id: String,
}

impl Part {
    /// Returns the path of the part that begins at `offset`.
    fn path(&self, offset: u64) -> String {
        let runner = encoded(&self.runner_id);
        format!("{}?runner_id={runner}&offset={offset}", Kind::Log.path())
    }
}

/// Writes a text so that it may stand in a URL, wherever that is.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The answer to a request for a lease.
#[derive(Debug)]
pub(super) enum Leased {
    Granted(Bytes),
    Nothing,
    /// Why there is none, for people.
    Failed(String),
}

impl Client {
    /// `token` is sent with each message, if there is one.
    pub(super) fn new(base: BaseUrl, token: Option<&str>) -> Self {
        let bearer = token.and_then(|token| {
            let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
            value.set_sensitive(true);
            Some((AUTHORIZATION, value))
        });
        Self {
            http: HttpClient::default(),
            base,
            headers: bearer.into_iter().collect(),
        }
    }

    pub(super) fn base(&self) -> &BaseUrl {
        &self.base
    }

    /// Sends a message about a lease. Cancel safe: the orchestrator may have it.
    pub(super) async fn send(&self, kind: Kind, body: String, timeout_ms: u64) -> Response {
        let (status, body) = match self.post(kind.path(), body, timeout_ms).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!(orchestrator = %self.base, %error, "a message got no answer");
                return Response::Again;
            }
        };
        sort(kind, status, &body)
    }

    /// Sends a part of a log. Cancel safe: the orchestrator may have it.
    pub(super) async fn upload(
        &self,
        part: &Part,
        offset: u64,
        text: String,
        timeout_ms: u64,
    ) -> Response {
        let Ok(mut lease) = HeaderValue::from_str(&part.lease_id.0) else {
            return Response::Refused("the lease id does not fit in a header".to_owned());
        };
        // The lease is a secret, which a path would show in logs of proxies.
        lease.set_sensitive(true);
        let mut headers = self.headers.clone();
        headers.push((LEASE_HEADER, lease));
        let path = part.path(offset);
        let put = Post {
            headers: &headers,
            ..self.request(&path, text, timeout_ms)
        };
        match self.http.put_text(put).await {
            Ok(answer) => sort(Kind::Log, answer.status, &answer.body),
            Err(error) => {
                tracing::debug!(orchestrator = %self.base, %error, "a part of a log got no answer");
                Response::Again
            }
        }
    }

    /// Asks for a lease.
    pub(super) async fn lease(&self, body: String, timeout_ms: u64) -> Leased {
        match self.post("/api/v1/internal/lease", body, timeout_ms).await {
            Ok((200, body)) => Leased::Granted(body),
            Ok((204, _)) => Leased::Nothing,
            Ok((status, body)) => Leased::Failed(format!("{status} {}", shown(&body))),
            Err(error) => Leased::Failed(error.to_string()),
        }
    }

    async fn post(
        &self,
        path: &str,
        body: String,
        timeout_ms: u64,
    ) -> Result<(u16, Bytes), RequestError> {
        let answer = self.http.post(self.request(path, body, timeout_ms)).await?;
        Ok((answer.status, answer.body))
    }

    fn request<'a>(&'a self, path: &'a str, body: String, timeout_ms: u64) -> Post<'a> {
        Post {
            base: &self.base,
            path,
            headers: &self.headers,
            body: Bytes::from(body),
            timeout: Duration::from_millis(timeout_ms),
        }
    }
}

/// Sorts an answer.
pub(super) fn sort(kind: Kind, status: u16, body: &[u8]) -> Response {
    match status {
        200..=299 if kind == Kind::Heartbeat => reply(body),
        200..=299 | 409 if kind == Kind::Log => logged(status, body),
        200..=299 => Response::Accepted(Reply::default()),
        409 => Response::Stale,
        400 if String::from_utf8_lossy(body).contains("unknown field") => Response::UnknownField,
        408 | 425 | 429 | 500..=599 => Response::Again,
        _ => Response::Refused(format!("{status} {}", shown(body))),
    }
}

/// Reads the answer to a part of a log: both an acceptance and the refusal of a gap say where it goes
/// on.
fn logged(status: u16, body: &[u8]) -> Response {
    let fields = fields::read(body).ok();
    let next = fields.and_then(|fields| fields.optional("next_offset", "").ok()?);
    match next {
        Some(next) => Response::Logged(next),
        None if status == 409 => Response::Stale,
        None => Response::Refused(format!("{status} without next_offset")),
    }
}

/// Reads the answer to a heartbeat. One that cannot be read still extends the lease.
fn reply(body: &[u8]) -> Response {
    let Ok(fields) = fields::read(body) else {
        return Response::Accepted(Reply::default());
    };
    let flag = |name: &str| fields.optional(name, "").ok().flatten();
    if flag("stale") == Some(true) || flag("extend_lease") == Some(false) {
        return Response::Stale;
    }
    let seconds = |name: &str| {
        let seconds: Option<u64> = fields.optional(name, "").ok().flatten();
        seconds.map(|seconds| seconds.saturating_mul(1_000))
    };
    let is_cancelled = flag("cancel_requested") == Some(true);
    let cancel_ms = seconds("cancel_deadline_seconds").unwrap_or_default();
    Response::Accepted(Reply {
        ttl_ms: seconds("new_lease_ttl_seconds").filter(|ms| *ms > 0),
        cancel_ms: is_cancelled.then_some(cancel_ms),
    })
}

/// Returns the message of a refusal, for people.
fn shown(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    let message = |raw: &RawValue| -> Option<String> {
        let fields = Fields::of(raw.get()).ok()?;
        fields.optional("message", "").ok().flatten()
    };
    let of_field = fields::read(body).ok().and_then(|fields| {
        let raw = fields.raw("error")?;
        message(raw).or_else(|| serde_json::from_str(raw.get()).ok())
    });
    let mut text = of_field.unwrap_or(text).replace(char::is_control, " ");
    let _ = cut(&mut text, SHOWN_BYTES_MAX);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_sorted_by_their_status() {
        let accepted = Response::Accepted(Reply::default());
        for (kind, status, body, expected) in [
            (Kind::Ack, 200, "", accepted.clone()),
            (Kind::Complete, 204, "", accepted.clone()),
            (Kind::Heartbeat, 200, "", accepted.clone()),
            (Kind::Heartbeat, 200, "<html>", accepted),
            (
                Kind::Heartbeat,
                409,
                r#"{"error":"stale lease"}"#,
                Response::Stale,
            ),
            (
                Kind::Heartbeat,
                200,
                r#"{"extend_lease":false,"stale":true}"#,
                Response::Stale,
            ),
            (
                Kind::Heartbeat,
                400,
                r#"{"error":"json: unknown field \"progress\""}"#,
                Response::UnknownField,
            ),
            (
                Kind::Complete,
                400,
                r#"{"error":"bad"}"#,
                Response::Refused("400 bad".to_owned()),
            ),
            (
                Kind::Complete,
                422,
                r#"{"error":{"code":"E","message":"status: bad"}}"#,
                Response::Refused("422 status: bad".to_owned()),
            ),
            (
                Kind::Complete,
                401,
                "no\x1b[31m",
                Response::Refused("401 no [31m".to_owned()),
            ),
            (
                Kind::Complete,
                302,
                "",
                Response::Refused("302 ".to_owned()),
            ),
            (Kind::Complete, 500, "", Response::Again),
            (Kind::Complete, 503, "", Response::Again),
            (Kind::Heartbeat, 429, "", Response::Again),
            (Kind::Log, 200, r#"{"next_offset":7}"#, Response::Logged(7)),
            (
                Kind::Log,
                409,
                r#"{"next_offset":3,"error":{}}"#,
                Response::Logged(3),
            ),
            (Kind::Log, 409, r#"{"type":"StaleLease"}"#, Response::Stale),
            (Kind::Log, 503, "", Response::Again),
            (Kind::Log, 404, "no", Response::Refused("404 no".to_owned())),
        ] {
            assert_eq!(
                sort(kind, status, body.as_bytes()),
                expected,
                "{status} {body}"
            );
        }
    }

    #[test]
    fn a_heartbeat_hears_of_a_cancel() {
        let response = sort(
            Kind::Heartbeat,
            200,
            br#"{"new_lease_ttl_seconds":60,"cancel_requested":true,"cancel_deadline_seconds":5}"#,
        );
        let reply = Reply {
            ttl_ms: Some(60_000),
            cancel_ms: Some(5_000),
        };
        assert_eq!(response, Response::Accepted(reply));
        let odd = sort(
            Kind::Heartbeat,
            200,
            br#"{"cancel_requested":"yes","new_lease_ttl_seconds":-1}"#,
        );
        assert_eq!(odd, Response::Accepted(Reply::default()));
    }

    #[test]
    fn a_token_is_not_shown() {
        let client = Client::new("http://127.0.0.1:1".parse().unwrap(), Some("secret"));
        assert!(!format!("{client:?}").contains("secret"));
    }

    #[test]
    fn the_path_of_a_log_does_not_show_its_lease() {
        let part = Part {
            lease_id: LeaseText("secret".to_owned()),
            runner_id: "r&é".to_owned(),
        };
        assert_eq!(
            part.path(7),
            "/api/v1/internal/logs?runner_id=r%26%C3%A9&offset=7"
        );
    }
}
