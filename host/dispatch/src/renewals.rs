//! Heartbeats, answered from memory. A lease is renewed here at once, by the same rules as in the store,
//! and in the store later, with many others. The loop stores a renewal before the end that the store
//! knows has passed, so that nothing there ends a lease that was renewed. Knows no store and no wire.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_core::id::{JobId, LeaseId};
use host_core::job::Lifecycle;
use host_core::lease::{Fence, Hold};
use host_core::port::lease::Standing;
use host_core::time::Time;
use host_core::transition::Input;

/// The longest time until a renewal is stored, in milliseconds. For so long
/// [`host_core::lease::Lease::last_heartbeat_at`] may be behind.
pub const RENEWAL_MS_MAX: u64 = 5_000;

/// The longest time until a renewal is stored, as a part of its TTL.
const TTL_PART: u64 = 8;

/// How many renewals one batch stores, beside those whose stored end has passed.
const BATCH_MAX: usize = 512;

/// The leases whose workers have spoken in this life of the host. Cloning shares them.
#[derive(Clone, Debug)]
pub(crate) struct Renewals {
    table: Arc<Mutex<Table>>,
    wait_ms_max: u64,
    /// Whether other nodes may end leases that have run out in the store.
    is_shared: bool,
}

#[derive(Debug, Default)]
struct Table {
    leases: HashMap<JobId, TrackedLease>,
    /// Leases that were renewed since they were stored, by the end that is stored.
    unstored: BTreeSet<(Time, JobId)>,
    /// When they are to be stored; `None` if a batch with them is under way or there are none.
    due: Option<Time>,
}

#[derive(Debug)]
struct TrackedLease {
    /// The job as it is stored, except for the end of its lease.
    job: Lifecycle,
    /// `None` if a connection holds the lease.
    stored_end: Option<Time>,
}

/// A renewal to store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renewal {
    pub(crate) job: JobId,
    pub(crate) lease: LeaseId,
    pub(crate) until: Time,
}

/// How a heartbeat was taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatOutcome {
    pub(crate) standing: Standing,
    /// Whether [`Renewals::due`] is earlier now.
    pub(crate) is_due_earlier: bool,
}

impl Renewals {
    /// Makes an empty table. A renewal is stored after `wait_ms_max` milliseconds at most.
    pub(crate) fn new(wait_ms_max: u64) -> Self {
        Self {
            table: Arc::default(),
            wait_ms_max,
            is_shared: false,
        }
    }

    /// Leaves heartbeats to the store that come shortly before the stored end: other nodes know no other.
    pub(crate) fn among_nodes(mut self) -> Self {
        self.is_shared = true;
        self
    }

    /// Renews a lease. Returns nothing if it is not known here, or if the rules refuse the heartbeat:
    /// the store then answers it. `note` is called before the lease can end.
    pub(crate) fn heartbeat(
        &self,
        now: impl FnOnce() -> Time,
        job: JobId,
        fence: &Fence,
        note: impl FnOnce(Time, u32),
    ) -> Option<HeartbeatOutcome> {
        let mut table = self.lock();
        // Read here: the loop looks for leases that have run out under this lock too, with a time that
        // it read before.
        let now = now();
        let known = table.leases.get_mut(&job)?;
        if self.is_shared && known.ends_soon(now) {
            return None;
        }
        known.job.apply(now, &Input::Heartbeat(fence)).ok()?;
        note(now, known.job.attempt);
        let standing = Standing::from(&known.job);
        let wait_ms = self.wait_ms(&known.job);
        let is_due_earlier = known.unstored().is_some_and(|end| {
            table.unstored.insert((end, job));
            table.hurry(now.plus_ms(wait_ms))
        });
        Some(HeartbeatOutcome {
            standing,
            is_due_earlier,
        })
    }

    /// Takes note of a running job as it is stored now. A lease that was renewed meanwhile stays so.
    pub(crate) fn know(&self, now: Time, job: &Lifecycle) {
        let mut table = self.lock();
        let before = table.forget(job.id);
        let mut known = TrackedLease {
            stored_end: job.lease.as_ref().and_then(|lease| lease.expires_at),
            job: job.clone(),
        };
        if let Some(renewed) = before.and_then(|before| before.job.lease)
            && let Some(lease) = known.job.lease.as_mut()
            && lease.id == renewed.id
        {
            lease.expires_at = lease.expires_at.max(renewed.expires_at);
        }
        if let Some(end) = known.unstored() {
            let wait_ms = self.wait_ms(job);
            table.unstored.insert((end, job.id));
            table.hurry(now.plus_ms(wait_ms));
        }
        table.leases.insert(job.id, known);
    }

    /// Forgets a job whose lease is over.
    pub(crate) fn forget(&self, job: JobId) {
        self.lock().forget(job);
    }

    /// Returns what must be stored by now: all renewals of leases that would otherwise run out, and if
    /// their time has come, others. They are known as stored once [`Renewals::know`] says so.
    pub(crate) fn take(&self, now: Time) -> Vec<Renewal> {
        let mut table = self.lock();
        let is_due = table.due.is_some_and(|due| due <= now);
        let unstored = table.unstored.iter().enumerate();
        let chosen: Vec<JobId> = unstored
            .take_while(|(place, (end, _))| *end <= now || (is_due && *place < BATCH_MAX))
            .map(|(_, (_, job))| *job)
            .collect();
        if is_due {
            table.due = (chosen.len() < table.unstored.len()).then_some(now);
        }
        let leases = chosen.iter().filter_map(|job| {
            let lease = table.leases.get(job)?.job.lease.as_ref()?;
            Some(Renewal {
                job: *job,
                lease: lease.id,
                until: lease.expires_at?,
            })
        });
        leases.collect()
    }

    /// Returns when renewals are to be stored.
    pub(crate) fn due(&self) -> Option<Time> {
        self.lock().due
    }

    /// Forgets all: the loop ends, and nothing that is renewed now would be stored.
    pub(crate) fn close(&self) {
        *self.lock() = Table::default();
    }

    fn wait_ms(&self, job: &Lifecycle) -> u64 {
        let hold = job.lease.as_ref().map(|lease| lease.hold);
        let Some(Hold::Ttl { ttl_ms }) = hold else {
            return self.wait_ms_max;
        };
        (ttl_ms / TTL_PART).min(self.wait_ms_max)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn forget(&mut self, job: JobId) -> Option<TrackedLease> {
        let known = self.leases.remove(&job)?;
        if let Some(end) = known.unstored() {
            self.unstored.remove(&(end, job));
        }
        Some(known)
    }

    /// Stores renewals at `at` at the latest. Returns whether that is earlier than before.
    fn hurry(&mut self, at: Time) -> bool {
        let is_earlier = self.due.is_none_or(|due| at < due);
        if is_earlier {
            self.due = Some(at);
        }
        is_earlier
    }
}

impl TrackedLease {
    /// Returns whether a quarter of the lease or less is left in the store.
    fn ends_soon(&self, now: Time) -> bool {
        let lease = self.job.lease.as_ref();
        let Some(Hold::Ttl { ttl_ms }) = lease.map(|lease| lease.hold) else {
            return false;
        };
        self.stored_end
            .is_some_and(|end| end.since_ms(now) <= ttl_ms / 4)
    }

    /// Returns the end that is stored if the lease was renewed since.
    fn unstored(&self) -> Option<Time> {
        let end = self.job.lease.as_ref()?.expires_at;
        self.stored_end.filter(|stored| Some(*stored) != end)
    }
}

#[cfg(test)]
mod tests;
