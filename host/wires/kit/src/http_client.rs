//! Sends requests to other programs over HTTP/1.1, plain or with TLS: no redirects, no proxies, a limit on
//! the time and the size of each answer. Connections are kept for later requests. Knows no wire and no
//! path.

mod requests;
mod tls;
mod url;

#[cfg(test)]
mod tests;

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use hyper::http::uri::Scheme;
use hyper::{Method, Request};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connect, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use thiserror::Error;
use tokio::sync::OnceCell;

pub use self::requests::Requests;
pub use self::url::{BaseUrl, Origin, UrlError};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long an idle connection is kept. Servers keep it longer, so that a request seldom meets a closing
/// connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);

/// The most idle connections for one origin.
const IDLE_MAX: usize = 64;

/// The largest answer that is read, in bytes: a lease holds the params of a job, of which a host accepts 8 MiB.
const ANSWER_BYTES_MAX: usize = 9 << 20;

/// A client for any number of servers. Cloning shares its connections.
#[derive(Clone, Debug)]
pub struct HttpClient {
    plain: Client<HttpConnector, Full<Bytes>>,
    /// Made for the first `https://` URL.
    encrypted: Arc<OnceCell<Client<HttpsConnector<HttpConnector>, Full<Bytes>>>>,
}

/// One POST with a JSON body.
pub struct Post<'a> {
    pub base: &'a BaseUrl,
    /// Follows the path of the base; starts with a slash.
    pub path: &'a str,
    pub headers: &'a [(HeaderName, HeaderValue)],
    pub body: Bytes,
    /// How long the answer may take, including connecting.
    pub timeout: Duration,
}

/// An answer, whatever its status. A redirect is an answer like any other.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    /// How long to wait, by `Retry-After`: its seconds, or the time from `Date` to the date there.
    pub retry_after: Option<Duration>,
    pub body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum RequestError {
    /// There was no connection, so the server has not seen the request.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The server may have seen the request.
    #[error("no answer within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The server may have seen the request.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The server has seen the request.
    #[error("the answer has more than {ANSWER_BYTES_MAX} bytes")]
    TooLong,
    /// The path does not form a URL.
    #[error("the path does not form a URL")]
    Path,
}

impl RequestError {
    /// Returns whether the server may have seen the request.
    pub const fn may_be_delivered(&self) -> bool {
        !matches!(self, Self::Connect(_) | Self::Path)
    }
}

impl fmt::Debug for Post<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path, headers and the body may hold secrets.
        write!(f, "a request to {}", self.base)
    }
}

impl Default for HttpClient {
    fn default() -> Self {
        Self {
            plain: pooled(connector()),
            encrypted: Arc::default(),
        }
    }
}

#[cfg(test)]
impl HttpClient {
    /// A client that trusts these authorities and no others.
    fn trusting(roots: rustls::RootCertStore) -> Self {
        let connector = tls::over(connector(), tls::config(roots).unwrap());
        Self {
            encrypted: Arc::new(OnceCell::new_with(Some(pooled(connector)))),
            ..Self::default()
        }
    }
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_nodelay(true);
    connector
}

fn pooled<C: Connect + Clone>(connector: C) -> Client<C, Full<Bytes>> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(IDLE_MAX)
        .build(connector)
}

impl HttpClient {
    /// Sends a request and reads its answer. Cancel safe: the server may have seen the request.
    pub async fn post(&self, post: Post<'_>) -> Result<Answer, RequestError> {
        self.send(Method::POST, "application/json", post).await
    }

    /// Sends the same as plain text with PUT.
    pub async fn put_text(&self, put: Post<'_>) -> Result<Answer, RequestError> {
        self.send(Method::PUT, "text/plain", put).await
    }

    async fn send(
        &self,
        method: Method,
        media_type: &'static str,
        post: Post<'_>,
    ) -> Result<Answer, RequestError> {
        let timeout = post.timeout;
        let mut request = request(post)?;
        *request.method_mut() = method;
        let media_type = HeaderValue::from_static(media_type);
        request.headers_mut().insert(CONTENT_TYPE, media_type);
        tokio::time::timeout(timeout, self.exchange(request))
            .await
            .map_err(|_| RequestError::TimedOut(timeout))?
    }

    /// Sends a prepared request and reads its answer. Cancel safe: the server may have seen the request.
    pub async fn execute(
        &self,
        request: Request<Bytes>,
        timeout: Duration,
    ) -> Result<Answer, RequestError> {
        tokio::time::timeout(timeout, self.exchange(request.map(Full::new)))
            .await
            .map_err(|_| RequestError::TimedOut(timeout))?
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<Answer, RequestError> {
        let sent = if request.uri().scheme() == Some(&Scheme::HTTPS) {
            let client = self.encrypted.get_or_try_init(|| async {
                let connector = tls::connector(connector()).await?;
                Ok(pooled(connector))
            });
            client.await?.request(request).await
        } else {
            self.plain.request(request).await
        };
        let response = sent.map_err(|error| {
            let text = innermost(&error);
            if error.is_connect() {
                RequestError::Connect(text)
            } else {
                RequestError::Broken(text)
            }
        })?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| {
                if error.is::<LengthLimitError>() {
                    RequestError::TooLong
                } else {
                    RequestError::Broken(error.to_string())
                }
            })?;
        Ok(Answer {
            status: parts.status.as_u16(),
            retry_after: retry_after(&parts.headers),
            body: body.to_bytes(),
        })
    }
}

/// Reads `Retry-After`. A date there counts from that of the answer, so that no clock of ours has to agree with it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name| Some(headers.get(name)?.to_str().ok()?.trim());
    let after = text(RETRY_AFTER)?;
    if let Ok(seconds) = after.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    let (until, now) = (date(after)?, date(text(DATE)?)?);
    Some(until.duration_since(now).unwrap_or_default())
}

fn request(post: Post<'_>) -> Result<Request<Full<Bytes>>, RequestError> {
    let uri = post.base.join(post.path).ok_or(RequestError::Path)?;
    let mut request = Request::new(Full::new(post.body));
    *request.uri_mut() = uri;
    let headers = request.headers_mut();
    for (name, value) in post.headers {
        headers.insert(name, value.clone());
    }
    Ok(request)
}

/// Returns the root cause: "Connection refused" instead of "client error (Connect)".
fn innermost(error: &hyper_util::client::legacy::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(error) = cause {
        text = error.to_string();
        cause = error.source();
    }
    text
}
