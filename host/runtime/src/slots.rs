//! Fills the free slots of workers that a wire sends attempts to: asks the host for as many attempts as
//! there is room for, and ends them. A request names all slots that are free, so that there are
//! few requests, however many slots there are. Decides nothing about attempts.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};

use host_core::id::{JobId, LeaseId};
use host_core::lease::{Hold, Revocation};
use host_core::name::Name;
use host_core::port::Tag;
use host_core::port::lease::{
    Assignment, AttemptEnd, End, GrantedLease, LeaseEvents, LeaseRequest, Leases, Respond,
    WAIT_FOREVER,
};
use parking_lot::{Mutex, MutexGuard};

/// What sends attempts to workers. Calls for one attempt come in order. No call waits.
pub trait Pusher: Send + Sync {
    /// Sends an attempt to a worker of `executor`. [`Slots::ended`] must follow exactly once.
    fn start(self: Arc<Self>, tag: Tag, executor: &Name, assignment: Assignment);

    /// Tells the worker to stop an attempt. If the attempt has not ended after `grace_ms`
    /// milliseconds, it is given up. A repeated call can only shorten the grace.
    fn cancel(self: Arc<Self>, tag: Tag, grace_ms: u64);

    /// Returns the attempts that no worker has begun. They end with [`End::NoRoom`].
    fn recall(self: Arc<Self>) {}
}

/// The slots of one or more executors of a wire.
pub struct Slots {
    leases: Arc<dyn Leases>,
    pusher: OnceLock<Weak<dyn Pusher>>,
    grace_ms: u64,
    table: Mutex<Table>,
    this: Weak<Self>,
}

#[derive(Default)]
struct Table {
    executors: BTreeMap<Name, Executor>,
    attempts: HashMap<Tag, Attempt>,
    by_lease: HashMap<LeaseId, Tag>,
    tags_made: u64,
    /// Whether the host starts no more attempts.
    is_stopping: bool,
}

/// The slots of one executor.
#[derive(Clone, Copy, Default)]
struct Executor {
    /// How many attempts it runs concurrently.
    capacity: usize,
    in_flight: usize,
    /// The slots of the requests that wait for an answer.
    asked: usize,
    /// Requests of earlier rounds are withdrawn.
    round: u64,
}

struct Attempt {
    executor: Name,
    job: JobId,
    lease: LeaseId,
}

/// A request that waits for an answer.
struct Request {
    slots: Arc<Slots>,
    executor: Name,
    count: usize,
    round: u64,
}

impl Slots {
    /// Makes the slots of executors without capacity. The grace of a cancel that sets none is
    /// `grace_ms`. Call [`Slots::connect`] before there is capacity.
    pub fn new(leases: Arc<dyn Leases>, grace_ms: u64) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            leases,
            pusher: OnceLock::new(),
            grace_ms,
            table: Mutex::default(),
            this: Weak::clone(this),
        })
    }

    /// Sends attempts with `pusher` from now on. Only the first call counts.
    pub fn connect(&self, pusher: Weak<dyn Pusher>) {
        let _ = self.pusher.set(pusher).is_ok();
    }

    /// Adds an executor without capacity, unless there are `executors_max` already. Returns whether the
    /// executor is there now.
    pub fn add_below(&self, executors_max: usize, executor: &Name) -> bool {
        let executors = &mut self.lock().executors;
        let has_room = executors.contains_key(executor) || executors.len() < executors_max;
        if has_room {
            executors.entry(executor.clone()).or_default();
        }
        has_room
    }

    /// Sets how many attempts an executor runs concurrently, including those in flight: 0 while no worker
    /// can be reached.
    pub fn set_capacity(&self, executor: &Name, attempts: usize) {
        let mut table = self.lock();
        let slots = table.executors.entry(executor.clone()).or_default();
        slots.capacity = attempts;
        if slots.in_flight + slots.asked > attempts {
            slots.round += 1;
            slots.asked = 0;
        }
        drop(table);
        self.ask(executor);
    }

    /// Records that an attempt has ended. Further calls for the same attempt change nothing.
    pub fn end(&self, tag: Tag, worker: String, end: End) {
        let mut table = self.lock();
        let Some(attempt) = table.attempts.remove(&tag) else {
            return;
        };
        table.by_lease.remove(&attempt.lease);
        if let Some(slots) = table.executors.get_mut(&attempt.executor) {
            slots.in_flight -= 1;
        }
        drop(table);
        self.leases.end(AttemptEnd {
            job: attempt.job,
            lease: attempt.lease,
            worker,
            end,
        });
        self.ask(&attempt.executor);
    }

    /// Returns the executor of an attempt that has not ended.
    pub fn executor(&self, tag: Tag) -> Option<Name> {
        let table = self.lock();
        Some(table.attempts.get(&tag)?.executor.clone())
    }

    /// Returns how many attempts are in flight at each executor.
    pub fn in_flight(&self) -> BTreeMap<Name, usize> {
        let table = self.lock();
        let executors = table.executors.iter();
        executors
            .map(|(executor, slots)| (executor.clone(), slots.in_flight))
            .collect()
    }

    /// Asks for attempts for the free slots, if at least half of them were not asked for.
    fn ask(&self, executor: &Name) {
        let mut table = self.lock();
        let is_stopping = table.is_stopping;
        let (Some(slots), Some(this)) = (table.executors.get_mut(executor), self.this.upgrade())
        else {
            return;
        };
        let count = slots.capacity.saturating_sub(slots.in_flight + slots.asked);
        if is_stopping || count == 0 || count < slots.asked {
            return;
        }
        slots.asked += count;
        let request = Request {
            slots: Arc::clone(&this),
            executor: executor.clone(),
            count,
            round: slots.round,
        };
        drop(table);
        let asked = LeaseRequest {
            executors: vec![executor.clone()],
            worker: executor.to_string(),
            slots: count,
            hold: Hold::Connection,
            wait_ms: WAIT_FOREVER,
            events: Some(this),
        };
        self.leases.lease(asked, Box::new(request));
    }

    fn pusher(&self) -> Option<Arc<dyn Pusher>> {
        self.pusher.get()?.upgrade()
    }

    fn tag(&self, lease: LeaseId) -> Option<Tag> {
        self.lock().by_lease.get(&lease).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock()
    }
}

impl Respond<Vec<GrantedLease>> for Request {
    fn is_gone(&self) -> bool {
        let table = self.slots.lock();
        let slots = table.executors.get(&self.executor);
        slots.is_none_or(|slots| slots.round != self.round)
    }

    fn respond(self: Box<Self>, answer: Vec<GrantedLease>) -> Result<(), Vec<GrantedLease>> {
        let Some(pusher) = self.slots.pusher() else {
            return Err(answer);
        };
        let mut table = self.slots.lock();
        table.is_stopping |= answer.is_empty();
        let first = table.tags_made;
        let slots = table.executors.get_mut(&self.executor);
        let Some(slots) = slots.filter(|slots| slots.round == self.round) else {
            return Err(answer);
        };
        slots.asked -= self.count;
        slots.in_flight += answer.len();
        for (tag, granted) in (first..).map(Tag).zip(&answer) {
            table.by_lease.insert(granted.lease, tag);
            let attempt = Attempt {
                executor: self.executor.clone(),
                job: granted.job,
                lease: granted.lease,
            };
            table.attempts.insert(tag, attempt);
        }
        table.tags_made += answer.len() as u64;
        drop(table);
        for (tag, granted) in (first..).map(Tag).zip(answer) {
            Arc::clone(&pusher).start(tag, &self.executor, granted.assignment);
        }
        self.slots.ask(&self.executor);
        Ok(())
    }
}

impl LeaseEvents for Slots {
    fn cancelled(&self, _: JobId, lease: LeaseId, grace_ms: u64) {
        if let (Some(tag), Some(pusher)) = (self.tag(lease), self.pusher()) {
            pusher.cancel(tag, grace_ms);
        }
    }

    fn revoked(&self, job: JobId, lease: LeaseId, _: Revocation) {
        self.cancelled(job, lease, 0);
    }

    fn recalled(&self) {
        if let Some(pusher) = self.pusher() {
            pusher.recall();
        }
    }

    fn grace_ms(&self) -> u64 {
        self.grace_ms
    }
}

#[cfg(test)]
mod tests;
