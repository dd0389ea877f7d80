//! A session makes all decisions of one side of a wire, over any number of connections or requests.
//! It is a pure function of its state, its input and the time, and knows no transport and no clock.

use host_core::time::Time;

/// One connection of a session, or one request over HTTP. The number is never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link(pub u64);

/// When a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub now: Time,
    /// The wall clock at the same instant, to turn a foreign deadline into a duration.
    pub wall: Time,
}

/// What a session decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<M, E> {
    /// Write a message to a connection, or answer a request.
    Send(Link, M),
    /// Stop reading a connection, write what is in its outbox, and close it. A request stays
    /// unanswered.
    Close(Link),
    /// Carry out an effect.
    Effect(E),
    /// Count a refusal by its code.
    Count(&'static str),
}

/// The decisions of a session in one step, in order.
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

    /// Closes `link` when everything is written.
    pub fn close(&mut self, link: Link) {
        self.0.push(Action::Close(link));
    }

    /// Asks the host to carry out `effect`.
    pub fn effect(&mut self, effect: E) {
        self.0.push(Action::Effect(effect));
    }

    /// Counts a refusal by its code.
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

/// One side of a wire. No call waits, and the driver makes one call at a time.
pub trait Session: Send + 'static {
    /// The wire's name, used as a label of its metrics.
    const WIRE: &'static str;
    /// A message of the peer, or a defect.
    type In: Send;
    /// A message to the peer.
    type Out: Send;
    /// Something for the host to do.
    type Effect: Send;
    /// Something the host reports.
    type Event: Send;

    /// Handles a new connection.
    fn on_open(&mut self, _now: Time, _link: Link, _actions: &mut ActionsOf<Self>) {}

    /// Handles a message of a connection, or a request, whose link opens with it and closes with its
    /// answer.
    fn on_message(
        &mut self,
        at: Moment,
        link: Link,
        message: Self::In,
        actions: &mut ActionsOf<Self>,
    );

    /// Handles a report from the host.
    fn on_event(&mut self, at: Moment, event: Self::Event, actions: &mut ActionsOf<Self>);

    /// Handles the end of a connection, or of a request that has no answer yet. Nothing can be
    /// written to it any more.
    fn on_closed(&mut self, now: Time, link: Link, actions: &mut ActionsOf<Self>);

    /// Returns when the next timer is due.
    fn wakeup(&self) -> Option<Time>;

    /// Handles all timers that are due at `now`.
    fn on_wakeup(&mut self, now: Time, actions: &mut ActionsOf<Self>);

    /// Returns whether no work is in flight.
    fn is_idle(&self) -> bool;
}
