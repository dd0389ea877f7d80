//! A listener on a local socket. Only the user of this process can connect, and root.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};

use host_runtime::ids;
use rustix::process::geteuid;
use tokio::net::{UnixListener, UnixStream};

/// A listener on a local socket, whose file is removed on drop.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalListener {
    /// Listens on the socket `path`. A socket that nobody listens on any more is replaced.
    pub fn bind(path: &Path) -> io::Result<Self> {
        make_way(path)?;
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", ids::unique()));
        let half = PathBuf::from(name);
        let listener = UnixListener::bind(&half)?;
        // Nobody knows the name yet, so nobody connects before the mode is set.
        let named = fs::set_permissions(&half, fs::Permissions::from_mode(0o600))
            .and_then(|()| fs::rename(&half, path));
        if let Err(error) = named {
            let _best_effort = fs::remove_file(&half);
            return Err(error);
        }
        let path = path.to_owned();
        Ok(Self { listener, path })
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Accepts the next connection of this user or root. Cancel safe.
    pub(crate) async fn next(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let peer = stream.peer_cred()?.uid();
            if peer == geteuid().as_raw() || peer == 0 {
                return Ok(stream);
            }
            tracing::warn!(peer, "a connection of another user is refused");
        }
    }
}

impl Drop for LocalListener {
    fn drop(&mut self) {
        let _best_effort = fs::remove_file(&self.path);
    }
}

/// Removes the socket of a process that has ended. Refuses any other file, and a socket in use.
fn make_way(path: &Path) -> io::Result<()> {
    let refused = |message: &str| Err(io::Error::new(ErrorKind::AddrInUse, message.to_owned()));
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return refused("there is a file that is no socket");
    }
    if found.uid() != geteuid().as_raw() {
        return refused("there is a socket of another user");
    }
    match BlockingStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path),
        Ok(_) => refused("another process listens there"),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_socket_that_nobody_uses_is_replaced() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("api.sock");
        let first = LocalListener::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let refused = LocalListener::bind(&path).unwrap_err().to_string();
        assert!(refused.contains("another process"), "{refused}");
        let left = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "no half socket stays");
        // The process is killed, so the file stays.
        let kept = folder.path().join("kept");
        fs::hard_link(&path, &kept).unwrap();
        drop(first);
        fs::rename(&kept, &path).unwrap();
        drop(LocalListener::bind(&path).unwrap());
        assert!(!path.exists(), "it is removed at the end");
        for other in ["file", "link"] {
            let path = folder.path().join(other);
            match other {
                "file" => fs::write(&path, "x").unwrap(),
                _ => std::os::unix::fs::symlink("/nowhere", &path).unwrap(),
            }
            let refused = LocalListener::bind(&path).unwrap_err().to_string();
            assert!(refused.contains("no socket"), "{refused}");
        }
    }
}
