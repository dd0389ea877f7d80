//! What bounds the messages of a lease, and how earlier leases ended, so that a repeated message gets
//! the same answer. Bounded, and lost when the host stops: a lease that is not known here is known to
//! the store.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};

use host_core::id::LeaseId;
use host_core::time::Time;
use host_wire_kit::session::Link;

use super::log_chunks::LogChunks;
use super::{Answer, Named, Todo};
use crate::messages::read::Status;
use crate::refusals::{Refused, Stale};

/// The most leases that have ended and are still remembered.
const ENDED_MAX: usize = 16_384;

/// The least mean interval of heartbeats, and how many may come in a burst.
const HEARTBEAT_MS_MIN: u64 = 100;
const HEARTBEATS_AT_ONCE: u64 = 30;

/// How many leases are granted between two searches for those that ended at another node.
const SWEEP_EVERY: u64 = 1_024;

/// For how many TTLs a lease that this node has looked up is remembered after its last message here: longer than
/// it can live without one, so that its runner hears that it has expired.
const REMEMBERED_TTLS: u64 = 2;

/// The hash of a message: the same message has the same one.
pub(crate) type Digest = [u8; 32];

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
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

/// A lease whose end was not reported yet.
#[derive(Debug)]
pub(super) struct Lease {
    /// The pool and the runner.
    pub(super) worker: String,
    pub(super) attempt: u32,
    pub(super) began_at: Time,
    /// Whether this node has granted it. If not, that one counts it.
    pub(super) is_own: bool,
    /// When to forget it if no message comes, if it was looked up: another node may have its end.
    forget_at: Option<Time>,
    /// When its attempt is over at the latest.
    ends_by: Time,
    /// When the next heartbeat would come at the highest rate.
    heartbeat_due: Time,
    bytes_sent: u64,
    pub(super) log: LogChunks,
    /// The heartbeats that are to wait, before the host has answered them.
    arriving: Vec<Link>,
    waiting: Vec<WaitingBeat>,
    /// The requests that wait for its end.
    watchers: Vec<Link>,
}

/// A lease that has ended.
#[derive(Debug)]
struct Ended {
    worker: String,
    over: Over,
}

/// All leases that are remembered.
#[derive(Debug, Default)]
pub(super) struct Leases {
    live: HashMap<LeaseId, Lease>,
    /// When heartbeats have waited long enough.
    timers: BTreeSet<(Time, LeaseId)>,
    /// When to look whether leases that were looked up are to be forgotten.
    forgets: BTreeSet<(Time, LeaseId)>,
    granted: u64,
    ended: HashMap<LeaseId, Ended>,
    /// The same, oldest first.
    ended_order: VecDeque<LeaseId>,
}

impl Leases {
    /// Adds a lease. No heartbeat extends it past its attempt's last instant, so that it is over
    /// `ttl_ms` after that at the latest.
    pub(super) fn add(&mut self, now: Time, ttl_ms: u64, id: LeaseId, lease: Lease) {
        if self.granted.is_multiple_of(SWEEP_EVERY) {
            self.live
                .retain(|_, lease| now < lease.ends_by.plus_ms(ttl_ms));
        }
        self.granted += 1;
        self.live.insert(id, lease);
    }

    /// Adds a lease that was looked up: another node may have granted it, or this one before it was restarted. Its end
    /// may reach another node, which does not tell this one.
    pub(super) fn adopt(&mut self, now: Time, ttl_ms: u64, id: LeaseId, mut lease: Lease) {
        let forget_at = now.plus_ms(REMEMBERED_TTLS * ttl_ms);
        lease.forget_at = Some(forget_at);
        self.forgets.insert((forget_at, id));
        self.add(now, ttl_ms, id, lease);
    }

    /// Forgets the leases that were looked up and of which no message has come since.
    pub(super) fn forget_silent(&mut self, now: Time, ttl_ms: u64) {
        while let Some((at, id)) = self.forgets.first().copied().filter(|(at, _)| *at <= now) {
            self.forgets.pop_first();
            let Some(lease) = self.live.get_mut(&id) else {
                continue;
            };
            if lease.forget_at == Some(at) && !lease.is_awaited() {
                self.live.remove(&id);
                continue;
            }
            if lease.forget_at == Some(at) {
                lease.forget_at = Some(now.plus_ms(REMEMBERED_TTLS * ttl_ms));
            }
            self.forgets
                .extend(lease.forget_at.map(|later| (later, id)));
        }
    }

    pub(super) fn is_known(&self, id: LeaseId) -> bool {
        self.live.contains_key(&id) || self.ended.contains_key(&id)
    }

    /// Returns how a lease of this worker ended, if it is known to have.
    pub(super) fn over(&self, named: &Named) -> Option<Over> {
        let ended = self.ended.get(&named.lease)?;
        (ended.worker == named.worker).then_some(ended.over)
    }

    /// Returns the worker that holds a lease, if that is another one.
    pub(super) fn other_holder(&self, named: &Named) -> Option<&str> {
        let lease = self.live.get(&named.lease)?;
        (lease.worker != named.worker).then_some(&lease.worker)
    }

    /// Returns the worker that holds a lease.
    pub(super) fn holder(&self, id: LeaseId) -> Option<&str> {
        self.live.get(&id).map(|lease| lease.worker.as_str())
    }

    /// Returns the worker of a lease, also after its end.
    pub(super) fn worker(&self, id: LeaseId) -> Option<&str> {
        let ended = || Some(self.ended.get(&id)?.worker.as_str());
        self.holder(id).or_else(ended)
    }

    /// Returns a lease of this worker that has not ended.
    pub(super) fn live(&mut self, named: &Named) -> Option<&mut Lease> {
        let lease = self.live.get_mut(&named.lease);
        lease.filter(|lease| lease.worker == named.worker)
    }

    /// Returns the worker of each live lease that this node has granted.
    pub(super) fn holders(&self) -> impl Iterator<Item = &String> {
        let own = self.live.values().filter(|lease| lease.is_own);
        own.map(|lease| &lease.worker)
    }

    /// Counts the leases whose end is not known.
    #[cfg(test)]
    pub(super) fn live_count(&self) -> usize {
        self.live.len()
    }

    /// Counts the heartbeats that wait.
    #[cfg(test)]
    pub(super) fn waiting_count(&self) -> usize {
        self.live.values().map(|lease| lease.waiting.len()).sum()
    }

    /// Returns why a lease is stale, as far as this worker may know. One whose end was not reported has
    /// expired.
    pub(super) fn stale(&mut self, named: &Named, todo: &mut Todo) -> Stale {
        if self.live(named).is_some() {
            self.close(named.lease, Over::Stale(Stale::Expired), todo);
        }
        self.over(named).map_or(Stale::Unknown, Over::stale)
    }

    /// Handles a cancel, and returns the heartbeats that waited for it.
    pub(super) fn cancelled(&mut self, id: LeaseId) -> Vec<WaitingBeat> {
        let Some(lease) = self.live.get_mut(&id) else {
            return Vec::new();
        };
        lease.arriving.clear();
        let waiting = std::mem::take(&mut lease.waiting);
        self.forget_timers(id, &waiting);
        waiting
    }

    /// Ends a lease, and answers the requests that wait for that. Only the first end counts.
    pub(super) fn close(&mut self, id: LeaseId, over: Over, todo: &mut Todo) {
        let Some(lease) = self.live.remove(&id) else {
            return;
        };
        self.forget_timers(id, &lease.waiting);
        for beat in lease.waiting {
            todo.send(beat.link, Err(Refused::stale(over.stale())));
        }
        for link in lease.watchers {
            todo.send(link, Ok(Answer::Ended(over)));
        }
        self.remember(
            id,
            Ended {
                worker: lease.worker,
                over,
            },
        );
    }

    /// Ends a lease because of a message of its worker, even if it is not known here.
    pub(super) fn end(&mut self, named: &Named, over: Over, todo: &mut Todo) {
        if self.is_known(named.lease) {
            return self.close(named.lease, over, todo);
        }
        let ended = Ended {
            worker: named.worker.clone(),
            over,
        };
        self.remember(named.lease, ended);
    }

    fn remember(&mut self, id: LeaseId, ended: Ended) {
        self.ended.insert(id, ended);
        self.ended_order.push_back(id);
        if self.ended_order.len() > ENDED_MAX
            && let Some(oldest) = self.ended_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// Answers when a lease of this worker has ended. One that is not known any more has.
    pub(super) fn await_end(&mut self, link: Link, named: &Named, todo: &mut Todo) {
        if let Some(lease) = self.live(named) {
            return lease.watchers.push(link);
        }
        let over = self.over(named).unwrap_or(Over::Stale(Stale::Unknown));
        todo.send(link, Ok(Answer::Ended(over)));
    }

    /// Lets a heartbeat wait, unless there was a change since it arrived: then returns it.
    pub(super) fn wait(&mut self, beat: WaitingBeat) -> Option<WaitingBeat> {
        let lease = self.live.get_mut(&beat.named.lease);
        let Some(lease) = lease else {
            return Some(beat);
        };
        if !lease.forget_beat(beat.link) {
            return Some(beat);
        }
        self.timers.insert((beat.until, beat.named.lease));
        lease.waiting.push(beat);
        None
    }

    pub(super) fn wakeup(&self) -> Option<Time> {
        let first = [self.timers.first(), self.forgets.first()];
        first.into_iter().flatten().map(|(at, _)| *at).min()
    }

    /// Takes the heartbeats that wait until such a time.
    pub(super) fn take_waiting(&mut self, is_due: impl Fn(Time) -> bool) -> Vec<WaitingBeat> {
        let mut taken = Vec::new();
        while let Some((until, id)) = self.timers.first().copied().filter(|(at, _)| is_due(*at)) {
            self.timers.remove(&(until, id));
            if let Some(lease) = self.live.get_mut(&id) {
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
    pub(super) fn new(began_at: Time, ends_by: Time, worker: String, attempt: u32) -> Self {
        Self {
            worker,
            attempt,
            began_at,
            is_own: true,
            forget_at: None,
            ends_by,
            heartbeat_due: began_at,
            bytes_sent: 0,
            log: LogChunks::default(),
            arriving: Vec::new(),
            waiting: Vec::new(),
            watchers: Vec::new(),
        }
    }

    /// Records that its worker has sent a message.
    pub(super) fn extend(&mut self, now: Time, ttl_ms: u64) {
        if let Some(at) = &mut self.forget_at {
            *at = now.plus_ms(REMEMBERED_TTLS * ttl_ms);
        }
    }

    /// Returns whether requests wait for its end or a cancel.
    fn is_awaited(&self) -> bool {
        !(self.arriving.is_empty() && self.waiting.is_empty() && self.watchers.is_empty())
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

    /// Records how much of a log its worker has sent, and returns the most so far.
    pub(super) fn record_sent(&mut self, bytes: u64) -> u64 {
        self.bytes_sent = self.bytes_sent.max(bytes);
        self.bytes_sent
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
}
