//! The HTTP client: sends one request and reads one answer. It knows no paths. It uses only the status and
//! the date of an answer.

mod failure;
mod local;
mod path;

pub use path::{query, segment};

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::DateTime;
use host_core::time::Time;
use serde::de::DeserializeOwned;
use ureq::config::Config;
use ureq::http::{Method, Request};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, AsSendBody};

use crate::error::{CliError, Exit};
use crate::plain;

/// The default of `--server`.
pub const SERVER_DEFAULT: &str = "http://127.0.0.1:7700";

/// The maximum number of bytes read from one answer.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// The type of a JSON document.
const JSON: &str = "application/json";

/// The largest body that is sent without `Expect: 100-continue`. If the host refuses a body while
/// the client still sends it, the connection breaks and the refusal is lost.
const BODY_WITHOUT_EXPECT_BYTES_MAX: usize = 1 << 20;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an answer may take, in addition to the wait that the request asks for.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// The prefix of URLs of requests over a local socket. The name is not resolved.
const LOCAL_BASE: &str = "http://127.0.0.1";

/// A client of one host.
#[derive(Debug)]
pub struct Client {
    agent: Agent,
    /// The prefix of the URLs of requests.
    base: String,
    /// The host, for messages.
    shown: String,
    /// Whether the host has ever accepted a connection.
    answering: AtomicBool,
}

/// The answer to a request that succeeded.
#[derive(Debug)]
pub struct Answer {
    /// The HTTP status: 200 to 299.
    pub status: u16,
    /// The host's time when it answered, in whole seconds.
    pub now: Option<Time>,
    /// The body, normally a JSON document.
    pub body: String,
}

fn settings() -> Config {
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .user_agent(concat!("host-cli/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// Returns a URL without the user and password before `@`, for messages.
fn without_user(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (_, None) => url.to_owned(),
        (Some((scheme, _)), Some((before, rest))) if before.len() > scheme.len() => {
            format!("{scheme}://…@{rest}")
        }
        (_, Some((_, rest))) => format!("…@{rest}"),
    }
}

impl Client {
    /// Makes a client of the host at `server`, an `http://` URL without a path, or `unix://` and the path of
    /// a socket. An empty text, as from an empty variable, means the default.
    pub fn new(server: &str) -> Result<Self, CliError> {
        let server = if server.is_empty() {
            SERVER_DEFAULT
        } else {
            server
        };
        if let Some(path) = server.strip_prefix("unix://") {
            return Self::local(server, path);
        }
        let base = server.trim_end_matches('/');
        let refused = |cause: &str| {
            Err(CliError::new(
                Exit::Usage,
                format!("use {} as a server", plain::line(&without_user(server))),
                cause,
            )
            .next(format!(
                "write the host's address as a URL, such as {SERVER_DEFAULT}"
            )))
        };
        let Some(authority) = base.strip_prefix("http://") else {
            return refused("only http:// and unix:// URLs are supported");
        };
        if authority.is_empty()
            || !authority
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || ".-_:[]".contains(c))
        {
            return refused("expected http://ADDRESS:PORT without a path");
        }
        Ok(Self {
            agent: settings().new_agent(),
            base: base.to_owned(),
            shown: base.to_owned(),
            answering: AtomicBool::new(false),
        })
    }

    /// Makes a client of the host at the local socket `path`.
    fn local(server: &str, path: &str) -> Result<Self, CliError> {
        if !path.starts_with('/') {
            let doing = format!("use {} as a server", plain::line(&without_user(server)));
            let cause = "the path of a socket must begin with a slash";
            return Err(CliError::new(Exit::Usage, doing, cause)
                .next("write it like unix:///run/host/api.sock"));
        }
        let connector = local::Local(PathBuf::from(path));
        Ok(Self {
            agent: Agent::with_parts(settings(), connector, DefaultResolver::default()),
            base: LOCAL_BASE.to_owned(),
            shown: server.to_owned(),
            answering: AtomicBool::new(false),
        })
    }

    /// Gets `path`. `doing` completes "cannot …" in errors. The host may wait for `patience` before
    /// it answers.
    pub fn get(&self, doing: &str, path: &str, patience: Duration) -> Result<Answer, CliError> {
        self.answer(doing, Request::get(self.url(path)).body(()), patience)
    }

    /// Sends a body of content type `kind` to `path`. The host may wait for `patience` before it
    /// answers.
    pub fn send(
        &self,
        doing: &str,
        method: &str,
        path: &str,
        (kind, body): (&str, &[u8]),
        patience: Duration,
    ) -> Result<Answer, CliError> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.url(path))
            .header("content-type", kind);
        if body.len() > BODY_WITHOUT_EXPECT_BYTES_MAX {
            request = request.header("expect", "100-continue");
        }
        self.answer(doing, request.body(body), patience)
    }

    /// Posts a JSON document.
    pub fn post(&self, doing: &str, path: &str, json: &str) -> Result<Answer, CliError> {
        let body = (JSON, json.as_bytes());
        self.send(doing, "POST", path, body, Duration::ZERO)
    }

    /// Deletes `path`. The request has a content type although it has no body: a host refuses
    /// changes that a web page could request without a preflight.
    pub fn delete(&self, doing: &str, path: &str) -> Result<Answer, CliError> {
        let request = Request::delete(self.url(path)).header("content-type", JSON);
        self.answer(doing, request.body(()), Duration::ZERO)
    }

    /// Returns whether the host has ever accepted a connection, even if it did not answer.
    pub fn was_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed)
    }

    /// Returns the host's address, for messages.
    pub fn address(&self) -> &str {
        &self.shown
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn answer(
        &self,
        doing: &str,
        request: Result<Request<impl AsSendBody>, ureq::http::Error>,
        patience: Duration,
    ) -> Result<Answer, CliError> {
        let request = request.map_err(|error| CliError::new(Exit::Usage, doing, error))?;
        if path::lacks_segment(request.uri().path()) {
            let cause = "empty id or name";
            return Err(CliError::new(Exit::Usage, doing, cause).next("pass an id or a name"));
        }
        let only_reads = request.method() == Method::GET;
        let request = self
            .agent
            .configure_request(request)
            .timeout_global(Some(ANSWER_TIMEOUT + patience))
            .build();
        let mut response = self
            .agent
            .run(request)
            .map_err(|error| self.no_answer(doing, &error, only_reads))?;
        self.answering.store(true, Ordering::Relaxed);
        let status = response.status().as_u16();
        let now = response
            .headers()
            .get("date")
            .and_then(|value| DateTime::parse_from_rfc2822(value.to_str().ok()?).ok())
            .map(|at| Time(at.timestamp_millis()));
        let body = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string()
            .map_err(|error| self.no_answer(doing, &error, only_reads))?;
        if (200..300).contains(&status) {
            return Ok(Answer { status, now, body });
        }
        Err(self.refusal(doing, status, &body))
    }
}

impl Answer {
    /// Reads the document as `T`.
    pub fn read<T: DeserializeOwned>(&self, doing: &str) -> Result<T, CliError> {
        read(doing, &self.body)
    }
}

/// Reads a part of an answer as `T`.
pub fn read<T: DeserializeOwned>(doing: &str, json: &str) -> Result<T, CliError> {
    serde_json::from_str(json).map_err(|error| {
        CliError::new(
            Exit::Failed,
            doing,
            format!("this version does not understand the answer: {error}"),
        )
        .next("use a `host` command of the same version as the server")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_server_is_shown_without_user_and_password() {
        for (url, shown) in [
            ("http://u:secret@h:1", "http://…@h:1"),
            ("redis://:se@cret@h", "redis://…@h"),
            ("u:secret@h://x", "…@h://x"),
            ("u:secret@h", "…@h"),
            ("http://h/x", "http://h/x"),
        ] {
            assert_eq!(without_user(url), shown);
            let refused = Client::new(url).map(drop).unwrap_err();
            assert!(!format!("{refused:?}").contains("cret@"), "{refused:?}");
        }
    }
}
