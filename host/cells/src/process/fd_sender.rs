//! Passes open descriptors to a cell, on a socket of their own: the file of a component, or a run's directories
//! and its socket to the broker. The cell opens no path itself.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use host_core::cell::{HANDED_OVER_MAX, Handover, ToCell};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};

use crate::sandbox::broker::Broker;
use crate::sandbox::roots::ReadRoots;

/// Returns whether descriptors go with the message.
pub(super) fn hands_over(message: &ToCell) -> bool {
    match message {
        ToCell::Load { .. } => true,
        ToCell::Start(start) => !start.read_dirs.is_empty() || start.http.is_some(),
        _ => false,
    }
}

/// The socket for descriptors, and what may be opened.
pub(super) struct FdSender {
    socket: UnixStream,
    roots: ReadRoots,
    broker: Broker,
}

impl FdSender {
    /// Passes one end of a new socket to the cell behind `messages`.
    pub(super) fn new(messages: &UnixStream, roots: ReadRoots, broker: Broker) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        // A cell that reads nothing must not block the host.
        socket.set_nonblocking(true)?;
        send(messages, &[theirs.into()])?;
        Ok(Self {
            socket,
            roots,
            broker,
        })
    }

    /// Opens and passes the descriptors of a message, and notes in the message which are missing. Send the
    /// message afterwards. Blocks.
    pub(super) fn send_with(&self, message: &mut ToCell) {
        let mut opened = Vec::new();
        let mut note = |result: io::Result<OwnedFd>| match result {
            Ok(fd) => {
                opened.push(fd);
                Handover::Comes
            }
            Err(error) => Handover::Failed(error.to_string()),
        };
        match message {
            ToCell::Load { path, file, .. } => *file = note(open_file(path)),
            ToCell::Start(start) => {
                if let Some(door) = &mut start.http {
                    let pass = std::mem::take(&mut *door.pass);
                    door.socket = note(self.broker.open(pass));
                }
                for given in &mut start.read_dirs {
                    given.dir = note(self.roots.open(Path::new(&given.grant.host)));
                }
            }
            _ => {}
        }
        if !opened.is_empty()
            && let Err(error) = send(&self.socket, &opened)
        {
            mark_failed(message, &format!("cannot pass it to the cell: {error}"));
        }
    }
}

fn mark_failed(message: &mut ToCell, cause: &str) {
    let note = |handover: &mut Handover| {
        if *handover == Handover::Comes {
            *handover = Handover::Failed(cause.to_owned());
        }
    };
    match message {
        ToCell::Load { file, .. } => note(file),
        ToCell::Start(start) => {
            let doors = start.http.iter_mut();
            doors.for_each(|door| note(&mut door.socket));
            let dirs = start.read_dirs.iter_mut();
            dirs.for_each(|dir| note(&mut dir.dir));
        }
        _ => {}
    }
}

/// Sends descriptors with one byte, so that each group is read separately.
fn send(socket: &UnixStream, group: &[OwnedFd]) -> io::Result<()> {
    let fds: Vec<BorrowedFd<'_>> = group.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        let message = format!("cannot send {} descriptors at once", fds.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let bytes = [IoSlice::new(&[0])];
    rustix::net::sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn open_file(path: &Path) -> io::Result<OwnedFd> {
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = File::options()
        .read(true)
        .custom_flags(no_link)
        .open(path)?;
    Ok(file.into())
}
