//! The dispatch loop's picture of workers that pull: who waits for work, and which leases they hold.
//! Knows no store and no wire; the rules decide what a message does.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use host_core::command::{Change, Claimed, Command};
use host_core::id::{JobId, LeaseId};
use host_core::job::State;
use host_core::lease::{Fence, Hold};
use host_core::name::Name;
use host_core::outcome::{Progress, Report};
use host_core::port::lease::{Granted, LeaseEvents, LeaseMessage, LeaseRequest, Respond};
use host_core::query::RemoteLease;
use host_core::time::Time;
use host_core::transition::Loss;

use crate::assignment;
use crate::lease_mail::Told;

/// The most workers that wait for work; more are answered at once that there is none.
const WAITING_MAX: usize = 16_384;

/// The grace of a cancel that names none, in milliseconds.
const GRACE_MS: u64 = 5_000;

/// One worker that waits for work; its number is its place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Waiter(u64);

struct Waiting {
    request: LeaseRequest,
    respond: Box<dyn Respond<Option<Granted>>>,
    until: Time,
    /// Whether its room is in the claim of this turn.
    is_offered: bool,
}

/// A lease that a worker holds.
struct Held {
    lease: LeaseId,
    attempt: u32,
    worker: String,
    hold: Hold,
    granted_at: Time,
    events: Option<Arc<dyn LeaseEvents>>,
}

/// Room that a waiting worker offers.
pub(crate) struct Place {
    pub(crate) waiter: Waiter,
    pub(crate) executor: Name,
    pub(crate) worker: String,
    pub(crate) hold: Hold,
}

/// All workers that pull.
#[derive(Default)]
pub(crate) struct Pulls {
    waiting: BTreeMap<Waiter, Waiting>,
    waiters_made: u64,
    held: HashMap<JobId, Held>,
    by_lease: HashMap<LeaseId, JobId>,
}

impl Pulls {
    /// Takes note of a lease that was granted in an earlier life of the host.
    pub(crate) fn restore(&mut self, remote: RemoteLease) {
        self.hold(
            remote.job,
            Held {
                lease: remote.lease.id,
                attempt: remote.attempt,
                worker: remote.lease.worker,
                hold: remote.lease.hold,
                granted_at: remote.lease.granted_at,
                events: None,
            },
        );
    }

    /// Lets a worker wait for work.
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

    /// Returns the room of waiting workers, in the order of their arrival: each offers one slot to
    /// the first of its executors that may have a job left, as `claimable` says.
    pub(crate) fn offer(&mut self, mut claimable: impl FnMut(&Name) -> u64) -> Vec<Place> {
        self.waiting.retain(|_, waiting| !waiting.respond.is_gone());
        let mut left: BTreeMap<Name, u64> = BTreeMap::new();
        let mut places = Vec::new();
        for (waiter, waiting) in &mut self.waiting {
            let request = &waiting.request;
            let executor = request.executors.iter().find(|name| {
                let jobs = left
                    .entry((*name).clone())
                    .or_insert_with(|| claimable(name));
                let has = *jobs > 0;
                *jobs = jobs.saturating_sub(1);
                has
            });
            if let Some(executor) = executor {
                waiting.is_offered = true;
                places.push(Place {
                    waiter: *waiter,
                    executor: executor.clone(),
                    worker: request.worker.clone(),
                    hold: request.hold,
                });
            }
        }
        places
    }

    /// Tells whether a claim may find work for a worker that waits.
    pub(crate) fn may_claim(&self, may_have: impl Fn(&Name) -> bool) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|waiting| waiting.request.executors.iter().any(&may_have))
    }

    /// Gives a claimed job to the worker that waits for it; `false` if nobody takes it: it is to be
    /// given back then.
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
            hold: waiting.request.hold,
            granted_at: now,
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
        // Before the answer: the worker's next message may be faster than this thread.
        self.hold(job, held);
        let taken = waiting.respond.respond(Some(granted)).is_ok();
        if !taken {
            self.forget(job);
        }
        taken
    }

    /// Answers workers whose wait is over, or all of them if the host takes no more work. A claim looks
    /// at one executor of a worker: if it found no job, the next turn looks at the others first.
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

    /// Returns when the next wait is over.
    pub(crate) fn due(&self) -> Option<Time> {
        self.waiting.values().map(|waiting| waiting.until).min()
    }

    /// Makes the command of a worker's message. If no worker that pulls has leased the job, it may run
    /// in a cell. The command then gets a fence that no attempt has, so that the rules refuse it.
    pub(crate) fn command(&self, told: &Told, progress: Option<Progress>) -> Command {
        let job = told.job;
        let (fence, worker) = match self.held.get(&job) {
            Some(held) => (told.fence.clone(), held.worker.as_str()),
            None => (Fence::Attempt(0), ""),
        };
        match &told.message {
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
            LeaseMessage::CancelAck { partial } => Command::CancelAck {
                job,
                fence,
                partial: partial.clone(),
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
        }
    }

    /// Tells the worker of a lease that it is to stop; tells whether one holds it.
    pub(crate) fn stop(&self, lease: LeaseId, grace_ms: Option<u64>) -> bool {
        let Some(job) = self.by_lease.get(&lease) else {
            return false;
        };
        if let Some(events) = self.held.get(job).and_then(|held| held.events.as_ref()) {
            events.cancelled(*job, lease, grace_ms.unwrap_or(GRACE_MS));
        }
        true
    }

    /// Tells the worker of a lease that it is over; tells whether one holds it.
    pub(crate) fn revoke(&mut self, lease: LeaseId) -> bool {
        let Some(job) = self.by_lease.get(&lease).copied() else {
            return false;
        };
        if let Some(events) = self.forget(job).and_then(|held| held.events) {
            events.revoked(job, lease);
        }
        true
    }

    /// Takes note of a change that is committed; returns the lease that it ended.
    pub(crate) fn changed(&mut self, change: &Change) -> Option<LeaseId> {
        let ended = change.from == Some(State::Running);
        let held = ended.then(|| self.forget(change.job)).flatten()?;
        Some(held.lease)
    }

    /// Returns the attempt of a job that a worker executes: its number, and when it was granted.
    pub(crate) fn attempt(&self, job: JobId) -> Option<(u32, Time)> {
        let held = self.held.get(&job)?;
        Some((held.attempt, held.granted_at))
    }

    /// Returns how many leases end with this life of the host.
    pub(crate) fn held_by_connection(&self) -> usize {
        let held = self.held.values();
        held.filter(|held| held.hold == Hold::Connection).count()
    }

    fn hold(&mut self, job: JobId, held: Held) {
        self.by_lease.insert(held.lease, job);
        self.held.insert(job, held);
    }

    fn forget(&mut self, job: JobId) -> Option<Held> {
        let held = self.held.remove(&job)?;
        self.by_lease.remove(&held.lease);
        Some(held)
    }
}
