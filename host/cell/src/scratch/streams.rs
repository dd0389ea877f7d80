//! Streams of files in a scratch directory. One read or write of a stream is under way at a time.

use std::io;

use bytes::Bytes;
use wasmtime_wasi::runtime::{AbortOnDropJoinHandle, spawn};
use wasmtime_wasi_io::async_trait;
use wasmtime_wasi_io::poll::Pollable;
use wasmtime_wasi_io::streams::{InputStream, OutputStream, StreamError, StreamResult};

use super::{CHUNK_BYTES_MAX, OpenNode};

fn failed(error: io::Error) -> StreamError {
    StreamError::LastOperationFailed(error.into())
}

/// Reads a file.
pub(crate) struct Reader {
    node: OpenNode,
    offset: u64,
    /// What is read ahead: nothing at the end of the file.
    ahead: Option<io::Result<Bytes>>,
    reading: Option<AbortOnDropJoinHandle<io::Result<Bytes>>>,
}

impl Reader {
    pub(crate) const fn new(node: OpenNode, offset: u64) -> Self {
        Self {
            node,
            offset,
            ahead: None,
            reading: None,
        }
    }
}

#[async_trait]
impl Pollable for Reader {
    async fn ready(&mut self) {
        if self.ahead.is_none() {
            let (node, offset) = (&self.node, self.offset);
            let reading = self
                .reading
                .get_or_insert_with(|| spawn(node.clone().read(offset, CHUNK_BYTES_MAX)));
            self.ahead = Some(reading.await);
            self.reading = None;
        }
    }
}

#[async_trait]
impl InputStream for Reader {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        match self.ahead.take() {
            // The guest waits until this is ready.
            None => Ok(Bytes::new()),
            Some(Err(error)) => Err(failed(error)),
            Some(Ok(rest)) if rest.is_empty() => Err(StreamError::Closed),
            Some(Ok(mut rest)) => {
                let chunk = rest.split_to(size.min(rest.len()));
                self.offset += chunk.len() as u64;
                if !rest.is_empty() {
                    self.ahead = Some(Ok(rest));
                }
                Ok(chunk)
            }
        }
    }

    /// Reads no more than this, so that the guest sees what it writes afterwards.
    async fn blocking_read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        if self.ahead.is_none() && self.reading.is_none() {
            self.ahead = Some(self.node.clone().read(self.offset, size).await);
        }
        self.ready().await;
        self.read(size)
    }
}

/// Writes a file.
pub(crate) struct Writer {
    node: OpenNode,
    /// Where the next bytes go; `None` for the end of the file.
    offset: Option<u64>,
    writing: Option<AbortOnDropJoinHandle<io::Result<()>>>,
    error: Option<io::Error>,
}

impl Writer {
    pub(crate) const fn new(node: OpenNode, offset: Option<u64>) -> Self {
        Self {
            node,
            offset,
            writing: None,
            error: None,
        }
    }
}

#[async_trait]
impl Pollable for Writer {
    async fn ready(&mut self) {
        if let Some(writing) = &mut self.writing {
            self.error = writing.await.err();
            self.writing = None;
        }
    }
}

#[async_trait]
impl OutputStream for Writer {
    fn write(&mut self, content: Bytes) -> StreamResult<()> {
        if self.writing.is_some() {
            return Err(StreamError::trap("a write is under way"));
        }
        let len = content.len() as u64;
        let node = self.node.clone();
        self.writing = Some(match &mut self.offset {
            None => spawn(node.append(content)),
            Some(offset) => {
                let at = *offset;
                *offset = at.saturating_add(len);
                spawn(node.write(at, content))
            }
        });
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match (self.error.take(), &self.writing) {
            (Some(error), _) => Err(failed(error)),
            (None, Some(_)) => Ok(0),
            (None, None) => Ok(CHUNK_BYTES_MAX),
        }
    }
}
