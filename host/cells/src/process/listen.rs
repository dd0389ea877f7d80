//! Reads from a cell: decodes and checks its messages.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use host_core::cell::{FRAME_BYTES_MAX, FromCell};
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::codec::FramedRead;

use crate::port::{CellEvent, CellId};
use crate::process::check::checked;
use crate::process::frames::{self, FrameError};

/// The most unhandled data from a cell, in KiB. The largest frame fits.
const PENDING_KIB_MAX: usize = (2 * FRAME_BYTES_MAX) >> 10;

/// The size from which a frame is decoded on another thread, in bytes.
const LARGE_BYTES: usize = 512 << 10;

/// Passes on the messages of a cell until it sends no more. Returns why it stopped.
pub(super) async fn listen(
    id: CellId,
    reader: impl AsyncRead + Unpin,
    events: &mpsc::Sender<CellEvent>,
) -> String {
    let mut frames = FramedRead::new(reader, frames::codec());
    let pending = Arc::new(Semaphore::new(PENDING_KIB_MAX));
    loop {
        let frame = match frames.next().await {
            None => return "it closed its socket".to_owned(),
            Some(Err(error)) => return format!("its socket failed: {error}"),
            Some(Ok(frame)) => frame,
        };
        let kib = u32::try_from(frame.len() >> 10).unwrap_or(u32::MAX);
        // Fails only if it is closed, which never happens.
        let room = Arc::clone(&pending).acquire_many_owned(kib + 1).await.ok();
        let messages = match read(frame.freeze()).await {
            Ok(messages) => messages,
            Err(error) => return error.to_string(),
        };
        let event = CellEvent::Received {
            cell: id,
            messages,
            room,
        };
        if events.send(event).await.is_err() {
            return "the host is stopping".to_owned();
        }
    }
}

/// Decodes a frame. Decodes a large one on another thread, so that other tasks need not wait.
async fn read(frame: Bytes) -> Result<Vec<FromCell>, FrameError> {
    let read = |frame: &[u8]| {
        let messages = frames::decode_from_cell(frame)?;
        Ok(messages.into_iter().map(checked).collect())
    };
    if frame.len() < LARGE_BYTES {
        return read(&frame);
    }
    let copy = frame.clone();
    let reading = tokio::task::spawn_blocking(move || read(&frame));
    // The task fails only if decoding panics; the panic continues here.
    reading.await.unwrap_or_else(|_| read(&copy))
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use host_core::cell::ComponentKey;
    use tokio_util::codec::Encoder as _;

    use super::*;

    #[tokio::test]
    async fn a_cell_whose_messages_are_not_handled_is_not_read() {
        let message = FromCell::LoadFailed {
            component: ComponentKey(1),
            message: "x".repeat(LARGE_BYTES / 2),
        };
        let frame = frames::encode(&[message]).unwrap().remove(0);
        let mut stream = bytes::BytesMut::new();
        let (frames, mut codec) = (200, frames::codec());
        for _ in 0..frames {
            codec.encode(frame.clone(), &mut stream).unwrap();
        }
        let (events, mut received) = mpsc::channel(frames);
        let mut listening = pin!(listen(CellId(1), &stream[..], &events));
        // A poll may return early because it has used up its cooperative budget.
        for _ in 0..frames {
            assert!(futures_util::poll!(&mut listening).is_pending());
            tokio::task::yield_now().await;
        }
        let pending = received.len();
        assert!(
            pending > 0 && pending * frame.len() <= PENDING_KIB_MAX << 10,
            "{pending}"
        );
        let receiving = async {
            for _ in 0..frames {
                assert!(received.recv().await.is_some());
            }
        };
        let (how, ()) = tokio::join!(listening, receiving);
        assert_eq!(how, "it closed its socket");
    }
}
