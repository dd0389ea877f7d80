//! The orchestrator's Unix socket as a source of connections. It refuses processes of other users, and is
//! recreated if it disappears.

#[cfg(test)]
pub(super) mod tests;

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use host_core::port::Counters;
use host_runtime::socket::LocalListener;
use host_wire_kit::OpenError;
use host_wire_kit::stream::Listener;
use rustix::process::geteuid;
use tokio::net::UnixStream;
use tokio::time::sleep;

use super::WIRE;
use super::refusals::Code;

/// How often to check that the socket is still in place.
const WATCH_TIME: Duration = Duration::from_secs(1);

/// Listens at `path`.
pub(super) fn bind(path: &Path) -> Result<LocalListener, OpenError> {
    LocalListener::bind(path).map_err(|error| {
        OpenError::failed(format!(
            "cannot listen on {}: {error}; give another path with --beads-socket",
            path.display()
        ))
    })
}

/// Accepts connections of this user's processes.
pub(super) struct Guarded {
    socket: LocalListener,
    counters: Arc<dyn Counters>,
    uid: u32,
    /// Whether something else is in the socket's place.
    is_displaced: bool,
}

impl Guarded {
    pub(super) fn new(socket: LocalListener, counters: Arc<dyn Counters>) -> Self {
        Self {
            socket,
            counters,
            uid: geteuid().as_raw(),
            is_displaced: false,
        }
    }

    /// Recreates the socket if it was removed.
    fn watch(&mut self) {
        let path = self.socket.path().display();
        match self.socket.is_in_place() {
            Ok(true) => self.is_displaced = false,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match LocalListener::bind(self.socket.path()) {
                    Ok(socket) => {
                        tracing::warn!(%path, "the socket was removed; created it again");
                        self.socket = socket;
                    }
                    Err(error) => self.displaced(&error.to_string()),
                }
            }
            Ok(false) => self.displaced("something else is in its place; remove that"),
            Err(error) => self.displaced(&error.to_string()),
        }
    }

    fn displaced(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_displaced, true) {
            let path = self.socket.path().display();
            tracing::error!(%path, "workers cannot connect, because the socket is gone: {why}");
        }
    }
}

impl Listener for Guarded {
    type Stream = UnixStream;

    async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.socket.accept() => {
                    let (stream, uid) = accepted?;
                    if uid == self.uid {
                        return Ok(stream);
                    }
                    self.counters.refused(WIRE, Code::Peer.as_str());
                    let path = self.socket.path().display();
                    tracing::warn!(uid, %path, "refused a process of another user");
                }
                () = sleep(WATCH_TIME) => self.watch(),
            }
        }
    }
}
