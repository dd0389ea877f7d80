//! Framing: cuts a stream of bytes into frames, whatever portions it arrives in. Pure. A framing
//! says itself whether the stream can go on after a defect.

use std::time::Duration;

use bytes::{Bytes, BytesMut};

/// How far the frame that is arriving has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// No byte of it is here.
    Nothing,
    /// Its length is not known yet.
    Header,
    /// Its length is known, or its end is looked for.
    Body,
}

/// Why a frame never became whole, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Its time ran out.
    Late(Pending),
    /// The peer closed the connection within it.
    Short {
        /// How many bytes of it arrived.
        bytes: usize,
    },
}

/// What the bytes that have arrived amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<D> {
    /// A whole frame; its bytes are used up.
    Frame(Bytes),
    /// Not enough for a frame.
    Incomplete,
    /// Bytes that are no frame. They are used up or will be, and the stream goes on behind them.
    Skipped(D),
    /// Bytes that are no frame, and nothing behind them can be read.
    Broken(D),
}

/// Cuts one connection's stream into frames.
pub trait Framing: Default + Send {
    /// What can be wrong with a frame. One that is [`Cut`] breaks the stream.
    type Defect: From<Cut> + Send;

    /// Returns where the next bytes go, with room for at least one.
    fn room(&mut self) -> &mut BytesMut;

    /// Returns what comes next. Called until it is [`Next::Incomplete`] or [`Next::Broken`]; each
    /// other answer must have used up bytes, or it would be given for ever.
    fn next(&mut self) -> Next<Self::Defect>;

    /// Tells how far the frame after the last whole one has come. Bytes that are being skipped are
    /// no frame.
    fn pending(&self) -> Pending;

    /// Returns how many bytes of that frame are here.
    fn pending_bytes(&self) -> usize;

    /// Returns how long a frame that has begun may stay at `stage`.
    fn time_limit(stage: Pending) -> Duration {
        match stage {
            Pending::Nothing | Pending::Header => Duration::from_secs(10),
            Pending::Body => Duration::from_secs(30),
        }
    }
}
