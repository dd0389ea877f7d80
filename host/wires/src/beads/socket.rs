//! The orchestrator's Unix socket: private to its owner from the first instant, never in place of a foreign
//! file, recreated if it disappears, and removed at the end.

#[cfg(test)]
pub(super) mod tests;

use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use host_core::port::Counters;
use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::sleep;

use super::WIRE;
use super::refusals::Code;
use crate::kit::stream::Listener;

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// How often to check that the socket is still in place.
const WATCH_TIME: Duration = Duration::from_secs(1);

/// Why there is no socket at a path.
#[derive(Debug, Error)]
pub(super) enum SocketError {
    #[error("{} is a symbolic link; remove it, or {OTHER}", .0.display())]
    Link(PathBuf),
    #[error("{} is not a socket; remove it, or {OTHER}", .0.display())]
    NotSocket(PathBuf),
    #[error("{} belongs to the user {uid}; {OTHER}", .path.display())]
    Foreign { path: PathBuf, uid: u32 },
    #[error("another orchestrator listens on {}; stop it, or {OTHER}", .0.display())]
    Live(PathBuf),
    #[error("cannot listen on {}: {error}; {OTHER}", .path.display())]
    Io { path: PathBuf, error: io::Error },
}

/// What to do about a path that cannot be used.
const OTHER: &str = "give another path with --beads-socket";

/// A socket that listens at its path. Dropped, it removes the path if that is still its own.
#[derive(Debug)]
pub(super) struct Bound {
    path: PathBuf,
    listener: UnixListener,
    /// The device and the inode of the socket's file.
    file: (u64, u64),
}

impl Bound {
    /// Listens at `path`. Replaces only a socket of this user on which nobody listens.
    pub(super) fn at(path: &Path) -> Result<Self, SocketError> {
        let failed = |error| SocketError::Io {
            path: path.to_owned(),
            error,
        };
        remove_stale(path)?;
        let listener = open(path).map_err(failed)?;
        let file = file_of(&std::fs::symlink_metadata(path).map_err(failed)?);
        Ok(Self {
            path: path.to_owned(),
            listener: UnixListener::from_std(listener).map_err(failed)?,
            file,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts connections of this user's processes.
    pub(super) fn listen(self, counters: Arc<dyn Counters>) -> Guarded {
        Guarded {
            bound: self,
            counters,
            uid: geteuid().as_raw(),
            is_displaced: false,
        }
    }

    fn is_in_place(&self) -> io::Result<bool> {
        Ok(file_of(&std::fs::symlink_metadata(&self.path)?) == self.file)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if self.is_in_place().unwrap_or(false) {
            // If this fails, the next start replaces it.
            let _stale = std::fs::remove_file(&self.path);
        }
    }
}

fn file_of(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Makes the socket. The kernel creates its file with the mode of the open socket, so it never has another
/// one. Fails if anything is at the path.
fn open(path: &Path) -> io::Result<StdListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    listen(&socket, BACKLOG)?;
    Ok(StdListener::from(socket))
}

/// Removes an unused socket of this user. Anything else at the path is an error.
fn remove_stale(path: &Path) -> Result<(), SocketError> {
    let at = || path.to_owned();
    let failed = |error| SocketError::Io { path: at(), error };
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    if metadata.is_symlink() {
        return Err(SocketError::Link(at()));
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(SocketError::Foreign {
            path: at(),
            uid: metadata.uid(),
        });
    }
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotSocket(at()));
    }
    match StdStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Ok(_) => return Err(SocketError::Live(at())),
        Err(error) => return Err(failed(error)),
    }
    let is_same = |now: &Metadata| file_of(now) == file_of(&metadata);
    if std::fs::symlink_metadata(path).is_ok_and(|now| is_same(&now)) {
        std::fs::remove_file(path).map_err(failed)?;
    }
    Ok(())
}

/// The socket as a source of connections. Refuses processes of other users.
pub(super) struct Guarded {
    bound: Bound,
    counters: Arc<dyn Counters>,
    uid: u32,
    /// Whether something else is in the socket's place.
    is_displaced: bool,
}

impl Guarded {
    fn is_welcome(&self, stream: &UnixStream) -> bool {
        let peer = stream.peer_cred().map(|peer| peer.uid());
        let is_welcome = peer.as_ref().is_ok_and(|uid| *uid == self.uid);
        if !is_welcome {
            let uid = peer.ok();
            self.counters.refused(WIRE, Code::Peer.as_str());
            tracing::warn!(uid, path = %self.bound.path.display(), "a process of another user is refused");
        }
        is_welcome
    }

    /// Recreates the socket if it was removed.
    fn watch(&mut self) {
        let path = self.bound.path.display();
        match self.bound.is_in_place() {
            Ok(true) => self.is_displaced = false,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match Bound::at(&self.bound.path) {
                    Ok(bound) => {
                        tracing::warn!(%path, "the socket had been removed; it is made again");
                        self.bound = bound;
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
            let path = self.bound.path.display();
            tracing::error!(%path, "workers cannot connect, the socket is gone: {why}");
        }
    }
}

impl Listener for Guarded {
    type Stream = UnixStream;

    async fn accept(&mut self) -> io::Result<UnixStream> {
        loop {
            tokio::select! {
                accepted = self.bound.listener.accept() => {
                    let (stream, _) = accepted?;
                    if self.is_welcome(&stream) {
                        return Ok(stream);
                    }
                }
                () = sleep(WATCH_TIME) => self.watch(),
            }
        }
    }
}
