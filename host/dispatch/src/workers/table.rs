//! The leases that foreign workers hold. Heartbeats are answered from here: a lease is renewed immediately, by
//! the same rules as in the store, and in the store later, with many others. The loop stores a renewal
//! before the end that the store knows has passed, so that nothing there ends a lease that was renewed.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use host_core::id::{JobId, LeaseId};
use host_core::job::{Lifecycle, State};
use host_core::lease::{Fence, Hold, Renewal, Revocation};
use host_core::name::{Name, address};
use host_core::port::lease::{EndCause, LeaseEvents, LeaseRecord, Respond, Standing};
use host_core::query::{Change, RemoteLease};
use host_core::time::Time;
use host_core::transition::Input;
use host_runtime::lease_book::{LeaseBook, WaitingHeartbeat};
use parking_lot::Mutex;

/// The longest time until a renewal is stored, in milliseconds. For so long
/// [`host_core::lease::Lease::last_heartbeat_at`] may be behind.
pub const RENEWAL_MS_MAX: u64 = 5_000;

/// The longest time until a renewal is stored, as a part of its TTL.
const TTL_PART: u64 = 8;

/// How many renewals one batch stores, beside those of workers whose messages it has.
const BATCH_MAX: usize = 512;

/// A lease that a worker holds.
#[derive(Clone)]
pub(crate) struct HeldLease {
    pub(crate) lease: LeaseId,
    pub(crate) attempt: u32,
    pub(crate) worker: String,
    /// `None` for a lease that was granted before leases had one.
    pub(crate) executor: Option<Name>,
    pub(crate) handler: Name,
    pub(crate) hold: Hold,
    pub(crate) granted_at: Time,
    /// Whether it was granted before the host restarted.
    pub(crate) is_restored: bool,
    pub(crate) events: Option<Arc<dyn LeaseEvents>>,
}

/// The leases of all workers, by job. Cloning shares them.
#[derive(Clone)]
pub(crate) struct LeaseTable {
    table: Arc<Mutex<Table>>,
    wait_ms_max: u64,
    /// Whether other nodes may end leases that have run out in the store.
    is_shared: bool,
}

#[derive(Default)]
struct Table {
    /// What is remembered of all leases.
    book: LeaseBook,
    leases: HashMap<JobId, Entry>,
    by_lease: HashMap<LeaseId, JobId>,
    /// How many leases of each executor end when the host stops.
    connected: BTreeMap<Name, usize>,
    /// The jobs of each executor whose leases were granted before the host restarted.
    restored: BTreeMap<Name, Vec<JobId>>,
    /// The wires whose workers may send messages about leases that other nodes have granted.
    wires: BTreeMap<Name, Arc<dyn LeaseEvents>>,
    /// Leases that were renewed since they were stored, by the end that is stored.
    unstored: BTreeSet<(Time, JobId)>,
    /// Leases to renew for a whole TTL, because the host was paused.
    paused: BTreeSet<JobId>,
    /// When they are to be stored; `None` if a batch with them is under way or there are none.
    due: Option<Time>,
}

struct Entry {
    held: HeldLease,
    /// `None` until a message of its worker was stored.
    stored: Option<StoredLease>,
}

struct StoredLease {
    /// The job as it is stored, except for the end of its lease.
    job: Lifecycle,
    /// `None` if a connection holds the lease.
    end: Option<Time>,
}

/// Renewals to store in one batch.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Renewals {
    pub(crate) now: Vec<Renewal>,
    /// Whether there are others without which the store may take a lease for over: until they are stored, no tick may run.
    pub(crate) are_more_urgent: bool,
}

/// How a heartbeat was taken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatOutcome {
    pub(crate) standing: Standing,
    /// Whether [`LeaseTable::renewals_due`] is earlier now.
    pub(crate) is_due_earlier: bool,
}

impl LeaseTable {
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

    /// Adds a lease that a worker holds from now on. An earlier one of the job is over: another node has
    /// ended it.
    pub(crate) fn hold(&self, job: JobId, held: HeldLease) {
        let earlier = self.table.lock().hold(job, held);
        if let Some((lease, events)) = earlier.and_then(|it| Some((it.lease, it.events?))) {
            events.revoked(job, lease, Revocation::EndedElsewhere);
        }
    }

    /// Restores a lease that was granted before the host restarted.
    pub(crate) fn restore(&self, remote: RemoteLease) {
        let mut table = self.table.lock();
        if let Some(executor) = remote.executor.clone() {
            table.restored.entry(executor).or_default().push(remote.job);
        }
        let held = HeldLease {
            lease: remote.lease.id,
            attempt: remote.attempt,
            worker: remote.lease.worker,
            executor: remote.executor,
            handler: remote.handler,
            hold: remote.lease.hold,
            granted_at: remote.lease.granted_at,
            is_restored: true,
            events: None,
        };
        table.hold(remote.job, held);
    }

    /// Notifies `events` of the leases of an executor that were granted before the host restarted.
    /// Returns their jobs.
    pub(crate) fn resume(
        &self,
        executor: &Name,
        events: &Arc<dyn LeaseEvents>,
    ) -> Vec<(JobId, LeaseId)> {
        let mut table = self.table.lock();
        if self.is_shared {
            table.wires.insert(executor.clone(), Arc::clone(events));
        }
        let jobs = table.restored.remove(executor).unwrap_or_default();
        let resume = |job: JobId| {
            let held = &mut table.leases.get_mut(&job)?.held;
            held.is_restored.then(|| {
                held.events = Some(Arc::clone(events));
                (job, held.lease)
            })
        };
        jobs.into_iter().filter_map(resume).collect()
    }

    /// Forgets a lease that no worker has taken or that is taken away.
    pub(crate) fn forget(&self, job: JobId) {
        self.table.lock().end(job, EndCause::Revoked);
    }

    /// Returns what is remembered of the lease that a fence names.
    pub(crate) fn record(&self, fence: &Fence) -> Option<LeaseRecord> {
        self.table.lock().book.record(fence.lease()?).cloned()
    }

    /// Remembers a lease that another node has granted, and whose worker has sent a message here.
    pub(crate) fn adopt(&self, now: Time, job: &Lifecycle) {
        if let Some(lease) = &job.lease {
            let book = &mut self.table.lock().book;
            book.adopt(now, lease.id, &lease.worker, job.attempt);
        }
    }

    /// Answers when a lease is over.
    pub(crate) fn await_end(&self, lease: LeaseId, respond: Box<dyn Respond<EndCause>>) {
        self.table.lock().book.await_end(lease, respond);
    }

    /// Counts the leases of each worker whose name begins with `prefix`.
    pub(crate) fn workers(&self, prefix: &str) -> BTreeMap<String, usize> {
        let table = self.table.lock();
        let workers = table.leases.values().map(|entry| &entry.held.worker);
        let mut counts = BTreeMap::new();
        for worker in workers.filter(|worker| worker.starts_with(prefix)) {
            *counts.entry(worker.clone()).or_default() += 1;
        }
        counts
    }

    /// Counts a heartbeat. Returns false if it is one too many.
    pub(crate) fn may_beat(&self, now: Time, fence: &Fence) -> bool {
        self.table.lock().book.may_beat(now, fence)
    }

    /// Lets a heartbeat wait that was accepted. Returns whether the loop has to act earlier now.
    pub(crate) fn wait(&self, beat: WaitingHeartbeat) -> bool {
        let mut table = self.table.lock();
        let has_changed = |entry: &Entry| entry.stored.is_none();
        if table.leases.get(&beat.job).is_some_and(has_changed) {
            table.book.wake(beat.job);
        }
        table.book.wait(beat)
    }

    /// Returns when a heartbeat has waited long enough.
    pub(crate) fn waits_due(&self) -> Option<Time> {
        self.table.lock().book.due()
    }

    /// Takes the heartbeats to answer now.
    pub(crate) fn take_woken(&self, now: Time) -> Vec<WaitingHeartbeat> {
        self.table.lock().book.take_woken(now)
    }

    /// Returns the worker that holds a job.
    pub(crate) fn worker(&self, job: JobId) -> Option<String> {
        let table = self.table.lock();
        Some(table.leases.get(&job)?.held.worker.clone())
    }

    /// Returns a job's attempt at a worker: its number, and when it was granted.
    pub(crate) fn attempt(&self, job: JobId) -> Option<(u32, Time)> {
        let table = self.table.lock();
        let held = &table.leases.get(&job)?.held;
        Some((held.attempt, held.granted_at))
    }

    /// Returns the handler of a job, with its executor, if it has this lease, and when that was granted.
    pub(crate) fn handler_of(&self, job: JobId, lease: LeaseId) -> Option<(String, Time)> {
        let table = self.table.lock();
        let held = &table.leases.get(&job)?.held;
        let handler = || address(held.executor.as_ref(), &held.handler).into_owned();
        (held.lease == lease).then(|| (handler(), held.granted_at))
    }

    /// Counts the leases that end when the host stops.
    pub(crate) fn connected(&self) -> usize {
        self.table.lock().connected.values().sum()
    }

    /// Counts them by executor.
    pub(crate) fn connected_by_executor(&self) -> BTreeMap<Name, u64> {
        let table = self.table.lock();
        let counts = table.connected.iter();
        counts
            .map(|(executor, count)| (executor.clone(), *count as u64))
            .collect()
    }

    /// Tells the worker of a lease to stop. Returns false if this node has not granted it to a worker: then
    /// its worker may wait here all the same.
    pub(crate) fn stop(&self, job: JobId, lease: LeaseId, grace_ms: Option<u64>) -> bool {
        // A heartbeat that this wakes must learn of the cancel: the store answers it.
        self.forget_stored(job);
        self.table.lock().book.wake(job);
        let (is_held, wires) = self.wires_of(lease);
        for events in wires {
            let grace_ms = grace_ms.unwrap_or_else(|| events.grace_ms());
            events.cancelled(job, lease, grace_ms);
        }
        is_held
    }

    /// Tells the worker of a lease that the lease is over. Returns false if this node has not granted it to a
    /// worker.
    pub(crate) fn revoke(&self, job: JobId, lease: LeaseId, why: Revocation) -> bool {
        let (is_held, wires) = self.wires_of(lease);
        let mut table = self.table.lock();
        if is_held {
            table.forget(job);
        }
        table.book.end(job, lease, why.into());
        drop(table);
        for events in wires {
            events.revoked(job, lease, why);
        }
        is_held
    }

    /// Returns whether this node has granted a lease to a worker, and the wires whose worker may hold it: they
    /// may send messages when they are called.
    fn wires_of(&self, lease: LeaseId) -> (bool, Vec<Arc<dyn LeaseEvents>>) {
        let table = self.table.lock();
        let Some(job) = table.by_lease.get(&lease) else {
            return (false, table.wires.values().cloned().collect());
        };
        let events = table.leases.get(job).and_then(|it| it.held.events.clone());
        (true, events.into_iter().collect())
    }

    /// Asks all wires for the attempts that no worker has begun.
    pub(crate) fn recall(&self) {
        let mut table = self.table.lock();
        table.book.stop();
        let mut wires: Vec<Arc<dyn LeaseEvents>> = Vec::new();
        for events in table
            .leases
            .values()
            .filter_map(|it| it.held.events.as_ref())
        {
            if !wires.iter().any(|it| Arc::ptr_eq(it, events)) {
                wires.push(Arc::clone(events));
            }
        }
        drop(table);
        for events in wires {
            events.recalled();
        }
    }

    /// Records a committed change and returns the lease that it ended.
    pub(crate) fn record_change(&self, change: &Change) -> Option<LeaseId> {
        let ended = change.from == Some(State::Running);
        let mut table = self.table.lock();
        let held = ended
            .then(|| table.end(change.job, EndCause::Reported))
            .flatten()?;
        Some(held.lease)
    }

    /// Returns the lease that another node has ended with a change that it made, perhaps long ago.
    pub(crate) fn ended_elsewhere(&self, change: &Change) -> Option<LeaseId> {
        let table = self.table.lock();
        let held = &table.leases.get(&change.job)?.held;
        let is_over = change.from == Some(State::Running) && change.attempt == held.attempt;
        is_over.then_some(held.lease)
    }

    /// Renews a lease. Returns nothing if no message of its worker was stored yet, or if the rules
    /// refuse the heartbeat: the store then answers it. `note` is called before the lease can end.
    pub(crate) fn heartbeat(
        &self,
        now: impl FnOnce() -> Time,
        job: JobId,
        fence: &Fence,
        note: impl FnOnce(Time, u32),
    ) -> Option<HeartbeatOutcome> {
        let mut table = self.table.lock();
        // Read here: the loop looks for leases that have run out under this lock too, with a time that
        // it read before.
        let now = now();
        let stored = table.leases.get_mut(&job)?.stored.as_mut()?;
        if self.is_shared && stored.ends_soon(now) {
            return None;
        }
        stored.job.apply(now, &Input::Heartbeat(fence)).ok()?;
        note(now, stored.job.attempt);
        let standing = Standing::from(&stored.job);
        let wait_ms = self.wait_ms(&stored.job);
        let is_due_earlier = stored.unstored().is_some_and(|end| {
            table.unstored.insert((end, job));
            table.hurry(now.plus_ms(wait_ms))
        });
        Some(HeartbeatOutcome {
            standing,
            is_due_earlier,
        })
    }

    /// Records a running job as it is stored now, if a worker holds it. A lease that was renewed
    /// in the meantime stays so.
    pub(crate) fn record_stored(&self, now: Time, job: &Lifecycle) {
        let mut table = self.table.lock();
        let before = table.forget_stored(job.id);
        let Some(entry) = table.leases.get_mut(&job.id) else {
            return;
        };
        let mut stored = StoredLease {
            end: job.lease.as_ref().and_then(|lease| lease.expires_at),
            job: job.clone(),
        };
        if let Some(renewed) = before.and_then(|before| before.job.lease)
            && let Some(lease) = stored.job.lease.as_mut()
            && lease.id == renewed.id
        {
            lease.expires_at = lease.expires_at.max(renewed.expires_at);
        }
        let unstored = stored.unstored();
        entry.stored = Some(stored);
        if let Some(end) = unstored {
            let wait_ms = self.wait_ms(job);
            table.unstored.insert((end, job.id));
            table.hurry(now.plus_ms(wait_ms));
        }
    }

    /// Forgets how a job is stored: the store answers the next heartbeat.
    pub(crate) fn forget_stored(&self, job: JobId) {
        self.table.lock().forget_stored(job);
    }

    /// Returns what must be stored now: renewals of leases that would otherwise run out, and if their time has come, others;
    /// those of the jobs in `asked`, whose messages are in the same batch, in any case. They are known as stored once
    /// [`LeaseTable::record_stored`] says so.
    pub(crate) fn take_renewals(&self, now: Time, asked: &[JobId]) -> Renewals {
        let mut table = self.table.lock();
        let mut renewals = Vec::new();
        for job in asked {
            if table.paused.remove(job) {
                renewals.extend(table.whole_ttl(now, *job));
            } else if table.ends_in_store(*job).is_some_and(|end| end <= now) {
                renewals.extend(table.renewal(*job));
            }
        }
        let most = renewals.len() + BATCH_MAX;
        while renewals.len() < most
            && let Some(job) = table.paused.pop_first()
        {
            renewals.extend(table.whole_ttl(now, job));
        }
        let mut are_more_urgent = !table.paused.is_empty();
        let is_due = table.due.is_some_and(|due| due <= now);
        let taken: HashSet<JobId> = renewals.iter().map(|renewal| renewal.job).collect();
        let mut rest = table
            .unstored
            .iter()
            .filter(|(_, job)| !taken.contains(job) && !table.paused.contains(job));
        let mut next = rest.next();
        while renewals.len() < most
            && let Some((end, job)) = next
            && (*end <= now || is_due)
        {
            renewals.extend(table.renewal(*job));
            next = rest.next();
        }
        are_more_urgent |= next.is_some_and(|(end, _)| *end <= now);
        let is_rest = next.is_some();
        if are_more_urgent || is_due {
            table.due = (are_more_urgent || is_rest).then_some(now);
        }
        Renewals {
            now: renewals,
            are_more_urgent,
        }
    }

    /// Renews each lease by TTL for a whole TTL, before anything else: the host was paused, and its workers' heartbeats may
    /// be waiting.
    pub(crate) fn renew_all(&self) {
        let mut table = self.table.lock();
        let leases = table.leases.iter();
        let by_ttl = leases.filter(|(_, entry)| entry.held.hold != Hold::Connection);
        table.paused = by_ttl.map(|(job, _)| *job).collect();
    }

    /// Returns when renewals are to be stored.
    pub(crate) fn renewals_due(&self) -> Option<Time> {
        self.table.lock().due
    }

    /// Forgets all: the loop ends, and nothing that is renewed now would be stored. Returns the heartbeats that
    /// wait.
    pub(crate) fn close(&self) -> Vec<WaitingHeartbeat> {
        let mut table = std::mem::take(&mut *self.table.lock());
        table.book.stop();
        table.book.take_woken(Time(i64::MAX))
    }

    fn wait_ms(&self, job: &Lifecycle) -> u64 {
        let hold = job.lease.as_ref().map(|lease| lease.hold);
        let Some(Hold::Ttl { ttl_ms }) = hold else {
            return self.wait_ms_max;
        };
        (ttl_ms / TTL_PART).min(self.wait_ms_max)
    }
}

impl Table {
    fn hold(&mut self, job: JobId, held: HeldLease) -> Option<HeldLease> {
        let earlier = self.end(job, EndCause::Revoked);
        self.book.add(
            held.granted_at,
            held.lease,
            held.worker.clone(),
            held.attempt,
        );
        if let (Hold::Connection, Some(executor)) = (held.hold, &held.executor) {
            match self.connected.get_mut(executor) {
                Some(count) => *count += 1,
                None => drop(self.connected.insert(executor.clone(), 1)),
            }
        }
        self.by_lease.insert(held.lease, job);
        let entry = Entry { held, stored: None };
        self.leases.insert(job, entry);
        earlier
    }

    fn end(&mut self, job: JobId, cause: EndCause) -> Option<HeldLease> {
        let held = self.forget(job)?;
        self.book.end(job, held.lease, cause);
        Some(held)
    }

    fn forget(&mut self, job: JobId) -> Option<HeldLease> {
        self.forget_stored(job);
        let Entry { held, .. } = self.leases.remove(&job)?;
        self.by_lease.remove(&held.lease);
        if let (Hold::Connection, Some(executor)) = (held.hold, &held.executor)
            && let Some(count) = self.connected.get_mut(executor)
        {
            *count -= 1;
            if *count == 0 {
                self.connected.remove(executor);
            }
        }
        Some(held)
    }

    fn forget_stored(&mut self, job: JobId) -> Option<StoredLease> {
        let stored = self.leases.get_mut(&job)?.stored.take()?;
        if let Some(end) = stored.unstored() {
            self.unstored.remove(&(end, job));
        }
        Some(stored)
    }

    /// Returns the end of a lease that the store has, if it was renewed since.
    fn ends_in_store(&self, job: JobId) -> Option<Time> {
        self.leases.get(&job)?.stored.as_ref()?.unstored()
    }

    /// Returns the renewal of a lease to the end that its worker was promised.
    fn renewal(&self, job: JobId) -> Option<Renewal> {
        let stored = self.leases.get(&job)?.stored.as_ref()?;
        let lease = stored.job.lease.as_ref()?;
        Some(Renewal {
            job,
            lease: lease.id,
            until: lease.expires_at?,
            host_was_away: false,
        })
    }

    /// Returns the renewal of a lease by TTL for a whole TTL.
    fn whole_ttl(&self, now: Time, job: JobId) -> Option<Renewal> {
        let held = &self.leases.get(&job)?.held;
        let Hold::Ttl { ttl_ms } = held.hold else {
            return None;
        };
        Some(Renewal {
            job,
            lease: held.lease,
            until: now.plus_ms(ttl_ms),
            host_was_away: true,
        })
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

impl StoredLease {
    /// Returns whether a quarter of the lease or less is left in the store.
    fn ends_soon(&self, now: Time) -> bool {
        let lease = self.job.lease.as_ref();
        let Some(Hold::Ttl { ttl_ms }) = lease.map(|lease| lease.hold) else {
            return false;
        };
        self.end.is_some_and(|end| end.since_ms(now) <= ttl_ms / 4)
    }

    /// Returns the end that is stored if the lease was renewed since.
    fn unstored(&self) -> Option<Time> {
        let end = self.job.lease.as_ref()?.expires_at;
        self.end.filter(|stored| Some(*stored) != end)
    }
}

#[cfg(test)]
mod tests;
