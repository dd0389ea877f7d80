//! Handing over open descriptors with bytes of a local socket. What the receiver has no room for, the
//! system closes, and the receiver learns that.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// The most descriptors of one group.
pub const GROUP_MAX: usize = 64;

/// Descriptors that were sent together.
#[derive(Debug)]
pub enum Group {
    Whole(Vec<OwnedFd>),
    /// This process may not have so many descriptors, so some of the group are closed.
    Cut,
}

/// Sends bytes and a group with the first of them. Returns how many bytes were sent.
pub fn send(socket: &UnixStream, bytes: &[u8], group: &[OwnedFd]) -> io::Result<usize> {
    let fds: Vec<BorrowedFd<'_>> = group.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GROUP_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        let message = format!("{} descriptors at once are too many", fds.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let sent = rustix::net::sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut control,
        SendFlags::NOSIGNAL,
    )?;
    Ok(sent)
}

/// Reads bytes and the group that was sent with them, if there is one.
pub fn receive(socket: &UnixStream, room: &mut [u8]) -> io::Result<(usize, Option<Group>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(GROUP_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::net::recvmsg(
        socket,
        &mut [IoSliceMut::new(room)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )?;
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    let group = if received.flags.contains(ReturnFlags::CTRUNC) {
        Some(Group::Cut)
    } else {
        (!fds.is_empty()).then_some(Group::Whole(fds))
    };
    Ok((received.bytes, group))
}
