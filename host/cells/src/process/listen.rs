//! Reads from a cell: decodes and checks its messages, and writes its standard error to the log.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use host_core::cell::{FRAME_BYTES_MAX, FromCell};
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use crate::port::{CellEvent, CellId};
use crate::process::check::checked;
use crate::process::frames::{self, FrameError};

/// The most unhandled data from a cell, in KiB. The largest frame fits.
const PENDING_KIB_MAX: usize = (2 * FRAME_BYTES_MAX) >> 10;

/// How many lines of a cell's standard error are logged. It writes only its own errors there.
const STDERR_LINES_MAX: usize = 1_000;

/// The longest line of a cell's standard error, in bytes.
const STDERR_LINE_BYTES_MAX: usize = 8 << 10;

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

/// Writes the cell's standard error to the log, line by line.
pub(super) async fn log(name: &str, errors: impl AsyncRead + Unpin) {
    each_line(errors, |line| tracing::warn!(cell = name, "{line}")).await;
}

/// Reads all lines, and passes on the first ones.
async fn each_line(errors: impl AsyncRead + Unpin, mut log: impl FnMut(&str)) {
    let codec = LinesCodec::new_with_max_length(STDERR_LINE_BYTES_MAX);
    let mut lines = FramedRead::new(errors, codec);
    let mut count = 0;
    loop {
        match lines.next().await {
            // The rest is read too, so that the cell never blocks.
            Some(Ok(_)) if count == STDERR_LINES_MAX => {}
            Some(Ok(line)) => {
                log(&line);
                count += 1;
                if count == STDERR_LINES_MAX {
                    log("the cell writes more to its standard error; the rest is not logged");
                }
            }
            // After an error the stream reports its end, but continues with the next line if polled
            // again.
            Some(Err(LinesCodecError::MaxLineLengthExceeded)) => {
                let _ended = lines.next().await;
            }
            Some(Err(LinesCodecError::Io(_))) | None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use host_core::cell::ComponentKey;
    use tokio_util::codec::Encoder as _;

    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_does_not_end_the_log() {
        let long = "x".repeat(10 * STDERR_LINE_BYTES_MAX);
        let text = format!("{long}\n{long}\nlast\n");
        let mut errors = text.as_bytes();
        log("cell-1", &mut errors).await;
        assert!(errors.is_empty(), "{} bytes are not read", errors.len());
    }

    #[tokio::test]
    async fn a_cell_that_writes_on_and_on_is_read_and_not_logged() {
        let text = "line\n".repeat(STDERR_LINES_MAX + 10);
        let (mut errors, mut logged) = (text.as_bytes(), Vec::new());
        each_line(&mut errors, |line| logged.push(line.to_owned())).await;
        assert!(errors.is_empty(), "{} bytes are not read", errors.len());
        assert_eq!(logged.len(), STDERR_LINES_MAX + 1);
        assert!(
            logged[STDERR_LINES_MAX].contains("not logged"),
            "{logged:?}"
        );
    }

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
