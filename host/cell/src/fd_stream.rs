//! Reads a socket together with the descriptors that come with its bytes.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use tokio::io::{AsyncRead, Interest, ReadBuf};
use tokio::net::unix::OwnedReadHalf;

/// How much is read at a time, in bytes.
const CHUNK: usize = 64 << 10;

/// A socket whose descriptors are kept, in the order in which they came, until they are taken.
pub(crate) struct FdStream {
    stream: OwnedReadHalf,
    /// `None` for one that this process could not open.
    fds: VecDeque<Option<OwnedFd>>,
}

impl FdStream {
    pub(crate) const fn new(stream: OwnedReadHalf) -> Self {
        let fds = VecDeque::new();
        Self { stream, fds }
    }

    /// Takes the first descriptor that is left: `None` if this process had too many open files.
    pub(crate) fn take(&mut self) -> Option<OwnedFd> {
        self.fds.pop_front().flatten()
    }
}

impl AsyncRead for FdStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, fds } = self.get_mut();
        let socket = stream.as_ref();
        loop {
            ready!(socket.poll_read_ready(context))?;
            let size = buffer.remaining().min(CHUNK);
            let room = buffer.initialize_unfilled_to(size);
            let received = socket.try_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut ancillary = RecvAncillaryBuffer::new(&mut space);
                let mut parts = [IoSliceMut::new(room)];
                let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
                let received = recvmsg(socket, &mut parts, &mut ancillary, flags)?;
                for message in ancillary.drain() {
                    if let RecvAncillaryMessage::ScmRights(rights) = message {
                        fds.extend(rights.map(Some));
                    }
                }
                if received.flags.contains(ReturnFlags::CTRUNC) {
                    fds.push_back(None);
                }
                Ok(received.bytes)
            });
            match received {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}
