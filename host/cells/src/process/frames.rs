//! Messages in frames. A frame is its length followed by one or more messages in postcard.

use bytes::Bytes;
use host_core::cell::{FRAME_BYTES_MAX, FromCell};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio_util::codec::LengthDelimitedCodec;

/// The maximum number of messages in a frame, because a decoded message takes more memory than its
/// encoding.
pub const FRAME_MESSAGES_MAX: usize = 16_384;

/// The most memory that the messages of one frame from a cell may need beyond the frame, in bytes.
const DECODED_BYTES_MAX: u64 = 32 << 20;

/// The size at which a new frame is started, in bytes.
const FRAME_BYTES_AIM: usize = 256 << 10;

/// Why bytes are not a valid frame, or why a message does not fit into one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// One message is larger than the largest frame.
    #[error("a message of {bytes} bytes does not fit into a frame of {FRAME_BYTES_MAX}")]
    TooLarge {
        /// The size of the message.
        bytes: usize,
    },
    /// The bytes are not a message.
    #[error("invalid message at byte {position} of a frame of {bytes} bytes: {message}")]
    Malformed {
        /// The position of the first invalid message.
        position: usize,
        bytes: usize,
        message: String,
    },
    /// The frame has too many messages.
    #[error("a frame has more than {FRAME_MESSAGES_MAX} messages")]
    TooMany,
    /// Its messages need too much memory.
    #[error("the messages of a frame need more than {DECODED_BYTES_MAX} bytes")]
    TooLargeDecoded,
}

/// Returns the codec that puts the length before each frame, in four bytes.
pub(crate) fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .length_field_type::<u32>()
        .max_frame_length(FRAME_BYTES_MAX)
        .new_codec()
}

/// Packs messages into few frames.
pub fn encode<T: Serialize>(messages: &[T]) -> Result<Vec<Bytes>, FrameError> {
    let mut frames = Vec::new();
    let mut frame: Vec<u8> = Vec::new();
    let mut count = 0;
    let mut bytes: Vec<u8> = Vec::new();
    for message in messages {
        let malformed = |error: postcard::Error| FrameError::Malformed {
            position: 0,
            bytes: 0,
            message: error.to_string(),
        };
        bytes.clear();
        bytes = postcard::to_extend(message, bytes).map_err(malformed)?;
        if bytes.len() > FRAME_BYTES_MAX {
            return Err(FrameError::TooLarge { bytes: bytes.len() });
        }
        let full = frame.len() + bytes.len() > FRAME_BYTES_AIM || count == FRAME_MESSAGES_MAX;
        if full && !frame.is_empty() {
            frames.push(std::mem::take(&mut frame).into());
            count = 0;
        }
        frame.extend_from_slice(&bytes);
        count += 1;
    }
    if !frame.is_empty() {
        frames.push(frame.into());
    }
    Ok(frames)
}

/// Unpacks one frame from a cell.
pub fn decode_from_cell(frame: &[u8]) -> Result<Vec<FromCell>, FrameError> {
    decode(frame, FromCell::decoded_bytes)
}

/// Unpacks one frame whose messages need `decoded_bytes` more memory than the frame.
pub fn decode<T: DeserializeOwned>(
    frame: &[u8],
    decoded_bytes: impl Fn(&T) -> u64,
) -> Result<Vec<T>, FrameError> {
    let mut messages = Vec::new();
    let mut rest = frame;
    let mut bytes = 0;
    while !rest.is_empty() {
        if messages.len() == FRAME_MESSAGES_MAX {
            return Err(FrameError::TooMany);
        }
        let (message, after) =
            postcard::take_from_bytes(rest).map_err(|error| FrameError::Malformed {
                position: frame.len() - rest.len(),
                bytes: frame.len(),
                message: error.to_string(),
            })?;
        bytes += decoded_bytes(&message);
        if bytes > DECODED_BYTES_MAX {
            return Err(FrameError::TooLargeDecoded);
        }
        messages.push(message);
        rest = after;
    }
    Ok(messages)
}

#[cfg(test)]
mod tests;
