//! The dispatch loop's view of workers that pull: which wait for work, and which leases they hold.
//! Knows no store and no wire; the rules decide what a message does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use host_core::command::{Change, Claimed, Command};
use host_core::id::{JobId, LeaseId, NodeId};
use host_core::job::{Lifecycle, State};
use host_core::lease::{Fence, Hold};
use host_core::name::Name;
use host_core::outcome::{Progress, Report};
use host_core::port::lease::{Granted, LeaseEvents, LeaseMessage, LeaseRequest, Respond};
use host_core::query::RemoteLease;
use host_core::time::Time;
use host_core::transition::Loss;

use crate::assignment;
use crate::lease_mail::WorkerMessage;
use crate::renewals::{Renewal, Renewals};

/// The most workers that may wait for work. Later ones get no work at once.
const WAITING_MAX: usize = 16_384;

/// The grace of a cancel that sets none, in milliseconds.
const GRACE_MS: u64 = 5_000;

/// A worker that waits for work. Its number is its place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter(u64);

struct Waiting {
    request: LeaseRequest,
    respond: Box<dyn Respond<Option<Granted>>>,
    until: Time,
    /// Whether the current claim includes its room.
    is_offered: bool,
}

/// A lease that a worker holds.
struct Held {
    lease: LeaseId,
    attempt: u32,
    worker: String,
    /// `None` for a lease that was granted before leases had one.
    executor: Option<Name>,
    hold: Hold,
    granted_at: Time,
    /// Whether it was granted before the host restarted.
    is_restored: bool,
    events: Option<Arc<dyn LeaseEvents>>,
}

/// Room that a waiting worker offers.
pub(crate) struct WaiterSlot {
    pub(crate) waiter: Waiter,
    pub(crate) executor: Name,
    pub(crate) worker: String,
    pub(crate) hold: Hold,
}

pub(crate) struct Pulls {
    waiting: BTreeMap<Waiter, Waiting>,
    waiters_made: u64,
    held: HashMap<JobId, Held>,
    /// How many of them end when the host stops.
    connected: usize,
    by_lease: HashMap<LeaseId, JobId>,
    /// The jobs of each executor whose leases were granted before the host restarted.
    restored: BTreeMap<Name, Vec<JobId>>,
    renewals: Renewals,
    /// This node, if others share the store.
    node: Option<NodeId>,
}

impl Pulls {
    /// Makes one without workers. Heartbeats are answered from `renewals`; if other nodes share the store,
    /// those of leases that `node` has granted.
    pub(crate) fn new(renewals: Renewals, node: Option<NodeId>) -> Self {
        Self {
            waiting: BTreeMap::new(),
            waiters_made: 0,
            held: HashMap::new(),
            connected: 0,
            by_lease: HashMap::new(),
            restored: BTreeMap::new(),
            renewals,
            node,
        }
    }

    /// Takes note of a job as it is stored now, if a worker that pulls holds it. From then on its
    /// heartbeats are answered from memory.
    pub(crate) fn stored(&self, now: Time, job: &Lifecycle) {
        let by = job.lease.as_ref().map(|lease| lease.node);
        let is_ours = self.node.is_none() || self.node == by;
        if is_ours && self.held.contains_key(&job.id) && job.state == State::Running {
            self.renewals.know(now, job);
        }
    }

    /// Returns the renewals that must be stored by now.
    pub(crate) fn renewals(&self, now: Time) -> Vec<Renewal> {
        self.renewals.take(now)
    }

    /// Restores a lease that was granted before the host restarted.
    pub(crate) fn restore(&mut self, remote: RemoteLease) {
        if let Some(executor) = remote.runner.clone() {
            self.restored.entry(executor).or_default().push(remote.job);
        }
        self.hold(
            remote.job,
            Held {
                lease: remote.lease.id,
                attempt: remote.attempt,
                worker: remote.lease.worker,
                executor: remote.runner,
                hold: remote.lease.hold,
                granted_at: remote.lease.granted_at,
                is_restored: true,
                events: None,
            },
        );
    }

    /// Lets `events` hear of the leases of an executor that were granted before the host restarted.
    /// Returns their jobs.
    pub(crate) fn resume(
        &mut self,
        executor: &Name,
        events: &Arc<dyn LeaseEvents>,
    ) -> Vec<(JobId, LeaseId)> {
        let jobs = self.restored.remove(executor).unwrap_or_default();
        let mut resumed = Vec::new();
        for job in jobs {
            if let Some(held) = self.held.get_mut(&job).filter(|held| held.is_restored) {
                held.events = Some(Arc::clone(events));
                resumed.push((job, held.lease));
            }
        }
        resumed
    }

    /// Adds a worker that waits for work.
    pub(crate) fn ask(
        &mut self,
        now: Time,
        request: LeaseRequest,
        respond: Box<dyn Respond<Option<Granted>>>,
    ) {
        if self.waiting.len() >= WAITING_MAX {
            let _gone = respond.respond(None).is_err();
            return;
        }
        let waiter = Waiter(self.waiters_made);
        self.waiters_made += 1;
        let waiting = Waiting {
            until: now.plus_ms(request.wait_ms),
            request,
            respond,
            is_offered: false,
        };
        self.waiting.insert(waiter, waiting);
    }

    /// Returns the room of waiting workers, in the order of their arrival. Each offers one slot to
    /// the first of its executors that may have a job left, according to `claimable`.
    pub(crate) fn offer(&mut self, mut claimable: impl FnMut(&Name) -> u64) -> Vec<WaiterSlot> {
        self.waiting.retain(|_, waiting| !waiting.respond.is_gone());
        let mut left: BTreeMap<Name, u64> = BTreeMap::new();
        let mut slots = Vec::new();
        for (waiter, waiting) in &mut self.waiting {
            let request = &waiting.request;
            let executor = request.executors.iter().find(|name| {
                // Thousands may wait for a few executors: a name is copied once.
                if !left.contains_key(*name) {
                    left.insert((*name).clone(), claimable(name));
                }
                let jobs = left.get_mut(*name).filter(|jobs| **jobs > 0);
                jobs.map(|jobs| *jobs -= 1).is_some()
            });
            if let Some(executor) = executor {
                waiting.is_offered = true;
                slots.push(WaiterSlot {
                    waiter: *waiter,
                    executor: executor.clone(),
                    worker: request.worker.clone(),
                    hold: request.hold,
                });
            }
        }
        slots
    }

    /// Returns whether a claim may find work for a waiting worker.
    pub(crate) fn may_claim(&self, may_have: impl Fn(&Name) -> bool) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|waiting| waiting.request.executors.iter().any(&may_have))
    }

    /// Gives a claimed job to the worker that waits for it. Returns false if the worker is gone:
    /// the caller must then give the job back.
    pub(crate) fn grant(
        &mut self,
        now: Time,
        waiter: Waiter,
        lease: LeaseId,
        claimed: Claimed,
    ) -> bool {
        let Some(waiting) = self.waiting.remove(&waiter) else {
            return false;
        };
        let job = claimed.lifecycle.id;
        let held = Held {
            lease,
            attempt: claimed.lifecycle.attempt,
            worker: waiting.request.worker,
            executor: claimed.lifecycle.runner.clone(),
            hold: waiting.request.hold,
            granted_at: now,
            is_restored: false,
            events: waiting.request.events,
        };
        let granted = claimed.lifecycle.lease.as_ref();
        let granted = Granted {
            job,
            lease,
            expires_at: granted.and_then(|lease| lease.expires_at),
            ack_by: granted.and_then(|lease| lease.ack_by),
            assignment: assignment::make(now, lease, claimed),
        };
        // Record the lease before the answer: the worker's next message may arrive before this call
        // returns.
        self.hold(job, held);
        let taken = waiting.respond.respond(Some(granted)).is_ok();
        if !taken {
            self.forget(job);
        }
        taken
    }

    /// Answers workers whose wait is over, or all of them if the host takes no more work. A claim
    /// tries one executor of a worker; if it had no job, the next turn tries the others first.
    pub(crate) fn expire(&mut self, now: Time, stopping: bool) {
        let over = |waiting: &mut Waiting| {
            let is_offered = std::mem::take(&mut waiting.is_offered);
            stopping || (waiting.until <= now && !is_offered)
        };
        let over: Vec<Waiter> = self
            .waiting
            .iter_mut()
            .filter_map(|(waiter, waiting)| over(waiting).then_some(*waiter))
            .collect();
        for waiter in over {
            if let Some(waiting) = self.waiting.remove(&waiter) {
                let _gone = waiting.respond.respond(None).is_err();
            }
        }
    }

    /// Returns when renewals are to be stored.
    pub(crate) fn renewals_due(&self) -> Option<Time> {
        self.renewals.due()
    }

    /// Returns when the next wait ends.
    pub(crate) fn due(&self) -> Option<Time> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    /// Makes the command for a worker's message. If the job is not leased to a worker that pulls,
    /// it may be running in a cell. The command then gets a fence that matches no attempt, so that
    /// the rules refuse it; if other nodes share the store, one that matches no lease of a cell.
    pub(crate) fn command(&self, message: &WorkerMessage, progress: Option<Progress>) -> Command {
        let job = message.job;
        let (fence, worker) = match self.held.get(&job) {
            Some(held) => (message.fence.clone(), held.worker.as_str()),
            None if self.node.is_some() => (Fence::Remote(Box::new(message.fence.clone())), ""),
            None => (Fence::Attempt(0), ""),
        };
        match &message.body {
            LeaseMessage::Ack => Command::Ack { job, fence },
            LeaseMessage::Heartbeat { .. } => Command::Heartbeat { job, fence },
            LeaseMessage::Complete { outcome, meter } => Command::Complete {
                job,
                fence,
                report: Box::new(Report {
                    outcome: outcome.clone(),
                    meter: *meter,
                    progress,
                    executor: worker.to_owned(),
                    revision: None,
                }),
            },
            LeaseMessage::CancelAck { partial, message } => Command::CancelAck {
                job,
                fence,
                partial: partial.clone(),
                message: message.clone(),
            },
            LeaseMessage::GiveBack { begun } => Command::Lose {
                job,
                fence,
                loss: if *begun {
                    Loss::WorkerGone
                } else {
                    Loss::NotBegun
                },
                executor: worker.to_owned(),
            },
            LeaseMessage::Exited(exit) => Command::Lose {
                job,
                fence,
                loss: Loss::Exited(*exit),
                executor: worker.to_owned(),
            },
        }
    }

    /// Tells the worker of a lease to stop. Returns false if no worker holds it.
    pub(crate) fn stop(&self, lease: LeaseId, grace_ms: Option<u64>) -> bool {
        let Some(job) = self.by_lease.get(&lease) else {
            return false;
        };
        if let Some(events) = self.held.get(job).and_then(|held| held.events.as_ref()) {
            events.cancelled(*job, lease, grace_ms.unwrap_or(GRACE_MS));
        }
        true
    }

    /// Tells the worker of a lease that the lease is over. Returns false if no worker holds it.
    pub(crate) fn revoke(&mut self, lease: LeaseId) -> bool {
        let Some(job) = self.by_lease.get(&lease).copied() else {
            return false;
        };
        if let Some(events) = self.forget(job).and_then(|held| held.events) {
            events.revoked(job, lease);
        }
        true
    }

    /// Records a committed change and returns the lease that it ended.
    pub(crate) fn record_change(&mut self, change: &Change) -> Option<LeaseId> {
        let ended = change.from == Some(State::Running);
        let held = ended.then(|| self.forget(change.job)).flatten()?;
        Some(held.lease)
    }

    /// Records a change that another node has made, perhaps long ago, and returns the lease that it ended.
    pub(crate) fn record_remote_change(&mut self, change: &Change) -> Option<LeaseId> {
        let held = self.held.get(&change.job)?;
        (held.attempt == change.attempt).then(|| self.record_change(change))?
    }

    /// Returns a job's attempt at a worker that pulls: its number, and when it was granted.
    pub(crate) fn attempt(&self, job: JobId) -> Option<(u32, Time)> {
        let held = self.held.get(&job)?;
        Some((held.attempt, held.granted_at))
    }

    /// Returns how many leases end when the host stops.
    pub(crate) fn held_by_connection(&self) -> usize {
        self.connected
    }

    /// Returns the executors of these leases, each with their number.
    pub(crate) fn connected(&self) -> BTreeMap<Name, u64> {
        let mut by_name = BTreeMap::new();
        let held = self.held.values();
        for held in held.filter(|held| held.hold == Hold::Connection) {
            if let Some(executor) = &held.executor {
                *by_name.entry(executor.clone()).or_default() += 1;
            }
        }
        by_name
    }

    fn hold(&mut self, job: JobId, held: Held) {
        self.connected += usize::from(held.hold == Hold::Connection);
        self.by_lease.insert(held.lease, job);
        if let Some(before) = self.held.insert(job, held) {
            self.connected -= usize::from(before.hold == Hold::Connection);
        }
    }

    fn forget(&mut self, job: JobId) -> Option<Held> {
        let held = self.held.remove(&job)?;
        self.connected -= usize::from(held.hold == Hold::Connection);
        self.renewals.forget(job);
        self.by_lease.remove(&held.lease);
        Some(held)
    }
}
