//! Passes open descriptors to a cell, on a socket of their own: the file of a component, or a run's
//! directories, its scratch file and its sockets. The cell opens no path itself.

use std::fs::File;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use host_core::cell::{HANDED_OVER_MAX, Handover, ToCell};
use host_core::desk::DeskPass;
use host_core::egress::Pass;
use host_runtime::lifeline::Lifeline;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::sync::mpsc;

use super::DeskConnection;
use crate::sandbox::broker::Broker;
use crate::sandbox::roots::ReadRoots;

/// Returns whether descriptors go with the message.
pub(super) fn hands_over(message: &ToCell) -> bool {
    match message {
        ToCell::Load { .. } => true,
        ToCell::Start(start) => {
            let has_desk = start.desk.as_ref().is_some_and(|it| it.pass.is_some());
            !start.read_dirs.is_empty()
                || start.http.is_some()
                || has_desk
                || start.scratch.is_some()
        }
        _ => false,
    }
}

/// What the runs of a cell may be given.
#[derive(Clone)]
pub(super) struct Openable {
    pub(super) roots: ReadRoots,
    /// The folder of files that have no name.
    pub(super) cache: Arc<Path>,
    pub(super) broker: Broker,
    /// Receives the other ends of sockets to the desk, if there is one.
    pub(super) desk: Option<mpsc::Sender<DeskConnection>>,
    /// Until when runs may ask for anything, if not without end.
    pub(super) lifeline: Option<Arc<Lifeline>>,
}

impl Openable {
    fn visit(&self, pass: Box<DeskPass>) -> io::Result<OwnedFd> {
        let (socket, theirs) = UnixStream::pair()?;
        let lifeline = self.lifeline.clone();
        let visit = DeskConnection {
            pass,
            socket,
            lifeline,
        };
        match self.desk.as_ref().map(|desk| desk.try_send(visit)) {
            Some(Ok(())) => Ok(theirs.into()),
            Some(Err(error)) => Err(io::Error::other(format!("too many wait: {error}"))),
            None => Err(io::Error::other("this program stores nothing")),
        }
    }
}

/// The socket for descriptors, and what may be opened.
pub(super) struct FdSender {
    socket: UnixStream,
    openable: Openable,
}

impl FdSender {
    /// Passes one end of a new socket to the cell behind `messages`.
    pub(super) fn new(messages: &UnixStream, openable: Openable) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        // A cell that reads nothing must not block the host.
        socket.set_nonblocking(true)?;
        send(messages, &[theirs.into()])?;
        Ok(Self { socket, openable })
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
                    let pass = Pass {
                        has_lifeline: self.openable.lifeline.is_some(),
                        ..std::mem::take(&mut *door.pass)
                    };
                    door.socket = note(self.openable.broker.open(pass));
                }
                if let Some(door) = &mut start.desk
                    && let Some(pass) = door.pass.take()
                {
                    door.socket = note(self.openable.visit(pass));
                }
                if let Some(scratch) = &mut start.scratch {
                    let file = tempfile::tempfile_in(&self.openable.cache);
                    *scratch = note(file.map(OwnedFd::from));
                }
                for given in &mut start.read_dirs {
                    given.dir = note(self.openable.roots.open(Path::new(&given.grant.host)));
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
            let desks = start.desk.iter_mut();
            desks.for_each(|door| note(&mut door.socket));
            start.scratch.iter_mut().for_each(note);
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
        let message = format!("cannot send {} descriptors in one message", fds.len());
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
