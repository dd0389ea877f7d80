//! Sends requests. Kept connections belong to one revision of one component.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use host_core::egress::{HEADERS_BYTES_MAX, HEADERS_MAX, HttpError, HttpErrorKind, HttpResponse};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::header::{CONTENT_ENCODING, HeaderMap};
use hyper::{Request, Response, body::Incoming};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::capture_connection;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::allowance::{self, RequestCharge};
use crate::coding::{Coding, DecodeError};
use crate::dial::{Count, Dial, DialError};
use crate::mask::mask;
use crate::permit::{Permit, take_connection};
use crate::policy::Order;
use crate::tcp::Opener;

/// The most revisions whose connections are kept.
const REVISIONS_MAX: usize = 256;

/// The most idle connections to one server.
const IDLE_MAX: usize = 8;

/// The most connections of a component that may be open before its idle ones are closed, so that no component uses up
/// the descriptors of this process.
const OPEN_MAX: usize = 320;

/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Headers of a response that belong to its connection, or are no longer true of the body.
const DROPPED: [&str; 6] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
];

/// A component and its revision.
pub(crate) type Revision = (String, u32);

/// Sends requests over connections that it keeps. Clones share them.
pub(crate) type HttpClient = Client<HttpsConnector<Dial>, Full<Bytes>>;

/// The clients of all revisions.
pub(crate) struct Clients {
    dial: Dial,
    tls: Arc<ClientConfig>,
    by_revision: HashMap<Revision, HttpClient>,
    /// The connections of each component.
    counts: HashMap<String, Count>,
}

impl Clients {
    pub(crate) fn new(dial: Dial, tls: ClientConfig) -> Self {
        Self {
            dial,
            tls: Arc::new(tls),
            by_revision: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// Opens all further connections with this configuration. Kept ones are closed; requests in flight keep theirs.
    pub(crate) fn trust(&mut self, tls: ClientConfig) {
        self.tls = Arc::new(tls);
        self.by_revision.clear();
    }

    /// Returns what opens connections of a component.
    pub(crate) fn opener(&mut self, component: &str) -> Opener {
        let count = self.counts.entry(component.to_owned()).or_default();
        Opener {
            dial: self.dial.counted(count),
            tls: Arc::clone(&self.tls),
        }
    }

    /// Returns the client of a revision. Clones share its connections.
    pub(crate) fn get(&mut self, revision: &Revision) -> HttpClient {
        let (component, _) = revision;
        let count = self.counts.entry(component.clone()).or_default().clone();
        // Where connections are closed, requests in flight keep theirs.
        if Arc::strong_count(&count) > OPEN_MAX {
            self.by_revision.retain(|(of, _), _| of != component);
        }
        if let Some(client) = self.by_revision.get(revision) {
            return client.clone();
        }
        if self.by_revision.len() >= REVISIONS_MAX {
            self.by_revision.clear();
            self.counts.retain(|_, count| Arc::strong_count(count) > 1);
        }
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_headers(HEADERS_MAX)
            .http1_max_buf_size(HEADERS_BYTES_MAX)
            .build(connector(
                self.dial.counted(&count),
                ClientConfig::clone(&self.tls),
            ));
        self.by_revision.insert(revision.clone(), client.clone());
        client
    }
}

fn connector(dial: Dial, tls: ClientConfig) -> HttpsConnector<Dial> {
    HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(dial)
}

/// Sends a request and reads the response, within what it has taken. If it is dropped, the connection is closed.
pub(crate) async fn send(
    client: &HttpClient,
    order: Order,
    taken: &RequestCharge,
    permit: &Arc<Permit>,
) -> Result<HttpResponse, HttpError> {
    let Order {
        grant: _,
        signer: _,
        token: _,
        method,
        uri,
        headers,
        body,
        timeout: limit,
        response_bytes_max,
        secrets,
        cuts_body,
        decodes_body,
    } = order;
    let host = uri.host().unwrap_or_default().to_owned();
    let mut request = Request::builder()
        .method(method)
        .uri(uri)
        .body(Full::new(body))
        .map_err(|error| {
            HttpError::new(
                HttpErrorKind::InvalidRequest,
                format!("invalid request: {error}"),
            )
        })?;
    *request.headers_mut() = headers;
    let exchange = async {
        if !permit.holds() {
            let message = "the attempt is over";
            return Err(HttpError::new(HttpErrorKind::Unavailable, message));
        }
        let captured = capture_connection(&mut request);
        let mut responding = pin!(client.request(request));
        let response = poll_fn(|context| {
            let polled = responding.as_mut().poll(context);
            take_connection(&captured, permit);
            polled
        })
        .await
        .map_err(|error| unreachable(&host, &error))?;
        let coding = Coding::read(response.headers());
        let is_readable = coding == Coding::Identity || (decodes_body && coding != Coding::Unknown);
        if !is_readable && !secrets.is_empty() {
            let message =
                format!("{host} answered with a compressed body, which could hide a secret");
            return Err(HttpError::new(HttpErrorKind::ResponseEncoded, message));
        }
        if cuts_body {
            return read_start(&host, response, taken).await;
        }
        let coded = read(&host, response, response_bytes_max, taken).await?;
        if decodes_body {
            return decode(&host, coding, coded, response_bytes_max, taken).await;
        }
        Ok(coded)
    };
    let mut response = timeout(limit, exchange).await.unwrap_or_else(|_| {
        let message = format!("{host} did not answer within {} ms", limit.as_millis());
        Err(HttpError::new(HttpErrorKind::TimedOut, message))
    })?;
    mask(&mut response, &secrets);
    Ok(response)
}

async fn read(
    host: &str,
    response: Response<Incoming>,
    bytes_max: usize,
    taken: &RequestCharge,
) -> Result<HttpResponse, HttpError> {
    let (head, body) = response.into_parts();
    let counted = body.map_frame(|frame| {
        taken.received(frame.data_ref().map_or(0, Bytes::len));
        frame
    });
    let body = Limited::new(counted, taken.response_bytes_max())
        .collect()
        .await
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                too_large(host, "", bytes_max, taken)
            } else {
                let message = format!("{host} broke off its response: {error}");
                HttpError::new(HttpErrorKind::ResponseIncomplete, message)
            }
        })?;
    Ok(HttpResponse {
        status: head.status.as_u16(),
        headers: header_pairs(&head.headers),
        body: body.to_bytes().into(),
    })
}

/// Describes that a body has more bytes than the grant allows, or than are left to the attempt.
fn too_large(host: &str, form: &str, bytes_max: usize, taken: &RequestCharge) -> HttpError {
    if taken.response_bytes_max() < bytes_max {
        return allowance::no_more_bytes();
    }
    let message =
        format!("the response of {host} has more than {bytes_max} bytes{form} (max_response_kib)");
    HttpError::new(HttpErrorKind::TooLarge, message)
}

/// Returns a response without its content coding. The broker serves other requests while that takes.
pub(crate) async fn decode(
    host: &str,
    coding: Coding,
    coded: HttpResponse,
    bytes_max: usize,
    taken: &RequestCharge,
) -> Result<HttpResponse, HttpError> {
    if coding == Coding::Unknown || coded.body.is_empty() {
        return Ok(coded);
    }
    let HttpResponse {
        status,
        mut headers,
        body,
    } = coded;
    let length = body.len();
    let left = taken.response_bytes_max();
    let decoded = spawn_blocking(move || coding.decode(body, left));
    let body = decoded
        .await
        .unwrap_or_else(|error| Err(DecodeError::Invalid(error.into())))
        .map_err(|error| match error {
            DecodeError::TooLarge => {
                taken.received(taken.response_bytes_max());
                too_large(host, " when it is decompressed", bytes_max, taken)
            }
            DecodeError::Invalid(error) => {
                let message =
                    format!("{host} answered with a body that cannot be decompressed: {error}");
                HttpError::new(HttpErrorKind::ResponseEncoded, message)
            }
        })?;
    taken.received(body.len().saturating_sub(length));
    headers.retain(|(name, _)| name != CONTENT_ENCODING.as_str());
    Ok(HttpResponse {
        status,
        headers,
        body,
    })
}

/// Reads the start of the body, as much as it may have. The connection is closed if there is more.
async fn read_start(
    host: &str,
    response: Response<Incoming>,
    taken: &RequestCharge,
) -> Result<HttpResponse, HttpError> {
    let (head, mut body) = response.into_parts();
    let mut start = Vec::new();
    while start.len() < taken.response_bytes_max()
        && let Some(frame) = body.frame().await
    {
        let frame = frame.map_err(|error| {
            let message = format!("{host} broke off its response: {error}");
            HttpError::new(HttpErrorKind::ResponseIncomplete, message)
        })?;
        let data = frame.data_ref().map_or(&[][..], |data| data);
        let room = taken.response_bytes_max() - start.len();
        start.extend_from_slice(&data[..data.len().min(room)]);
    }
    taken.received(start.len());
    Ok(HttpResponse {
        status: head.status.as_u16(),
        headers: header_pairs(&head.headers),
        body: start,
    })
}

fn header_pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let kept = headers
        .iter()
        .filter(|(name, _)| !DROPPED.contains(&name.as_str()));
    kept.map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        (name.as_str().to_owned(), value)
    })
    .collect()
}

/// Describes why a request got no response.
fn unreachable(host: &str, error: &legacy::Error) -> HttpError {
    let mut cause: Option<&(dyn StdError + 'static)> = Some(error);
    let (mut last, mut kind) = (String::new(), HttpErrorKind::Unreachable);
    while let Some(error) = cause {
        if let Some(refused @ DialError::Refused { .. }) = error.downcast_ref() {
            return HttpError::new(HttpErrorKind::AddressNotAllowed, refused.to_string());
        }
        kind = kind_of(error).unwrap_or(kind);
        last = error.to_string();
        cause = error.source();
    }
    HttpError::new(kind, format!("no answer from {host}: {last}"))
}

/// Returns what a cause says about the kind of its error.
fn kind_of(cause: &(dyn StdError + 'static)) -> Option<HttpErrorKind> {
    if let Some(rustls::Error::InvalidCertificate(_)) = cause.downcast_ref() {
        return Some(HttpErrorKind::CertificateRefused);
    }
    // What it wraps is not its source.
    if let Some(error) = cause.downcast_ref::<io::Error>() {
        return kind_of(error.get_ref()?);
    }
    match cause.downcast_ref()? {
        DialError::Unresolved(_) => Some(HttpErrorKind::NameNotFound),
        DialError::Connect(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            Some(HttpErrorKind::ConnectionRefused)
        }
        DialError::Connect(_) | DialError::Refused { .. } => None,
    }
}
