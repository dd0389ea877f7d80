//! A session: all decisions of one side of a stream wire, over any number of connections, as a
//! pure function of its state, what it hears and the time. Knows no socket and no clock.

use bytes::{Bytes, BytesMut};
use host_core::time::Time;

/// One connection of a session; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// When a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Host time.
    pub now: Time,
    /// The wall clock at the same instant: a foreign deadline becomes a duration by it.
    pub wall: Time,
}

/// What a session decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<M, A> {
    /// Write a message to a connection.
    Send(Link, M),
    /// Read nothing more from a connection, write what is to be written, close it.
    Close(Link),
    /// Ask the host for something.
    Ask(A),
    /// Count a refusal by its code.
    Count(&'static str),
}

/// What a session decided in one step, in order.
#[derive(Debug)]
pub struct Actions<M, A>(Vec<Action<M, A>>);

impl<M, A> Default for Actions<M, A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<M, A> Actions<M, A> {
    /// Writes `message` to `link`.
    pub fn send(&mut self, link: Link, message: M) {
        self.0.push(Action::Send(link, message));
    }

    /// Closes `link` once all is written.
    pub fn close(&mut self, link: Link) {
        self.0.push(Action::Close(link));
    }

    /// Asks the host for something.
    pub fn ask(&mut self, ask: A) {
        self.0.push(Action::Ask(ask));
    }

    /// Counts a refusal.
    pub fn count(&mut self, code: &'static str) {
        self.0.push(Action::Count(code));
    }

    /// Takes all decisions, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Action<M, A>> {
        self.0.drain(..)
    }
}

/// The decisions of a session of type `S`.
pub type ActionsOf<S> = Actions<<S as Session>::Out, <S as Session>::Ask>;

/// One side of a stream wire.
pub trait Session: Send + 'static {
    /// The wire's name, as in its adapter.
    const WIRE: &'static str;
    /// What a connection is cut into.
    type Framing: Framing;
    /// One message of the peer, or what is wrong with it.
    type In: Send;
    /// One message to the peer.
    type Out: Send;
    /// What it asks of the host.
    type Ask: Send;
    /// What the host says to it.
    type Said: Send;

    /// Reads one message; all that needs no state is checked here.
    fn read(frame: Result<Bytes, <Self::Framing as Framing>::Defect>) -> Self::In;

    /// Writes one message behind what `out` has.
    fn write(message: &Self::Out, out: &mut BytesMut);

    /// Takes note of a new connection.
    fn on_open(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>);

    /// Handles a message. After a framing defect no other message of this connection follows.
    fn on_message(&mut self, at: Moment, link: Link, message: Self::In, to: &mut ActionsOf<Self>);

    /// Handles what the host says.
    fn on_said(&mut self, at: Moment, said: Self::Said, actions: &mut ActionsOf<Self>);

    /// Takes note that a connection is gone; nothing is written to it any more.
    fn on_closed(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>);

    /// Returns the next instant at which time alone changes something.
    fn wakeup(&self) -> Option<Time>;

    /// Handles all that is due at `now`.
    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>);

    /// Tells whether nothing is in flight.
    fn is_idle(&self) -> bool;
}

/// How far the frame that is coming in has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Not a byte of it.
    Nothing,
    /// Its length is not known yet.
    Header,
    /// Its length is known.
    Body,
}

/// Why a frame never became whole, as the driver sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Its time ran out.
    Late(Pending),
    /// The peer closed in the middle of it.
    Short {
        /// How many bytes of it came.
        bytes: usize,
    },
}

/// Cuts a stream of bytes into frames, in any portions; pure.
pub trait Framing: Default + Send {
    /// What can be wrong with a frame; after one, the stream means nothing any more.
    type Defect: From<Cut> + Send;

    /// Returns where the next bytes go, with room for some.
    fn room(&mut self) -> &mut BytesMut;

    /// Returns the next whole frame, `None` until there is one.
    fn next(&mut self) -> Result<Option<Bytes>, Self::Defect>;

    /// Tells how far the frame after the last whole one has come.
    fn pending(&self) -> Pending;

    /// Tells how many bytes of that frame are here.
    fn pending_bytes(&self) -> usize;
}
