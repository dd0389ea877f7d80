//! Accepts connections and serves each in its own task. Several listeners may feed one hub and
//! share its limit.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::connection::serve_connection;
use super::session::{Peer, StreamSession};
use crate::driver::{EffectHandler, Hub};
use crate::owner;

/// How long to wait after an error of `accept`, which mostly means that there are too few file
/// descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// A source of connections for a stream wire.
pub trait Listener: Send {
    type Stream: AsyncRead + AsyncWrite + Send + Unpin + 'static;

    /// Waits for the next connection. Cancel safe.
    fn accept(&mut self) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Returns the peer, if known. Does not wait.
    fn peer(_stream: &Self::Stream) -> Option<Peer> {
        None
    }
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&mut self) -> io::Result<TcpStream> {
        let (stream, _) = TcpListener::accept(self).await?;
        // Disable Nagle's algorithm: a small answer must not wait until the last one is
        // acknowledged.
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    fn peer(stream: &TcpStream) -> Option<Peer> {
        let ends = (stream.local_addr().ok()?, stream.peer_addr().ok()?);
        let owner = owner::of_peer(ends.0, ends.1).ok()??;
        Some(Peer { uid: owner.uid })
    }
}

/// Serves connections until `stopping`, and returns those that are still open. Closes connections
/// beyond the hub's limit immediately. If dropped, closes all connections.
pub async fn accept<S, H, L>(
    hub: &Arc<Hub<S, H>>,
    mut listener: L,
    stopping: &CancellationToken,
) -> JoinSet<()>
where
    S: StreamSession,
    H: EffectHandler<S>,
    L: Listener,
{
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return serving,
            Some(_) = serving.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(stream) => {
                    if let Some((permit, link)) = hub.admit() {
                        let hub = Arc::clone(hub);
                        serving.spawn(async move {
                            if S::ASKS_FOR_PEERS
                                && let Some(peer) = L::peer(&stream)
                            {
                                hub.note(|session| session.on_peer(link, peer));
                            }
                            serve_connection(hub, link, stream).await;
                            drop(permit);
                        });
                    }
                }
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}
