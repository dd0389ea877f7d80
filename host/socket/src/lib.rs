//! The two halves of the local socket between the orchestrator and a cell. The system notifies the
//! writer of such a socket whenever the other side has read something. That would wake the writer
//! after each message for nothing, so it listens only while the socket is full. One side may hand over
//! open descriptors with its bytes. Knows no messages.

pub mod handover;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

use self::handover::Group;

/// The reading half.
#[derive(Debug)]
pub struct ReadHalf {
    socket: AsyncFd<UnixStream>,
    /// What was handed over and not taken yet. `None` if this side takes nothing: then the system closes
    /// what the other side sends.
    groups: Option<VecDeque<Group>>,
}

/// The writing half.
#[derive(Debug)]
pub struct WriteHalf {
    socket: UnixStream,
    full: Option<AsyncFd<UnixStream>>,
    groups: VecDeque<Vec<OwnedFd>>,
}

/// Splits a socket. Fails if the system has no free descriptor; panics outside a runtime.
pub fn split(socket: UnixStream) -> io::Result<(ReadHalf, WriteHalf)> {
    socket.set_nonblocking(true)?;
    let write = WriteHalf {
        socket: socket.try_clone()?,
        full: None,
        groups: VecDeque::new(),
    };
    let read = ReadHalf {
        socket: register(socket, Interest::READABLE)?,
        groups: None,
    };
    Ok((read, write))
}

impl ReadHalf {
    /// Takes descriptors from now on.
    pub fn take_descriptors(&mut self) {
        self.groups.get_or_insert_default();
    }

    /// Returns the oldest group that was handed over and not taken yet.
    pub fn next_group(&mut self) -> Option<Group> {
        self.groups.as_mut()?.pop_front()
    }
}

/// Reads, and returns how many bytes were there and whether the read ended early because of a group.
fn receive(
    mut socket: &UnixStream,
    groups: Option<&mut VecDeque<Group>>,
    room: &mut [u8],
) -> io::Result<(usize, bool)> {
    let Some(groups) = groups else {
        return Ok((socket.read(room)?, false));
    };
    let (bytes, group) = handover::receive(socket, room)?;
    let has_group = group.is_some();
    groups.extend(group);
    Ok((bytes, has_group))
}

impl WriteHalf {
    /// Sends a group with the next bytes. The other side has it before the last of as many bytes as there
    /// are groups. It gets groups in order.
    pub fn hand_over(&mut self, group: Vec<OwnedFd>) {
        self.groups.push_back(group);
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(group) = self.groups.front() else {
            return self.socket.write(bytes);
        };
        // Each group needs a byte of its own.
        let most = if self.groups.len() > 1 {
            1
        } else {
            bytes.len()
        };
        let sent = handover::send(&self.socket, &bytes[..most.min(bytes.len())], group)?;
        self.groups.pop_front();
        Ok(sent)
    }
}

fn register(socket: UnixStream, interest: Interest) -> io::Result<AsyncFd<UnixStream>> {
    // SAFETY: a `UnixStream` owns its descriptor, which stays open and the same until it is
    // dropped.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, groups } = self.get_mut();
        loop {
            let mut ready = ready!(socket.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            let room_bytes = room.len();
            match ready.try_io(|socket| receive(socket.get_ref(), groups.as_mut(), room)) {
                Ok(Ok((bytes, ended_early))) => {
                    // The socket was empty then, so the next read can wait for readiness right
                    // away.
                    if 0 < bytes && bytes < room_bytes && !ended_early {
                        ready.clear_ready();
                    }
                    buffer.advance(bytes);
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if let Some(full) = &self.full {
                ready!(full.poll_write_ready(cx))?.clear_ready();
            }
            match self.send(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if self.full.is_none() {
                        let socket = self.socket.try_clone()?;
                        self.full = Some(register(socket, Interest::WRITABLE)?);
                    }
                }
                written => {
                    self.full = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.socket.shutdown(Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek as _, Write as _};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::handover::Group;
    use super::split;

    #[tokio::test]
    async fn more_than_the_socket_holds_arrives_whole() {
        let (one, other) = UnixStream::pair().unwrap();
        let (_, mut write) = split(one).unwrap();
        let (mut read, _other) = split(other).unwrap();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let expected = sent.clone();
        let writing = async move {
            write.write_all(&sent).await.unwrap();
            assert!(write.full.is_none());
            write.shutdown().await.unwrap();
        };
        let mut received = Vec::new();
        let reading = async {
            while received.len() < expected.len() {
                assert!(read.read_buf(&mut received).await.unwrap() > 0);
            }
            assert_eq!(read.read_buf(&mut received).await.unwrap(), 0);
        };
        tokio::join!(writing, reading);
        assert!(received == expected);
    }

    #[tokio::test]
    async fn groups_arrive_in_order_and_not_after_their_bytes() {
        let (one, other) = UnixStream::pair().unwrap();
        let (_, mut write) = split(one).unwrap();
        let (mut read, _other) = split(other).unwrap();
        read.take_descriptors();
        let file = |text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            OwnedFd::from(file)
        };
        write.write_all(b"none").await.unwrap();
        write.hand_over(vec![file("a"), file("b")]);
        write.hand_over(vec![file("c")]);
        write.write_all(b"two groups").await.unwrap();
        write.write_all(b"end").await.unwrap();
        let mut bytes = Vec::new();
        while bytes.len() < 4 + 2 {
            assert!(read.read_buf(&mut bytes).await.unwrap() > 0);
        }
        let mut texts = Vec::new();
        while let Some(Group::Whole(group)) = read.next_group() {
            let text = |fd| std::io::read_to_string(File::from(fd)).unwrap();
            texts.push(group.into_iter().map(text).collect::<Vec<_>>());
        }
        assert_eq!(texts, [vec!["a", "b"], vec!["c"]]);
    }

    #[tokio::test]
    async fn a_side_that_takes_nothing_is_given_nothing() {
        let (one, other) = UnixStream::pair().unwrap();
        let (_, mut write) = split(one).unwrap();
        let (mut read, _other) = split(other).unwrap();
        let (mut pipe, held) = std::io::pipe().unwrap();
        write.hand_over(vec![held.into()]);
        write.write_all(b"x").await.unwrap();
        assert_eq!(read.read_u8().await.unwrap(), b'x');
        assert!(read.next_group().is_none());
        drop(write);
        // The system has closed the only writing end.
        let mut rest = Vec::new();
        std::io::Read::read_to_end(&mut pipe, &mut rest).unwrap();
    }
}
