//! Whether a run may still send: compared before each write to a connection that one of its requests uses, because
//! this process, or the cell, or the host may have been suspended since the request was decided.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use host_confine::Lifeline;
use hyper::http::Extensions;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The right of one run to send requests. It ends when this is dropped.
pub(crate) struct Permit {
    /// Its cell has the other end.
    socket: UnixStream,
    /// Until when the host may run guests of its store, if the run is one of these.
    lifeline: Option<Arc<Lifeline>>,
}

impl Permit {
    pub(crate) const fn new(socket: UnixStream, lifeline: Option<Arc<Lifeline>>) -> Self {
        Self { socket, lifeline }
    }

    /// Returns whether the run may send, by the clock and its cell as of now.
    pub(crate) fn holds(&self) -> bool {
        let has_passed = self.lifeline.as_ref().is_some_and(|it| it.has_passed());
        let mut fds = [PollFd::from_borrowed_fd(
            self.socket.as_fd(),
            PollFlags::RDHUP,
        )];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        !has_passed && polled.is_ok() && fds[0].revents().is_empty()
    }
}

/// Who writes to a connection: the run of its last request. Before the first one, nothing of a run is written.
#[derive(Clone, Default)]
pub(crate) struct Writer(Arc<Mutex<Option<Weak<Permit>>>>);

impl Writer {
    /// Adds this to what a connection says of itself.
    pub(crate) fn describe(&self, connected: Connected) -> Connected {
        connected.extra(self.clone())
    }

    /// Lets a run write from now on; without one, this process alone.
    pub(crate) fn set(&self, permit: Option<&Arc<Permit>>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = permit.map(Arc::downgrade);
    }

    /// Returns an error if the run must not write.
    pub(crate) fn check(&self) -> io::Result<()> {
        let permit = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let holds = permit.is_none_or(|it| it.upgrade().is_some_and(|it| it.holds()));
        if holds {
            Ok(())
        } else {
            Err(io::Error::other("the attempt is over"))
        }
    }
}

/// Makes a run the writer of the connection that one of its requests has got, if it has. Call it after each poll of the
/// request: the connection is written to by another task of the same thread, so only after that.
pub(crate) fn take_connection(captured: &CaptureConnection, permit: &Arc<Permit>) {
    let mut extensions = Extensions::new();
    if let Some(connected) = &*captured.connection_metadata() {
        connected.get_extras(&mut extensions);
    }
    if let Some(Writer(writer)) = extensions.get::<Writer>() {
        Writer(Arc::clone(writer)).set(Some(permit));
    }
}
