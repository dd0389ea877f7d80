//! Requests for attempts that wait: in the order of their arrival, by executor, and by the end of their
//! wait. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use host_core::lease::Hold;
use host_core::name::Name;
use host_core::port::lease::{GrantedLease, LeaseRequest, Respond, WAIT_FOREVER};
use host_core::time::Time;

/// The most requests that may wait. Later ones are answered immediately, with nothing.
const WAITING_MAX: usize = 16_384;

/// The number of a request is its place in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(u64);

type Answer = Box<dyn Respond<Vec<GrantedLease>>>;

struct PendingRequest {
    request: LeaseRequest,
    respond: Answer,
    until: Time,
}

/// Slots that a request offers.
pub(crate) struct RequestSlots {
    pub(crate) id: RequestId,
    pub(crate) executor: Name,
    pub(crate) worker: String,
    pub(crate) hold: Hold,
    pub(crate) slots: usize,
}

#[derive(Default)]
pub(crate) struct Requests {
    waiting: HashMap<RequestId, PendingRequest>,
    by_executor: BTreeMap<Name, BTreeSet<RequestId>>,
    by_end: BTreeSet<(Time, RequestId)>,
    /// The requests whose slots the current claim includes.
    offered: BTreeSet<RequestId>,
    made: u64,
}

impl Requests {
    pub(crate) fn add(&mut self, now: Time, request: LeaseRequest, respond: Answer) {
        if self.waiting.len() >= WAITING_MAX && request.wait_ms < WAIT_FOREVER {
            self.remove_gone();
            if self.waiting.len() >= WAITING_MAX {
                let _ = respond.respond(Vec::new()).is_err();
                return;
            }
        }
        let id = RequestId(self.made);
        self.made += 1;
        for executor in &request.executors {
            match self.by_executor.get_mut(executor) {
                Some(ids) => drop(ids.insert(id)),
                None => drop(self.by_executor.insert(executor.clone(), [id].into())),
            }
        }
        let until = now.plus_ms(request.wait_ms);
        self.by_end.insert((until, id));
        let waiting = PendingRequest {
            request,
            respond,
            until,
        };
        self.waiting.insert(id, waiting);
    }

    /// Returns the slots of the requests that `demand` can fill. Each offers its slots to the first
    /// of its executors that may have jobs left.
    pub(crate) fn offer(&mut self, demand: impl Fn(&Name) -> u64) -> Vec<RequestSlots> {
        let (mut left, mut gone) = (BTreeMap::new(), Vec::new());
        for (executor, ids) in &self.by_executor {
            let jobs = demand(executor);
            let mut unfilled = jobs;
            for id in ids {
                let Some(waiting) = self.waiting.get(id).filter(|_| unfilled > 0) else {
                    break;
                };
                if waiting.respond.is_gone() {
                    gone.push(*id);
                    continue;
                }
                unfilled = unfilled.saturating_sub(waiting.request.slots as u64);
                self.offered.insert(*id);
            }
            if jobs > 0 {
                left.insert(executor.clone(), jobs);
            }
        }
        for id in gone {
            self.offered.remove(&id);
            self.remove(id);
        }
        let mut all = Vec::new();
        self.offered.retain(|id| {
            let Some(PendingRequest { request, .. }) = self.waiting.get(id) else {
                return false;
            };
            let mut executors = request.executors.iter();
            let has_jobs = |executor: &&Name| left.get(*executor).is_some_and(|jobs| *jobs > 0);
            let Some(executor) = executors.find(has_jobs) else {
                return false;
            };
            let mut slots = request.slots;
            if let Some(jobs) = left.get_mut(executor) {
                slots = slots.min(usize::try_from(*jobs).unwrap_or(usize::MAX));
                *jobs -= slots as u64;
            }
            all.push(RequestSlots {
                id: *id,
                executor: executor.clone(),
                worker: request.worker.clone(),
                hold: request.hold,
                slots,
            });
            true
        });
        all
    }

    /// Returns whether a claim may find work for a request.
    pub(crate) fn may_claim(&self, may_have: impl Fn(&Name) -> bool) -> bool {
        self.by_executor.keys().any(may_have)
    }

    /// Removes a request, to be answered.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<(LeaseRequest, Answer)> {
        let waiting = self.waiting.remove(&id)?;
        self.by_end.remove(&(waiting.until, id));
        for executor in &waiting.request.executors {
            if let Some(ids) = self.by_executor.get_mut(executor) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.by_executor.remove(executor);
                }
            }
        }
        Some((waiting.request, waiting.respond))
    }

    /// Answers the requests whose wait is over, or all of them if the host takes no more work. A claim
    /// tries one executor of a request; if it had no job, the next turn tries the others first.
    pub(crate) fn expire(&mut self, now: Time, stopping: bool) {
        let offered = std::mem::take(&mut self.offered);
        let due = self.by_end.iter();
        let over: Vec<RequestId> = due
            .take_while(|(until, _)| stopping || *until <= now)
            .map(|(_, id)| *id)
            .filter(|id| stopping || !offered.contains(id))
            .collect();
        for id in over {
            if let Some((_, respond)) = self.remove(id) {
                let _ = respond.respond(Vec::new()).is_err();
            }
        }
    }

    /// Returns when the next wait ends.
    pub(crate) fn due(&self) -> Option<Time> {
        self.by_end.first().map(|(until, _)| *until)
    }

    fn remove_gone(&mut self) {
        let all = self.waiting.iter();
        let gone = all.filter(|(_, waiting)| waiting.respond.is_gone());
        for id in gone.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.remove(id);
        }
    }
}
