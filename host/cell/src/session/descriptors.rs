//! Receives open descriptors from the host, on a socket of their own: the file of a component, or a run's
//! directories, its scratch file and its sockets.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

use crate::context::GivenToRun;
use crate::scratch::ScratchFile;
use host_core::cell::{GivenDir, HANDED_OVER_MAX, Handover, Start};
use host_core::failure::{Failure, FailureKind};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};

/// Receives descriptors in the order of the messages that they belong to.
pub(super) struct DescriptorSocket(UnixStream);

impl DescriptorSocket {
    /// Waits for the socket for descriptors, which comes first on the socket for messages.
    pub(super) fn new(messages: &UnixStream) -> io::Result<Self> {
        let Received::Whole(group) = receive(messages)? else {
            return Err(io::Error::other("this process may not open files"));
        };
        let [socket] = <[OwnedFd; 1]>::try_from(group).map_err(|_| io::Error::other(lost()))?;
        let socket = UnixStream::from(socket);
        // The descriptors of a message arrive before the message.
        socket.set_nonblocking(true)?;
        Ok(Self(socket))
    }

    /// Returns the file that came with the message, or why it did not.
    pub(super) fn file(&mut self, file: Handover) -> Result<File, String> {
        match file {
            Handover::Failed(cause) => Err(cause),
            Handover::Comes => {
                let mut group = self.group(1)?;
                group.pop().map(File::from).ok_or_else(lost)
            }
        }
    }

    /// Returns what came with the message: the socket to the broker, or why there is none, and the directories
    /// under the names that the guest sees.
    pub(super) fn of_run(&mut self, start: &Start) -> Result<GivenToRun, Failure> {
        let (door, dirs) = (start.http.as_ref(), &start.read_dirs);
        let desk = start.desk.as_ref();
        let sockets = door
            .iter()
            .map(|door| &door.socket)
            .chain(desk.iter().map(|door| &door.socket))
            .chain(&start.scratch);
        let handovers = sockets.chain(dirs.iter().map(|dir| &dir.dir));
        let comes = handovers.filter(|it| **it == Handover::Comes).count();
        // Take it even if the run fails, so that the next message gets its own.
        let files = if comes == 0 {
            Ok(Vec::new())
        } else {
            self.group(comes)
        };
        let mut group = files.map(Vec::into_iter);
        let mut next = |handover: &Handover| match (handover, &mut group) {
            (Handover::Failed(cause), _) => Err(cause.clone()),
            (Handover::Comes, Err(cause)) => Err(cause.clone()),
            (Handover::Comes, Ok(group)) => group.next().ok_or_else(lost),
        };
        let broker = door.map(|door| next(&door.socket).map(UnixStream::from));
        let desk = desk.map(|door| next(&door.socket).map(UnixStream::from));
        let mut scratch = None;
        if let Some(handover) = &start.scratch {
            let file = next(handover).map_err(|cause| no_scratch(&cause))?;
            scratch = Some(ScratchFile::new(file.into(), start.limits.scratch_bytes));
        }
        let dirs = dirs
            .iter()
            .map(|GivenDir { grant, dir }| {
                next(dir)
                    .map(|fd| (File::from(fd), grant.guest.clone()))
                    .map_err(|cause| missing(&grant.host, &cause))
            })
            .collect::<Result<_, _>>()?;
        let servers = door.map(|door| door.servers.clone()).unwrap_or_default();
        let may_request = door.is_some_and(|door| door.may_request);
        Ok(GivenToRun {
            scratch,
            dirs,
            broker,
            servers,
            may_request,
            desk,
        })
    }

    fn group(&mut self, count: usize) -> Result<Vec<OwnedFd>, String> {
        match receive(&self.0) {
            Ok(Received::Whole(group)) if group.len() == count => Ok(group),
            Ok(Received::Cut) => Err("the cell has too many open files".to_owned()),
            Ok(Received::Whole(_)) => Err(lost()),
            Err(error) => Err(format!("cannot receive it: {error}")),
        }
    }
}

/// Descriptors that were sent together.
enum Received {
    Whole(Vec<OwnedFd>),
    /// This process has too many open files, so some of the group are closed.
    Cut,
}

/// Receives one group, which comes with one byte.
fn receive(socket: &UnixStream) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDED_OVER_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut room = [IoSliceMut::new(&mut byte)];
    let received = rustix::net::recvmsg(socket, &mut room, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let mut group = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(fds) = message {
            group.extend(fds);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        Ok(Received::Cut)
    } else {
        Ok(Received::Whole(group))
    }
}

fn lost() -> String {
    "it was not passed".to_owned()
}

fn no_scratch(cause: &str) -> Failure {
    let message = format!("cannot make the scratch directory of this attempt: {cause}");
    Failure::new(FailureKind::CellLost, message)
}

fn missing(path: &str, cause: &str) -> Failure {
    let message = format!(
        "cannot open the directory {path}, which the manifest grants: {cause}; create it or change the grant"
    );
    Failure::new(FailureKind::GrantMissing, message)
}
