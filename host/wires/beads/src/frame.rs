//! Cuts a stream into messages of either dialect: lines, or frames with a length. The first byte of the
//! connection decides. A bad line is skipped; a bad frame ends the connection. Pure.

#[cfg(test)]
mod tests;

use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};

use host_wire_kit::stream::{Cut, Framing, Next, Pending};

/// The longest message, in bytes, without its newline or its length.
pub(super) const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// A connection ends when this many bytes of one line were skipped.
pub(super) const SKIPPED_BYTES_MAX: usize = 64 << 20;

/// How long the rest of a line or frame may take.
const MESSAGE_TIME: Duration = Duration::from_secs(30);

/// How many bytes of a bad message are kept for the log.
const START_BYTES: usize = 64;

/// The size of the length prefix, in bytes.
pub(super) const HEADER_BYTES: usize = 4;

/// How much the buffer grows at a time, in bytes. An idle connection keeps the least.
const STEP_BYTES_MIN: usize = 512;
const STEP_BYTES_MAX: usize = 64 << 10;

/// How messages are separated on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// JSON lines, as documented.
    Lines,
    /// A four-byte big-endian length before each message.
    Framed,
}

/// A defect in a message's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Defect {
    /// The line is longer than [`MESSAGE_BYTES_MAX`]. It begins with these bytes.
    LineTooLong(Bytes),
    /// The line did not end in time. It begins with these bytes.
    LineLate(Bytes),
    /// The line begins with a zero byte.
    LineBinary(Bytes),
    /// The line still has no end after [`SKIPPED_BYTES_MAX`].
    LineEndless,
    /// The connection ended after this many bytes of a message.
    Truncated(usize),
    /// The announced length is above [`MESSAGE_BYTES_MAX`].
    FrameTooLarge([u8; HEADER_BYTES]),
    /// The frame was not complete in time.
    FrameLate(Pending),
}

impl From<Cut> for Defect {
    fn from(cut: Cut) -> Self {
        match cut {
            Cut::Short { bytes } => Self::Truncated(bytes),
            Cut::Late(stage) => Self::FrameLate(stage),
        }
    }
}

/// The messages of one connection. The frame of a line is the line without its end. The frame of a
/// framed message includes its length, whose first byte is 0; no line begins with 0.
#[derive(Debug, Default)]
pub(super) struct Messages {
    dialect: Option<Dialect>,
    buffer: BytesMut,
    /// How many bytes have been searched for the end of the line.
    searched: usize,
    /// How many bytes of the current line were skipped; 0 if it is not being skipped.
    skipped: usize,
}

/// Returns the dialect of a frame that [`Messages`] has cut.
pub(super) fn dialect_of(frame: &[u8]) -> Dialect {
    match frame.first() {
        Some(0) => Dialect::Framed,
        _ => Dialect::Lines,
    }
}

/// Returns the text of a frame that [`Messages`] has cut.
pub(super) fn text_of(frame: &[u8]) -> &[u8] {
    match dialect_of(frame) {
        Dialect::Framed => frame.get(HEADER_BYTES..).unwrap_or_default(),
        Dialect::Lines => frame,
    }
}

fn start(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes.get(..START_BYTES).unwrap_or(bytes))
}

impl Messages {
    fn dialect(&mut self) -> Option<Dialect> {
        if self.dialect.is_none() && !self.buffer.is_empty() {
            self.dialect = Some(dialect_of(&self.buffer));
        }
        self.dialect
    }

    fn next_line(&mut self) -> Next<Defect> {
        loop {
            let mut unread = self.buffer[self.searched..].iter();
            let Some(end) = unread.position(|byte| *byte == b'\n') else {
                return self.unended();
            };
            let line = self.buffer.split_to(self.searched + end).freeze();
            self.buffer.advance(1);
            self.searched = 0;
            if std::mem::take(&mut self.skipped) > 0 || line.trim_ascii().is_empty() {
                continue;
            }
            let line = match line.strip_suffix(b"\r") {
                Some(text) => line.slice_ref(text),
                None => line,
            };
            return if line.len() > MESSAGE_BYTES_MAX {
                Next::Skipped(Defect::LineTooLong(start(&line)))
            } else if line.first() == Some(&0) {
                Next::Skipped(Defect::LineBinary(start(&line)))
            } else {
                Next::Frame(line)
            };
        }
    }

    /// Handles a buffer without the end of a line.
    fn unended(&mut self) -> Next<Defect> {
        self.searched = self.buffer.len();
        if self.skipped == 0 {
            if self.buffer.len() <= MESSAGE_BYTES_MAX {
                return Next::Incomplete;
            }
            return Next::Skipped(Defect::LineTooLong(self.skip()));
        }
        self.skip();
        if self.skipped > SKIPPED_BYTES_MAX {
            return Next::Broken(Defect::LineEndless);
        }
        Next::Incomplete
    }

    /// Drops the current line up to its end. Returns its start.
    fn skip(&mut self) -> Bytes {
        let start = start(&self.buffer);
        self.skipped += self.buffer.len();
        self.buffer.clear();
        self.searched = 0;
        start
    }

    fn next_frame(&mut self) -> Next<Defect> {
        let Some(header) = self.buffer.first_chunk::<HEADER_BYTES>() else {
            return Next::Incomplete;
        };
        let length = usize::try_from(u32::from_be_bytes(*header)).unwrap_or(usize::MAX);
        if length > MESSAGE_BYTES_MAX {
            return Next::Broken(Defect::FrameTooLarge(*header));
        }
        if self.buffer.len() < HEADER_BYTES + length {
            return Next::Incomplete;
        }
        Next::Frame(self.buffer.split_to(HEADER_BYTES + length).freeze())
    }
}

impl Framing for Messages {
    type Defect = Defect;

    fn room(&mut self) -> &mut BytesMut {
        let usual = self.buffer.len().clamp(STEP_BYTES_MIN, STEP_BYTES_MAX);
        // While a line is skipped, its bytes pass through.
        let step = if self.skipped > 0 {
            STEP_BYTES_MAX
        } else {
            usual
        };
        self.buffer.reserve(step);
        &mut self.buffer
    }

    fn next(&mut self) -> Next<Defect> {
        match self.dialect() {
            None => Next::Incomplete,
            Some(Dialect::Lines) => self.next_line(),
            Some(Dialect::Framed) => self.next_frame(),
        }
    }

    fn pending(&self) -> Pending {
        match self.dialect {
            _ if self.buffer.is_empty() => Pending::Nothing,
            Some(Dialect::Framed) if self.buffer.len() < HEADER_BYTES => Pending::Header,
            _ => Pending::Body,
        }
    }

    fn pending_bytes(&self) -> usize {
        self.buffer.len()
    }

    fn late(&mut self, stage: Pending) -> Next<Defect> {
        match self.dialect {
            Some(Dialect::Framed) => Next::Broken(Defect::FrameLate(stage)),
            _ => Next::Skipped(Defect::LineLate(self.skip())),
        }
    }

    fn time_limit(_stage: Pending) -> Duration {
        MESSAGE_TIME
    }
}
