//! The listener: limits the number of connections, the size of headers and the time of both, and
//! lets requests end when the process stops.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use std::{fmt, io};

use axum::Router;
use host_core::access::{Principal, Verbs};
use host_runtime::socket::LocalListener;
use host_runtime::tasks::Tasks;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;

use crate::gate::{AccessRecord, CONNECT, Gate};
use crate::metrics::Metrics;
use crate::peer::{Peer, network};
use crate::places::{Place, Places};
use crate::problem_stream::ProblemStream;
use crate::proxies::Proxies;
use crate::requests::Requests;
use crate::tls::{self, Tls};
use crate::watch::{Watch, WatchedStream};
use crate::write_timeout::WriteTimeout;

/// How many connections may be open, if the process may have twice as many files open. If all of them have requests,
/// further ones are answered with 503 and closed.
const CONNECTIONS_MAX: usize = 8_192;

/// How many connections may be open beyond that for the paths that are always answered: each for one request, and with
/// this time for its header.
const RESERVED_MAX: usize = 32;
const RESERVED_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a header may take, and how long a connection may be idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client that has closed its side still gets its answer. Nothing tells it from one that is gone, whose work
/// has to end.
const CLOSED_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a client may stop reading its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// How much is read ahead from one connection, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// How long to wait after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How much of a refused request is read, in bytes, and for how long: its sender reads the answer during that.
const REFUSED_BYTES_MAX: u64 = 64 << 10;
const REFUSAL_TIMEOUT: Duration = Duration::from_millis(200);

/// How many connections may be opening TLS, and how long each may take.
const HANDSHAKES_MAX: usize = 1_024;
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long requests may take to end when the process stops.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(10);

/// The answer to a connection above the limit.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// The answer to a connection without TLS from an address that must use it.
const PLAIN: &[u8] = b"HTTP/1.1 403 Forbidden\r\ncontent-type: text/plain\r\n\
    content-length: 66\r\nconnection: close\r\n\r\n\
    only trusted proxies may use this port without TLS; use https://\r\n";

/// What is between the network and the requests of a listener.
#[derive(Clone, Debug, Default)]
pub struct Transport {
    /// TLS; `None` without.
    pub tls: Option<Tls>,
    /// The proxies that are believed.
    pub proxies: Proxies,
    /// How many listeners share the open files of this process, this one included.
    pub listeners: usize,
}

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
        let _ = stream.set_nodelay(true);
        Ok((stream, Peer::remote(address.ip())))
    }
}

impl Accept for LocalListener {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Peer)> {
        let (stream, uid) = LocalListener::accept(self).await?;
        Ok((stream, Peer::local(uid)))
    }
}

/// Serves connections until `tasks` stop. Each connection is a task of its own, which then has ten
/// seconds to end its request. The paths in `always` are answered even if there are too many connections.
///
/// Cancel safe: no further connection is accepted, and open ones continue.
pub async fn serve(
    listener: impl Accept,
    transport: Transport,
    router: Router,
    gate: Arc<dyn Gate>,
    metrics: Arc<dyn Metrics>,
    tasks: &Tasks,
    always: &'static [&'static str],
) {
    let limits = ConnectionLimits {
        max: connections_max(getrlimit(Resource::Nofile).current, transport.listeners),
        handshakes_max: HANDSHAKES_MAX,
    };
    let serving = Served {
        transport,
        router,
        gate,
        metrics,
        always,
    };
    accept(&listener, &serving, tasks, limits).await;
}

/// How many connections may be open.
#[derive(Clone, Copy)]
pub(crate) struct ConnectionLimits {
    /// For all requests.
    pub(crate) max: usize,
    /// Of them, those that are opening TLS.
    pub(crate) handshakes_max: usize,
}

/// What the connections of a listener share.
#[derive(Clone)]
pub(crate) struct Served {
    pub(crate) transport: Transport,
    pub(crate) router: Router,
    /// Hears of connections that are refused.
    pub(crate) gate: Arc<dyn Gate>,
    pub(crate) metrics: Arc<dyn Metrics>,
    /// The paths that a few more connections are reserved for.
    pub(crate) always: &'static [&'static str],
}

impl Served {
    /// Records that a connection was refused before there was a request.
    fn record_refusal(&self, peer: &Peer, how: &'static str, status: u16) {
        if !self.gate.records_denials() {
            return;
        }
        let user = peer.uid.map(|uid| Principal {
            name: format!("uid:{uid}"),
            verbs: Verbs::NONE,
            ..Principal::anyone()
        });
        let asked = AccessRecord {
            peer,
            principal: user.as_ref(),
            verb: None,
            method: CONNECT,
            path: how,
            route: how,
            request_id: None,
        };
        self.gate.denied(&asked, status);
    }
}

/// Leaves half of the open files to the rest of the process, and shares the others among the listeners.
fn connections_max(files: Option<u64>, listeners: usize) -> usize {
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    let share = half.unwrap_or(usize::MAX) / listeners.max(1);
    share.min(CONNECTIONS_MAX)
}

/// Accepts connections until the tasks stop.
pub(crate) async fn accept(
    listener: &impl Accept,
    served: &Served,
    tasks: &Tasks,
    limits: ConnectionLimits,
) {
    let Transport { tls, proxies, .. } = &served.transport;
    let entrance = Entrance::new(limits, !served.always.is_empty());
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
        if let Some(uid) = peer.other_user() {
            tracing::warn!(uid, "refused a connection from another user");
            served.record_refusal(&peer, "to the local socket", 403);
            continue;
        }
        if tls.is_none() && !proxies.may_be_plain(&peer) {
            let address = peer.address.map(tracing::field::display);
            tracing::debug!(address, "refused a connection without TLS");
            served.record_refusal(&peer, "without TLS", 403);
            tasks.spawn(refuse(stream, PLAIN));
            continue;
        }
        let Some(admitted) = entrance.admit(&peer) else {
            // With TLS, nothing can be said before a handshake.
            if tls.is_none() {
                tasks.spawn(refuse(stream, FULL));
            }
            continue;
        };
        let (served, stopping) = (served.clone(), tasks.stopping().clone());
        let handshake = tls.as_ref().and_then(|_| entrance.begin_handshake(&peer));
        tasks.spawn(async move {
            match handshake {
                None => connection(stream, peer, served, stopping, admitted).await,
                Some(handshake) => {
                    let securing = secure(stream, peer, &served, handshake, &admitted);
                    if let Some(Some(secured)) = stopping.run_until_cancelled(securing).await {
                        let (stream, peer) = secured;
                        connection(stream, peer, served, stopping, admitted).await;
                    }
                }
            }
        });
        // What has arrived on it is read before another may take its place.
        tokio::task::yield_now().await;
    }
}

/// The places of a listener.
struct Entrance {
    places: Places,
    /// For the paths that are always answered.
    reserved: Option<Places>,
    handshakes: Places,
}

/// A connection that may be open.
pub(crate) struct Admitted {
    pub(crate) place: Arc<Place>,
    /// Whether it is only for the paths that are always answered.
    pub(crate) is_reserved: bool,
}

impl Entrance {
    fn new(limits: ConnectionLimits, has_reserve: bool) -> Self {
        Self {
            places: Places::new(limits.max),
            reserved: has_reserve.then(|| Places::new(RESERVED_MAX)),
            handshakes: Places::new(limits.handshakes_max),
        }
    }

    fn admit(&self, peer: &Peer) -> Option<Admitted> {
        let client = peer.address.map(network);
        let admitted = |is_reserved| {
            move |place| Admitted {
                place: Arc::new(place),
                is_reserved,
            }
        };
        let reserved = || self.reserved.as_ref()?.take(client).map(admitted(true));
        self.places
            .take(client)
            .map(admitted(false))
            .or_else(reserved)
    }

    fn begin_handshake(&self, peer: &Peer) -> Option<Place> {
        self.handshakes.take(peer.address.map(network))
    }
}

/// Makes a connection secure, within a time, and unless it must make room for others.
async fn secure<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    mut peer: Peer,
    served: &Served,
    handshake: Place,
    admitted: &Admitted,
) -> Option<(TlsStream<S>, Peer)> {
    let tls = served.transport.tls.as_ref()?;
    let limit = if admitted.is_reserved {
        RESERVED_TIMEOUT
    } else {
        HANDSHAKE_TIMEOUT
    };
    let secured = tokio::select! {
        secured = tokio::time::timeout(limit, tls.accept(stream, &mut peer)) => secured,
        () = handshake.given_up() => return failed(served, peer.address, &"others wait"),
        () = admitted.place.given_up() => return failed(served, peer.address, &"others wait"),
    };
    match secured {
        Ok(Ok(stream)) => Some((stream, peer)),
        Ok(Err(error)) => {
            if let Some(status) = tls::denies(&error) {
                served.record_refusal(&peer, "with a client certificate", status);
            }
            failed(served, peer.address, &error)
        }
        Err(error) => failed(served, peer.address, &error),
    }
}

/// Counts a handshake that has failed.
fn failed<T>(served: &Served, address: Option<IpAddr>, why: &dyn fmt::Display) -> Option<T> {
    served.metrics.handshake_failed();
    let address = address.map(tracing::field::display);
    tracing::debug!(address, "a TLS handshake failed: {why}");
    None
}

/// Answers and closes the connection, whether or not the answer was read.
async fn refuse(mut stream: impl AsyncRead + AsyncWrite + Unpin, answer: &'static [u8]) {
    let refusal = async {
        stream.write_all(answer).await?;
        stream.shutdown().await?;
        // A connection that is closed before its request is read is reset, and the answer may be lost.
        tokio::io::copy(&mut stream.take(REFUSED_BYTES_MAX), &mut tokio::io::sink()).await
    };
    let _ = tokio::time::timeout(REFUSAL_TIMEOUT, refusal).await;
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

/// Answers the requests of one connection until it ends or breaks, must make room for others, or until `stopping` is
/// cancelled. A connection from the reserve answers one request for a path that is always answered, and refuses any other.
pub(crate) async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    peer: Peer,
    served: Served,
    stopping: CancellationToken,
    admitted: Admitted,
) {
    let _guard = Open::new(Arc::clone(&served.metrics));
    let Admitted { place, is_reserved } = admitted;
    let watch = Watch::default();
    let timed = WriteTimeout::new(stream, WRITE_TIMEOUT);
    let watched = WatchedStream::new(timed, watch.clone());
    let stream = ProblemStream::new(watched, HEADER_BYTES_MAX, peer.is_tls);
    let requests = Requests {
        router: TowerToHyperService::new(served.router),
        proxies: served.transport.proxies,
        peer,
        place: Arc::clone(&place),
        always: served.always,
        is_reserved,
        unclear: stream.unclear(),
        watch: watch.clone(),
        count: AtomicU64::new(0),
    };
    let head_timeout = if is_reserved {
        RESERVED_TIMEOUT
    } else {
        HEADER_TIMEOUT
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_timeout)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(READ_BYTES_MAX)
        // A client that has sent its request may close its side, and read the answer.
        .half_close(true)
        .serve_connection(
            TokioIo::new(stream),
            service_fn(|request| requests.answer(request)),
        );
    // Such a client may as well be gone, so others may have its place.
    let closed = async {
        watch.closed.cancelled().await;
        place.yield_place();
        let _ = tokio::time::timeout(CLOSED_TIMEOUT, place.given_up()).await;
    };
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = place.given_up() => None,
        () = closed => None,
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(STOP_GRACE, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "an HTTP connection broke");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_share_half_of_the_open_files() {
        for (files, listeners, max) in [
            (None, 1, CONNECTIONS_MAX),
            (Some(1 << 20), 4, CONNECTIONS_MAX),
            (Some(4_096), 1, 2_048),
            (Some(4_096), 4, 512),
            (Some(4_096), 0, 2_048),
        ] {
            assert_eq!(
                connections_max(files, listeners),
                max,
                "{files:?} {listeners}"
            );
        }
    }
}
