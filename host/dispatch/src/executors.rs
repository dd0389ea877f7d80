//! The dispatch loop's view of the executors that it pushes to: which have room, which may have
//! work, and what is in flight. It uses them through [`Assign`] only and knows no store and no
//! wire.

mod missing;

#[cfg(test)]
pub(crate) mod fake;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use host_core::command::{Change, Claimed, Command};
use host_core::id::{JobId, LeaseId};
use host_core::job::State;
use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::port::{Assign, AssignEvents, End, Tag};
use host_core::time::Time;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::missing::Missing;
use crate::assign_mail::{AssignEvent, AssignMail};
use crate::assignment;

/// How an executor is reached.
pub enum Opened {
    /// Attempts are pushed to it.
    Pushed(Box<dyn Assign>),
    /// Its workers pull, through [`host_core::port::lease`].
    Pulled,
    /// The host is not configured for it.
    Unknown,
}

/// Opens the executor with this name.
type Opener = Box<dyn Fn(&Name) -> Opened + Send>;

/// One attempt at an executor.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) job: JobId,
    pub(crate) lease: LeaseId,
    pub(crate) attempt: u32,
    pub(crate) started_at: Time,
    executor: Name,
}

/// What the loop must handle of an executor's messages.
#[derive(Debug)]
pub(crate) enum ExecutorEvent {
    Ended {
        run: Run,
        worker: String,
        end: End,
    },
    /// The latest progress of an attempt.
    Progressed {
        job: JobId,
        attempt: u32,
        progress: Progress,
    },
}

struct Executor {
    /// `None` if its workers pull.
    port: Option<Box<dyn Assign>>,
    /// How many attempts it was given that have not ended.
    in_flight: usize,
    /// An upper bound of its claimable jobs; `u64::MAX` if unknown.
    claimable_max: u64,
}

/// All executors that a job has named.
pub struct Executors {
    by_name: BTreeMap<Name, Executor>,
    /// How many attempts each executor runs at once, if it has reported that.
    capacity: BTreeMap<Name, usize>,
    runs: HashMap<Tag, Run>,
    by_lease: HashMap<LeaseId, Tag>,
    mail: Arc<AssignMail>,
    opener: Opener,
    is_shared: bool,
    tags_made: u64,
    stopping: CancellationToken,
    _stops_with_us: DropGuard,
}

impl Executors {
    /// Opens an executor with `open` when a job first names it. Executors report to `mail` and must
    /// end when `stopping` is cancelled: after the last attempt, or when the loop is gone.
    pub fn new(
        open: impl Fn(&Name) -> Opened + Send + 'static,
        mail: Arc<AssignMail>,
        stopping: CancellationToken,
    ) -> Self {
        Self {
            by_name: BTreeMap::new(),
            capacity: BTreeMap::new(),
            runs: HashMap::new(),
            by_lease: HashMap::new(),
            mail,
            opener: Box::new(open),
            is_shared: false,
            tags_made: 0,
            _stops_with_us: stopping.clone().drop_guard(),
            stopping,
        }
    }

    /// Opens the executor of waiting jobs if it is not open yet. If it is not configured, its jobs
    /// fail, because it may never be.
    pub(crate) fn open(&mut self, name: &Name) {
        if self.by_name.contains_key(name) {
            return;
        }
        let port: Option<Box<dyn Assign>> = match (self.opener)(name) {
            Opened::Pushed(port) => Some(port),
            Opened::Pulled => None,
            // Another node may have it, now or later.
            Opened::Unknown if self.is_shared => None,
            Opened::Unknown => {
                tracing::warn!(runner = %name, "a runner with waiting jobs is not configured; its jobs are discarded");
                self.capacity.insert(name.clone(), missing::AT_ONCE_MAX);
                let events: Arc<dyn AssignEvents> = Arc::<AssignMail>::clone(&self.mail);
                Some(Box::new(Missing::new(name.clone(), events)))
            }
        };
        let executor = Executor {
            port,
            in_flight: 0,
            claimable_max: u64::MAX,
        };
        self.by_name.insert(name.clone(), executor);
    }

    /// Leaves jobs for runners that are not configured here to other nodes.
    #[must_use]
    pub fn among_nodes(mut self) -> Self {
        self.is_shared = true;
        self
    }

    pub(crate) fn mail(&self) -> &Arc<AssignMail> {
        &self.mail
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.len()
    }

    /// Handles the waiting messages of executors.
    pub(crate) fn take_events(&mut self) -> Vec<ExecutorEvent> {
        let mail = self.mail.take().into_iter();
        mail.filter_map(|event| match event {
            AssignEvent::Capacity(name, attempts) => {
                self.capacity.insert(name, attempts);
                None
            }
            AssignEvent::Progressed(tag, progress) => {
                let run = self.runs.get(&tag)?;
                Some(ExecutorEvent::Progressed {
                    job: run.job,
                    attempt: run.attempt,
                    progress,
                })
            }
            AssignEvent::Ended { tag, worker, end } => {
                let run = self.runs.remove(&tag)?;
                self.by_lease.remove(&run.lease);
                if let Some(executor) = self.by_name.get_mut(&run.executor) {
                    executor.in_flight = executor.in_flight.saturating_sub(1);
                }
                Some(ExecutorEvent::Ended { run, worker, end })
            }
        })
        .collect()
    }

    fn free(&self, name: &Name, executor: &Executor) -> usize {
        let capacity = self.capacity.get(name).copied().unwrap_or(0);
        capacity.saturating_sub(executor.in_flight)
    }

    /// Returns whether a claim may find work for executors that have room.
    pub(crate) fn may_claim(&self) -> bool {
        let mut all = self.by_name.iter();
        all.any(|(name, executor)| executor.claimable_max > 0 && self.free(name, executor) > 0)
    }

    /// Returns an upper bound of an executor's claimable jobs.
    pub(crate) fn claimable_max(&self, name: &Name) -> u64 {
        // If no job has named it yet, its first job opens it.
        let executor = self.by_name.get(name);
        executor.map_or(0, |executor| executor.claimable_max)
    }

    /// Records a command that may make jobs claimable without a change that shows it.
    pub(crate) fn record_request(&mut self, command: &Command) {
        if let Command::SetPaused { paused: false, .. } = command {
            self.reset_demand();
        }
    }

    /// Counts on work for all executors.
    pub(crate) fn reset_demand(&mut self) {
        for executor in self.by_name.values_mut() {
            executor.claimable_max = u64::MAX;
        }
    }

    /// Returns how many attempts run at each executor.
    pub(crate) fn in_flight(&self) -> BTreeMap<Name, u64> {
        let busy = self.by_name.iter().filter(|(_, it)| it.in_flight > 0);
        busy.map(|(name, it)| (name.clone(), it.in_flight as u64))
            .collect()
    }

    /// Returns how many slots each executor offers. `new` counts the new jobs of each in this
    /// batch.
    pub(crate) fn offer(&self, new: &BTreeMap<Name, u64>) -> Vec<(Name, usize)> {
        let slots = |(name, executor): (&Name, &Executor)| {
            let coming = new.get(name).copied().unwrap_or_default();
            let wanted = executor.claimable_max.saturating_add(coming);
            let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
            (name.clone(), self.free(name, executor).min(wanted))
        };
        let offered = self.by_name.iter().map(slots);
        offered.filter(|(_, slots)| *slots > 0).collect()
    }

    /// Records a committed change.
    pub(crate) fn record_change(&mut self, change: &Change) {
        let Some(name) = &change.runner else { return };
        let available = change.to == Some(State::Available);
        if available {
            self.open(name);
        }
        let Some(executor) = self.by_name.get_mut(name) else {
            return;
        };
        if available {
            executor.claimable_max = executor.claimable_max.saturating_add(1);
        } else if change.from == Some(State::Available) && change.to != Some(State::Running) {
            // A claim may have stopped at this job, so the number of jobs behind it is unknown.
            executor.claimable_max = u64::MAX;
        }
    }

    /// Records what a claim found.
    pub(crate) fn record_claim(&mut self, name: &Name, offered: usize, claimed: usize) {
        let Some(executor) = self.by_name.get_mut(name) else {
            return;
        };
        if claimed < offered {
            executor.claimable_max = 0;
        } else if executor.claimable_max != u64::MAX {
            executor.claimable_max = executor.claimable_max.saturating_sub(claimed as u64);
        }
    }

    pub(crate) fn start(&mut self, now: Time, name: &Name, lease: LeaseId, claimed: Claimed) {
        let Some(executor) = self.by_name.get_mut(name) else {
            return;
        };
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        executor.in_flight += 1;
        let run = Run {
            job: claimed.lifecycle.id,
            lease,
            attempt: claimed.lifecycle.attempt,
            started_at: now,
            executor: name.clone(),
        };
        self.runs.insert(tag, run);
        self.by_lease.insert(lease, tag);
        let assignment = assignment::make(now, lease, claimed);
        if let Some(port) = &executor.port {
            port.start(tag, assignment);
        }
    }

    /// Stops the attempt with this lease. Returns false if there is none.
    pub(crate) fn stop(&self, lease: LeaseId, grace_ms: Option<u64>) -> bool {
        let found = self.by_lease.get(&lease).and_then(|tag| {
            let executor = self.by_name.get(&self.runs.get(tag)?.executor)?;
            Some((executor.port.as_ref()?, *tag))
        });
        if let Some((executor, tag)) = found {
            let grace_ms = grace_ms.unwrap_or_else(|| executor.grace_ms());
            executor.cancel(tag, grace_ms);
        }
        found.is_some()
    }

    /// Takes back the attempts that no worker has begun.
    pub(crate) fn drain(&self) {
        let ports = self.by_name.values();
        let ports = ports.filter_map(|executor| executor.port.as_ref());
        ports.for_each(|port| port.drain());
    }

    /// Closes all executors. Their attempts in flight are lost.
    pub(crate) fn close(&self) {
        self.stopping.cancel();
    }
}
