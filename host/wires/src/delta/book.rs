//! What is remembered of leases beside the store: how each ended, so that a repeated message gets the
//! same answer, and what bounds its messages. Bounded, and lost when the host stops: a lease that is
//! not known here is known to the store. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use host_core::id::LeaseId;
use host_core::time::Time;
use tokio::sync::Notify;

use super::log_chunks::LogChunks;
use super::read::Status;
use super::refusals::Stale;

/// The most leases that have ended and are still remembered.
pub(super) const ENDED_MAX: usize = 16_384;

/// How far apart heartbeats are, in the mean, and how many may come at once.
const HEARTBEAT_MS_MIN: u64 = 100;
const HEARTBEATS_AT_ONCE: u64 = 30;

/// How long a lease that has run out is still taken for a live one, in milliseconds: an end that
/// nobody reports.
const FORGOTTEN_MS: u64 = 60_000;

/// How many leases are granted between two looks for forgotten ones.
const SWEEP_EVERY: u64 = 1_024;

/// The hash of a message: the same message has the same one.
pub(super) type Digest = [u8; 32];

/// How a lease ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    Stale(Stale),
    /// A message ended it.
    Ended(Digest, Status),
}

/// How the lease became known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// It was the answer to a request.
    Answer,
    /// It was written to a file for a runner that this host starts.
    File,
    /// A message named it, after a restart.
    Message,
}

/// One lease.
#[derive(Debug)]
pub(super) struct Known {
    /// The pool and the runner.
    pub(super) worker: String,
    pub(super) attempt: u32,
    pub(super) began_at: Time,
    source: Source,
    /// When its attempt has lasted longer than any runner may take.
    ends_by: Option<Time>,
    is_acked: bool,
    is_cancelled: bool,
    expires_at: Option<Time>,
    over: Option<Over>,
    /// When the next heartbeat would come at the highest rate.
    heartbeat_due: Time,
    bytes_sent: u64,
    pub(super) log: LogChunks,
    /// Wakes a heartbeat that waits.
    pub(super) changed: Arc<Notify>,
}

/// All leases that are remembered.
#[derive(Debug, Default)]
pub(super) struct Book {
    leases: HashMap<LeaseId, Known>,
    ended: VecDeque<LeaseId>,
    /// How many requests of each worker wait for a job.
    waiting: BTreeMap<String, usize>,
    granted: u64,
}

/// What is known of a message before it is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// Pass it on.
    New,
    /// It ended the lease before: give the same answer.
    Repeated,
    /// Another message ended the lease, with this status.
    Recorded(Status),
}

impl Book {
    /// Adds a lease, or what a message has shown of one that was granted before a restart.
    pub(super) fn add(
        &mut self,
        now: Time,
        lease: LeaseId,
        worker: &str,
        attempt: u32,
        is_adopted: bool,
    ) -> &mut Known {
        if self.granted.is_multiple_of(SWEEP_EVERY) {
            self.leases.retain(|_, known| !known.is_forgotten(now));
        }
        self.granted += 1;
        self.leases.entry(lease).or_insert_with(|| Known {
            worker: worker.to_owned(),
            attempt,
            began_at: now,
            source: if is_adopted {
                Source::Message
            } else {
                Source::Answer
            },
            ends_by: None,
            is_acked: is_adopted,
            is_cancelled: false,
            expires_at: None,
            over: None,
            heartbeat_due: now,
            bytes_sent: 0,
            log: LogChunks::default(),
            changed: Arc::default(),
        })
    }

    /// Returns whether anything is known of a lease.
    pub(super) fn knows(&self, lease: LeaseId) -> bool {
        self.leases.contains_key(&lease)
    }

    /// Returns a lease of this worker that has not ended.
    pub(super) fn live(&mut self, lease: LeaseId, worker: &str) -> Option<&mut Known> {
        let known = self.leases.get_mut(&lease)?;
        (known.worker == worker && known.over.is_none()).then_some(known)
    }

    /// Returns whether somebody else than `worker` holds the lease.
    pub(super) fn is_held_by_another(&self, lease: LeaseId, worker: &str) -> Option<&Known> {
        let known = self.leases.get(&lease)?;
        (known.worker != worker && known.over.is_none()).then_some(known)
    }

    /// Looks at a message that ends a lease.
    pub(super) fn before_end(&self, lease: LeaseId, worker: &str, digest: &Digest) -> Before {
        let known = self.leases.get(&lease).filter(|it| it.worker == worker);
        match known.and_then(|known| known.over) {
            Some(Over::Ended(by, _)) if by == *digest => Before::Repeated,
            Some(Over::Ended(_, status)) => Before::Recorded(status),
            _ => Before::New,
        }
    }

    /// Says why a lease of this worker is stale, if it is known to be.
    pub(super) fn over(&self, lease: LeaseId, worker: &str) -> Option<Stale> {
        let known = self.leases.get(&lease).filter(|it| it.worker == worker)?;
        known.over.map(|over| match over {
            Over::Stale(why) => why,
            Over::Ended(..) => Stale::Revoked,
        })
    }

    /// Says why a lease is stale, as far as this worker may know. A lease that was thought to be live
    /// is over then.
    pub(super) fn stale(&mut self, lease: LeaseId, worker: &str) -> Stale {
        if let Some(why) = self.over(lease, worker) {
            return why;
        }
        let Some(known) = self.leases.get(&lease).filter(|it| it.worker == worker) else {
            return Stale::Unknown;
        };
        let why = known.would_be();
        self.close(lease, Over::Stale(why));
        why
    }

    /// The lease was written to a file.
    pub(super) fn hand_out(&mut self, lease: LeaseId) {
        if let Some(known) = self.leases.get_mut(&lease) {
            known.source = Source::File;
        }
    }

    /// Returns the worker to whom a lease was handed out in a file, also after its end.
    pub(super) fn handed_out(&self, lease: LeaseId) -> Option<&str> {
        let known = self
            .leases
            .get(&lease)
            .filter(|it| it.source == Source::File)?;
        Some(&known.worker)
    }

    /// Returns whether a lease was acknowledged.
    pub(super) fn is_acked(&self, lease: LeaseId) -> bool {
        self.leases.get(&lease).is_some_and(|known| known.is_acked)
    }

    /// Returns how a lease of this worker ended; `None` while it has not. One that is not known any
    /// more has ended.
    pub(super) fn end_of(&self, lease: LeaseId, worker: &str) -> Option<Over> {
        let known = self.leases.get(&lease).filter(|it| it.worker == worker);
        known.map_or(Some(Over::Stale(Stale::Unknown)), |known| known.over)
    }

    /// The host has ended the attempt of a lease.
    pub(super) fn taken(&mut self, lease: LeaseId) {
        self.close(lease, Over::Stale(Stale::Revoked));
    }

    /// The job of a lease is to stop.
    pub(super) fn cancelled(&mut self, lease: LeaseId) {
        if let Some(known) = self.leases.get_mut(&lease) {
            known.is_cancelled = true;
            known.changed.notify_waiters();
        }
    }

    /// The store has taken a lease away.
    pub(super) fn revoked(&mut self, lease: LeaseId) {
        if let Some(known) = self.leases.get(&lease).filter(|it| it.over.is_none()) {
            let why = known.would_be();
            self.close(lease, Over::Stale(why));
        }
    }

    /// A message has ended a lease.
    pub(super) fn ended(&mut self, lease: LeaseId, digest: Digest, status: Status) {
        self.close(lease, Over::Ended(digest, status));
    }

    fn close(&mut self, lease: LeaseId, over: Over) {
        let Some(known) = self.leases.get_mut(&lease) else {
            return;
        };
        known.changed.notify_waiters();
        if known.over.replace(over).is_some() {
            return;
        }
        self.ended.push_back(lease);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended.pop_front()
        {
            self.leases.remove(&oldest);
        }
    }

    /// A request of this worker waits for a job, or does so no longer.
    pub(super) fn waits(&mut self, worker: &str, does: bool) {
        let count = self.waiting.entry(worker.to_owned()).or_default();
        *count = if does {
            *count + 1
        } else {
            count.saturating_sub(1)
        };
        if *count == 0 {
            self.waiting.remove(worker);
        }
    }

    /// Returns the workers of a pool that wait or hold leases, and how many leases each holds.
    pub(super) fn workers(&self, now: Time, pool: &str) -> BTreeMap<String, usize> {
        let of_pool = |worker: &str| {
            let rest = worker.strip_prefix(pool);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        let waiting = self.waiting.keys().filter(|worker| of_pool(worker));
        let mut workers: BTreeMap<String, usize> = waiting.map(|it| (it.clone(), 0)).collect();
        let live = self.leases.values().filter(|known| known.is_live(now));
        for known in live.filter(|known| of_pool(&known.worker)) {
            *workers.entry(known.worker.clone()).or_default() += 1;
        }
        workers
    }
}

impl Known {
    /// The worker has acknowledged the lease or sent a heartbeat.
    pub(super) fn alive(&mut self, expires_at: Option<Time>) {
        self.is_acked = true;
        self.expires_at = expires_at;
    }

    /// Sets when the lease ends unless a message extends it.
    pub(super) fn ends_at(&mut self, expires_at: Option<Time>) {
        self.expires_at = expires_at;
    }

    /// Returns whether this host learned of the lease from a message, after a restart.
    pub(super) fn is_adopted(&self) -> bool {
        self.source == Source::Message
    }

    /// Sets when its attempt has lasted longer than any runner may take.
    pub(super) fn must_end_by(&mut self, at: Time) {
        self.ends_by = Some(at);
    }

    pub(super) const fn ends_by(&self) -> Option<Time> {
        self.ends_by
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

    /// Notes how much of a log its worker says it has sent. Returns false if that was more before.
    pub(super) fn has_sent(&mut self, bytes: u64) -> bool {
        let grows = bytes >= self.bytes_sent;
        self.bytes_sent = self.bytes_sent.max(bytes);
        grows
    }

    pub(super) const fn bytes_sent(&self) -> u64 {
        self.bytes_sent
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
