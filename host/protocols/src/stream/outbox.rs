//! The bytes to be written to one connection. The hub puts messages in without waiting; the
//! connection's own task takes them out.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Above this many unwritten bytes a connection is not read any further.
const FULL_BYTES: usize = 1 << 20;

/// A buffer that has grown beyond this is given back once it is empty.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    contents: Mutex<Contents>,
    changed: Notify,
    drained: Notify,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct Contents {
    bytes: BytesMut,
    closing: bool,
}

impl Outbox {
    /// Puts a message in; after [`Outbox::close`] it is dropped.
    pub(super) fn put(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut contents = self.contents();
        if !contents.closing {
            write(&mut contents.bytes);
            self.changed.notify_one();
        }
    }

    /// Takes nothing more in; what is in is still written.
    pub(super) fn close(&self) {
        self.contents().closing = true;
        self.closing.cancel();
        self.changed.notify_one();
    }

    /// Tells when nothing more is to be read from the connection.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Waits until less than a megabyte is unwritten. Cancel safe.
    pub(super) async fn has_room(&self) {
        while self.contents().bytes.len() > FULL_BYTES {
            self.drained.notified().await;
        }
    }

    /// Waits for something to write and swaps it with the empty `out`; leaves `out` empty if
    /// nothing will follow. Cancel safe.
    pub(super) async fn take(&self, out: &mut BytesMut) {
        if out.capacity() > KEPT_BYTES {
            *out = BytesMut::new();
        }
        loop {
            {
                let mut contents = self.contents();
                if !contents.bytes.is_empty() || contents.closing {
                    std::mem::swap(&mut contents.bytes, out);
                    return;
                }
            }
            self.changed.notified().await;
        }
    }

    /// Says that what was taken is written.
    pub(super) fn written(&self) {
        self.drained.notify_one();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
