//! Writes the cell's messages in frames.

use std::io;

use host_core::cell::FromCell;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

/// The most messages in one frame.
const BATCH_MESSAGES_MAX: usize = 256;

/// The size in bytes after which no more messages are added to a frame.
const BATCH_BYTES: usize = 256 << 10;

/// Writes messages, and combines waiting ones into one frame.
pub(super) async fn write_messages(
    mut messages: mpsc::Receiver<FromCell>,
    mut write: OwnedWriteHalf,
) {
    let mut batch = Vec::with_capacity(BATCH_MESSAGES_MAX);
    let mut frame = Vec::new();
    while messages.recv_many(&mut batch, BATCH_MESSAGES_MAX).await > 0 {
        let mut written = Ok(());
        for message in batch.drain(..) {
            if frame.is_empty() {
                frame.extend_from_slice(&[0; 4]);
            }
            let encoded = postcard::to_extend(&message, std::mem::take(&mut frame));
            match encoded {
                Ok(encoded) => frame = encoded,
                Err(error) => {
                    host_confine::report(format_args!(
                        "cannot encode a message to the host: {error}"
                    ));
                    std::process::exit(1);
                }
            }
            if frame.len() > BATCH_BYTES {
                written = send_frame(&mut frame, &mut write).await;
            }
        }
        if !frame.is_empty() {
            written = written.and(send_frame(&mut frame, &mut write).await);
        }
        if written.is_err() {
            // The host is gone, so runs are no longer needed.
            std::process::exit(0);
        }
    }
}

/// Sets the length of a frame, writes the frame and clears it.
async fn send_frame(frame: &mut Vec<u8>, write: &mut OwnedWriteHalf) -> io::Result<()> {
    let length = u32::try_from(frame.len() - 4).unwrap_or(u32::MAX);
    frame[..4].copy_from_slice(&length.to_be_bytes());
    write.write_all(frame).await?;
    frame.clear();
    if frame.capacity() > 4 * BATCH_BYTES {
        frame.shrink_to(BATCH_BYTES);
    }
    Ok(())
}
