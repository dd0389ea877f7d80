//! A session: all decisions of one side of a stream wire, over any number of connections, as a
//! pure function of its state, its input and the time. Knows no socket and no clock.

use bytes::{Bytes, BytesMut};
use host_core::time::Time;

use super::framing::Framing;

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
pub enum Action<M, E> {
    /// Write a message to a connection.
    Send(Link, M),
    /// Read nothing more from a connection, write what is to be written, close it.
    Close(Link),
    /// Have the host do something.
    Effect(E),
    /// Count a refusal by its code.
    Count(&'static str),
}

/// What a session decided in one step, in order.
#[derive(Debug)]
pub struct Actions<M, E>(Vec<Action<M, E>>);

impl<M, E> Default for Actions<M, E> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<M, E> Actions<M, E> {
    /// Writes `message` to `link`.
    pub fn send(&mut self, link: Link, message: M) {
        self.0.push(Action::Send(link, message));
    }

    /// Closes `link` once all is written.
    pub fn close(&mut self, link: Link) {
        self.0.push(Action::Close(link));
    }

    /// Has the host do something.
    pub fn effect(&mut self, effect: E) {
        self.0.push(Action::Effect(effect));
    }

    /// Counts a refusal.
    pub fn count(&mut self, code: &'static str) {
        self.0.push(Action::Count(code));
    }

    /// Takes all decisions, oldest first.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Action<M, E>> {
        self.0.drain(..)
    }
}

/// The decisions of a session of type `S`.
pub type ActionsOf<S> = Actions<<S as Session>::Out, <S as Session>::Effect>;

/// One side of a stream wire. No call waits; the driver makes one at a time.
pub trait Session: Send + 'static {
    /// The wire's name: the label of its refusals in metrics.
    const WIRE: &'static str;
    /// What cuts a connection into frames.
    type Framing: Framing;
    /// One message of the peer, or what is wrong with it.
    type In: Send;
    /// One message to the peer.
    type Out: Send;
    /// What the host is to do.
    type Effect: Send;
    /// What the host reports.
    type Event: Send;

    /// Reads one frame, or makes a message of a defect. All that needs no state is checked here.
    fn read(frame: Result<Bytes, <Self::Framing as Framing>::Defect>) -> Self::In;

    /// Appends one message to `out`.
    fn write(message: &Self::Out, out: &mut BytesMut);

    /// Handles a new connection.
    fn on_open(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>);

    /// Handles a message. The driver closes the connection after a defect that breaks the stream,
    /// and writes before that what the session sends here.
    fn on_message(
        &mut self,
        at: Moment,
        link: Link,
        message: Self::In,
        actions: &mut ActionsOf<Self>,
    );

    /// Handles a report of the host.
    fn on_event(&mut self, at: Moment, event: Self::Event, actions: &mut ActionsOf<Self>);

    /// Handles the end of a connection; nothing is written to it any more.
    fn on_closed(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>);

    /// Returns the next instant at which time alone changes something.
    fn wakeup(&self) -> Option<Time>;

    /// Handles all that is due at `now`.
    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>);

    /// Tells whether nothing is in flight.
    fn is_idle(&self) -> bool;
}
