//! Sends messages to a cell in frames.

use bytes::Bytes;
use futures_util::SinkExt;
use host_core::cell::ToCell;
use tokio::io::AsyncWrite;
use tokio::sync::mpsc;
use tokio_util::codec::FramedWrite;

use crate::frames;

/// Sends messages to the cell until it accepts no more. Returns why it stopped.
pub(super) async fn talk(
    writer: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<ToCell>>,
) -> String {
    let mut sink = FramedWrite::new(writer, frames::codec());
    while let Some(batch) = messages.recv().await {
        let frames = match frames::encode(&batch) {
            Ok(frames) => frames,
            Err(error) => return format!("it cannot be told: {error}"),
        };
        for frame in frames {
            if let Err(error) = sink.feed(frame).await {
                return format!("it takes nothing: {error}");
            }
        }
        if let Err(error) = SinkExt::<Bytes>::flush(&mut sink).await {
            return format!("it takes nothing: {error}");
        }
    }
    "nobody needs it any more".to_owned()
}
