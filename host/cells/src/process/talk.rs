//! Sends messages to a cell in frames, and hands over what they need.

use bytes::Bytes;
use futures_util::SinkExt;
use host_core::cell::ToCell;
use host_socket::WriteHalf;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_util::codec::FramedWrite;

use super::open::{hands_over, open};
use crate::frames;
use crate::roots::ReadRoots;

/// Sends messages to the cell until it accepts no more. Returns why it stopped.
pub(super) async fn talk(
    writer: WriteHalf,
    mut messages: mpsc::Receiver<Vec<ToCell>>,
    roots: ReadRoots,
) -> String {
    let mut sink = FramedWrite::new(writer, frames::codec());
    while let Some(mut batch) = messages.recv().await {
        if batch.iter().any(hands_over) {
            let roots = roots.clone();
            let opening = spawn_blocking(move || {
                let needs = batch.iter_mut().filter(|message| hands_over(message));
                let groups: Vec<_> = needs.map(|message| open(message, &roots)).collect();
                (batch, groups)
            });
            let Ok((opened, groups)) = opening.await else {
                return "what it needs cannot be opened".to_owned();
            };
            batch = opened;
            for group in groups.into_iter().filter(|group| !group.is_empty()) {
                sink.get_mut().hand_over(group);
            }
        }
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
