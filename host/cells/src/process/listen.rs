//! Reads from a cell: decodes and checks its messages, and writes its standard error to the log.

use bytes::Bytes;
use futures_util::StreamExt;
use host_core::cell::FromCell;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use crate::check::checked;
use crate::frames::{self, FrameError};
use crate::port::{CellEvent, CellId};

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
    loop {
        let frame = match frames.next().await {
            None => return "it closed its socket".to_owned(),
            Some(Err(error)) => return format!("its socket failed: {error}"),
            Some(Ok(frame)) => frame,
        };
        let messages = match read(frame.freeze()).await {
            Ok(messages) => messages,
            Err(error) => return error.to_string(),
        };
        let said = CellEvent::Said { cell: id, messages };
        if events.send(said).await.is_err() {
            return "nobody listens to it".to_owned();
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
    // The task fails only if decoding panics. It then panics here too.
    reading.await.unwrap_or_else(|_| read(&copy))
}

/// Writes the cell's standard error to the log, line by line.
pub(super) async fn log(name: &str, errors: impl AsyncRead + Unpin) {
    let codec = LinesCodec::new_with_max_length(STDERR_LINE_BYTES_MAX);
    let mut lines = FramedRead::new(errors, codec);
    loop {
        match lines.next().await {
            Some(Ok(line)) => tracing::warn!(cell = name, "{line}"),
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
    use super::*;

    #[tokio::test]
    async fn a_line_that_is_too_long_does_not_end_the_log() {
        let long = "x".repeat(10 * STDERR_LINE_BYTES_MAX);
        let text = format!("{long}\n{long}\nlast\n");
        let mut errors = text.as_bytes();
        log("cell-1", &mut errors).await;
        assert!(errors.is_empty(), "{} bytes are not read", errors.len());
    }
}
