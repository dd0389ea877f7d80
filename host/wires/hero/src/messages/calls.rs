//! The calls of a session that Redis has not answered, and the timers of a session.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;

use super::{Call, CallTag, Command, Via};

/// The calls in flight, each with its purpose, and whether there is a connection.
#[derive(Debug)]
pub(crate) struct Calls<P> {
    is_connected: bool,
    in_flight: BTreeMap<CallTag, P>,
    made: u64,
}

impl<P> Default for Calls<P> {
    fn default() -> Self {
        Self {
            is_connected: false,
            in_flight: BTreeMap::new(),
            made: 0,
        }
    }
}

impl<P> Calls<P> {
    pub(crate) const fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Returns how many calls were made.
    pub(crate) const fn made(&self) -> u64 {
        self.made
    }

    pub(crate) fn connect(&mut self) {
        self.is_connected = true;
    }

    /// Drops all calls: they get no answer.
    pub(crate) fn disconnect(&mut self) {
        self.is_connected = false;
        self.in_flight.clear();
    }

    /// Makes a call; `None` if there is nothing to send, or no connection.
    pub(crate) fn make(&mut self, purpose: P, via: Via, commands: Vec<Command>) -> Option<Call> {
        if commands.is_empty() || !self.is_connected {
            return None;
        }
        let tag = CallTag(self.made);
        self.made += 1;
        self.in_flight.insert(tag, purpose);
        Some(Call { tag, via, commands })
    }

    /// Takes the purpose of a call that was answered.
    pub(crate) fn answered(&mut self, tag: CallTag) -> Option<P> {
        self.in_flight.remove(&tag)
    }

    /// Returns the purposes of all calls in flight.
    pub(crate) fn purposes(&self) -> impl Iterator<Item = &P> {
        self.in_flight.values()
    }
}

/// The timers of a session.
#[derive(Debug)]
pub(crate) struct Timers<D>(BTreeSet<(Time, D)>);

impl<D> Default for Timers<D> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<D: Clone + Ord> Timers<D> {
    pub(crate) fn arm(&mut self, at: Time, due: D) {
        self.0.insert((at, due));
    }

    /// Arms a timer unless one for the same is armed already.
    pub(crate) fn arm_once(&mut self, at: Time, due: D) {
        if !self.0.iter().any(|(_, other)| *other == due) {
            self.arm(at, due);
        }
    }

    /// Moves a timer that is armed for later than `at`.
    pub(crate) fn hasten(&mut self, at: Time, due: &D) {
        let later = self
            .0
            .iter()
            .find(|(then, other)| other == due && *then > at);
        if let Some(later) = later.cloned() {
            self.0.remove(&later);
            self.arm(at, later.1);
        }
    }

    pub(crate) fn cancel(&mut self, at: Time, due: D) {
        self.0.remove(&(at, due));
    }

    /// Keeps only these timers.
    pub(crate) fn retain(&mut self, keeps: impl Fn(&D) -> bool) {
        self.0.retain(|(_, due)| keeps(due));
    }

    /// Returns when the next timer is due.
    pub(crate) fn next(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }

    /// Takes the next timer if it is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<D> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_first().map(|(_, due)| due)
    }
}
