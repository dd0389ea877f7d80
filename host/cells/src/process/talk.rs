//! Sends messages to a cell in frames, with their descriptors.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::SinkExt;
use host_core::cell::ToCell;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::codec::FramedWrite;

use super::fd_sender::{FdSender, hands_over};
use crate::process::frames;

/// Sends messages to the cell until it accepts no more. Returns why it stopped.
pub(super) async fn talk(
    writer: OwnedWriteHalf,
    mut messages: mpsc::Receiver<Vec<ToCell>>,
    fd_sender: FdSender,
) -> String {
    let fd_sender = Arc::new(fd_sender);
    let mut sink = FramedWrite::new(writer, frames::codec());
    while let Some(mut batch) = messages.recv().await {
        if batch.iter().any(hands_over) {
            let fd_sender = Arc::clone(&fd_sender);
            let opening = spawn_blocking(move || {
                let needs = batch.iter_mut().filter(|message| hands_over(message));
                needs.for_each(|message| fd_sender.send_with(message));
                batch
            });
            batch = match opening.await {
                Ok(batch) => batch,
                Err(_panicked) => return "cannot open what it needs".to_owned(),
            };
        }
        let frames = match frames::encode(&batch) {
            Ok(frames) => frames,
            Err(error) => return format!("cannot encode a message to it: {error}"),
        };
        for frame in frames {
            if let Err(error) = sink.feed(frame).await {
                return format!("cannot send to it: {error}");
            }
        }
        if let Err(error) = SinkExt::<Bytes>::flush(&mut sink).await {
            return format!("cannot send to it: {error}");
        }
    }
    "it is no longer needed".to_owned()
}
