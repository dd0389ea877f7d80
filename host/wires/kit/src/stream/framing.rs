//! Framing: cuts a stream of bytes into frames, in whatever pieces the bytes arrive. Pure. The framing
//! decides whether the stream can continue after a defect.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// How much of the current frame has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// No byte has arrived.
    Nothing,
    /// The length is not known yet.
    Header,
    /// The length is known, or the framing is looking for the end.
    Body,
}

/// Why the driver stopped waiting for the rest of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The time limit has passed.
    Late(Pending),
    /// The peer closed the connection in the middle of the frame.
    Short {
        /// How many bytes of the frame arrived.
        bytes: usize,
    },
}

/// What the bytes that have arrived so far contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<D> {
    /// A whole frame. Its bytes are removed from the buffer.
    Frame(Bytes),
    /// Less than a whole frame.
    Incomplete,
    /// Invalid bytes. They are or will be skipped, and the stream continues after them.
    Skipped(D),
    /// Invalid bytes after which nothing more can be read.
    Broken(D),
}

/// Cuts one connection's stream into frames.
pub trait Framing: Default + Send {
    /// What can be wrong with a frame.
    type Defect: From<Cut> + Send;

    /// Returns the buffer for the next bytes, with room for at least one.
    fn room(&mut self) -> &mut BytesMut;

    /// Returns the next frame or defect. The driver calls this until it returns
    /// [`Next::Incomplete`] or [`Next::Broken`]. Any other result must have used up bytes;
    /// otherwise the driver would never stop.
    fn next(&mut self) -> Next<Self::Defect>;

    /// Returns how much of the current frame has arrived. Bytes that are being skipped do not count
    /// as a frame.
    fn pending(&self) -> Pending;

    /// Returns how many bytes of the current frame have arrived.
    fn pending_bytes(&self) -> usize;

    /// Returns the total size of the current frame in bytes, if known.
    fn expected_bytes(&self) -> usize {
        self.pending_bytes()
    }

    /// Handles a frame whose rest did not arrive in time. [`Next::Skipped`] means that the framing skips the
    /// rest and the stream continues; anything else ends the stream.
    fn late(&mut self, stage: Pending) -> Next<Self::Defect> {
        Next::Broken(Cut::Late(stage).into())
    }

    /// Returns how long a frame may stay at `stage` after its first byte.
    fn time_limit(stage: Pending) -> Duration {
        match stage {
            Pending::Nothing | Pending::Header => Duration::from_secs(10),
            Pending::Body => Duration::from_secs(30),
        }
    }
}
