//! Lines as frames: cuts a stream at each `\n`. Pure.

#[cfg(test)]
mod tests;

use bytes::{Buf as _, BytesMut};

use super::framing::{Cut, Framing, Next, Pending};

/// How much the buffer grows at a time, in bytes.
const STEP_BYTES: usize = 4 << 10;

/// The lines of one connection. A frame is a line without its end. A line of more than about
/// `BYTES_MAX` bytes breaks the stream.
#[derive(Debug, Default)]
pub struct Lines<const BYTES_MAX: usize> {
    buffer: BytesMut,
    /// How many bytes have been searched for the end of the line.
    searched: usize,
}

/// A line that is too long or incomplete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endless;

impl From<Cut> for Endless {
    fn from(_: Cut) -> Self {
        Self
    }
}

impl<const BYTES_MAX: usize> Framing for Lines<BYTES_MAX> {
    type Defect = Endless;

    fn room(&mut self) -> &mut BytesMut {
        self.buffer.reserve(STEP_BYTES);
        &mut self.buffer
    }

    fn next(&mut self) -> Next<Endless> {
        let mut unread = self.buffer[self.searched..].iter();
        if let Some(end) = unread.position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(self.searched + end).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            return Next::Frame(line);
        }
        self.searched = self.buffer.len();
        if self.buffer.len() > BYTES_MAX {
            return Next::Broken(Endless);
        }
        Next::Incomplete
    }

    fn pending(&self) -> Pending {
        if self.buffer.is_empty() {
            Pending::Nothing
        } else {
            Pending::Body
        }
    }

    fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }
}
