//! What a cell says: frames into checked messages, and its standard error into the log.

use bytes::Bytes;
use futures_util::StreamExt;
use host_core::cell::FromCell;
use tokio::io::AsyncRead;
use tokio::sync::mpsc;
use tokio_util::codec::{FramedRead, LinesCodec, LinesCodecError};

use crate::check::checked;
use crate::frames::{self, FrameError};
use crate::port::{CellEvent, CellId};

/// The longest line a cell's standard error may have, in bytes.
const STDERR_LINE_BYTES_MAX: usize = 8 << 10;

/// From which size on a frame is not read beside other work, in bytes.
const LARGE_BYTES: usize = 512 << 10;

/// Tells what the cell says until it says no more; returns why.
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

/// Reads what a cell says; much of it on another thread, so that it delays nobody else.
async fn read(frame: Bytes) -> Result<Vec<FromCell>, FrameError> {
    let read = |frame: &[u8]| {
        let messages = frames::decode::<FromCell>(frame)?;
        Ok(messages.into_iter().map(checked).collect())
    };
    if frame.len() < LARGE_BYTES {
        return read(&frame);
    }
    let copy = frame.clone();
    let reading = tokio::task::spawn_blocking(move || read(&frame));
    // It is lost only if reading panics, which it then does here too.
    reading.await.unwrap_or_else(|_| read(&copy))
}

/// Passes its standard error on, line by line.
pub(super) async fn log(name: &str, errors: impl AsyncRead + Unpin) {
    let codec = LinesCodec::new_with_max_length(STDERR_LINE_BYTES_MAX);
    let mut lines = FramedRead::new(errors, codec);
    loop {
        match lines.next().await {
            Some(Ok(line)) => tracing::warn!(cell = name, "{line}"),
            // The stream ends behind an error, and goes on with the next line if asked again.
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
