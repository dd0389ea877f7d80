//! The dispatch loop's picture of the pools of foreign runners: who has room, who may have work,
//! what is in flight there. Speaks to a pool through a [`RunnerPort`] only; knows no store.

mod assignment;
mod missing;

#[cfg(test)]
pub(crate) mod fake;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use host_core::command::{Change, Claimed, Command};
use host_core::id::{JobId, LeaseId};
use host_core::job::State;
use host_core::name::Name;
use host_core::time::Time;
use host_protocols::port::Tag;
use host_protocols::runner::Assignment;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::runners::Inbox;

pub(super) use host_protocols::runner::End;

/// The grace of a cancel that names none, in milliseconds.
const GRACE_MS: u64 = 500;

/// One pool of runners, as the loop speaks to it. Neither call waits.
pub trait RunnerPort: Send {
    /// Gives a runner an execution; that it is over comes to the inbox exactly once.
    fn start(&self, tag: Tag, assignment: Assignment);

    /// Stops an execution.
    fn cancel(&self, tag: Tag, grace_ms: u64);

    /// Gives back what no runner has begun: the host stops soon.
    fn drain(&self) {}

    /// Returns the grace of a cancel that names none, in milliseconds.
    fn grace_ms(&self) -> u64 {
        GRACE_MS
    }
}

/// Opens the way to a pool that is there as soon as a job names it.
type More = Box<dyn Fn(&Name) -> Option<Box<dyn RunnerPort>> + Send>;

/// One execution at a runner.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) job: JobId,
    pub(super) lease: LeaseId,
    pub(super) started_at: Time,
    runner: Name,
}

/// An execution that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) run: Run,
    pub(super) executor: String,
    pub(super) end: End,
}

struct Crew {
    port: Box<dyn RunnerPort>,
    /// How many executions it takes at once.
    capacity: usize,
    /// What was given to it and is not over.
    in_flight: usize,
    /// How many jobs may be claimable for it; all that are, if it is the largest number.
    waiting: u64,
}

impl Crew {
    fn new(port: Box<dyn RunnerPort>) -> Self {
        Self {
            port,
            capacity: 0,
            in_flight: 0,
            waiting: u64::MAX,
        }
    }

    fn free(&self) -> usize {
        self.capacity.saturating_sub(self.in_flight)
    }
}

/// All pools.
pub struct Crews {
    by_name: BTreeMap<Name, Crew>,
    runs: HashMap<Tag, Run>,
    by_lease: HashMap<LeaseId, Tag>,
    inbox: Arc<Inbox>,
    more: More,
    tags: u64,
    stopping: CancellationToken,
    _stops_with_us: DropGuard,
}

impl Crews {
    /// Takes the pools, which tell `inbox` what they have to say. They are to end with `stopping`,
    /// which is cancelled when the last job is through or the loop is gone.
    pub fn new(
        ports: impl IntoIterator<Item = (Name, Box<dyn RunnerPort>)>,
        inbox: Arc<Inbox>,
        stopping: CancellationToken,
    ) -> Self {
        let crews = ports.into_iter();
        let crews = crews.map(|(name, port)| (name, Crew::new(port)));
        Self {
            by_name: crews.collect(),
            runs: HashMap::new(),
            by_lease: HashMap::new(),
            inbox,
            more: Box::new(|_| None),
            tags: 0,
            _stops_with_us: stopping.clone().drop_guard(),
            stopping,
        }
    }

    /// Lets pools be there that only `more` knows.
    #[must_use]
    pub fn with(
        mut self,
        more: impl Fn(&Name) -> Option<Box<dyn RunnerPort>> + Send + 'static,
    ) -> Self {
        self.more = Box::new(more);
        self
    }

    /// Takes note of a pool for which there are jobs. If it is not there, they fail: nobody knows
    /// whether it will ever be.
    pub(super) fn know(&mut self, runner: &Name) {
        if self.by_name.contains_key(runner) {
            return;
        }
        if let Some(port) = (self.more)(runner) {
            let crew = Crew {
                capacity: self.inbox.capacity(runner),
                ..Crew::new(port)
            };
            self.by_name.insert(runner.clone(), crew);
            return;
        }
        tracing::warn!(%runner, "there are jobs for a runner that is not configured; they are discarded");
        let inbox = Arc::clone(&self.inbox);
        let crew = Crew {
            capacity: missing::AT_ONCE_MAX,
            ..Crew::new(Box::new(missing::Missing::new(runner.clone(), inbox)))
        };
        self.by_name.insert(runner.clone(), crew);
    }

    /// Returns where pools tell what they have to say.
    pub(super) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Returns how many executions runners have now.
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Takes in what pools have said; returns what is over.
    pub(super) fn hear(&mut self) -> Vec<Ended> {
        let news = self.inbox.take();
        for (name, capacity) in news.capacity {
            if let Some(crew) = self.by_name.get_mut(&name) {
                crew.capacity = capacity;
            }
        }
        let over = news.over.into_iter();
        over.filter_map(|over| {
            let run = self.runs.remove(&over.tag)?;
            self.by_lease.remove(&run.lease);
            if let Some(crew) = self.by_name.get_mut(&run.runner) {
                crew.in_flight = crew.in_flight.saturating_sub(1);
            }
            Some(Ended {
                run,
                executor: over.executor,
                end: over.end,
            })
        })
        .collect()
    }

    /// Tells whether a claim may find work for runners that have room.
    pub(super) fn may_claim(&self) -> bool {
        let may = |crew: &Crew| crew.waiting > 0 && crew.free() > 0;
        self.by_name.values().any(may)
    }

    /// Takes note of a command that may make jobs claimable in a way that no change tells.
    pub(super) fn asked(&mut self, command: &Command) {
        if let Command::SetPaused { paused: false, .. } = command {
            for crew in self.by_name.values_mut() {
                crew.waiting = u64::MAX;
            }
        }
    }

    /// Returns how many slots each pool offers, when `new` of these jobs come with the same batch.
    pub(super) fn offer(&self, new: &BTreeMap<Name, u64>) -> Vec<(Name, usize)> {
        let slots = |(name, crew): (&Name, &Crew)| {
            let coming = new.get(name).copied().unwrap_or_default();
            let wanted = crew.waiting.saturating_add(coming);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            (name.clone(), crew.free().min(wanted))
        };
        let offered = self.by_name.iter().map(slots);
        offered.filter(|(_, slots)| *slots > 0).collect()
    }

    /// Takes note of a change that is committed.
    pub(super) fn changed(&mut self, change: &Change) {
        let Some(runner) = &change.runner else { return };
        let available = change.to == Some(State::Available);
        if available {
            self.know(runner);
        }
        let Some(crew) = self.by_name.get_mut(runner) else {
            return;
        };
        if available {
            crew.waiting = crew.waiting.saturating_add(1);
        } else if change.from == Some(State::Available) && change.to != Some(State::Running) {
            // A claim may have stopped at it: whether others wait behind it is not known.
            crew.waiting = u64::MAX;
        }
    }

    /// Takes note of what a claim found.
    pub(super) fn claimed(&mut self, runner: &Name, offered: usize, claimed: usize) {
        let Some(crew) = self.by_name.get_mut(runner) else {
            return;
        };
        if claimed < offered {
            crew.waiting = 0;
        } else if crew.waiting != u64::MAX {
            crew.waiting = crew.waiting.saturating_sub(claimed as u64);
        }
    }

    /// Gives a claimed job to a runner.
    pub(super) fn start(&mut self, now: Time, runner: &Name, lease: LeaseId, claimed: Claimed) {
        let Some(crew) = self.by_name.get_mut(runner) else {
            return;
        };
        let tag = Tag(self.tags);
        self.tags += 1;
        crew.in_flight += 1;
        let run = Run {
            job: claimed.lifecycle.id,
            lease,
            started_at: now,
            runner: runner.clone(),
        };
        self.runs.insert(tag, run);
        self.by_lease.insert(lease, tag);
        let assignment = assignment::make(now, lease, claimed);
        crew.port.start(tag, assignment);
    }

    /// Stops the execution that has this lease; tells whether there is one.
    pub(super) fn stop(&self, lease: LeaseId, grace_ms: Option<u64>) -> bool {
        let found = self.by_lease.get(&lease).and_then(|tag| {
            let crew = self.by_name.get(&self.runs.get(tag)?.runner)?;
            Some((crew, *tag))
        });
        if let Some((crew, tag)) = found {
            let grace_ms = grace_ms.unwrap_or_else(|| crew.port.grace_ms());
            crew.port.cancel(tag, grace_ms);
        }
        found.is_some()
    }

    /// Takes back what no runner has begun.
    pub(super) fn drain(&self) {
        self.by_name.values().for_each(|crew| crew.port.drain());
    }

    /// Ends all runners: what they have in flight is lost.
    pub(super) fn close(&self) {
        self.stopping.cancel();
    }
}
