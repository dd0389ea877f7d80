//! Frames: a length of four bytes, big-endian, and then that many bytes. Never reserves more than
//! 64 KiB beyond what has arrived. Pure.

mod outcomes;

#[cfg(test)]
mod tests;

use bytes::{Buf, BufMut, BytesMut};
use host_wire_kit::stream::{Cut, Framing, Next, Pending};

pub(super) use self::outcomes::OutcomeFrames;
use super::ids::Ids;

/// The largest payload, in bytes. The peers have the same limit.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The size of the length before each payload, in bytes.
const HEADER_BYTES: usize = 4;

/// How much the buffer grows at a time, in bytes.
const STEP_BYTES: usize = 64 << 10;

/// How much one read takes while no frame is arriving, in bytes. Small, because there may be many
/// idle connections.
const IDLE_BYTES: usize = 2 << 10;

/// What is wrong with a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// The length is zero.
    Empty,
    /// The length is above [`PAYLOAD_BYTES_MAX`].
    TooLarge {
        /// The four bytes of the length, which may be the start of another protocol.
        header: [u8; HEADER_BYTES],
    },
    /// The length is above [`PAYLOAD_BYTES_MAX`], and the payload was skipped.
    Skipped {
        /// The length.
        bytes: u32,
        /// The ids of the outcome in it, if they were found.
        ids: Option<Ids>,
    },
    /// The frame is incomplete.
    Cut(Cut),
}

impl From<Cut> for Defect {
    fn from(cut: Cut) -> Self {
        Self::Cut(cut)
    }
}

/// The frames of one connection.
#[derive(Debug, Default)]
pub(super) struct Frames {
    buffer: BytesMut,
}

impl Frames {
    fn header(&self) -> Option<[u8; HEADER_BYTES]> {
        self.buffer.first_chunk().copied()
    }

    /// Returns the length of the payload, if it has arrived.
    fn payload_bytes(&self) -> Result<Option<usize>, Defect> {
        let Some(header) = self.header() else {
            return Ok(None);
        };
        let bytes = usize::try_from(u32::from_be_bytes(header)).unwrap_or(usize::MAX);
        match bytes {
            0 => Err(Defect::Empty),
            bytes if bytes > PAYLOAD_BYTES_MAX => Err(Defect::TooLarge { header }),
            bytes => Ok(Some(bytes)),
        }
    }
}

impl Framing for Frames {
    type Defect = Defect;

    fn room(&mut self) -> &mut BytesMut {
        let step = match self.payload_bytes() {
            Ok(Some(payload)) => (HEADER_BYTES + payload)
                .saturating_sub(self.buffer.len())
                .clamp(IDLE_BYTES, STEP_BYTES),
            _ => IDLE_BYTES,
        };
        if self.buffer.is_empty() && self.buffer.capacity() > STEP_BYTES {
            self.buffer = BytesMut::new();
        }
        if self.buffer.capacity() - self.buffer.len() < IDLE_BYTES {
            self.buffer.reserve(step);
        }
        &mut self.buffer
    }

    fn next(&mut self) -> Next<Defect> {
        match self.payload_bytes() {
            Err(defect) => Next::Broken(defect),
            Ok(Some(payload)) if self.buffer.len() >= HEADER_BYTES + payload => {
                self.buffer.advance(HEADER_BYTES);
                Next::Frame(self.buffer.split_to(payload).freeze())
            }
            Ok(_) => Next::Incomplete,
        }
    }

    fn pending(&self) -> Pending {
        match self.buffer.len() {
            0 => Pending::Nothing,
            bytes if bytes < HEADER_BYTES => Pending::Header,
            _ => Pending::Body,
        }
    }

    fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn expected_bytes(&self) -> usize {
        let payload = self.payload_bytes().ok().flatten();
        payload.map_or(self.buffer.len(), |payload| HEADER_BYTES + payload)
    }
}

/// The payload is larger than any peer accepts. Nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Oversize;

/// Appends one frame to `out`. `payload` writes its bytes.
pub(super) fn put(
    out: &mut BytesMut,
    payload: impl FnOnce(&mut bytes::buf::Writer<&mut BytesMut>),
) -> Result<(), Oversize> {
    let start = out.len();
    out.put_u32(0);
    payload(&mut (&mut *out).writer());
    let bytes = out.len() - start - HEADER_BYTES;
    match u32::try_from(bytes) {
        Ok(length) if bytes <= PAYLOAD_BYTES_MAX => {
            out[start..start + HEADER_BYTES].copy_from_slice(&length.to_be_bytes());
            Ok(())
        }
        _ => {
            out.truncate(start);
            Err(Oversize)
        }
    }
}
