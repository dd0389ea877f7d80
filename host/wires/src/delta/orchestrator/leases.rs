//! What is remembered of leases beside the store: how each ended, so that a repeated message gets the
//! same answer, and what bounds its messages. Bounded, and lost when the host stops: a lease that is
//! not known here is known to the store.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};

use host_core::id::LeaseId;
use host_core::time::Time;

use super::log_chunks::LogChunks;
use super::{Answer, Named, Todo};
use crate::delta::messages::read::Status;
use crate::delta::refusals::{Refused, Stale};
use crate::kit::session::Link;

/// The most leases that have ended and are still remembered.
const ENDED_MAX: usize = 16_384;

/// How far apart heartbeats are, in the mean, and how many may come at once.
const HEARTBEAT_MS_MIN: u64 = 100;
const HEARTBEATS_AT_ONCE: u64 = 30;

/// How long a lease that has run out still counts as live, in milliseconds: its end may not be reported.
const FORGOTTEN_MS: u64 = 60_000;

/// How many leases are granted between two searches for forgotten ones.
const SWEEP_EVERY: u64 = 1_024;

/// The hash of a message: the same message has the same one.
pub(in crate::delta) type Digest = [u8; 32];

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::delta) enum Over {
    Stale(Stale),
    /// A message ended it.
    Ended(Digest, Status),
}

/// A heartbeat whose answer waits for a cancel.
#[derive(Debug)]
pub(super) struct WaitingBeat {
    pub(super) link: Link,
    pub(super) named: Named,
    pub(super) warnings: Vec<String>,
    pub(super) until: Time,
}

/// One lease.
#[derive(Debug)]
pub(super) struct Lease {
    /// The pool and the runner.
    pub(super) worker: String,
    pub(super) attempt: u32,
    pub(super) began_at: Time,
    /// Whether it was written to a file for a runner that this host starts.
    pub(super) is_in_file: bool,
    /// When its attempt has lasted longer than any runner may take.
    pub(super) ends_by: Option<Time>,
    pub(super) is_acked: bool,
    is_cancelled: bool,
    pub(super) expires_at: Option<Time>,
    over: Option<Over>,
    /// When the next heartbeat would come at the highest rate.
    heartbeat_due: Time,
    bytes_sent: u64,
    pub(super) log: LogChunks,
    /// The heartbeats that are to wait, before the host has answered them.
    arriving: Vec<Link>,
    waiting: Vec<WaitingBeat>,
    /// Who waits for its end.
    watchers: Vec<Link>,
}

/// All leases that are remembered.
#[derive(Debug, Default)]
pub(super) struct Leases {
    by_id: HashMap<LeaseId, Lease>,
    ended: VecDeque<LeaseId>,
    /// When heartbeats have waited long enough.
    timers: BTreeSet<(Time, LeaseId)>,
    granted: u64,
}

impl Leases {
    /// Adds a lease that was granted.
    pub(super) fn grant(&mut self, now: Time, id: LeaseId, lease: Lease) {
        if self.granted.is_multiple_of(SWEEP_EVERY) {
            self.by_id.retain(|_, lease| !lease.is_forgotten(now));
        }
        self.granted += 1;
        self.by_id.insert(id, lease);
    }

    /// Returns a lease. One that is not known was granted before this host was restarted.
    pub(super) fn get_or_adopt(&mut self, now: Time, named: &Named, attempt: u32) -> &mut Lease {
        let lease = self.by_id.entry(named.lease);
        lease.or_insert_with(|| Lease {
            is_acked: true,
            log: LogChunks::adopted(),
            ..Lease::new(now, named.worker.clone(), attempt)
        })
    }

    pub(super) fn get(&self, id: LeaseId) -> Option<&Lease> {
        self.by_id.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: LeaseId) -> Option<&mut Lease> {
        self.by_id.get_mut(&id)
    }

    /// Returns how a lease of this worker ended, if it is known to have.
    pub(super) fn over(&self, named: &Named) -> Option<Over> {
        let lease = self.by_id.get(&named.lease)?;
        lease.over.filter(|_| lease.worker == named.worker)
    }

    /// Returns the worker that holds a lease, if that is another one.
    pub(super) fn other_holder(&self, named: &Named) -> Option<&str> {
        let lease = self.by_id.get(&named.lease)?;
        let is_another = lease.worker != named.worker && lease.over.is_none();
        is_another.then_some(&lease.worker)
    }

    /// Notes that a lease is in a file.
    pub(super) fn hand_out(&mut self, id: LeaseId) {
        if let Some(lease) = self.by_id.get_mut(&id) {
            lease.is_in_file = true;
        }
    }

    /// Returns a lease of this worker that has not ended.
    pub(super) fn live(&mut self, named: &Named) -> Option<&mut Lease> {
        let lease = self.by_id.get_mut(&named.lease)?;
        (lease.worker == named.worker && lease.over.is_none()).then_some(lease)
    }

    /// Returns the worker of each live lease.
    pub(super) fn holders(&self, now: Time) -> impl Iterator<Item = &String> {
        let live = self.by_id.values().filter(move |lease| lease.is_live(now));
        live.map(|lease| &lease.worker)
    }

    /// Returns why a lease is stale, as far as this worker may know. A lease that was thought to be live
    /// is over then.
    pub(super) fn stale(&mut self, named: &Named, todo: &mut Todo) -> Stale {
        let lease = self.by_id.get(&named.lease);
        let Some(lease) = lease.filter(|it| it.worker == named.worker) else {
            return Stale::Unknown;
        };
        if let Some(over) = lease.over {
            return over.stale();
        }
        let why = lease.would_be();
        self.close(named.lease, Over::Stale(why), todo);
        why
    }

    /// Handles a cancel, and returns the heartbeats that waited for it.
    pub(super) fn cancelled(&mut self, id: LeaseId) -> Vec<WaitingBeat> {
        let Some(lease) = self.by_id.get_mut(&id) else {
            return Vec::new();
        };
        lease.is_cancelled = true;
        lease.arriving.clear();
        let waiting = std::mem::take(&mut lease.waiting);
        self.forget_timers(id, &waiting);
        waiting
    }

    /// The store has taken a lease away.
    pub(super) fn revoked(&mut self, id: LeaseId, todo: &mut Todo) {
        if let Some(lease) = self.by_id.get(&id).filter(|it| it.over.is_none()) {
            let why = lease.would_be();
            self.close(id, Over::Stale(why), todo);
        }
    }

    /// Ends a lease, and answers the requests that wait for that.
    pub(super) fn close(&mut self, id: LeaseId, over: Over, todo: &mut Todo) {
        let Some(lease) = self.by_id.get_mut(&id) else {
            return;
        };
        lease.arriving.clear();
        let waiting = std::mem::take(&mut lease.waiting);
        let watchers = std::mem::take(&mut lease.watchers);
        let was_over = lease.over.replace(over).is_some();
        self.forget_timers(id, &waiting);
        for beat in waiting {
            todo.send(beat.link, Err(Refused::stale(over.stale())));
        }
        for link in watchers {
            todo.send(link, Ok(Answer::Ended(over)));
        }
        if was_over {
            return;
        }
        self.ended.push_back(id);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Answers when a lease of this worker has ended. One that is not known any more has.
    pub(super) fn await_end(&mut self, link: Link, named: &Named, todo: &mut Todo) {
        let lease = self.by_id.get_mut(&named.lease);
        let over = match lease.filter(|it| it.worker == named.worker) {
            Some(lease) if lease.over.is_none() => return lease.watchers.push(link),
            Some(lease) => lease.over,
            None => None,
        };
        let over = over.unwrap_or(Over::Stale(Stale::Unknown));
        todo.send(link, Ok(Answer::Ended(over)));
    }

    /// Lets a heartbeat wait, unless there was a change since it arrived: then returns it.
    pub(super) fn wait(&mut self, mut beat: WaitingBeat) -> Option<WaitingBeat> {
        let lease = self.by_id.get_mut(&beat.named.lease);
        let Some(lease) = lease else {
            return Some(beat);
        };
        if !lease.forget_beat(beat.link) {
            return Some(beat);
        }
        beat.until = lease.ends_by.map_or(beat.until, |end| end.min(beat.until));
        self.timers.insert((beat.until, beat.named.lease));
        lease.waiting.push(beat);
        None
    }

    pub(super) fn wakeup(&self) -> Option<Time> {
        self.timers.first().map(|(until, _)| *until)
    }

    /// Takes the heartbeats that wait until such a time.
    pub(super) fn take_waiting(&mut self, is_due: impl Fn(Time) -> bool) -> Vec<WaitingBeat> {
        let mut taken = Vec::new();
        while let Some((until, id)) = self.timers.first().copied().filter(|(at, _)| is_due(*at)) {
            self.timers.remove(&(until, id));
            if let Some(lease) = self.by_id.get_mut(&id) {
                taken.extend(lease.waiting.extract_if(.., |beat| beat.until == until));
            }
        }
        taken
    }

    fn forget_timers(&mut self, id: LeaseId, waiting: &[WaitingBeat]) {
        for beat in waiting {
            self.timers.remove(&(beat.until, id));
        }
    }
}

impl Over {
    /// Returns why later messages are stale.
    pub(super) const fn stale(self) -> Stale {
        match self {
            Self::Stale(why) => why,
            Self::Ended(..) => Stale::Revoked,
        }
    }
}

impl Lease {
    pub(super) fn new(began_at: Time, worker: String, attempt: u32) -> Self {
        Self {
            worker,
            attempt,
            began_at,
            is_in_file: false,
            ends_by: None,
            is_acked: false,
            is_cancelled: false,
            expires_at: None,
            over: None,
            heartbeat_due: began_at,
            bytes_sent: 0,
            log: LogChunks::default(),
            arriving: Vec::new(),
            waiting: Vec::new(),
            watchers: Vec::new(),
        }
    }

    pub(super) const fn over(&self) -> Option<Over> {
        self.over
    }

    /// Counts a heartbeat. Returns false if it is one too many.
    pub(super) fn may_beat(&mut self, now: Time) -> bool {
        let due = self.heartbeat_due.max(now);
        if due.since_ms(now) > HEARTBEAT_MS_MIN * (HEARTBEATS_AT_ONCE - 1) {
            return false;
        }
        self.heartbeat_due = due.plus_ms(HEARTBEAT_MS_MIN);
        true
    }

    /// Notes how much of a log its worker says it has sent, and returns the most so far.
    pub(super) fn note_sent(&mut self, bytes: u64) -> u64 {
        self.bytes_sent = self.bytes_sent.max(bytes);
        self.bytes_sent
    }

    /// Returns whether its attempt has lasted too long.
    pub(super) fn is_overrun(&self, now: Time) -> bool {
        self.ends_by.is_some_and(|end| end <= now)
    }

    /// Announces a heartbeat that is to wait: from here on it misses no change.
    pub(super) fn announce(&mut self, link: Link) {
        self.arriving.push(link);
    }

    /// Forgets an announced heartbeat. Returns false if it missed a change.
    pub(super) fn forget_beat(&mut self, link: Link) -> bool {
        let at = self.arriving.iter().position(|it| *it == link);
        at.map(|at| self.arriving.swap_remove(at)).is_some()
    }

    const fn would_be(&self) -> Stale {
        if self.is_acked && !self.is_cancelled {
            Stale::Expired
        } else {
            Stale::Revoked
        }
    }

    fn is_live(&self, now: Time) -> bool {
        self.over.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    fn is_forgotten(&self, now: Time) -> bool {
        let is_past = |end: Time| now >= end.plus_ms(FORGOTTEN_MS);
        self.over.is_none() && self.expires_at.is_some_and(is_past)
    }
}
