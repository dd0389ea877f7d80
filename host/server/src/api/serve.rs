//! The listener: takes connections, bounds them in number, header and time, and lets what runs
//! finish when the host stops.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::patient::Patient;
use super::{Api, router};
use crate::metrics::Metrics;
use host_runtime::tasks::Tasks;

/// How many connections may be open at once, if the process may have twice as many files open;
/// later ones are told so and closed.
const CONNECTIONS_MAX: usize = 8_192;

/// How long a header may take, and a connection be idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a peer may take nothing of its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest header, in bytes.
const HEADER_BYTES_MAX: usize = 32 << 10;

/// How much is read ahead of one connection, in bytes.
const READ_BYTES_MAX: usize = 64 << 10;

/// How long to wait before the next connection is taken when that has failed.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long requests may take to end when the host stops.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// What is said to a connection too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n\
    content-length: 0\r\nconnection: close\r\n\r\n";

/// Answers requests until the host stops; connections are tasks of their own.
///
/// Cancel safe: no connection is taken any more, those that are open go on.
pub async fn serve(listener: TcpListener, state: Api, tasks: &Tasks) {
    let metrics = state.metrics.clone();
    accept(
        &listener,
        &router(state),
        &metrics,
        tasks,
        connections_max(),
    )
    .await;
}

/// Leaves half of the files that may be open to the store and the cells.
fn connections_max() -> usize {
    let files = getrlimit(Resource::Nofile).current;
    let half = files.and_then(|files| usize::try_from(files / 2).ok());
    half.map_or(CONNECTIONS_MAX, |half| half.min(CONNECTIONS_MAX))
}

/// Takes connections until the host stops, at most so many at once.
pub(super) async fn accept(
    listener: &TcpListener,
    router: &Router,
    metrics: &Metrics,
    tasks: &Tasks,
    connections_max: usize,
) {
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = tasks.stopping().cancelled() => return,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot take a connection of the API");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            tasks.spawn(refuse(stream));
            continue;
        };
        // Answers are written whole: waiting for more to send would only delay them.
        let _best_effort = stream.set_nodelay(true);
        let (router, metrics) = (router.clone(), metrics.clone());
        let stopping = tasks.stopping().clone();
        tasks.spawn(async move {
            connection(stream, router, &metrics, stopping).await;
            drop(permit);
        });
    }
}

/// Says that there are too many connections; whoever does not take it in time is closed all the
/// same.
async fn refuse(mut stream: TcpStream) {
    let said = stream.write_all(FULL);
    let _closed_anyway = tokio::time::timeout(ACCEPT_PAUSE, said).await;
}

/// Answers the requests of one connection until it ends, breaks or the host stops.
pub(super) async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
    router: Router,
    metrics: &Metrics,
    stopping: CancellationToken,
) {
    metrics.connections().inc();
    let stream = Patient::new(stream, WRITE_TIMEOUT);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        // Whoever says that no more will come still gets the answer.
        .half_close(true)
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(HEADER_BYTES_MAX)
        .max_buf_size(READ_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopping.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(STOP_GRACE, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "a connection of the API broke");
    }
    metrics.connections().dec();
}
