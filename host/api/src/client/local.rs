//! Connects the client to a host's local socket. Sends nothing to a socket of another user.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};
use ureq::{Error, Timeout};

/// Connects to the socket, whatever the URL.
#[derive(Debug)]
pub(super) struct Local(pub(super) PathBuf);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    socket: UnixStream,
    buffers: LazyBuffers,
}

impl Connector<()> for Local {
    type Out = Connection;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _: Option<()>,
    ) -> Result<Option<Connection>, Error> {
        let socket = UnixStream::connect(&self.0).map_err(|error| match error.kind() {
            // No host is there, as if nothing listened on a port.
            ErrorKind::NotFound => io::Error::new(ErrorKind::ConnectionRefused, error),
            _ => error,
        })?;
        let host = socket_peercred(&socket).map_err(io::Error::from)?.uid;
        if host != geteuid() && !host.is_root() {
            let whose = format!("it belongs to user {}", host.as_raw());
            return Err(Error::Io(io::Error::new(
                ErrorKind::PermissionDenied,
                whose,
            )));
        }
        let (input, output) = (
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        Ok(Some(Connection {
            socket,
            buffers: LazyBuffers::new(input, output),
        }))
    }
}

impl Transport for Connection {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.socket.set_write_timeout(left(timeout))?;
        let output = &self.buffers.output()[..amount];
        self.socket
            .write_all(output)
            .map_err(|error| failed(error, timeout.reason))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.socket.set_read_timeout(left(timeout))?;
        let input = self.buffers.input_append_buf();
        let bytes = loop {
            match self.socket.read(input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read.map_err(|error| failed(error, timeout.reason))?,
            }
        };
        self.buffers.input_appended(bytes);
        Ok(bytes > 0)
    }

    fn is_open(&mut self) -> bool {
        // An idle connection that becomes readable is closed.
        let mut byte = [0];
        let open = self.socket.set_nonblocking(true);
        let read = open.and_then(|()| self.socket.read(&mut byte));
        let is_quiet = read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        is_quiet && self.socket.set_nonblocking(false).is_ok()
    }
}

fn left(timeout: NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|left| *left)
}

fn failed(error: io::Error, reason: Timeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(reason),
        _ => Error::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::net::UnixListener;

    use rustix::process::Uid;
    use rustix::thread::set_thread_res_uid;

    use super::*;
    use crate::client::Client;

    /// A user that owns nothing.
    const NOBODY_UID: u32 = 65_534;

    /// Needs root, because only root can switch users.
    #[test]
    fn a_socket_of_another_user_is_sent_nothing() {
        if !geteuid().is_root() {
            return;
        }
        let folder = tempfile::TempDir::new().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
        let path = folder.path().join("api.sock");
        let at = path.clone();
        let listener = std::thread::spawn(move || {
            let user = Uid::from_raw(NOBODY_UID);
            // Only for this thread, which then ends.
            set_thread_res_uid(user, user, user).unwrap();
            UnixListener::bind(at).unwrap()
        })
        .join()
        .unwrap();
        let client = Client::new(&format!("unix://{}", path.display())).unwrap();
        let refused = client.purge_job("1").unwrap_err();
        let message = format!("{refused:?}");
        assert!(message.contains("belongs to user 65534"), "{message}");
        let mut sent = Vec::new();
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_to_end(&mut sent).unwrap();
        assert_eq!(sent, b"");
    }
}
