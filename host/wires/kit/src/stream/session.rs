//! How the messages of a session over byte streams are read and written.

use bytes::{Bytes, BytesMut};

use super::framing::Framing;
use crate::session::{Link, Session};

/// The peer of a connection: a user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub uid: u32,
}

/// One side of a stream wire.
pub trait StreamSession: Session {
    /// Whether [`StreamSession::on_peer`] is called.
    const ASKS_FOR_PEERS: bool = false;
    /// Cuts the bytes of a connection into frames.
    type Framing: Framing;

    /// Reads one frame, or turns a defect into a message. All checks that need no state happen
    /// here. After a defect that breaks the stream, the driver writes what the session answers and
    /// then closes the connection.
    fn read(frame: Result<Bytes, <Self::Framing as Framing>::Defect>) -> Self::In;

    /// Appends one message to `out`.
    fn write(message: &Self::Out, out: &mut BytesMut);

    /// Gives the peer of a connection that is about to open, if known.
    fn on_peer(&mut self, _link: Link, _peer: Peer) {}
}
