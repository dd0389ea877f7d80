//! The bytes that wait to be written to one connection. The hub adds messages without waiting; the
//! connection's task takes them out.

use bytes::BytesMut;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// A connection is not read while it has more than this many unwritten bytes.
const FULL_BYTES: usize = 1 << 20;

/// A buffer that has grown beyond this is freed when it is empty.
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
    /// Adds a message. After [`Outbox::close`], discards it.
    pub(super) fn put(&self, write: impl FnOnce(&mut BytesMut)) {
        let mut contents = self.contents();
        if !contents.closing {
            write(&mut contents.bytes);
            self.changed.notify_one();
        }
    }

    /// Accepts no more messages. Those already added are still written.
    pub(super) fn close(&self) {
        self.contents().closing = true;
        self.closing.cancel();
        self.changed.notify_one();
    }

    /// Returns the token that is cancelled when the connection must no longer be read.
    pub(super) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Waits until fewer than `FULL_BYTES` are unwritten. Cancel safe.
    pub(super) async fn has_room(&self) {
        while self.contents().bytes.len() > FULL_BYTES {
            self.drained.notified().await;
        }
    }

    /// Waits for bytes to write and swaps them with the empty `out`. Leaves `out` empty if nothing
    /// more will follow. Cancel safe.
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

    /// Records that the bytes taken last are written.
    pub(super) fn written(&self) {
        self.drained.notify_one();
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock()
    }
}
