//! The listener: limits the number of connections, the size of headers and the time of both, and
//! lets requests end when the process stops.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::header::{CONNECTION, TRANSFER_ENCODING};
use axum::http::{HeaderValue, Request};
use axum::response::{IntoResponse as _, Response};
use host_runtime::tasks::Tasks;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::heads::Unclear;
use crate::local::LocalListener;
use crate::metrics::Metrics;
use crate::peer::Peer;
use crate::problem::Problem;
use crate::problem_stream::ProblemStream;
use crate::refusal::Refusal;
use crate::write_timeout::WriteTimeout;

/// How many connections may be open at once, if the process may have twice as many files open.
/// Further connections are answered with 503 and closed.
const CONNECTIONS_MAX: usize = 8_192;

/// How many connections may be open beyond that for the path that is answered always: each for one request, and with
/// this time for its header.
const RESERVED_MAX: usize = 8;
const RESERVED_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a header may take, and how long a connection may be idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may stop reading its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// How much is read ahead from one connection, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// How long to wait after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long requests may take to end when the process stops.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The answer to a connection above the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// What accepts connections.
pub trait Accept {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Accepts the next connection. Cancel safe.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Peer)>> + Send;
}

impl Accept for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Peer)> {
        let (stream, address) = Self::accept(self).await?;
        // Answers are written in one piece, so waiting for more data would only delay them.
        let _best_effort = stream.set_nodelay(true);
        Ok((stream, Peer::remote(address.ip())))
    }
}

impl Accept for LocalListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, uid) = self.next().await?;
        Ok((stream, Peer::local(uid)))
    }
}

/// Serves connections until `tasks` stop. Each connection is a task of its own, which then has ten
/// seconds to end its request. The path `always` is answered even if there are too many connections.
///
/// Cancel safe: no further connection is accepted, and open ones continue.
pub async fn serve(
    listener: impl Accept,
    router: Router,
    metrics: Arc<dyn Metrics>,
    tasks: &Tasks,
    always: Option<&'static str>,
) {
    let limits = ConnectionLimits {
        max: connections_max(),
        always,
    };
    accept(&listener, &router, &metrics, tasks, limits).await;
}

/// How many connections may be open at once.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// For all requests.
    pub(crate) max: usize,
    /// The path that a few more connections are reserved for.
    pub(crate) always: Option<&'static str>,
}

/// Leaves half of the open files to the rest of the process.
fn connections_max() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    half.map_or(CONNECTIONS_MAX, |half| half.min(CONNECTIONS_MAX))
}

/// Accepts connections until the tasks stop.
pub(crate) async fn accept(
    listener: &impl Accept,
    router: &Router,
    metrics: &Arc<dyn Metrics>,
    tasks: &Tasks,
    limits: ConnectionLimits,
) {
    let permits = Arc::new(Semaphore::new(limits.max));
    let reserved = Arc::new(Semaphore::new(RESERVED_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = tasks.stopping().cancelled() => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an HTTP connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let permit = Arc::clone(&permits).try_acquire_owned().ok();
        let (permit, only) = match (permit, limits.always) {
            (Some(permit), _) => (Some(permit), None),
            (None, Some(path)) => (Arc::clone(&reserved).try_acquire_owned().ok(), Some(path)),
            (None, None) => (None, None),
        };
        let Some(permit) = permit else {
            tasks.spawn(refuse(stream));
            continue;
        };
        let (router, metrics) = (router.clone(), Arc::clone(metrics));
        let stopping = tasks.stopping().clone();
        tasks.spawn(async move {
            connection((stream, peer), router, metrics, stopping, only).await;
            drop(permit);
        });
    }
}

/// Answers that there are too many connections and closes this one, even if the answer was not
/// read.
async fn refuse(mut stream: impl AsyncWrite + Unpin) {
    let answer = stream.write_all(FULL);
    let _closed_anyway = tokio::time::timeout(ACCEPT_PAUSE, answer).await;
}

/// Counts a connection while it is open.
struct Open(Arc<dyn Metrics>);

impl Open {
    fn new(metrics: Arc<dyn Metrics>) -> Self {
        metrics.connection_opened();
        Self(metrics)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.connection_closed();
    }
}

/// The requests of one connection.
struct Requests {
    router: TowerToHyperService<Router>,
    peer: Peer,
    unclear: Unclear,
    /// The only path that is answered, if there are too many connections.
    only: Option<&'static str>,
    count: AtomicU64,
}

impl Requests {
    fn new(router: Router, peer: Peer, unclear: Unclear, only: Option<&'static str>) -> Self {
        Self {
            router: TowerToHyperService::new(router),
            peer,
            unclear,
            only,
            count: AtomicU64::new(0),
        }
    }

    /// Answers the next request. Refuses one whose length is unclear. Such a request, or one with chunks, is
    /// the last of its connection, because the heads after it are not followed.
    fn answer(
        &self,
        mut request: Request<Incoming>,
    ) -> impl Future<Output = Result<Response, Infallible>> + use<> {
        let is_unclear = self.unclear.is(self.count.fetch_add(1, Ordering::Relaxed));
        let is_busy = self.only.is_some_and(|only| request.uri().path() != only);
        let is_last =
            is_unclear || self.only.is_some() || request.headers().contains_key(TRANSFER_ENCODING);
        let answered = if is_unclear {
            Err(Refusal::LengthUnclear)
        } else if is_busy {
            Err(Refusal::Busy)
        } else {
            request.extensions_mut().insert(self.peer.clone());
            Ok(self.router.call(request))
        };
        async move {
            let mut response = match answered {
                Ok(answered) => answered.await?,
                Err(refusal) => Problem::from(refusal).into_response(),
            };
            if is_last {
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(CONNECTION, close);
            }
            Ok(response)
        }
    }
}

/// Answers the requests of one connection until it ends or breaks, or until `stopping` is
/// cancelled. With `only`, it answers one request for this path and refuses any other.
pub(crate) async fn connection(
    (stream, peer): (impl AsyncRead + AsyncWrite + Unpin + 'static, Peer),
    router: Router,
    metrics: Arc<dyn Metrics>,
    stopping: CancellationToken,
    only: Option<&'static str>,
) {
    let _open = Open::new(metrics);
    let stream = WriteTimeout::new(stream, WRITE_TIMEOUT);
    let stream = ProblemStream::new(stream, HEADER_BYTES_MAX);
    let requests = Requests::new(router, peer, stream.unclear(), only);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(only.map_or(HEADER_TIMEOUT, |_| RESERVED_TIMEOUT))
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(READ_BYTES_MAX)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| requests.answer(request)),
        );
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(STOP_GRACE, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}
