//! The two halves of the local socket between the orchestrator and a cell. The system notifies the
//! writer of such a socket whenever the other side has read something. That would wake the writer
//! after each message for nothing, so it listens only while the socket is full. Knows no messages.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The reading half.
#[derive(Debug)]
pub struct ReadHalf(AsyncFd<UnixStream>);

/// The writing half.
#[derive(Debug)]
pub struct WriteHalf {
    socket: UnixStream,
    full: Option<AsyncFd<UnixStream>>,
}

/// Splits a socket. Fails if the system has no free descriptor; panics outside a runtime.
pub fn split(socket: UnixStream) -> io::Result<(ReadHalf, WriteHalf)> {
    socket.set_nonblocking(true)?;
    let write = WriteHalf {
        socket: socket.try_clone()?,
        full: None,
    };
    Ok((ReadHalf(register(socket, Interest::READABLE)?), write))
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
        loop {
            let mut ready = ready!(self.0.poll_read_ready(cx))?;
            let room = buffer.initialize_unfilled();
            let room_bytes = room.len();
            match ready.try_io(|socket| socket.get_ref().read(room)) {
                Ok(Ok(bytes)) => {
                    // The socket was empty then, so the next read can wait for readiness right
                    // away.
                    if 0 < bytes && bytes < room_bytes {
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
            match self.socket.write(bytes) {
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
    use std::os::unix::net::UnixStream;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
}
