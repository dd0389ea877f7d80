//! Standard output and standard error: they take everything and become lines of the job's log.
//! A stream that could be full would make `println!` panic in the guest.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use host_core::cell::LogSource;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{OutputStream, StreamResult};

use crate::said::Said;

/// How much a guest may write at once, in bytes.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// One of the two streams of one run.
#[derive(Clone)]
pub(crate) struct Stdio {
    said: Arc<Said>,
    source: LogSource,
}

impl Stdio {
    pub(crate) fn new(said: &Arc<Said>, source: LogSource) -> Self {
        Self {
            said: Arc::clone(said),
            source,
        }
    }
}

impl IsTerminal for Stdio {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Stdio {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[async_trait]
impl Pollable for Stdio {
    async fn ready(&mut self) {}
}

impl OutputStream for Stdio {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.said.print(self.source, &bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(WRITE_BYTES_MAX)
    }
}

impl AsyncWrite for Stdio {
    fn poll_write(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.said.print(self.source, bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
