//! The one Unix socket to listen on: private to its user from the first instant, never in place of a file that is
//! not ours, and removed at the end.

#[cfg(test)]
mod tests;

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdListener, UnixStream as StdStream};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, fchmod};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use rustix::process::geteuid;
use thiserror::Error;
use tokio::net::{UnixListener, UnixStream};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 4_096;

/// Why a path cannot be listened on.
#[derive(Debug, Error)]
pub enum SocketError {
    #[error("the path exists and is not a socket")]
    NotSocket,
    #[error("the socket belongs to user {0}")]
    OtherUser(u32),
    #[error("another process is listening on it")]
    InUse,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A Unix socket that listens. Dropped, it removes the path if that is still its own.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
    /// The device and the inode of the socket's file.
    file: (u64, u64),
}

impl LocalListener {
    /// Listens on the socket `path`. Replaces only a socket of this user on which no process listens.
    pub fn bind(path: &Path) -> Result<Self, SocketError> {
        remove_stale(path)?;
        let listener = UnixListener::from_std(open(path)?)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: file_of(&fs::symlink_metadata(path)?),
        })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection, and returns the user of its other end. Cancel safe.
    pub async fn accept(&self) -> io::Result<(UnixStream, u32)> {
        let (stream, _) = self.listener.accept().await?;
        let user = stream.peer_cred()?.uid();
        Ok((stream, user))
    }

    /// Returns whether the path is still this socket.
    pub fn is_in_place(&self) -> io::Result<bool> {
        Ok(file_of(&fs::symlink_metadata(&self.path)?) == self.file)
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        if self.is_in_place().unwrap_or(false) {
            // If this fails, the next start replaces it.
            let _ = fs::remove_file(&self.path);
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
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !metadata.file_type().is_socket() {
        return Err(SocketError::NotSocket);
    }
    if metadata.uid() != geteuid().as_raw() {
        return Err(SocketError::OtherUser(metadata.uid()));
    }
    match StdStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        Ok(_) => return Err(SocketError::InUse),
        Err(error) => return Err(error.into()),
    }
    // Another process may have replaced it in the meantime.
    let is_same = |now: Metadata| file_of(&now) == file_of(&metadata);
    if fs::symlink_metadata(path).is_ok_and(is_same) {
        fs::remove_file(path)?;
    }
    Ok(())
}
