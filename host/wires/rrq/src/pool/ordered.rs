//! A connection to a runner that is read in order with the runner's output: what the runner wrote
//! before it answered is passed on before the answer, so that it stands in the log of its own job.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

pub(super) struct AfterOutput<D> {
    stream: TcpStream,
    drain: D,
}

impl<D: Fn() + Unpin> AfterOutput<D> {
    /// Reads `stream`, and calls `drain` before it returns what it has read.
    pub(super) const fn new(stream: TcpStream, drain: D) -> Self {
        Self { stream, drain }
    }
}

impl<D: Fn() + Unpin> AsyncRead for AfterOutput<D> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            (self.drain)();
        }
        read
    }
}

impl<D: Unpin> AsyncWrite for AfterOutput<D> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
