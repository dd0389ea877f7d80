//! The client of a host: one method for each operation. Of an answer it uses only the status, the date
//! and the document.

mod error;
mod events;
mod lines;
mod local;
mod operations;
mod settings;
mod tls;
mod token;

pub use error::{Error, Problem, WrongServer};
pub use events::{Event, Listening, StreamItem};
pub use lines::LineView;
pub use settings::{Choice, Context, Contexts, Unusable, contexts_path};
pub use tls::TlsFiles;

use std::io::Read;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::DateTime;
use host_core::seconds::Seconds;
use host_core::time::Time;
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use ureq::config::Config;
use ureq::http::{Method, Request, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::{Agent, AsSendBody, Body, BodyReader, SendBody};

use self::token::ClientToken;
use crate::page::PageView;
pub use crate::path::SERVER_DEFAULT;

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

/// How long a download or an upload may take.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_hours(1);

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
    /// The token that each request shows.
    token: Option<ClientToken>,
    /// Whether the host has ever accepted a connection.
    answering: AtomicBool,
}

/// The answer to a request that succeeded.
#[derive(Debug)]
pub struct Answer<T> {
    /// The HTTP status: 200 to 299.
    pub status: u16,
    /// The host's time when it answered, in whole seconds.
    pub now: Option<Time>,
    /// The document, as the host sent it.
    pub json: String,
    /// The document.
    pub view: T,
}

impl<T> Answer<T> {
    /// Replaces the view.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Answer<U> {
        Answer {
            status: self.status,
            now: self.now,
            json: self.json,
            view: f(self.view),
        }
    }
}

/// An entry of a list, which keeps what this version does not know of it.
#[derive(Debug)]
pub struct Item<T> {
    /// The entry, as the host sent it.
    pub json: Box<RawValue>,
    /// The entry.
    pub view: T,
}

impl<T: Serialize> Item<T> {
    /// Makes an entry of what this process knows itself.
    pub fn new(view: T) -> Result<Self, serde_json::Error> {
        let json = to_raw_value(&view)?;
        Ok(Self { json, view })
    }
}

impl<T> Item<T> {
    /// Replaces the view.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Item<U> {
        Item {
            json: self.json,
            view: f(self.view),
        }
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = Box::<RawValue>::deserialize(deserializer)?;
        let view = serde_json::from_str(json.get()).map_err(D::Error::custom)?;
        Ok(Self { json, view })
    }
}

/// A page of a list.
pub type Page<T> = Answer<PageView<Item<T>>>;

/// A complete list.
#[derive(Debug)]
pub struct Listing<T> {
    /// The host's time when it answered, in whole seconds.
    pub now: Option<Time>,
    /// The entries.
    pub items: Vec<Item<T>>,
}

fn settings() -> Config {
    settings_with(TlsConfig::default())
}

fn settings_with(tls: TlsConfig) -> Config {
    Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .user_agent(concat!("host-cli/", env!("CARGO_PKG_VERSION")))
        .build()
}

impl Client {
    /// Makes a client of the host at `server`, an `http://` or `https://` URL without a path, or `unix://` and
    /// the path of a socket. An empty one, such as an empty variable gives, is the default.
    pub fn new(server: &str) -> Result<Self, WrongServer> {
        Self::with_tls(server, &TlsFiles::default())
    }

    /// The same with the files for `https://`, which are not read for other URLs.
    pub fn with_tls(server: &str, tls: &TlsFiles) -> Result<Self, WrongServer> {
        let server = if server.is_empty() {
            SERVER_DEFAULT
        } else {
            server
        };
        if let Some(path) = server.strip_prefix("unix://") {
            return Self::local(server, path);
        }
        let base = server.trim_end_matches('/');
        let next = format!("write the host's address as a URL, such as {SERVER_DEFAULT}");
        let refused = |cause: &str| Err(WrongServer::new(server, cause.to_owned(), next));
        let (plain, secure) = (base.strip_prefix("http://"), base.strip_prefix("https://"));
        let Some(authority) = plain.or(secure) else {
            return refused("only http://, https:// and unix:// URLs are supported");
        };
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if authority.is_empty() || !authority.chars().all(is_allowed) {
            return refused("expected http://ADDRESS:PORT or https://NAME:PORT without a path");
        }
        let settings = if secure.is_some() {
            let tls = tls.config();
            settings_with(
                tls.map_err(|(cause, next)| WrongServer::new(server, cause, next.into()))?,
            )
        } else {
            settings()
        };
        Ok(Self {
            agent: settings.new_agent(),
            base: base.to_owned(),
            shown: base.to_owned(),
            token: None,
            answering: AtomicBool::new(false),
        })
    }

    /// Makes a client of the host at the local socket `path`.
    fn local(server: &str, path: &str) -> Result<Self, WrongServer> {
        if !path.starts_with('/') {
            let cause = "the path of a socket must begin with a slash";
            let next = "write it like unix:///run/host/api.sock".to_owned();
            return Err(WrongServer::new(server, cause.to_owned(), next));
        }
        let connector = local::Local(PathBuf::from(path));
        Ok(Self {
            agent: Agent::with_parts(settings(), connector, DefaultResolver::default()),
            base: LOCAL_BASE.to_owned(),
            shown: server.to_owned(),
            token: None,
            answering: AtomicBool::new(false),
        })
    }

    /// Returns whether the host has ever accepted a connection, even if it did not answer.
    pub fn was_answering(&self) -> bool {
        self.answering.load(Ordering::Relaxed)
    }

    /// Returns the host's address, for messages.
    pub fn address(&self) -> &str {
        &self.shown
    }

    /// Gets the document at `path`.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Error> {
        let request = Request::get(self.url(path)).body(());
        self.answer(request, Duration::ZERO)
    }

    /// Gets the document at `path`, for which the host waits at most for `timeout`.
    pub fn wait<T: DeserializeOwned>(
        &self,
        path: &str,
        timeout: Seconds,
    ) -> Result<Answer<T>, Error> {
        let path = format!("{path}?timeout_seconds={}", f64::from(timeout));
        let request = Request::get(self.url(&path)).body(());
        self.answer(request, Duration::from_millis(timeout.ms))
    }

    /// Gets the bytes at `path`, to be read as they come.
    fn open(&self, path: &str) -> Result<BodyReader<'static>, Error> {
        let request = Request::get(self.url(path)).body(());
        let response = self.respond(request, DOWNLOAD_TIMEOUT, true)?;
        Ok(response.into_body().into_reader())
    }

    /// Puts what `content` reads at `path`, of `bytes` if they are known.
    fn upload_to<T: DeserializeOwned>(
        &self,
        path: &str,
        content_type: &str,
        bytes: Option<u64>,
        mut content: &mut dyn Read,
    ) -> Result<Answer<T>, Error> {
        let mut request = Request::put(self.url(path))
            .header("content-type", content_type)
            .header("expect", "100-continue");
        if let Some(bytes) = bytes {
            request = request.header("content-length", bytes);
        }
        let body = SendBody::from_reader(&mut content);
        self.answer(request.body(body), DOWNLOAD_TIMEOUT)
    }

    /// Gets the complete list at `path`, page by page.
    pub fn list<T: DeserializeOwned>(&self, path: &str) -> Result<Listing<T>, Error> {
        let mut items = Vec::new();
        let mut cursor = None;
        loop {
            let path = with_query(path, &[("cursor", cursor.take())])?;
            let page: Page<T> = self.get(&path)?;
            items.extend(page.view.items);
            cursor = page.view.next_cursor;
            if cursor.is_none() {
                let now = page.now;
                return Ok(Listing { now, items });
            }
        }
    }

    /// Posts `body` as a JSON document to `path`.
    pub fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Error> {
        let body = serde_json::to_vec(body).map_err(Error::invalid)?;
        self.send("POST", path, JSON, &body, Duration::ZERO)
    }

    /// Puts `body` as a JSON document at `path`.
    fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<Answer<T>, Error> {
        let body = serde_json::to_vec(body).map_err(Error::invalid)?;
        self.send("PUT", path, JSON, &body, Duration::ZERO)
    }

    /// Deletes what is at `path`. The request has a content type although it has no body: a host refuses
    /// changes that a web page could request without a preflight.
    fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, Error> {
        let request = Request::delete(self.url(path)).header("content-type", JSON);
        self.answer(request.body(()), Duration::ZERO)
    }

    /// Sends a body of content type `kind` to `path`.
    fn send<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &[u8],
        patience: Duration,
    ) -> Result<Answer<T>, Error> {
        self.answer(self.with_body(method, path, kind, body), patience)
    }

    /// Makes a request with a body of content type `kind`.
    fn with_body<'b>(
        &self,
        method: &str,
        path: &str,
        kind: &str,
        body: &'b [u8],
    ) -> Result<Request<&'b [u8]>, ureq::http::Error> {
        let mut request = Request::builder()
            .method(method)
            .uri(self.url(path))
            .header("content-type", kind);
        if body.len() > BODY_WITHOUT_EXPECT_BYTES_MAX {
            request = request.header("expect", "100-continue");
        }
        request.body(body)
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    fn answer<T: DeserializeOwned>(
        &self,
        request: Result<Request<impl AsSendBody>, ureq::http::Error>,
        patience: Duration,
    ) -> Result<Answer<T>, Error> {
        let only_reads = matches!(&request, Ok(request) if request.method() == Method::GET);
        let mut response = self.respond(request, ANSWER_TIMEOUT + patience, only_reads)?;
        let status = response.status().as_u16();
        let now = response
            .headers()
            .get("date")
            .and_then(|value| DateTime::parse_from_rfc2822(value.to_str().ok()?).ok())
            .map(|at| Time(at.timestamp_millis()));
        let json = self.text(&mut response, only_reads)?;
        let view = serde_json::from_str(&json).map_err(Error::Unreadable)?;
        Ok(Answer {
            status,
            now,
            json,
            view,
        })
    }

    /// Reads the whole body of an answer.
    fn text(&self, response: &mut Response<Body>, only_reads: bool) -> Result<String, Error> {
        let body = response.body_mut().with_config().limit(ANSWER_BYTES_MAX);
        let read = body.read_to_string();
        read.map_err(|error| self.no_answer(&error, only_reads))
    }

    /// Sends a request, and returns the answer, of which only the head has been read, unless it is a refusal.
    fn respond(
        &self,
        request: Result<Request<impl AsSendBody>, ureq::http::Error>,
        timeout: Duration,
        only_reads: bool,
    ) -> Result<Response<Body>, Error> {
        let mut request = request.map_err(Error::invalid)?;
        if let Some(token) = &self.token {
            token.add_to(request.headers_mut());
        }
        if lacks_segment(request.uri().path()) {
            return Err(Error::EmptyName);
        }
        let request = self
            .agent
            .configure_request(request)
            .timeout_global(Some(timeout))
            .build();
        let mut response = self
            .agent
            .run(request)
            .map_err(|error| self.no_answer(&error, only_reads))?;
        self.answering.store(true, Ordering::Relaxed);
        let status = response.status().as_u16();
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let after = response
            .headers()
            .get("retry-after")
            .and_then(|value| value.to_str().ok()?.parse().ok());
        let problem = self.text(&mut response, only_reads)?;
        Err(self.refusal(status, after, &problem))
    }
}

/// Adds parameters to a path; those without a value are left out.
pub fn with_query(path: &str, parameters: &impl Serialize) -> Result<String, Error> {
    // In a query, a plus is a space to some readers and a plus to others, and a colon needs no escape.
    let query = serde_urlencoded::to_string(parameters)
        .map_err(Error::invalid)?
        .replace('+', "%20")
        .replace("%3A", ":");
    Ok(match query.as_str() {
        "" => path.to_owned(),
        query if path.contains('?') => format!("{path}&{query}"),
        query => format!("{path}?{query}"),
    })
}

/// Returns whether a name or id in a path is empty.
fn lacks_segment(path: &str) -> bool {
    path.split('/').skip(1).any(str::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_name_is_found() {
        for (path, lacks) in [
            ("/api/v1/jobs", false),
            ("/api/v1/jobs/", true),
            ("/api/v1/jobs//wait", true),
        ] {
            assert_eq!(lacks_segment(path), lacks, "{path}");
        }
    }
}
