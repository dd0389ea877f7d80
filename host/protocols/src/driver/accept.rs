//! Connections as they come in, each served by a task of its own that ends with this one.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Edge, Hub, serve_link};
use crate::driver::Listener;
use crate::session::{Link, Session};

/// The most connections at once; further ones are closed as they come.
pub const CONNECTIONS_MAX: usize = 4_096;

/// How long nothing is accepted after that failed: mostly for want of file descriptors.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves connections until `stopping`, and returns those that are still open.
pub async fn accept<S, E, L>(
    hub: &Arc<Hub<S, E>>,
    mut listener: L,
    stopping: &CancellationToken,
) -> JoinSet<()>
where
    S: Session,
    E: Edge<S>,
    L: Listener,
{
    let mut serving = JoinSet::new();
    let mut links_made = 0;
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => return serving,
            Some(_) = serving.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok(stream) if serving.len() < CONNECTIONS_MAX => {
                    let link = Link(links_made);
                    links_made += 1;
                    serving.spawn(serve_link(Arc::clone(hub), link, stream));
                }
                Ok(surplus) => drop(surplus),
                Err(_) => tokio::time::sleep(PAUSE).await,
            },
        }
    }
}
