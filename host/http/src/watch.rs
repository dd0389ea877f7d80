//! A layer that notices when a client closes its side of the connection before it has its answer. The parser reads
//! nothing until the answer is complete, and could not tell such a client from one that is gone.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

/// Whether a connection has a request, and whether its client has closed its side. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch {
    has_request: Arc<AtomicBool>,
    pub(crate) closed: CancellationToken,
}

impl Watch {
    /// Sets whether a request is being answered.
    pub(crate) fn set_request(&self, has_request: bool) {
        self.has_request.store(has_request, Ordering::Relaxed);
    }
}

/// A stream that is watched while a request is being answered.
pub(crate) struct WatchedStream<S> {
    stream: S,
    watch: Watch,
    /// What has been read while no one asked for it.
    ahead: Option<u8>,
    /// Whether the parser waits for bytes, so that it will see the end itself.
    is_awaited: bool,
}

impl<S> WatchedStream<S> {
    pub(crate) fn new(stream: S, watch: Watch) -> Self {
        Self {
            stream,
            watch,
            ahead: None,
            is_awaited: false,
        }
    }
}

impl<S: AsyncRead + Unpin> WatchedStream<S> {
    /// Reads a byte, unless the parser reads itself.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        let has_request = self.watch.has_request.load(Ordering::Relaxed);
        let is_awaited = std::mem::take(&mut self.is_awaited);
        let is_closed = self.watch.closed.is_cancelled();
        if !has_request || is_awaited || is_closed || self.ahead.is_some() {
            return Ok(());
        }
        let mut byte = [0];
        let mut buffer = ReadBuf::new(&mut byte);
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
            read?;
            self.ahead = buffer.filled().first().copied();
            if self.ahead.is_none() {
                self.watch.closed.cancel();
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WatchedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(byte) = self.ahead.take() {
            buffer.put_slice(&[byte]);
            // With all that follows: a large body would be slow in parts of one byte. An end or an error comes again.
            let _ = Pin::new(&mut self.stream).poll_read(cx, buffer);
            return Poll::Ready(Ok(()));
        }
        if self.watch.closed.is_cancelled() {
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.is_awaited = read.is_pending();
        ready!(read)?;
        if buffer.filled().len() == before {
            self.watch.closed.cancel();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WatchedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Also looks whether the client has closed its side: the parser flushes whenever it is polled.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_ahead(cx)?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
