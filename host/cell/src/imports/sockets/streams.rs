//! The two streams of a connection.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::net::{Shutdown, shutdown};
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task;
use wasmtime_wasi::async_trait;
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

/// How much is read or written in one call, in bytes.
const CHUNK: usize = 64 << 10;

/// What a socket keeps of its streams.
pub(super) struct Streams {
    is_input_closed: Arc<AtomicBool>,
    output: Chunks,
}

/// The way to the task that writes; `None` when there is nothing more to write.
type Chunks = Arc<Mutex<Option<mpsc::Sender<Bytes>>>>;

/// What the server sends.
pub(super) struct Input {
    stream: Arc<UnixStream>,
    is_closed: Arc<AtomicBool>,
}

/// What the guest sends.
pub(super) struct Output(Chunks);

impl Streams {
    pub(super) fn new(stream: UnixStream) -> (Self, Input, Output) {
        let stream = Arc::new(stream);
        // One chunk waits while another is written.
        let (sender, chunks) = mpsc::channel(1);
        #[expect(clippy::disallowed_methods, reason = "the end of the socket ends it")]
        task::spawn(write(Arc::clone(&stream), chunks));
        let output = Arc::new(Mutex::new(Some(sender)));
        let is_closed = Arc::<AtomicBool>::default();
        let streams = Self {
            is_input_closed: Arc::clone(&is_closed),
            output: Arc::clone(&output),
        };
        (streams, Input { stream, is_closed }, Output(output))
    }

    pub(super) fn close_input(&self) {
        self.is_input_closed.store(true, Ordering::Relaxed);
    }

    /// Lets the server see the end, when all is written.
    pub(super) fn close_output(&self) {
        *self.output.lock() = None;
    }
}

/// Writes what comes, and then the end. Ends early if the broker closes the socket.
async fn write(stream: Arc<UnixStream>, mut chunks: mpsc::Receiver<Bytes>) {
    while let Some(mut chunk) = chunks.recv().await {
        while !chunk.is_empty() {
            if stream.writable().await.is_err() {
                return;
            }
            match stream.try_write(&chunk) {
                Ok(count) => drop(chunk.split_to(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }
    // It may be gone already.
    let _ = shutdown(&*stream, Shutdown::Write);
}

#[async_trait]
impl InputStream for Input {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(StreamError::Closed);
        }
        if size == 0 {
            return Ok(Bytes::new());
        }
        let mut room = vec![0; size.min(CHUNK)];
        match self.stream.try_read(&mut room) {
            Ok(0) => Err(StreamError::Closed),
            Ok(count) => {
                room.truncate(count);
                Ok(room.into())
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Bytes::new()),
            Err(error) => Err(StreamError::LastOperationFailed(error.into())),
        }
    }
}

#[async_trait]
impl Pollable for Input {
    async fn ready(&mut self) {
        if !self.is_closed.load(Ordering::Relaxed) {
            // A read says what is wrong.
            let _ = self.stream.readable().await;
        }
    }
}

#[async_trait]
impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let chunks = self.0.lock();
        let Some(sender) = &*chunks else {
            return Err(StreamError::Closed);
        };
        sender.try_send(bytes).map_err(|error| match error {
            mpsc::error::TrySendError::Closed(_) => StreamError::Closed,
            mpsc::error::TrySendError::Full(_) => StreamError::trap("written without a permit"),
        })
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        match &*self.0.lock() {
            Some(sender) if sender.is_closed() => Err(StreamError::Closed),
            Some(sender) if sender.capacity() == 0 => Ok(0),
            Some(_) => Ok(CHUNK),
            None => Err(StreamError::Closed),
        }
    }
}

#[async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {
        let sender = self.0.lock().clone();
        if let Some(sender) = sender {
            // Without room, the task has ended: a write says so.
            let _ = sender.reserve().await;
        }
    }
}
