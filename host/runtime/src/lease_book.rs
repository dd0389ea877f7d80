//! What a host remembers of leases beside the store: who has held each, how it ended, who waits for a change or
//! the end of it, and how often its heartbeats may come. Bounded, and lost when the host stops: a lease that is
//! not known here is known to the store.

use std::collections::{BTreeSet, HashMap, VecDeque};

use host_core::id::{JobId, LeaseId};
use host_core::lease::Fence;
use host_core::port::lease::{EndCause, LeaseError, LeaseRecord, Respond, Standing};
use host_core::time::Time;

/// The most leases that are over, or that other nodes have granted, and are still remembered.
const PAST_MAX: usize = 16_384;

/// The least mean interval of the heartbeats of a lease.
const HEARTBEAT_MS_MIN: u64 = 100;

/// How many heartbeats of a lease may come in a burst.
const HEARTBEATS_IN_BURST: u64 = 30;

/// A heartbeat whose answer waits for a change of its lease.
pub struct WaitingHeartbeat {
    pub job: JobId,
    pub fence: Fence,
    pub until: Time,
    pub respond: Box<dyn Respond<Result<Standing, LeaseError>>>,
}

struct Entry {
    record: LeaseRecord,
    /// From when on the next heartbeat keeps to the mean interval.
    beat_due: Time,
    /// Whether it may be forgotten.
    is_past: bool,
    /// Who waits for the end.
    watchers: Vec<Box<dyn Respond<EndCause>>>,
}

#[derive(Default)]
pub struct LeaseBook {
    leases: HashMap<LeaseId, Entry>,
    /// The leases that may be forgotten, oldest first.
    past: VecDeque<LeaseId>,
    waiting: HashMap<JobId, Vec<WaitingHeartbeat>>,
    timers: BTreeSet<(Time, JobId)>,
    /// The jobs whose heartbeats may not wait in this turn.
    changed: BTreeSet<JobId>,
    /// Heartbeats to answer now.
    woken: Vec<WaitingHeartbeat>,
    is_stopping: bool,
}

impl LeaseBook {
    /// Adds a lease that this node has granted. It is remembered at least until its end.
    pub fn add(&mut self, now: Time, lease: LeaseId, worker: String, attempt: u32) {
        let record = LeaseRecord {
            worker,
            attempt,
            end: None,
        };
        self.leases.insert(
            lease,
            Entry {
                record,
                beat_due: now,
                is_past: false,
                watchers: Vec::new(),
            },
        );
    }

    /// Adds a lease that another node has granted, if it is not known yet. That node may end it.
    pub fn adopt(&mut self, now: Time, lease: LeaseId, worker: &str, attempt: u32) {
        if !self.leases.contains_key(&lease) {
            self.add(now, lease, worker.to_owned(), attempt);
            self.bury(lease);
        }
    }

    /// Records that a lease of a job is over. The first cause counts.
    pub fn end(&mut self, job: JobId, lease: LeaseId, cause: EndCause) {
        self.wake(job);
        let Some(entry) = self.leases.get_mut(&lease) else {
            return;
        };
        if entry.record.end.is_some() {
            return;
        }
        entry.record.end = Some(cause);
        for watcher in std::mem::take(&mut entry.watchers) {
            // The requester may have gone.
            let _ = watcher.respond(cause);
        }
        self.bury(lease);
    }

    pub fn record(&self, lease: LeaseId) -> Option<&LeaseRecord> {
        Some(&self.leases.get(&lease)?.record)
    }

    /// Answers when a lease is over.
    pub fn await_end(&mut self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        let cause = match self.leases.get_mut(&lease) {
            Some(entry) => match entry.record.end {
                Some(cause) => cause,
                None => return entry.watchers.push(respond),
            },
            None => EndCause::Revoked,
        };
        // The requester may have gone.
        let _ = respond.respond(cause);
    }

    /// Counts a heartbeat. Returns false if it is one too many.
    pub fn may_beat(&mut self, now: Time, fence: &Fence) -> bool {
        let Some(entry) = fence.lease().and_then(|lease| self.leases.get_mut(&lease)) else {
            return true;
        };
        let is_holder = fence.worker().is_none_or(|it| it == entry.record.worker);
        if !is_holder || entry.record.end.is_some() {
            return true;
        }
        let due = entry.beat_due.max(now);
        if due.since_ms(now) > HEARTBEAT_MS_MIN * (HEARTBEATS_IN_BURST - 1) {
            return false;
        }
        entry.beat_due = due.plus_ms(HEARTBEAT_MS_MIN);
        true
    }

    /// Lets a heartbeat wait. Returns whether [`LeaseBook::due`] is earlier now.
    pub fn wait(&mut self, beat: WaitingHeartbeat) -> bool {
        if self.is_stopping || self.changed.contains(&beat.job) {
            self.woken.push(beat);
            return true;
        }
        let timer = (beat.until, beat.job);
        self.waiting.entry(beat.job).or_default().push(beat);
        self.timers.insert(timer);
        self.timers.first() == Some(&timer)
    }

    /// Wakes the heartbeats that wait for a change of a job, and those that would begin to wait before
    /// [`LeaseBook::take_woken`].
    pub fn wake(&mut self, job: JobId) {
        self.changed.insert(job);
        for beat in self.waiting.remove(&job).into_iter().flatten() {
            self.timers.remove(&(beat.until, job));
            self.woken.push(beat);
        }
    }

    /// Wakes all heartbeats. None waits any more.
    pub fn stop(&mut self) {
        self.is_stopping = true;
        self.timers.clear();
        let waiting = std::mem::take(&mut self.waiting);
        self.woken.extend(waiting.into_values().flatten());
    }

    /// Counts the heartbeats that wait.
    pub fn waiting(&self) -> usize {
        self.timers.len()
    }

    /// Returns when a heartbeat has waited long enough.
    pub fn due(&self) -> Option<Time> {
        self.timers.first().map(|(until, _)| *until)
    }

    /// Takes the heartbeats to answer now: a change has woken them, or their wait is over.
    pub fn take_woken(&mut self, now: Time) -> Vec<WaitingHeartbeat> {
        self.changed.clear();
        while let Some((until, job)) = self.timers.first().copied().filter(|(at, _)| *at <= now) {
            self.timers.remove(&(until, job));
            if let Some(waiting) = self.waiting.get_mut(&job) {
                self.woken
                    .extend(waiting.extract_if(.., |beat| beat.until == until));
                if waiting.is_empty() {
                    self.waiting.remove(&job);
                }
            }
        }
        std::mem::take(&mut self.woken)
    }

    /// Lets a lease be forgotten once many others have followed.
    fn bury(&mut self, lease: LeaseId) {
        let Some(entry) = self.leases.get_mut(&lease) else {
            return;
        };
        if std::mem::replace(&mut entry.is_past, true) {
            return;
        }
        self.past.push_back(lease);
        if self.past.len() > PAST_MAX
            && let Some(oldest) = self.past.pop_front()
        {
            self.leases.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests;
